"""Placement in a run of the gate: which workloads are searched, what was known of them, and what is new.

A search takes minutes, so that an answer is kept for as long as graph, hardware and software are the same. Nothing here
is ever judged, and no fault here ends a run.
"""

from __future__ import annotations

import hashlib
import subprocess
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate import wire
from perfgate.bench import machine
from perfgate.bench.session import Side
from perfgate.errors import PerfgateError
from perfgate.pipeline.place import place
from perfgate.pipeline.place_candidates import PlaceRequest
from perfgate.pipeline.place_command import devices
from perfgate.pipeline.request import Ports
from perfgate.pipeline.working_tree import PLACEMENTS_FILE, own_folder
from perfgate.records.evidence import WorkloadEvidence
from perfgate.records.placement import ALWAYS, MEMORY, SCHEDULED, PlacementPlan, PlacementReport, WorkloadPlacement
from perfgate.records.policy import Policy
from perfgate.records.workload import ModelSpec
from perfgate.report.write import write_file

FORMAT = 1
# Versions of all that may bring a compute library into the model's interpreter, without importing any of it.
_INSTALLED = """
import importlib.metadata as m
names = ("onnxruntime", "openvino", "onnxscript", "tensorrt", "torch")
for one in m.distributions():
    name = str(one.metadata["Name"]).lower()
    points = any(point.group == "perfgate.libraries" for point in one.entry_points)
    if points or name.startswith(names):
        print(name, one.version)
"""
_INSTALLED_LIMIT_S = 60.0
_SCHEDULED_EVENTS = frozenset({"schedule", "workflow_dispatch"})
# Of the gate's budget, for one workload.
_SHARE = 0.2
# Less than this measures nothing.
_LEAST_S = 30.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """An answer, and what it holds for: head's counted graph and this hardware and software."""

    graph: str
    conditions: str
    plan: PlacementPlan


# A recommendation.
_ONE_TARGET = "one target"


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownPlacements:
    """``.perfgate/placements.json``: the newest answer by workload and conditions."""

    format: int = FORMAT
    plans: dict[str, Known] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Head:
    """What is searched for: ``side`` with its models' ``specs``, under ``policy``, on the hardware of this run.

    ``root``: of the repository, where answers are kept.
    """

    side: Side
    specs: Mapping[str, ModelSpec]
    policy: Policy
    hardware_id: str
    root: Path


def wanted(policy: Policy, event: str) -> bool:
    """Whether a run of this event searches placements."""
    when = policy.placement.when
    return when == ALWAYS or (when == SCHEDULED and event in _SCHEDULED_EVENTS)


def searched(workloads: Iterable[WorkloadEvidence], head: Head, ports: Ports) -> PlacementReport:
    """Every workload of head that infers eagerly; one after another while the gate's budget lasts once more."""
    file = head.root / PLACEMENTS_FILE
    known = _read(file)
    until = time.monotonic() + head.policy.budget_s
    chosen = [one for one in workloads if _searchable(one)]
    installed = _installed(head.side.python) if chosen else ""
    found = []
    for evidence in chosen:
        one, known = _one(evidence, head, installed, known, until, ports)
        found.append(one)
    if found and known.plans:
        _write(known, file, head.root)
    return PlacementReport(workloads=tuple(found))


def _searchable(evidence: WorkloadEvidence) -> bool:
    workload = evidence.workload
    ran = not evidence.informative and evidence.head.status == "ok"
    return ran and workload.mode == "infer" and workload.compile == "eager"


