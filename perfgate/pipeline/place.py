"""Which operator of a model runs where: what ``perfgate place`` and a run of the gate do.

The model is taken apart and timed on every library; the search answers on these times; what it answers is deployed, and
only the gate's own statistics on the deployed model say whether it is worth having.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.bench.placing import Placer
from perfgate.bench.session import HEAD, Options, Session
from perfgate.bench.workers import WorkerFailed
from perfgate.errors import MeasuringError, UsageError
from perfgate.graph.onnx import pieces as onnx_pieces
from perfgate.pipeline import place_problem
from perfgate.pipeline.place_candidates import Candidate, PlaceRequest, advised, chosen, deployed, raced
from perfgate.pipeline.request import Ports
from perfgate.placement import bound, evaluate, exact
from perfgate.placement.search import search
from perfgate.records.placement import (
    Improvement,
    Placement,
    PlacementPlan,
    Problem,
    Single,
    Support,
    Target,
)
from perfgate.records.placing import Advanced, Lower, Lowered, Profiled, ProfileNodes, Wanted

# Parts of the budget: what is left is for measuring what was deployed.
_PROFILE, _SEARCH = 0.5, 0.1
_LONGEST_SEARCH_S = 60.0
# A second candidate, for which borders are this many times as dear: the first may have underestimated them.
_CAUTION = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """``plan``: the best that was found, recommended or not; None: none keeps the limits, as ``answer.problem`` says.
    ``advised``: what to deploy, which is the best single target where ``plan`` is not recommended. ``answer`` is the
    search's, ``problem`` what it was asked. ``wanted``: libraries that were asked for, empty: all. ``undeployed``: what
    could not be deployed of what was to be, and why.
    """

    plan: PlacementPlan | None
    advised: PlacementPlan | None
    lowered: Lowered
    profiled: Profiled
    problem: Problem
    answer: Placement
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    undeployed: tuple[str, ...] = ()
    wanted: tuple[str, ...] = ()
    seconds: float = 0.0

    @property
    def singles(self) -> tuple[Single, ...]:
        """Everything on one target, by the cost model."""
        return self.answer.singles

    @property
    def supports(self) -> tuple[Support, ...]:
        """What the libraries said of each kind of operator."""
        return self.profiled.supports


def place(request: PlaceRequest, ports: Ports) -> Placed:
    """Profile, search, deploy and measure. Raises MeasuringError and UsageError."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="perfgate-place-") as text:
        folder = Path(text)
        with placing(request, folder, ports) as placer:
            ports.progress.step(f"Taking {request.spec.name} apart", 0, 0, None)
            lowered = placer.lower(to_lower(request, folder))
            asked = place_problem.targets(
                lowered,
                devices=[one.name for one in request.devices],
                libraries=request.libraries,
                threads=request.threads,
            )
            _check(lowered, asked, request)
            profiled = _profile(placer, lowered, asked, request, ports)
            posed = place_problem.problem(
                lowered, profiled, request.devices, objective=request.objective, latency_s=request.latency_s
            )
            answers = _answers(posed, profiled, request, ports)
            best = place_problem.best_single(profiled, answers[0].singles)
            candidates: list[Candidate] = []
            problems: list[str] = []
            if answers[0].feasible:
                candidates, problems = deployed(placer, request, posed, profiled, answers, best, folder, ports)
        measured = raced(request, candidates, folder, ports, until=started + request.budget_s)
    return Placed(
        plan=chosen(request, measured, best),
        advised=advised(request, measured, best),
        lowered=lowered,
        profiled=profiled,
        problem=posed,
        answer=answers[0],
        candidates=measured,
        notes=(
            *place_problem.alone(profiled),
            *problems,
            *(one.problem for one in measured if one.problem),
            *lowered.problems,
            *lowered.notes,
            *profiled.notes,
            *profiled.unmeasured,
        ),
        undeployed=tuple(problems),
        wanted=request.libraries,
        seconds=time.monotonic() - started,
    )


