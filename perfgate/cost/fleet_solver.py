"""Floor 3, cost. A covering problem solved by HiGHS. In: a :class:`Covering`. Out: units, with a proven bound."""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, milp

from perfgate.cost.fleet_covering import EXACT, Covering, Integers, Program, Vector, program
from perfgate.errors import PerfgateError, UsageError
from perfgate.silence import silence

# HiGHS stops within an absolute gap of 1e-6; costs of this size make that 1e-10 of them.
_COST_SIZE = 1e4
_OPTIMAL, _LIMIT, _INFEASIBLE = 0, 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Solution:
    """Units and partial units of each column; the proven lower ``bound`` of price and egress."""

    units: Integers
    partial: Integers
    bound: float


def solve(covering: Covering, *, time_limit_s: float) -> Solution | None:
    """The least-cost units, or the best found in the time; None: no units meet the demand within the limits.

    Raises UsageError where the time did not suffice for any solution, PerfgateError where HiGHS fails.
    """
    end = time.monotonic() + time_limit_s
    caps = np.unique(covering.value)[::-1] if covering.spares else np.array([np.inf])
    floors = np.array([_floor(covering, cap) for cap in caps])
    best: _Found | None = None
    bound = np.inf
    for index in np.argsort(floors, kind="stable"):
        known = np.inf if best is None else best.cost
        if floors[index] >= known * (1 - EXACT):
            bound = min(bound, known)
            break
        left = end - time.monotonic()
        if left <= 0:
            bound = min(bound, float(floors[index]))
            break
        found = _search(covering, float(caps[index]), known, left)
        bound = min(bound, max(found.bound, float(floors[index])))
        if found.cost < known:
            best = found
    if best is None and bound < np.inf:
        msg = f"no fleet was found within {time_limit_s:g} s: allow more time, or offer fewer kinds of machines"
        raise UsageError(msg)
    if best is None or best.units is None or best.partial is None:
        return None
    return Solution(units=best.units, partial=best.partial, bound=min(bound, best.cost))


def _floor(covering: Covering, cap: float) -> float:
    """Cost below which no fraction of a unit serves the demand."""
    machines = covering.need(cap) * (covering.price / np.minimum(covering.value, cap)).min()
    return float(machines + covering.demand * covering.egress.min())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    """The result of one integer program; without units, ``cost`` is infinite."""

    cost: float
    bound: float
    units: Integers | None = None
    partial: Integers | None = None


def _search(covering: Covering, cap: float, below: float, time_limit_s: float) -> _Found:
    """One integer program; what costs ``below`` or more is of no interest (the bound is then that)."""
    task = program(covering, cap=cap, below=below)
    size = _floor(covering, cap) or float(task.cost.max())
    factor = _COST_SIZE / size if size > 0 else 1.0
    with silence():
        result = milp(
            task.cost * factor,
            integrality=task.integral,
            bounds=Bounds(0.0, task.upper),
            constraints=LinearConstraint(task.rows, task.low, task.high),
            options={"time_limit": time_limit_s, "mip_rel_gap": 0.0},
        )
    if result.status == _INFEASIBLE:
        return _Found(cost=np.inf, bound=below)
    if result.status not in {_OPTIMAL, _LIMIT}:
        msg = f"the solver of the fleet plan failed: {result.message}"
        raise PerfgateError(msg)
    # One price of egress for all is no part of the program: no choice changes it.
    egress = 0.0 if len(np.unique(covering.egress)) > 1 else covering.demand * float(covering.egress[0])
    bound = -np.inf if result.mip_dual_bound is None else result.mip_dual_bound / factor + egress
    if result.x is None:
        return _Found(cost=np.inf, bound=bound)
    return _counted(covering, task, np.rint(result.x), bound)


def _counted(covering: Covering, task: Program, x: Vector, bound: float) -> _Found:
    """The solution in whole numbers, and what it costs by them."""
    count = len(covering.price)
    units = x[:count].astype(np.int64)
    partial = np.zeros(count, dtype=np.int64)
    partial[task.cut] = x[count : count + len(task.cut)].astype(np.int64)
    paid = units + partial
    cost = float(paid @ covering.price) + egress_cost(covering, units + partial * covering.partial)
    return _Found(cost=cost, bound=bound, units=units, partial=partial)


def egress_cost(covering: Covering, units: Vector | Integers) -> float:
    """Least cost of egress of the demand: the cheapest network serves what it can, then the next."""
    left, cost = covering.demand, 0.0
    for column in np.argsort(covering.egress, kind="stable"):
        served = min(left, float(units[column] * covering.value[column]))
        cost += served * float(covering.egress[column])
        left -= served
    return cost
