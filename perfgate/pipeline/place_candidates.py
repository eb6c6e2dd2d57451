"""Placements in; deployed, measured against the best single target, and the plan of the best, out."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path

from perfgate.bench.placing import Placer
from perfgate.bench.session import Side
from perfgate.bench.workers import WorkerFailed
from perfgate.errors import MeasuringError
from perfgate.pipeline import place_measure, place_problem
from perfgate.pipeline.place_measure import Raced
from perfgate.pipeline.request import Ports
from perfgate.placement import evaluate
from perfgate.records.placement import LATENCY, MEMORY, THROUGHPUT, Device, Placement, PlacementPlan, Problem
from perfgate.records.placing import Build, Built, Part, Profiled, WholeTime
from perfgate.records.workload import ModelSpec, Workload

# A placement that is predicted to gain less than this is not worth measuring.
_WORTH_MEASURING = 0.005
# Of the budget, for each comparison at least: profiling may have taken longer than it should.
_LEAST_RACE = 0.25
# Requests that go through a pipeline one after another as one step: so many that filling it hardly counts, and fewer
# where a step would take longer than that.
_FEW, _MANY, _LONGEST_STEP_S = 4, 16, 0.1


@dataclass(frozen=True, slots=True, kw_only=True)
class PlaceRequest:
    """One workload of ``side``.

    ``devices`` with their memory; the first is where the model runs by itself. ``threads``: numbers of CPU threads that
    are tried. ``budget_s``: for all of it. ``given``: inputs from the command line, which a plan keeps;
    ``called``: the model as the user calls it, empty: by its name.
    """

    side: Side
    spec: ModelSpec
    workload: Workload
    devices: tuple[Device, ...]
    libraries: tuple[str, ...] = ()
    threads: tuple[int, ...] = (1,)
    objective: str = LATENCY
    latency_s: float | None = None
    budget_s: float = 300.0
    seed: int = 0
    given: tuple[str, ...] = ()
    called: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """A placement that is to be deployed.

    ``predicted_s``: of a step by the cost model, for throughput of the device that is busy longest. ``value``: of the
    objective. ``single``: it is the best single target; ``runner_up``: the second best, which is measured where nothing
    mixed is worth it.
    """

    name: str
    parts: tuple[Part, ...]
    predicted_s: float
    value: float = 0.0
    single: bool = False
    runner_up: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidate(Wanted):
    """One that was deployed, in ``folder``.

    ``raced``: against the best single target; None: not, as ``problem`` says.
    """

    built: Built
    folder: Path = field(default_factory=Path)
    raced: Raced | None = None
    problem: str = ""


def deployed(
    placer: Placer,
    request: PlaceRequest,
    posed: Problem,
    profiled: Profiled,
    answers: Sequence[Placement],
    best: WholeTime | None,
    folder: Path,
    ports: Ports,
) -> tuple[list[Candidate], list[str]]:
    """The best single target first (None: none keeps the limits), then what the search found, as far as it promises to
    be better; where nothing of that could be deployed, the second best single target. And what is wrong with those that
    could not be deployed. Raises WorkerFailed where none could.
    """
    wanted = _wanted(request, posed, answers, best)
    problems: list[str] = []

    def built(number: int, one: Wanted) -> Candidate:
        ports.progress.step(f"Deploying {one.name}", number, len(wanted), None)
        where = folder / f"deployed-{number}"
        made = placer.build(
            Build(
                parts=one.parts,
                targets=profiled.targets,
                folder=str(where),
                objective=request.objective,
                predicted_s=one.predicted_s,
                best_single="" if best is None else best.target,
            )
        )
        known = {each.name: getattr(one, each.name) for each in fields(one)}
        return Candidate(**known, built=made, folder=where)

    found: list[Candidate] = []
    for number, one in enumerate(wanted):
        try:
            found.append(built(number, one))
        except WorkerFailed as lost:
            last = number == len(wanted) - 1 and not found
            if not lost.told or last or one.single:
                raise
            problems.append(f"{one.name} cannot be deployed: {lost.failure.message}")
    # With nothing to be compared with, the best single target would be neither measured deployed nor known to be it.
    second = _second(request, posed, profiled, answers, best)
    if second is not None and all(one.single for one in found):
        try:
            found.append(built(len(wanted), second))
        except WorkerFailed as lost:
            if not lost.told:
                raise
            problems.append(f"{second.name} cannot be deployed: {lost.failure.message}")
    return found, problems


def _wanted(
    request: PlaceRequest, posed: Problem, answers: Sequence[Placement], best: WholeTime | None
) -> list[Wanted]:
    most = math.inf
    wanted: list[Wanted] = []
    if best is not None:
        wanted.append(_whole(request, posed, best, single=True))
        most = wanted[0].value * (1 - _WORTH_MEASURING)
    for number, answer in enumerate(answers):
        if answer.value < most:
            wanted.append(
                Wanted(
                    name=f"placement {number + 1}",
                    parts=place_problem.parts(posed, answer),
                    predicted_s=_step(posed, answer),
                    value=answer.value,
                )
            )
    return wanted


def _second(
    request: PlaceRequest,
    posed: Problem,
    profiled: Profiled,
    answers: Sequence[Placement],
    best: WholeTime | None,
) -> Wanted | None:
    """The second best single target that keeps the limits; None: there is none, or it is not what is asked for."""
    if best is None or request.objective == MEMORY:
        return None
    beyond = {one.target for answer in answers for one in answer.singles if one.value is None}
    others = [one for one in profiled.wholes if one.seconds is not None and one.target not in {best.target, *beyond}]
    second = min(others, key=lambda one: one.seconds or 0.0, default=None)
    return None if second is None else _whole(request, posed, second, runner_up=True)


def _whole(
    request: PlaceRequest, posed: Problem, one: WholeTime, *, single: bool = False, runner_up: bool = False
) -> Wanted:
    """All on one target: its time as it was measured is its load as well; its nodes need not all have been timed."""
    seconds = one.seconds or 0.0
    held = math.fsum(node.memory_bytes for node in posed.nodes)
    return Wanted(
        name=one.target,
        parts=(Part(target=one.target, nodes=tuple(range(len(posed.nodes)))),),
        predicted_s=seconds,
        value=held if request.objective == MEMORY else seconds,
        single=single,
        runner_up=runner_up,
    )


def _step(posed: Problem, answer: Placement) -> float:
    """Seconds: where memory is made least, of a request."""
    return evaluate.latency(posed, answer.targets) if posed.objective == MEMORY else answer.value


def raced(
    request: PlaceRequest,
    candidates: Sequence[Candidate],
    folder: Path,
    ports: Ports,
    *,
    until: float,
) -> tuple[Candidate, ...]:
    """Every candidate against the best single target, within what is left of the budget.

    One request at a time is what is timed; for throughput, many through the pipeline.
    """
    if not candidates or not candidates[0].single:
        return tuple(candidates)
    first, *others = candidates
    found = [first]
    for number, one in enumerate(others):
        left = (until - time.monotonic()) / (len(others) - number)
        ports.progress.step(f"Measuring {one.name} against {first.name}", number, len(others), None)
        try:
            result = place_measure.race(
                one.folder,
                first.folder,
                python=request.side.python,
                device=_timed_on(request),
                threads=max(request.threads),
                run_dir=folder / f"race-{number}",
                budget_s=max(left, _LEAST_RACE * request.budget_s),
                ports=ports,
                requests=_requests(request, first),
            )
        except MeasuringError as error:
            found.append(replace(one, problem=str(error)))
        else:
            found.append(replace(one, raced=result))
    return tuple(found)


def _requests(request: PlaceRequest, single: Candidate) -> int:
    if request.objective != THROUGHPUT:
        return 1
    return max(_FEW, min(_MANY, int(_LONGEST_STEP_S / single.predicted_s))) if single.predicted_s else _MANY


def _timed_on(request: PlaceRequest) -> str:
    """The device that is locked and waited for; one of another package's library is not the gate's to know."""
    first = request.devices[0].name
    return first if first == "cpu" or first.startswith("cuda:") else request.workload.device


def chosen(request: PlaceRequest, candidates: Sequence[Candidate], best: WholeTime | None) -> PlacementPlan | None:
    """The best that was measured besides the best single target, recommended or not; else that target's."""
    found = _best(request, candidates)
    return None if found is None else _plan(request, found, candidates, best)


