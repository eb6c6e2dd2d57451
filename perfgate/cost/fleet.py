"""Floor 3, cost. In: configurations of machines and a load. Out: how many machines of each serve it at least cost.

An integer program, solved by HiGHS through :func:`scipy.optimize.milp` to proven optimality, or with the gap stated.
``fleet_covering`` states it, ``fleet_solver`` solves it.
"""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.cost.fleet_covering import EXACT, Covering, Integers, undominated
from perfgate.cost.fleet_solver import Solution, egress_cost, solve
from perfgate.errors import UsageError
from perfgate.records.cost import Point
from perfgate.records.fleet import FleetPart, FleetPlan, Load
from perfgate.units import percent

HOUR_S = 3600.0
GIB = 2.0**30


@dataclass(frozen=True, slots=True, kw_only=True)
class _Demand:
    """What is to be reached, and what one unit is.

    A load without end: ``amount`` in items a second, and a unit is a machine. A job: ``amount`` in items, a unit is a
    paid hour of a machine, worth ``unit_s`` seconds of its work; a machine has ``hours`` of them before the deadline
    and then ``partial`` of an hour, which is paid whole.
    """

    amount: float
    unit_s: float = 1.0
    hours: int = 1
    partial: float = 0.0
    deadline_h: float | None = None


def plan(
    points: Sequence[Point],
    load: Load,
    *,
    egress_usd_per_gib: Mapping[str, float] | None = None,
    time_limit_s: float = 10.0,
) -> FleetPlan:
    """The mix of machines, n_j of ``points[j].offer``, that serves ``load`` at least cost.

    ``items_per_s`` all the time: minimise sum n_j price_j + egress, in USD an hour, subject to
    sum n_j items_per_s_j >= rate. Machines are counted at the whole of their ``items_per_s``: room for peaks belongs
    into the declared rate. With ``spares`` s, the machines other than the s fastest still reach the rate.

    ``items`` by ``deadline_s``: minimise the job's whole cost. Every machine is paid by whole hours, begun ones
    included, and released when its share of the items is done; the number of machines is the least that does these
    hours in time. Rates of machines add up, for training too: losses between machines are not modelled.

    Egress costs what leaves by the provider whose machine did the item (``egress_usd_per_gib``: provider -> USD);
    cheaper networks serve as much as their machines can. Of equally good fleets always the same one is taken,
    whatever the order of ``points``. A load counts as served within 1e-6 of the smallest machine's rate.

    Raises UsageError where the load or a limit makes no sense, where there is no point, where ``maximum`` leaves too
    few machines, or where ``time_limit_s`` did not suffice for any plan.
    """
    egress_usd_per_gib = egress_usd_per_gib or {}
    demand = _demand(load)
    _check_limits(load, egress_usd_per_gib, time_limit_s)
    usable, warnings = _usable(points, load)
    _check_names(usable, load)
    if load.egress_bytes_per_item > 0:
        warnings += _unpriced(usable, egress_usd_per_gib)
    ordered, covering = _covering(usable, load, demand, egress_usd_per_gib)
    chosen = undominated(covering)
    covering = covering.of(chosen)
    solution = solve(covering, time_limit_s=time_limit_s)
    if solution is None:
        raise UsageError(_too_few(usable, load, demand))
    return _plan([ordered[column] for column in chosen], covering, solution, demand, tuple(warnings))


def _demand(load: Load) -> _Demand:
    rate, items, deadline = load.items_per_s, load.items, load.deadline_s
    if (rate is None) == (items is None) or (items is None) != (deadline is None):
        msg = "a load is either items_per_s, or items together with deadline_s: give one of the two"
        raise UsageError(msg)
    for name, value in (("items_per_s", rate), ("items", items), ("deadline_s", deadline)):
        if value is not None and not (math.isfinite(value) and value > 0):
            msg = f"load: {name} is {value:g}, but must be a positive number"
            raise UsageError(msg)
    if rate is not None:
        return _Demand(amount=rate)
    return _job(load, items or 0.0, deadline or 0.0)


