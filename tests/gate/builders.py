"""Measurements from short descriptions: a test shows its case and nothing else.

``workload(head=1.08)`` is a workload whose head is 8 % slower in every pair with a little noise; ``probe(flop=2.0)``
is what one process counted; ``run(...)`` is the whole file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any

from perfgate.gate.judge import judge
from perfgate.records.cost import CostReport
from perfgate.records.evidence import (
    Block,
    Environment,
    Measurements,
    Pair,
    Revision,
    RunInfo,
    SideEvidence,
    SideSamples,
    WorkloadEvidence,
)
from perfgate.records.graph import Difference, NotCounted, OperatorChange, Totals, Traffic
from perfgate.records.policy import Acceptance, Limits, Policy
from perfgate.records.protocol import Digest, Failed, Probe, Software
from perfgate.records.report import MetricResult, ModelResult, Report
from perfgate.records.workload import Workload

BASE_NS = 10_000_000
EQUAL = Digest(checksum="a", layout=("out float32[1]",), values=(1.0,))


def policy(**fields: Any) -> Policy:
    return Policy(source="perfgate.toml at base", sha="0" * 40, **fields)


def limits(**fields: Any) -> Limits:
    return Limits(**fields)


def cell(
    model: str = "resnet",
    mode: str = "infer",
    batch: int = 1,
    *,
    device: str = "cpu",
    dtype: str = "float32",
    compile_: str = "eager",
) -> Workload:
    return Workload(model=model, mode=mode, batch=batch, dtype=dtype, device=device, compile=compile_)


def probe(*, inputs: Digest = EQUAL, outputs: Digest = EQUAL, items: int = 1, **rest: Any) -> Probe:
    facts = {
        name: rest.pop(name)
        for name in ("notes", "not_counted", "spans", "step_ns", "first_step_ns", "breaks")
        if name in rest
    }
    return Probe(
        exact={name: float(value) for name, value in rest.items()}, inputs=inputs, outputs=outputs, items=items, **facts
    )


def digest(*values: float | None, checksum: str = "", layout: str = "out float32[1]", nonfinite: int = 0) -> Digest:
    return Digest(checksum=checksum or repr(values), layout=(layout,), values=values, nonfinite=nonfinite)


def ok(*probes: Probe, software: Software | None = None, totals: Totals | None = None, **counts: Any) -> SideEvidence:
    """A side that works; ``counts`` are what two processes agree on."""
    probes = probes or (probe(**counts), probe(**counts))
    return SideEvidence(status="ok", probes=probes, software=software, totals=totals)


def counted(**fields: Any) -> SideEvidence:
    """A side whose graph was counted: ``fields`` are those of its totals, which the exact metrics follow."""
    totals = graph_totals(**fields)
    counts: dict[str, Any] = {
        "flop": totals.flop,
        "traffic": totals.traffic.eager,
        "operators": totals.kernels,
        "params": 7,
    }
    return ok(totals=totals, **counts)


def graph_totals(**fields: Any) -> Totals:
    eager = fields.pop("eager", 400)
    values: dict[str, Any] = {
        "source": "meta",
        "flop": 8_000_000_000,
        "params": 7,
        "weight_bytes": 28,
        "traffic": Traffic(eager=eager, fused=300, min=100),
        "kernels": 10,
        "fingerprint": "f" * 64,
        "software": "torch 2.14.1",
    }
    return Totals(**{**values, **fields})


def not_counted(
    op: str = "mylib::fused", calls: int = 3, first: str = "layer1", reason: str = "no formula"
) -> NotCounted:
    return NotCounted(op=op, calls=calls, first=first, reason=reason)


def change(name: str = "layer3.*.conv2", what: str = "changed", **fields: Any) -> OperatorChange:
    values: dict[str, Any] = {"op": "aten::convolution", "kind": "convolution", "count": 6}
    return OperatorChange(what=what, name=name, **{**values, **fields})


def difference(*sentences: str, changes: tuple[OperatorChange, ...] | None = None, **fields: Any) -> Difference:
    """What changed, as sentences; findings are one for each sentence unless given."""
    if changes is None:
        changes = tuple(change() for _ in sentences)
    return Difference(equal=fields.pop("equal", not changes), changes=changes, sentences=sentences, **fields)


def failed(
    message: str = "ValueError: boom", *, kind: str = "raised", phase: str = "build", trace: str = ""
) -> SideEvidence:
    return SideEvidence(status="failed", failure=Failed(kind=kind, phase=phase, message=message, trace=trace))


ABSENT = SideEvidence(status="absent")


def side(
    latency_ns: float, *, energy_j: float | None = None, spans: dict[str, float] | None = None, **rest: Any
) -> SideSamples:
    """Four equal samples; ``energy_j`` is joule per call."""
    names = ("sm_clock_mhz", "throttle", "cpu_ns", "wall_ns", "device_ns")
    block = {name: rest.pop(name) for name in names if name in rest}
    ns = round(latency_ns)
    timed = Block(
        samples_ns=(ns,) * 4,
        spans_ns={name: (round(value),) * 4 for name, value in (spans or {}).items()},
        energy_j=None if energy_j is None else 4 * energy_j,
        **block,
    )
    return SideSamples(blocks=(timed,), first_step_ns=rest.pop("first_step_ns", 10 * BASE_NS), **rest)


def pairs(
    head: float | Sequence[float] = 1.0,
    *,
    count: int = 20,
    noise: float = 0.004,
    seed: int = 1,
    base_side: dict[str, Any] | None = None,
    head_side: dict[str, Any] | None = None,
    per_round: int = 1,
    void: str = "",
    base_ns: float = BASE_NS,
) -> tuple[Pair, ...]:
    """``head`` is head / base of step time: one number, or one for each pair."""
    rng = random.Random(seed)
    ratios = [head] * count if isinstance(head, (int, float)) else list(head)
    found = []
    for index, ratio in enumerate(ratios):
        level = base_ns * rng.gauss(1, noise)
        slow = level * ratio * rng.gauss(1, noise)
        found.append(
            Pair(
                index=index,
                round=index // per_round,
                order="ABBA",
                base=side(level, **(base_side or {})),
                head=side(slow, **(head_side or {})),
                void=void,
            )
        )
    return tuple(found)


def workload(
    head: float | Sequence[float] = 1.0,
    *,
    of: Workload | None = None,
    base: SideEvidence | None = None,
    now: SideEvidence | None = None,
    measured: tuple[Pair, ...] | None = None,
    **rest: Any,
) -> WorkloadEvidence:
    """One workload: ``base`` and ``now`` are the sides' evidence, ``measured`` its pairs (default: from ``head``)."""
    names = ("count", "noise", "seed", "base_side", "head_side", "per_round", "void")
    shape = {name: rest.pop(name) for name in names if name in rest}
    base, now = base or ok(), now or ok()
    both = base.status == now.status == "ok"
    found = measured if measured is not None else pairs(head, **shape) if both else ()
    return WorkloadEvidence(workload=of or cell(), base=base, head=now, pairs=found, **rest)


def run(*workloads: WorkloadEvidence, **fields: Any) -> Measurements:
    return Measurements(
        format=1,
        run=RunInfo(nonce="n", perfgate="0", started_at="2026-11-30T00:00:00Z"),
        base=Revision(sha="a" * 40),
        head=Revision(sha="b" * 40),
        environment=fields.pop("environment", Environment(hardware_id="cpu-1", hardware={"cpu": "EPYC 7B13"})),
        policy=fields.pop("policy", policy(mode="report")),
        workloads=workloads,
        **fields,
    )


def judged(
    *workloads: WorkloadEvidence,
    under: Policy | None = None,
    accepted: tuple[Acceptance, ...] = (),
    cost: CostReport | None = None,
    **fields: Any,
) -> Report:
    return judge(run(*workloads, **fields), under or policy(), accepted, cost)


def only(report: Report) -> ModelResult:
    (model,) = report.models
    return model


def row(report: Report, metric: str = "latency", model: int = 0) -> MetricResult:
    (found,) = [row for row in report.models[model].metrics if row.metric == metric]
    return found


def accept(target: str, bound: float) -> Acceptance:
    return Acceptance(target=target, bound=bound, reason="better model", by="octo", source="comment")
