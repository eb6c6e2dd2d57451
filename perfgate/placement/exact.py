"""Floor 3, placement. In: a problem. Out: an answer that is proven to be the best, or None: not within the time.

* Latency in turn, throughput, and memory with latency in turn: dynamic programming over beginnings
  (:mod:`perfgate.placement.labels`). Exact for any graph, with memory limits, groups, fixed nodes and times of pieces;
  fast where the graph is narrow: chains and residual networks of hundreds of nodes, with memory limits of a hundred.
  The loads of throughput are as many sums as there are devices, and nothing is assumed to be contiguous: chains of
  about 40 nodes on three devices. With times of pieces, branches count too: about 60 nodes with four branches.
* Side by side: branch and bound (:mod:`perfgate.placement.branch`), up to about 14 units on 3 targets.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from perfgate.placement import branch, evaluate, labels
from perfgate.placement.compiled import Compiled, compiled
from perfgate.placement.network import GaveUp
from perfgate.placement.starts import singles
from perfgate.records.placement import LATENCY, MEMORY, SIDE_BY_SIDE, Placement, Problem

# An assignment to more than one target must be better by this share.
TIE = 1e-9
# Climbs from random assignments, besides those from single targets, for a value that the proof can start from.
CLIMBS = 4
# Larger problems are left to the prices of :mod:`perfgate.placement.prices`, which find good assignments too.
MOST_CLIMBED = 20


def solve(problem: Problem, time_limit_s: float) -> Placement | None:
    """The best placement, ``optimal`` up to a share of 1e-9, or None where that is not proven within ``time_limit_s``.

    Ties go to the default target alone, then to another single one. Where no assignment keeps the limits, the answer
    has ``feasible`` False.

    Raises:
        UsageError: The problem makes no sense; the message names the node, target or border.
    """
    begun = time.monotonic()
    small = compiled(problem)
    alone = singles(small)
    targets = _start(small, [each for _, each in alone], lambda: time.monotonic() - begun > time_limit_s * _STARTING)
    value = evaluate.value(problem, small.of_units(targets))
    side_by_side = problem.order == SIDE_BY_SIDE and problem.objective in (LATENCY, MEMORY)
    method = branch.best if side_by_side else labels.best
    try:
        better = method(small, value * (1 - TIE), lambda: time.monotonic() - begun > time_limit_s)
    except GaveUp:
        return None
    nodes = small.of_units(targets if better is None else better)
    value = evaluate.value(problem, nodes)
    return Placement(
        targets=nodes,
        value=value,
        bound=value,
        optimal=True,
        feasible=math.isfinite(value),
        problem=evaluate.why(problem, nodes),
        singles=tuple(single for single, _ in alone),
        stopped="optimal",
        elapsed_s=time.monotonic() - begun,
    )


# Share of the time for an answer to start from.
_STARTING = 0.2


def _start(small: Compiled, alone: list[list[int]], over: Callable[[], bool]) -> list[int]:
    """The best single target, or an assignment that is better, by moving one unit at a time."""
    problem = small.problem
    values = [evaluate.value(problem, small.of_units(each)) for each in alone]
    least = min(values)
    best = next(each for each, value in zip(alone, values, strict=True) if value <= least * (1 + TIE))
    rng = random.Random(0)  # noqa: S311 - no secret
    climbs = CLIMBS if len(small.units) <= MOST_CLIMBED else 0
    drawn = [[rng.choice(allowed) for allowed in small.allowed] for _ in range(climbs)]
    for start in (*map(list, alone), *drawn) if climbs else ():
        value = _climb(small, start, over)
        if value < least * (1 - TIE):
            least, best = value, start
    return best


def _climb(small: Compiled, targets: list[int], over: Callable[[], bool]) -> float:
    """Changes ``targets`` one unit at a time while that is better; the value reached."""
    problem = small.problem
    value = evaluate.value(problem, small.of_units(targets))
    improved = True
    while improved:
        improved = False
        for unit, allowed in enumerate(small.allowed):
            before = targets[unit]
            for target in allowed:
                if over():
                    break
                targets[unit] = target
                tried = evaluate.value(problem, small.of_units(targets))
                if tried < value * (1 - TIE):
                    value, before, improved = tried, target, True
            targets[unit] = before
    return value