def _job(load: Load, items: float, deadline: float) -> _Demand:
    if load.spares:
        msg = "load: spares are for items_per_s; a job with a deadline is begun again instead: leave spares out"
        raise UsageError(msg)
    hours = math.floor(deadline / HOUR_S * (1 + EXACT))
    return _Demand(
        amount=items,
        unit_s=min(deadline, HOUR_S),
        hours=max(hours, 1),
        partial=max(deadline / HOUR_S - hours, 0.0) if hours else 0.0,
        deadline_h=deadline / HOUR_S,
    )


def _check_limits(load: Load, egress_usd_per_gib: Mapping[str, float], time_limit_s: float) -> None:
    numbers = {
        "egress_bytes_per_item": load.egress_bytes_per_item,
        "spares": load.spares,
        **{f"minimum of {name}": count for name, count in load.minimum.items()},
        **{f"maximum of {name}": count for name, count in load.maximum.items()},
        **{f"egress price of {name}": price for name, price in egress_usd_per_gib.items()},
    }
    for name, value in numbers.items():
        if not (math.isfinite(value) and value >= 0):
            msg = f"load: {name} is {value:g}, but must be 0 or more"
            raise UsageError(msg)
    for name, least in load.minimum.items():
        if least > load.maximum.get(name, math.inf):
            msg = f"load: {name} has a minimum of {least} and a maximum of {load.maximum[name]}: lower the minimum"
            raise UsageError(msg)
    if not time_limit_s > 0:
        msg = f"the time limit of the fleet plan is {time_limit_s:g} s, but must be positive"
        raise UsageError(msg)


def _usable(points: Sequence[Point], load: Load) -> tuple[list[Point], list[str]]:
    """Points with a price and a rate, none with a maximum of 0; what is left out is said."""
    if not points:
        msg = "no configuration meets the requirements, so there is none to plan a fleet with: loosen them"
        raise UsageError(msg)
    sound = [point for point in points if 0 <= point.offer.usd_per_hour < math.inf and 0 < point.items_per_s < math.inf]
    warnings = []
    if len(sound) < len(points):
        warnings.append(f"{len(points) - len(sound)} configurations without a price or a throughput were left out")
    usable = [point for point in sound if load.maximum.get(point.offer.name) != 0]
    if not usable:
        msg = "no configuration is left to plan a fleet with: none has a price, a throughput and a maximum above 0"
        raise UsageError(msg)
    return usable, warnings


def _check_names(usable: Sequence[Point], load: Load) -> None:
    names = {point.offer.name for point in usable}
    for name, least in load.minimum.items():
        if least and name not in names:
            close = difflib.get_close_matches(name, sorted(names), n=3)
            hint = f"did you mean {', '.join(close)}?" if close else f"one of {', '.join(sorted(names)[:5])} ..."
            msg = f"load: minimum of {name}: no feasible configuration runs on this machine; {hint}"
            raise UsageError(msg)


def _unpriced(usable: Sequence[Point], egress_usd_per_gib: Mapping[str, float]) -> list[str]:
    unknown = sorted({point.offer.provider for point in usable} - egress_usd_per_gib.keys())
    if not unknown:
        return []
    return [f"no price of egress known for {', '.join(unknown)}: counted as free; set it in egress_usd_per_gib"]


def _order(point: Point) -> tuple[object, ...]:
    """What decides between columns that the program cannot tell apart."""
    offer = point.offer
    return (
        offer.provider, offer.instance, offer.region, offer.terms, offer.platform, offer.count, point.devices,
        point.form, point.dtype, point.compile, point.batch, point.step_ns,
    )  # fmt: skip