def advised(request: PlaceRequest, candidates: Sequence[Candidate], best: WholeTime | None) -> PlacementPlan | None:
    """What to deploy: the same where it is recommended; else the best single target's plan."""
    found = _best(request, candidates)
    if found is None:
        return None
    if not _recommended(request, found, candidates):
        found = candidates[0]
    return _plan(request, found, candidates, best)


def _best(request: PlaceRequest, candidates: Sequence[Candidate]) -> Candidate | None:
    others = [one for one in candidates if not one.single and not _beaten(one)] or list(candidates[:1])
    measured = [one for one in others if one.raced is not None]
    if request.objective == MEMORY:
        return min(measured or others, key=lambda one: one.value, default=None)
    return min(measured, key=lambda one: sum(one.raced.faster) if one.raced else 0.0, default=next(iter(others), None))


def _beaten(one: Candidate) -> bool:
    """The second best single target, which may turn out to be the best."""
    return one.runner_up and (one.raced is None or not one.raced.certain)


def _recommended(request: PlaceRequest, one: Candidate, candidates: Sequence[Candidate]) -> bool:
    """It is certainly faster than the best single target, or there is none that keeps the limits; where memory is made
    least, it holds less and certainly keeps the limit of the step (without a single target: kept it when it was built).
    """
    if not candidates[0].single:
        step_s, limit_s = one.built.step_s, request.latency_s
        return request.objective != MEMORY or step_s is None or limit_s is None or step_s <= limit_s
    if one.raced is None or one.single:
        return False
    if request.objective == MEMORY:
        return one.value < candidates[0].value and one.raced.high_s <= (request.latency_s or math.inf)
    return one.raced.certain


def _plan(
    request: PlaceRequest, one: Candidate, candidates: Sequence[Candidate], best: WholeTime | None
) -> PlacementPlan:
    raced = one.raced
    known = best if one.single else None
    if one.single and (beaten := next((other.raced for other in candidates if other.raced is not None), None)):
        # Its own time, as it was when others were compared with it.
        spread = math.sqrt(beaten.high_s / beaten.low_s)
        known = WholeTime(
            target=one.name,
            seconds=beaten.other_s,
            low_s=beaten.other_s / spread,
            high_s=beaten.other_s * spread,
        )
    # Where it was compared with nothing, a few steps in the process that built it are all there is; of a pipeline none.
    alone_s = one.built.step_s if best is None and request.objective != THROUGHPUT else None
    return replace(
        one.built.plan,
        model=request.called or request.spec.name,
        given=request.given,
        batch=request.workload.batch,
        dtype=request.workload.dtype,
        predicted_s=one.predicted_s,
        best_single="" if best is None else best.target,
        single_s=(None if best is None else (known or best).seconds) if raced is None else raced.other_s,
        measured_s=(alone_s if known is None else known.seconds) if raced is None else raced.plan_s,
        low_s=(None if known is None else known.low_s) if raced is None else raced.low_s,
        high_s=(None if known is None else known.high_s) if raced is None else raced.high_s,
        faster=None if raced is None else raced.faster,
        recommended=_recommended(request, one, candidates),
    )