@contextmanager
def placing(request: PlaceRequest, folder: Path, ports: Ports) -> Iterator[Placer]:
    """The process that does it. What goes wrong in it is a MeasuringError that says so."""

    def cut(wanted: Wanted) -> None:
        onnx_pieces.serve(wanted, folder)

    options = Options(threads=request.threads[0], environ=ports.environ)
    devices = [one.name for one in request.devices]
    try:
        with (
            Session({HEAD: request.side}, run_dir=folder / "run", options=options, progress=ports.progress) as session,
            session.placing(HEAD, request.spec, cut, devices=devices) as placer,
        ):
            yield placer
    except WorkerFailed as lost:
        msg = f"{request.spec.name} cannot be placed ({lost.failure.phase}): {lost.failure.message}"
        raise MeasuringError(msg) from None


def to_lower(request: PlaceRequest, folder: Path) -> Lower:
    """The first request; ``folder``: that of :func:`placing`."""
    return Lower(workload=request.workload, spec=request.spec, folder=str(folder / "work"), seed=request.seed)


def _check(lowered: Lowered, asked: Sequence[object], request: PlaceRequest) -> None:
    if not lowered.nodes:
        msg = f"{request.spec.name}: one step runs no operator that takes time, so there is nothing to place"
        raise MeasuringError(msg)
    if not asked:
        missing = "; ".join(f"{one.name}: {one.missing}" for one in lowered.libraries if one.missing)
        wanted = f" of {', '.join(request.libraries)}" if request.libraries else ""
        found = ", ".join(one.name for one in lowered.libraries if not one.missing) or "none"
        msg = f"no library{wanted} can be used on {', '.join(one.name for one in request.devices)}; there are: {found}"
        raise MeasuringError(f"{msg} ({missing})" if missing else msg)


def _profile(
    placer: Placer, lowered: Lowered, asked: Sequence[Target], request: PlaceRequest, ports: Ports
) -> Profiled:
    count, several = len(lowered.nodes), len(asked)
    text = f"Timing {count} operator{'s' * (count != 1)} on {several} target{'s' * (several != 1)}"
    ports.progress.step(text, 0, 0, None)

    def shown(far: Advanced) -> None:
        ports.progress.step(text, far.done, far.total, None)

    return placer.profile(ProfileNodes(targets=tuple(asked), budget_s=_PROFILE * request.budget_s), shown)


def _answers(posed: Problem, profiled: Profiled, request: PlaceRequest, ports: Ports) -> list[Placement]:
    """The search's answer, and one for dearer borders where that is another; values by the first problem.

    Raises MeasuringError where an operator has no target.
    """
    if homeless := place_problem.homeless(posed, profiled):
        msg = f"{request.spec.name} cannot be placed: {homeless}"
        raise MeasuringError(msg)
    limit = min(_LONGEST_SEARCH_S, _SEARCH * request.budget_s)
    try:
        first = _answer(posed, request.seed, limit, ports)
        parted = place_problem.parted(posed, first, profiled)
        if parted is not None:
            # What it refuses as a whole would only be refused once more.
            found = _answer(parted, request.seed, limit, ports)
            first = replace(found, singles=first.singles, optimal=False)
        if not first.feasible or len(set(first.targets)) == 1:
            return [first]
        dearer = _answer(place_problem.cautious(posed, _CAUTION), request.seed, limit / 2, ports)
    except UsageError as error:  # about a model, not about how perfgate was called
        msg = f"{request.spec.name} cannot be placed: {error}"
        raise MeasuringError(msg) from None
    if dearer.feasible and dearer.targets != first.targets:
        return [first, replace(first, targets=dearer.targets, value=evaluate.value(posed, dearer.targets))]
    return [first]


def _answer(posed: Problem, seed: int, limit_s: float, ports: Ports) -> Placement:
    """The proven best where the graph is narrow enough for that; else the best found, with a bound."""
    third = limit_s / 3
    ports.progress.step("Searching for the best placement", 0, 3, limit_s)
    proven = exact.solve(posed, third)
    if proven is not None:
        return proven
    ports.progress.step("Searching for the best placement", 1, 3, 2 * third)
    least = bound.lower(posed, third)
    ports.progress.step("Searching for the best placement", 2, 3, third)

    def shown(better: Improvement) -> None:
        ports.progress.step("Searching for the best placement", 2, 3, max(0.0, third - better.at_s))

    return search(posed, seed=seed, time_limit_s=third, bound=least, progress=shown)