def _one(
    evidence: WorkloadEvidence, head: Head, installed: str, known: KnownPlacements, until: float, ports: Ports
) -> tuple[WorkloadPlacement, KnownPlacements]:
    workload = evidence.workload
    graph = evidence.head.totals.fingerprint if evidence.head.totals is not None else ""
    conditions = _conditions(evidence, head, installed)
    key = f"{workload.key} {conditions}"
    before = known.plans.get(key)
    told = WorkloadPlacement(
        model=workload.model, key=workload.key, fingerprint=graph, previous=None if before is None else before.plan
    )
    if before is not None and graph and before.graph == graph:
        return replace(told, plan=before.plan, reused=True, previous=None), known
    left = until - time.monotonic()
    budget = min(head.policy.placement.budget_s or _SHARE * head.policy.budget_s, left)
    if budget < _LEAST_S:
        what = "what is left of gate.budget" if budget == left else "the time for placement"
        return replace(told, reason=f"not searched: {what} is less than {_LEAST_S:g} s"), known
    try:
        placed = place(_request(evidence, head, budget, ports), ports)
    except PerfgateError as error:
        return replace(told, reason=str(error)), known
    except OSError as error:
        return replace(told, reason=f"not searched: {error.strerror or error}"), known
    told = replace(
        told,
        plan=placed.plan,
        reason="" if placed.plan is not None else f"no placement keeps the limits: {placed.answer.problem}",
        # Of memory they are no times.
        singles=placed.singles if head.policy.placement.objective != MEMORY else (),
        nodes=len(placed.lowered.nodes),
        bound_s=placed.answer.bound if head.policy.placement.objective != MEMORY else None,
        changed=placed.plan is not None and _changed(told.previous, placed.plan),
        seconds=round(placed.seconds, 1),
    )
    if placed.plan is None:
        return told, known
    answer = Known(graph=graph, conditions=conditions, plan=placed.plan)
    return told, replace(known, plans={**known.plans, key: answer})


def _request(evidence: WorkloadEvidence, head: Head, budget_s: float, ports: Ports) -> PlaceRequest:
    workload, rules = evidence.workload, head.policy.placement
    names = rules.devices or tuple(dict.fromkeys((workload.device, "cpu")))
    return PlaceRequest(
        side=head.side,
        spec=replace(
            head.specs[workload.model],
            modes=("infer",),
            batch=(workload.batch,),
            dtype=(workload.dtype,),
            device=(workload.device,),
        ),
        workload=workload,
        devices=devices(names, {}, ports),
        libraries=rules.libraries,
        threads=(head.side.config.threads or machine.default_threads(),),
        objective=rules.objective,
        latency_s=rules.latency_s,
        budget_s=budget_s,
    )


def _conditions(evidence: WorkloadEvidence, head: Head, installed: str) -> str:
    software = evidence.head.software.versions if evidence.head.software is not None else {}
    rules = (head.policy.placement, head.side.config.threads)
    text = repr((head.hardware_id, sorted(software.items()), installed, rules))
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _installed(python: str) -> str:
    """Compute libraries of the model's interpreter with their versions; empty where it does not tell."""
    try:
        done = subprocess.run(
            [python, "-I", "-c", _INSTALLED],
            capture_output=True,
            encoding="utf-8",
            errors="replace",
            timeout=_INSTALLED_LIMIT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return "\n".join(sorted(done.stdout.splitlines()))


def _changed(before: PlacementPlan | None, now: PlacementPlan) -> bool:
    """Whether something else is recommended. Where nothing was known, everything on one target is no news."""
    return _recommendation(now) != (_ONE_TARGET if before is None else _recommendation(before))


def _recommendation(plan: PlacementPlan) -> object:
    """Which of two single targets is the faster one, if they are about as fast, changes from run to run."""
    if not plan.recommended or len({piece.target for piece in plan.pieces}) == 1:
        return _ONE_TARGET
    return sorted((piece.target, node) for piece in plan.pieces for node in piece.nodes)


def _read(file: Path) -> KnownPlacements:
    """What is known; a file that cannot be read costs a search, and nothing else."""
    try:
        known = wire.loads(KnownPlacements, file.read_bytes())
    except (OSError, wire.WireError):
        return KnownPlacements()
    return known if known.format == FORMAT else KnownPlacements()


def _write(known: KnownPlacements, file: Path, root: Path) -> None:
    with suppress(OSError):
        own_folder(root)
        write_file(file, wire.dumps(known, indent=1) + "\n")
