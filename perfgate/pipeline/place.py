"""Which operator of a model runs where: what ``perfgate place`` and a run of the gate do.

The model is taken apart and timed on every library; the search answers on these times; what it answers is deployed, and
only the gate's own statistics on the deployed model say whether it is worth having.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from perfgate.bench.placing import Placer
from perfgate.bench.session import HEAD, Options, Session
from perfgate.bench.workers import WorkerFailed
from perfgate.errors import MeasuringError
from perfgate.graph.onnx import pieces as onnx_pieces
from perfgate.pipeline import place_problem
from perfgate.pipeline.place_candidates import Candidate, PlaceRequest, chosen, deployed, raced
from perfgate.pipeline.request import Ports
from perfgate.placement import bound, evaluate, exact
from perfgate.placement.search import search
from perfgate.records.placement import (
    Placement,
    PlacementPlan,
    Problem,
    Single,
    Support,
)
from perfgate.records.placing import Lower, Lowered, Profiled, ProfileNodes, Wanted, WholeTime

# Parts of the budget: what is left is for measuring what was deployed.
_PROFILE, _SEARCH = 0.5, 0.1
_LONGEST_SEARCH_S = 60.0
# A second candidate, for which borders are this many times as dear: the first may have underestimated them.
_CAUTION = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """``plan``: the best that was measured; None: none keeps the limits, as ``answer.problem`` says. ``answer`` is the
    search's, ``problem`` what it was asked.
    """

    plan: PlacementPlan | None
    lowered: Lowered
    profiled: Profiled
    problem: Problem
    answer: Placement
    candidates: tuple[Candidate, ...] = ()
    notes: tuple[str, ...] = ()
    seconds: float = 0.0
    timings: dict[str, float] = field(default_factory=dict)

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
            ports.progress.step(f"Timing {len(lowered.nodes)} operators on {len(asked)} targets", 0, 0, None)
            profiled = placer.profile(ProfileNodes(targets=asked, budget_s=_PROFILE * request.budget_s))
            posed = place_problem.problem(
                lowered, profiled, request.devices, objective=request.objective, latency_s=request.latency_s
            )
            ports.progress.step("Searching", 0, 0, None)
            answers = _answers(posed, request)
            best = _best_single(profiled)
            candidates = []
            if answers[0].feasible:
                candidates = deployed(placer, request, posed, profiled, answers, best, folder, ports)
        measured = raced(request, candidates, folder, ports, until=started + request.budget_s)
        plan = chosen(request, measured, best)
    return Placed(
        plan=plan,
        lowered=lowered,
        profiled=profiled,
        problem=posed,
        answer=answers[0],
        candidates=measured,
        notes=(
            *(one.problem for one in measured if one.problem),
            *lowered.problems,
            *lowered.notes,
            *profiled.notes,
            *profiled.unmeasured,
        ),
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


def _answers(posed: Problem, request: PlaceRequest) -> list[Placement]:
    """The search's answer, and one for dearer borders where that is another; values by the first problem."""
    limit = min(_LONGEST_SEARCH_S, _SEARCH * request.budget_s)
    first = _answer(posed, request.seed, limit)
    if not first.feasible or len(set(first.targets)) == 1:
        return [first]
    dearer = _answer(place_problem.cautious(posed, _CAUTION), request.seed, limit / 2)
    if dearer.feasible and dearer.targets != first.targets:
        return [first, replace(first, targets=dearer.targets, value=evaluate.value(posed, dearer.targets))]
    return [first]


def _answer(posed: Problem, seed: int, limit_s: float) -> Placement:
    """The proven best where the graph is narrow enough for that; else the best found, with a bound."""
    proven = exact.solve(posed, limit_s / 3)
    if proven is not None:
        return proven
    return search(posed, seed=seed, time_limit_s=limit_s / 3, bound=bound.lower(posed, limit_s / 3))


def _best_single(profiled: Profiled) -> WholeTime:
    """The fastest whole model that was measured."""
    measured = [one for one in profiled.wholes if one.seconds is not None]
    if not measured:
        reasons = "; ".join(f"{one.target}: {one.reason}" for one in profiled.wholes if one.reason)
        msg = f"no library runs the whole model: {reasons or 'the budget is too small to measure it; raise it'}"
        raise MeasuringError(msg)
    return min(measured, key=lambda one: one.seconds or 0.0)
