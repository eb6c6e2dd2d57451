"""Reports and measurements from short descriptions: a test shows its case and nothing else."""

from __future__ import annotations

import math
import random
from dataclasses import replace
from typing import Any

from perfgate.records import metrics as registry
from perfgate.records.evidence import (
    Block,
    CiRun,
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
from perfgate.records.policy import Plan, Policy
from perfgate.records.protocol import Failed
from perfgate.records.report import (
    PASS,
    REGRESSION,
    SEVERITY,
    SHOWN,
    MetricResult,
    ModelResult,
    PolicySummary,
    Report,
    WorkloadKey,
)
from perfgate.records.workload import Workload

BASE = Revision(sha="a04be77" + "0" * 33, name="main")
HEAD = Revision(sha="9f31c2e" + "0" * 33, name="slow-down")
HARDWARE = Environment(
    hardware_id="cpu-3f2a",
    hardware={"cpu_model": "AMD EPYC 7B13", "cores": "2", "memory": "7.8 GiB"},
    conditions={"governor": "performance", "load_before": "0.12"},
)
RUN = RunInfo(
    nonce="0f0f",
    perfgate="0.1.0",
    started_at="2026-11-30T12:00:00Z",
    finished_at="2026-11-30T12:06:12Z",
    duration_s=372.0,
)
POLICY = PolicySummary(
    source="perfgate.toml at a04be77 (base)",
    sha=BASE.sha,
    mode="enforce",
    tolerance=0.03,
    false_alarm_rate=0.01,
    comparisons=2,
    looks=(5, 8, 12, 16, 20),
)


def noisy(name: str = "latency", change: float = 0.0, verdict: str = PASS, **fields: Any) -> MetricResult:
    """A noisy gated metric whose head is ``change`` (a share) above a base of 13.92 ms or 1 GiB."""
    definition = registry.metric(name)
    base = {"ns": 13.92e6, "joule": 1.25}.get(definition.unit, 2.0**30)
    values: dict[str, Any] = {
        "metric": name,
        "kind": "noisy",
        "unit": definition.unit,
        "base": base,
        "head": base * (1 + change),
        "ratio": 1 + change,
        "ci_low": 1 + change - 0.008,
        "ci_high": 1 + change + 0.008,
        "limit": definition.default_limit,
        "verdict": verdict,
        "pairs": 12,
        "gated": True,
        "mde": 0.008,
    }
    return MetricResult(**{**values, **fields})


def exact(name: str, base: float | None, head: float | None, verdict: str = PASS, **fields: Any) -> MetricResult:
    """An exact metric; ``ratio`` follows from the values, null for a base of 0."""
    definition = registry.metric(name)
    values: dict[str, Any] = {
        "metric": name,
        "kind": "exact",
        "unit": definition.unit,
        "base": base,
        "head": head,
        "ratio": head / base if base and head is not None else None,
        "ci_low": None,
        "ci_high": None,
        "limit": definition.default_limit,
        "verdict": verdict,
        "pairs": 0,
        "gated": definition.default_limit is not None,
    }
    return MetricResult(**{**values, **fields})


def shown(name: str, base: float | None, head: float | None) -> MetricResult:
    definition = registry.metric(name)
    return MetricResult(
        metric=name,
        kind="shown",
        unit=definition.unit,
        base=base,
        head=head,
        ratio=head / base if base and head is not None else None,
        ci_low=None,
        ci_high=None,
        limit=None,
        verdict=SHOWN,
        pairs=0,
    )


def model(
    name: str = "resnet50",
    *metrics: MetricResult,
    mode: str = "train",
    batch: int = 32,
    reasons: tuple[str, ...] = (),
    verdict: str | None = None,
    **fields: Any,
) -> ModelResult:
    """One workload; its verdict is the worst of its metrics unless given."""
    cell = WorkloadKey(mode=mode, batch=batch, dtype="float32", device="cpu", compile="eager")
    if verdict is None:
        verdict = min((result.verdict for result in metrics), key=SEVERITY.index, default=PASS)
    return ModelResult(
        model=name,
        key=workload(name, cell).key,
        workload=cell,
        metrics=metrics,
        reasons=reasons,
        verdict=verdict,
        **fields,
    )


def usual(change: float = 0.0, verdict: str = PASS) -> tuple[MetricResult, ...]:
    """The metrics that every measured workload has; only the step time moves."""
    return (
        noisy("latency", change, verdict),
        noisy("peak_memory", 0.001, mde=0.004),
        exact("flop", 8.18e9, 8.18e9),
        exact("weight_bytes", 102.2e6, 102.2e6),
        exact("params", 25_557_032, 25_557_032, SHOWN),
        shown("latency_p90", 14.4e6, 14.4e6 * (1 + change)),
        shown("throughput", 71.8, 71.8 / (1 + change)),
        shown("first_step", 2.31e9, 2.29e9),
    )


def report(*models: ModelResult, **fields: Any) -> Report:
    """A report; verdict, exit code and title follow from the models unless given."""
    verdict = min((entry.verdict for entry in models), key=SEVERITY.index, default=PASS)
    red = verdict in {REGRESSION, "missing"}
    values: dict[str, Any] = {
        "format": 1,
        "verdict": verdict,
        "base": BASE,
        "head": HEAD,
        "environment": HARDWARE,
        "models": models,
        "title": f"{verdict} in {len(models)} workloads",
        "why": "",
        "exit_code": 1 if red else 0,
        "check": "failure" if red else "success",
        "would_fail": red,
        "policy": POLICY,
        "run": RUN,
        "software": {"python": "3.11.2", "torch": "2.14.1"},
    }
    return Report(**{**values, **fields})


def totals(**fields: Any) -> Totals:
    """What resnet50 comes to on an image of 224 x 224, unless given; ``eager``, ``fused`` and ``min`` are M."""
    traffic = Traffic(
        eager=fields.pop("eager", 427_813_952),
        fused=fields.pop("fused", 281_000_000),
        min=fields.pop("min", 103_046_720),
    )
    values: dict[str, Any] = {
        "source": "meta",
        "flop": 8_178_368_512,
        "params": 25_557_032,
        "weight_bytes": 102_441_376,
        "traffic": traffic,
        "kernels": 174,
        "fingerprint": "3f2a91c07d5e" + "0" * 52,
        "peak_activation_bytes": 9_633_792,
        "software": "torch 2.14.1",
    }
    return Totals(**{**values, **fields})


def not_counted(op: str = "mylib::fused_mlp", calls: int = 12) -> NotCounted:
    return NotCounted(op=op, calls=calls, first="blocks.0.mlp", reason="give its formula under [operators]")


def operator(name: str = "layer3.*.conv2", what: str = "changed", **fields: Any) -> OperatorChange:
    """One finding; a convolution of six that went to another precision, unless given."""
    values: dict[str, Any] = {
        "op": "aten::convolution",
        "kind": "convolution",
        "count": 6,
        "how": ("bfloat16 → float32",),
        "base": "bfloat16[1,256,14,14], bfloat16[256,256,3,3] → bfloat16[1,256,14,14]",
        "head": "float32[1,256,14,14], float32[256,256,3,3] → float32[1,256,14,14]",
        "bytes": 9_633_792,
    }
    return OperatorChange(what=what, name=name, **{**values, **fields})


def difference(*changes: OperatorChange, **fields: Any) -> Difference:
    """A comparison with these findings; its sums follow from them unless given."""
    values: dict[str, Any] = {
        "equal": not changes,
        "flop": sum(change.flop for change in changes),
        "bytes": sum(change.bytes for change in changes),
        "kernels": sum(change.calls for change in changes),
    }
    return Difference(changes=changes, **{**values, **fields})


def workload(name: str, cell: WorkloadKey) -> Workload:
    return Workload(
        model=name, mode=cell.mode, batch=cell.batch, dtype=cell.dtype, device=cell.device, compile=cell.compile
    )


def pair(index: int, base_ns: float, head_ns: float, *, order: str = "ABBA", void: str = "") -> Pair:
    """A pair whose sides have these medians and peaks of 1 GiB."""

    def side(value: float) -> SideSamples:
        samples = tuple(int(value * factor) for factor in (0.99, 1.0, 1.02))
        return SideSamples(
            blocks=(Block(samples_ns=samples), Block(samples_ns=samples)), first_step_ns=10**9, peak_bytes=2**30
        )

    return Pair(index=index, round=index, order=order, base=side(base_ns), head=side(head_ns), void=void)


def pairs(change: float, count: int = 12, *, spread: float = 0.012, seed: int = 1) -> tuple[Pair, ...]:
    """``count`` pairs around ``change`` and, last, one that does not count."""
    source = random.Random(seed)
    drawn = [
        pair(
            index,
            13.92e6,
            13.92e6 * (1 + change) * math.exp(source.gauss(0, spread)),
            order=source.choice(("ABBAABBA", "BAABABBA")),
        )
        for index in range(count)
    ]
    return (*drawn, pair(count, 13.92e6, 19e6, void="another process used 40 % of a core"))


def evidence(entry: ModelResult, change: float = 0.0, **fields: Any) -> WorkloadEvidence:
    side = SideEvidence(status="ok")
    values: dict[str, Any] = {"base": side, "head": side, "pairs": pairs(change)}
    return WorkloadEvidence(
        workload=workload(entry.model, entry.workload), informative=entry.informative, **{**values, **fields}
    )


def failed_side(message: str, trace: str) -> SideEvidence:
    return SideEvidence(status="failed", failure=Failed(kind="import", phase="import", message=message, trace=trace))


def measurements(judged: Report, *workloads: WorkloadEvidence, **fields: Any) -> Measurements:
    """The evidence behind ``judged``; one entry a workload, its pairs around the judged change, unless given."""
    if not workloads:
        workloads = tuple(
            evidence(entry, next((m.ratio - 1 for m in entry.metrics if m.metric == "latency" and m.ratio), 0.0))
            for entry in judged.models
        )
    values: dict[str, Any] = {
        "format": 1,
        "run": replace(judged.run, ci=CiRun(repository="o/r", run_id="1", attempt=1, workflow="w", event="push")),
        "base": judged.base,
        "head": judged.head,
        "environment": judged.environment,
        "policy": Policy(source=judged.policy.source, sha=judged.policy.sha),
        "plan": Plan(
            comparisons=2, alpha=0.005, looks=(5, 8), pairs_per_round=1, block_ns=50_000_000, groups=2, seed=7
        ),
        "workloads": workloads,
        "skipped": judged.skipped,
    }
    return Measurements(**{**values, **fields})