def _covering(
    points: Sequence[Point], load: Load, demand: _Demand, egress_usd_per_gib: Mapping[str, float]
) -> tuple[list[Point], Covering]:
    """The points in the covering problem's order, and the problem."""
    # USD of one item's egress; without end the demand is a second's, and the price an hour's.
    times = load.egress_bytes_per_item / GIB * (HOUR_S if demand.deadline_h is None else 1.0)

    def value(point: Point) -> float:
        # More than the whole demand is worth no more than it.
        return min(point.items_per_s * demand.unit_s, demand.amount)

    def egress(point: Point) -> float:
        return times * egress_usd_per_gib.get(point.offer.provider, 0.0)

    ordered = sorted(
        points, key=lambda one: (one.offer.usd_per_hour, -value(one), egress(one), -one.items_per_s, _order(one))
    )
    return ordered, Covering(
        price=np.array([point.offer.usd_per_hour for point in ordered]),
        value=np.array([value(point) for point in ordered]),
        egress=np.array([egress(point) for point in ordered]),
        names=tuple(point.offer.name for point in ordered),
        demand=demand.amount,
        minimum={name: least for name, least in load.minimum.items() if least},
        maximum={name: most for name, most in load.maximum.items() if most},
        hours=demand.hours,
        partial=demand.partial,
        spares=load.spares,
    )


def _too_few(usable: Sequence[Point], load: Load, demand: _Demand) -> str:
    fastest: dict[str, float] = {}
    for point in usable:
        name = point.offer.name
        fastest[name] = max(fastest.get(name, 0.0), point.items_per_s)
    rate = sum(one * load.maximum.get(name, math.inf) for name, one in fastest.items())
    wanted = demand.amount if demand.deadline_h is None else demand.amount / (demand.deadline_h * HOUR_S)
    spares = f" with {load.spares} spare" if load.spares else ""
    return (
        f"load: all machines that maximum allows reach {rate:.6g} items/s, "
        f"and {wanted:.6g} items/s are needed{spares}: raise a maximum, or allow other machines"
    )


def _plan(
    points: Sequence[Point], covering: Covering, solution: Solution, demand: _Demand, warnings: tuple[str, ...]
) -> FleetPlan:
    job = demand.deadline_h is not None
    paid = solution.units + solution.partial
    machines = _machines(covering, solution) if job else solution.units
    parts = sorted(
        (
            FleetPart(
                point=point,
                machines=count,
                items_per_s=count * point.items_per_s,
                usd_per_hour=count * point.offer.usd_per_hour,
                paid_hours=hours if job else None,
            )
            for point, count, hours in zip(points, machines.tolist(), paid.tolist(), strict=True)
            if count
        ),
        key=lambda part: (-part.usd_per_hour, _order(part.point)),
    )
    egress = egress_cost(covering, solution.units + solution.partial * covering.partial)
    cost = float(paid @ covering.price) + egress
    hours = None
    if demand.deadline_h is not None:
        longest = max(math.ceil((part.paid_hours or 0) / part.machines) for part in parts)
        hours = min(float(longest), demand.deadline_h)
        egress /= hours
    gap = max(0.0, 1 - solution.bound / cost) if cost > 0 else 0.0
    optimal = gap <= EXACT
    if not optimal:
        warnings += (f"the fleet is not proven optimal: the least cost may be up to {percent(gap)} lower",)
    return FleetPlan(
        parts=tuple(parts),
        items_per_s=sum(part.items_per_s for part in parts),
        usd_per_hour=sum(part.usd_per_hour for part in parts) + egress,
        egress_usd_per_hour=egress,
        optimal=optimal,
        gap=0.0 if optimal else gap,
        bound_usd_per_hour=(cost if optimal else solution.bound) / (hours or 1.0),
        usd_total=None if hours is None else cost,
        hours=hours,
        warnings=warnings,
    )


def _machines(covering: Covering, solution: Solution) -> Integers:
    """Fewest machines of each column that do their paid hours before the deadline, and as many as the minimum wants."""
    machines = np.maximum(-(-solution.units // covering.hours), solution.partial)
    paid = solution.units + solution.partial
    for name, least in covering.minimum.items():
        columns = covering.named(name)
        for column in columns:
            lacking = least - int(machines[columns].sum())
            machines[column] += min(max(lacking, 0), int(paid[column] - machines[column]))
    return machines
