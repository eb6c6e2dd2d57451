"""Placements in; deployed, measured against the best single target, and the plan of the best, out."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from perfgate.bench.placing import Placer
from perfgate.bench.session import Side
from perfgate.errors import MeasuringError
from perfgate.pipeline import place_measure, place_problem
from perfgate.pipeline.place_measure import Raced
from perfgate.pipeline.request import Ports
from perfgate.records.placement import LATENCY, THROUGHPUT, Device, Placement, PlacementPlan, Problem
from perfgate.records.placing import Build, Built, Part, Profiled, WholeTime
from perfgate.records.workload import ModelSpec, Workload

# A mixed placement that is predicted to gain less than this is not worth measuring.
_WORTH_MEASURING = 0.005
# Of the budget, for each comparison at least: profiling may have taken longer than it should.
_LEAST_RACE = 0.25


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
class Candidate:
    """A placement that was deployed. ``raced``: against the best single target; None: not, as ``problem`` says."""

    name: str
    parts: tuple[Part, ...]
    predicted_s: float
    built: Built
    raced: Raced | None = None
    problem: str = ""


def deployed(
    placer: Placer,
    request: PlaceRequest,
    posed: Problem,
    profiled: Profiled,
    answers: Sequence[Placement],
    best: WholeTime,
    folder: Path,
    ports: Ports,
) -> list[Candidate]:
    """The best single target first, then what the search found, as far as it promises to be faster."""
    single = next(number for number, one in enumerate(posed.targets) if one.name == best.target)
    whole = Part(target=best.target, nodes=tuple(range(len(posed.nodes))))
    wanted: list[tuple[str, tuple[Part, ...], float]] = [(best.target, (whole,), best.seconds or 0.0)]
    for number, answer in enumerate(answers):
        mixed = set(answer.targets) != {single}
        promising = request.objective != LATENCY or answer.value < (best.seconds or 0.0) * (1 - _WORTH_MEASURING)
        if mixed and promising:
            wanted.append((f"placement {number + 1}", place_problem.parts(posed, answer), answer.value))
    found = []
    for number, (name, parts, predicted) in enumerate(wanted):
        ports.progress.step(f"Deploying {name}", number, len(wanted), None)
        request_ = Build(
            parts=parts,
            targets=profiled.targets,
            folder=str(folder / f"deployed-{number}"),
            objective=request.objective,
            predicted_s=predicted,
            best_single=best.target,
        )
        found.append(Candidate(name=name, parts=parts, predicted_s=predicted, built=placer.build(request_)))
    return found


def raced(
    request: PlaceRequest,
    candidates: Sequence[Candidate],
    folder: Path,
    ports: Ports,
    *,
    until: float,
) -> tuple[Candidate, ...]:
    """Every candidate against the first, within what is left of the budget. One request at a time is what is timed."""
    if request.objective == THROUGHPUT or not candidates:
        return tuple(candidates)
    first, *others = candidates
    found = [first]
    for number, one in enumerate(others):
        left = (until - time.monotonic()) / (len(others) - number)
        ports.progress.step(f"Measuring {one.name} against {first.name}", number, len(others), None)
        try:
            result = place_measure.race(
                folder / f"deployed-{number + 1}",
                folder / "deployed-0",
                python=request.side.python,
                device=request.devices[0].name,
                threads=max(request.threads),
                run_dir=folder / f"race-{number}",
                budget_s=max(left, _LEAST_RACE * request.budget_s),
                ports=ports,
            )
        except MeasuringError as error:
            found.append(replace(one, problem=str(error)))
        else:
            found.append(replace(one, raced=result))
    return tuple(found)


def chosen(request: PlaceRequest, candidates: Sequence[Candidate], best: WholeTime) -> PlacementPlan | None:
    """The fastest that was measured; recommended only where it is certainly faster than the best single target."""
    if not candidates:
        return None
    first, *others = candidates
    measured = [one for one in others if one.raced is not None]
    fastest = min(measured, key=lambda one: sum(one.raced.faster) if one.raced else 0.0, default=(others or [first])[0])
    raced = fastest.raced
    return replace(
        fastest.built.plan,
        model=request.called or request.spec.name,
        given=request.given,
        batch=request.workload.batch,
        dtype=request.workload.dtype,
        predicted_s=fastest.predicted_s,
        best_single=best.target,
        single_s=best.seconds if raced is None else raced.other_s,
        measured_s=(best.seconds if fastest is first else None) if raced is None else raced.plan_s,
        low_s=(best.low_s if fastest is first else None) if raced is None else raced.low_s,
        high_s=(best.high_s if fastest is first else None) if raced is None else raced.high_s,
        faster=None if raced is None else raced.faster,
        recommended=raced is not None and raced.certain,
    )
