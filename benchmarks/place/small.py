"""Random small instances whose optimum is known: how often the search finds it.

``python -m benchmarks.place.small``: up to 14 operators on three targets, all objectives and both orders, with memory
limits, groups that stay together, fixed and unsupported operators, times of pieces, lanes and whole targets. The
optimum is proven (``perfgate.placement.exact``), for instances with few assignments by looking at all of them too.
Beside the search: plain hill climbing, one operator at a time from the best single target.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from benchmarks.place import instances
from benchmarks.tables import print_table
from perfgate.placement import bound, evaluate, exact
from perfgate.placement.compiled import compiled
from perfgate.placement.search import search
from perfgate.records.placement import (
    IN_TURN,
    LATENCY,
    MEMORY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    Problem,
)

KINDS = {
    "latency, in turn": (LATENCY, IN_TURN),
    "latency, side by side": (LATENCY, SIDE_BY_SIDE),
    "throughput": (THROUGHPUT, IN_TURN),
    "memory, in turn": (MEMORY, IN_TURN),
    "memory, side by side": (MEMORY, SIDE_BY_SIDE),
}
EACH, QUICK = 60, 1
LEAST_FOUND = 0.99
SAME = 1e-6
EXACT_S, SEARCH_S, BOUND_S = 60.0, 10.0, 10.0
# Enough for a small instance, and the answer does not depend on how quick the machine is.
SEARCH_EVALUATIONS = 20_000
# Instances with at most so many operators are looked at exhaustively as well.
EXHAUSTED = 7


@dataclass(slots=True, kw_only=True)
class Counts:
    """Of one kind of instance."""

    instances: int = 0
    proven: int = 0
    infeasible: int = 0
    exhausted: int = 0
    found: int = 0
    climbed: int = 0
    wrong: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)
    gaps: list[float] = field(default_factory=list)
    exact_s: list[float] = field(default_factory=list)
    search_s: list[float] = field(default_factory=list)


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where the search finds too few, or an exact answer or a bound is wrong."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} instances of each kind instead of {EACH}")
    parser.add_argument("--first", type=int, default=0, help="first seed")
    arguments = parser.parse_args(argv)
    all_counts = {}
    for name, (objective, order) in KINDS.items():
        counts = all_counts[name] = Counts()
        for seed in range(arguments.first, arguments.first + (QUICK if arguments.quick else EACH)):
            _one(f"{name}, seed {seed}", instances.draw(seed, objective=objective, order=order), counts)
    return _report(all_counts)


def _one(name: str, problem: Problem, counts: Counts) -> None:
    counts.instances += 1
    begun = time.monotonic()
    answer = exact.solve(problem, EXACT_S)
    counts.exact_s.append(time.monotonic() - begun)
    if answer is None:
        return
    counts.proven += 1
    counts.infeasible += not answer.feasible
    if len(problem.nodes) <= EXHAUSTED:
        counts.exhausted += 1
        if not _same(instances.optimum(problem), answer.value):
            counts.wrong.append(f"{name}: proven {answer.value}, best of all assignments {instances.optimum(problem)}")
    below = bound.lower(problem, BOUND_S)
    if below > answer.value:
        counts.wrong.append(f"{name}: bound {below} above the optimum {answer.value}")
    if answer.feasible and answer.value:
        counts.gaps.append(1 - below / answer.value)
    begun = time.monotonic()
    found = search(problem, time_limit_s=SEARCH_S, max_evaluations=SEARCH_EVALUATIONS)
    counts.search_s.append(time.monotonic() - begun)
    value = evaluate.value(problem, found.targets)
    if value < answer.value * (1 - SAME):
        counts.wrong.append(f"{name}: the search found {value}, below the optimum {answer.value}")
    counts.found += _same(value, answer.value)
    if not _same(value, answer.value):
        counts.missed.append(f"{name}: {value:.6g}, the optimum is {answer.value:.6g}")
    counts.climbed += _same(_climb(problem), answer.value)


def _same(value: float, optimum: float) -> bool:
    return value == optimum or abs(value - optimum) <= SAME * abs(optimum)


def _climb(problem: Problem) -> float:
    """One operator (or group) at a time, the best change of all, from the best single target."""
    small = compiled(problem)
    starts = [
        [target if target in allowed else allowed[0] for allowed in small.allowed]
        for target in range(small.target_count)
    ]
    units = min(starts, key=lambda each: evaluate.value(problem, small.of_units(each)))
    value = evaluate.value(problem, small.of_units(units))
    while True:
        changes = [
            (evaluate.value(problem, small.of_units([*units[:unit], target, *units[unit + 1 :]])), unit, target)
            for unit, allowed in enumerate(small.allowed)
            for target in allowed
        ]
        best, unit, target = min(changes)
        if best >= value:
            return value
        value = best
        units[unit] = target


def _report(all_counts: dict[str, Counts]) -> int:
    rows = []
    for name, counts in all_counts.items():
        rows.append(
            [
                name,
                f"{counts.proven} of {counts.instances}",
                str(counts.exhausted),
                str(counts.infeasible),
                _share(counts.found, counts.proven),
                _share(counts.climbed, counts.proven),
                f"{100 * _mean(counts.gaps):.1f} %",
                f"{_mean(counts.exact_s):.2f} / {max(counts.exact_s, default=0.0):.1f}",
                f"{_mean(counts.search_s):.2f}",
            ]
        )
    print_table(
        ["instances", "proven", "also by all assignments", "infeasible", "search finds it", "hill climbing finds it",
         "mean gap of the bound", "exact, s (mean / most)", "search, s"],
        rows,
    )  # fmt: skip
    found, proven = (sum(getattr(each, what) for each in all_counts.values()) for what in ("found", "proven"))
    wrong = [text for each in all_counts.values() for text in each.wrong]
    print(f"\nThe search finds {found} of {proven} optima ({_share(found, proven)}); limit {LEAST_FOUND:.0%}.")
    for text in (text for each in all_counts.values() for text in each.missed):
        print(f"missed: {text}")
    for text in wrong:
        print(f"WRONG: {text}")
    return int(bool(wrong) or not proven or found < LEAST_FOUND * proven)


def _share(count: int, of: int) -> str:
    return f"{100 * count / of:.1f} %" if of else "-"


def _mean(values: Sequence[float]) -> float:
    finite = [value for value in values if math.isfinite(value)]
    return sum(finite) / len(finite) if finite else 0.0


if __name__ == "__main__":
    raise SystemExit(main())
