"""Floor 3, placement. In: a problem. Out: a value that no placement is below, and what a general solver finds.

HiGHS through :func:`scipy.optimize.milp` on the program of :mod:`perfgate.placement.program`; its own tolerance is
taken off what it states. Where objective and limits are sums and the graph is narrow, also
:mod:`perfgate.placement.prices`, and the optimum itself if it comes in time. Side by side, also single paths placed as
well as they can be (:mod:`perfgate.placement.backbone`), a few seconds for a thousand nodes, whatever the time limit.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence

import numpy as np
from scipy.optimize import milp as solve_milp

from perfgate.placement import evaluate, labels
from perfgate.placement.backbone import backbone
from perfgate.placement.compiled import Compiled, compiled
from perfgate.placement.prefix import Prefix
from perfgate.placement.program import SCALED, Program, build
from perfgate.placement.symmetry import Equals
from perfgate.records.placement import MEMORY, SIDE_BY_SIDE, THROUGHPUT, UNLIMITED, Problem
from perfgate.silence import silence

# What a bound of the solver may be too large by, as a share, and as a share of the program's scale. Its tolerances are
# 1e-7 for dual values and 1e-6 for whole numbers; the program's scale is 1000.
TOLERANCE = 1e-6
_INFEASIBLE = 2
# Choices (units times targets) that the solver is not given in vain; with many more it overruns its limit.
CHOICES_PER_S = 2000
# Share of the time for the smaller program, in which equal targets are one.
_MERGED = 0.3
# Share of the time for prices of limits, where the graph is narrow enough for them.
_PRICED = 0.3


def lower(problem: Problem, time_limit_s: float) -> float:
    """A lower bound of the objective, in its units; inf: no placement is feasible. Better with more time.

    Raises:
        UsageError: The problem makes no sense; the message names the node, target or border.
    """
    begun = time.monotonic()
    small = compiled(problem)
    found = _simple(small)
    if problem.objective == THROUGHPUT or problem.order != SIDE_BY_SIDE:
        summed, proven = labels.lower(small, lambda: time.monotonic() - begun > time_limit_s * _PRICED)
        if proven:
            return summed
        found = max(found, summed)
    class_of = Equals(small).class_of
    apart = list(range(small.target_count))
    if class_of != apart:
        found = max(found, _solve(small, class_of, time_limit_s * _MERGED)[1])
    left = time_limit_s - (time.monotonic() - begun)
    return max(found, _solve(small, apart, left)[1])


def milp(problem: Problem, time_limit_s: float) -> tuple[tuple[int, ...] | None, float]:
    """The best placement that HiGHS finds in the time (a target for each node), if any, and a lower bound.

    Raises:
        UsageError: The problem makes no sense; the message names the node, target or border.
    """
    small = compiled(problem)
    targets, found = _solve(small, range(small.target_count), time_limit_s)
    if targets is not None and math.isinf(evaluate.value(problem, targets)):
        targets = None
    return targets, max(found, _simple(small))


def _simple(small: Compiled) -> float:
    """What needs no program."""
    problem = small.problem
    least = [min(row) for row in small.seconds]
    if problem.objective == MEMORY:
        limit = math.inf if problem.latency_s is None else problem.latency_s
        if problem.order == SIDE_BY_SIDE and backbone(small) > limit:
            return math.inf
        return max([math.fsum(small.memory) / max(1, small.device_count), *small.memory]) * _DOWN
    if problem.objective == THROUGHPUT:
        return max(math.fsum(least) / max(1, small.device_count), *least) * _DOWN
    if problem.order != SIDE_BY_SIDE:
        return math.fsum(least) * _DOWN
    lanes = [device.lanes for device in problem.devices]
    work = 0.0 if UNLIMITED in lanes else math.fsum(least) / max(1, sum(lanes))
    return max(Prefix(small).critical_path_s, work, backbone(small)) * _DOWN


# Sums of the same numbers in another order.
_DOWN = 1 - 1e-12


def _solve(small: Compiled, class_of: Sequence[int], time_limit_s: float) -> tuple[tuple[int, ...] | None, float]:
    """Targets of nodes (only where ``class_of`` merges nothing) and a bound; 0 where the solver has none."""
    if sum(map(len, small.allowed)) > CHOICES_PER_S * time_limit_s:
        return None, 0.0
    begun = time.monotonic()
    program = build(small, class_of)
    left = time_limit_s - (time.monotonic() - begun)
    if left <= 0:
        return None, 0.0
    with silence():
        answer = solve_milp(
            program.cost,
            integrality=program.integrality,
            bounds=program.bounds,
            constraints=program.rows,
            options={"time_limit": left, "mip_rel_gap": TOLERANCE},
        )
    if answer.status == _INFEASIBLE:
        return None, math.inf
    stated = answer.mip_dual_bound
    bound = 0.0
    if stated is not None and math.isfinite(stated):
        bound = max(0.0, (stated * (1 - TOLERANCE) / SCALED - TOLERANCE) * program.scale)
    targets = None if answer.x is None else _targets(small, program, answer.x)
    return targets, bound


def _targets(small: Compiled, program: Program, columns: np.ndarray) -> tuple[int, ...]:
    chosen = [
        max(allowed, key=lambda target: columns[program.choice.get((unit, target), 0)])
        for unit, allowed in enumerate(small.allowed)
    ]
    return small.of_units(chosen)
