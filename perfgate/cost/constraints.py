"""Floor 3, cost. Which configurations meet the requirements, and how many each requirement removes.

In: rows of candidates and requirements. Out: :class:`Judged`. A configuration is counted where it fails first, so what
is left out and what is feasible add up to all candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfgate import units
from perfgate.cost import memory
from perfgate.cost.candidates import Candidates
from perfgate.cost.filters import CONFIGURATIONS, names
from perfgate.cost.limits import STEP_TIME, Flags, Limit, limits, money_limits
from perfgate.cost.points import usd_per_item
from perfgate.cost.shapes import Column, Index
from perfgate.records.cost import ENERGY, FORMS, Requirements
from perfgate.records.hardware import Excluded

NOTHING_NEAR = "nothing is feasible, and nothing is known well enough to name a nearest miss"


@dataclass(slots=True)
class Judged:
    """``feasible``: rows whose cheapest offer meets everything. ``count``: configurations that do, of all offers.

    ``limits``: all bounds, those on money for the cheapest offer of each row. ``violation``: total relative violation
    of a row with that offer; infinite where something that has to be known is not.
    """

    feasible: Flags
    violation: Column
    count: int = 0
    limits: tuple[Limit, ...] = ()
    excluded: list[Excluded] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)

    def remove(self, gone: Flags, reason: str, sellers: Index) -> None:
        """Takes rows out, and counts the configurations among them that were still in."""
        gone = gone & self.feasible
        count = int(sellers[gone].sum())
        if count:
            self.excluded.append(Excluded(what=CONFIGURATIONS, reason=reason, count=count))
            self.feasible = self.feasible & ~gone

    def nearest(self, cost: Column) -> int | None:
        """The row that breaks least in total, the one of least ``cost`` of equals; None: too little is known of all."""
        known = np.flatnonzero(np.isfinite(self.violation))
        if not len(known):
            return None
        return int(known[np.lexsort((known, cost[known], self.violation[known]))[0]])


def judge(candidates: Candidates, requirements: Requirements, *, tail: float, items_per_month: float | None) -> Judged:
    """Judges every configuration.

    ``tail``: the asked percentile of the step time over its median. ``items_per_month``: the declared volume.
    """
    rows, shapes = candidates.rows, candidates.shapes
    sellers = shapes.sellers[rows.shape]
    judged = Judged(np.ones(len(rows), dtype=bool), np.zeros(len(rows)))
    for gone, reason in _unknown(candidates, requirements, judged.warnings):
        judged.violation[gone] = np.inf
        judged.remove(gone, reason, sellers)
    found = limits(candidates, requirements, tail)
    for limit in found:
        if limit.name == STEP_TIME:
            _close_calls(limit, judged, sellers)
        judged.remove(limit.broken, limit.reason(), sellers)
    if requirements.max_usd_per_hour is None and requirements.max_usd_per_month is None:
        judged.count = int(sellers[judged.feasible].sum())
    else:
        count_offers(
            candidates,
            judged,
            lambda each, price: money_limits(
                price, rows.slow_items[each], rows.items[each], requirements, items_per_month
            ),
        )
    found += money_limits(shapes.cheapest[rows.shape], rows.slow_items, rows.items, requirements, items_per_month)
    judged.limits = tuple(found)
    for limit in judged.limits:
        judged.violation += limit.violation
        judged.feasible = judged.feasible & ~limit.broken
    return judged


def _unknown(candidates: Candidates, requirements: Requirements, warnings: list[str]) -> Iterator[tuple[Flags, str]]:
    """Rows of which something is not known that has to be, each with what it is."""
    rows = candidates.rows
    for number, form in enumerate(FORMS):
        gone = ~rows.linked & (rows.form == number)
        if gone.any():
            yield gone, f"{form}: no link rate is known for {_where(candidates, gone)}"
    untimed = ~rows.timed & rows.linked
    dtypes = [way.dtype for way in candidates.ways]
    for dtype in dict.fromkeys(dtypes):
        gone = untimed & np.array([one == dtype for one in dtypes])[rows.way]
        if gone.any():
            yield gone, f"{dtype}: no rate or no step time is known for {_where(candidates, gone)}"
    cost = usd_per_item(candidates)
    if (gone := rows.timed & ~(np.isfinite(cost) & (cost > 0))).any():
        yield gone, f"the cost of an item is out of range on {_where(candidates, gone)}"
    sizeless = np.isnan(candidates.shapes.free)[rows.shape]
    small = sizeless & (rows.memory <= memory.ALWAYS_FREE_BYTES)
    if small.any():
        need = units.size(float(rows.memory[small].max()))
        warnings.append(f"memory is not known of {_where(candidates, small)}: the {need} needed are taken to be there")
    if (gone := sizeless & ~small).any():
        yield gone, f"memory is not known of {_where(candidates, gone)}"
    if ENERGY in requirements.objectives and (gone := ~np.isfinite(rows.energy) & rows.timed).any():
        yield gone, f"energy is an objective, and no power is known for {_where(candidates, gone)}"


def _where(candidates: Candidates, rows: Flags) -> str:
    shapes = np.unique(candidates.rows.shape[rows])
    return names(candidates.shapes.platform(int(shape)).name for shape in shapes)


def _close_calls(limit: Limit, judged: Judged, sellers: Index) -> None:
    close = judged.feasible & limit.broken & (limit.likely <= limit.bound)
    if count := int(sellers[close].sum()):
        judged.warnings.append(
            f"{count} configuration{'' if count == 1 else 's'} would meet {units.duration(float(limit.bound[0]))} by "
            "the estimate and not by the upper end of its interval: only a measurement can tell"
        )


def count_offers(candidates: Candidates, judged: Judged, bounds: Callable[[Index, Column], Sequence[Limit]]) -> None:
    """Counts, among all offers of rows that are still in, those that bounds on money remove.

    ``bounds``: of rows, one for each of their offers, with the offers' prices an hour.
    """
    shapes, rows = candidates.shapes, candidates.rows
    alive = np.flatnonzero(judged.feasible)
    sellers = shapes.sellers[rows.shape[alive]]
    each = np.repeat(alive, sellers)
    within = np.arange(len(each)) - np.repeat(np.cumsum(sellers) - sellers, sellers)
    price = shapes.prices[shapes.start[rows.shape[each]] + within]
    left = np.ones(len(each), dtype=bool)
    for limit in bounds(each, price):
        if gone := int((left & limit.broken).sum()):
            judged.excluded.append(Excluded(what=CONFIGURATIONS, reason=limit.reason(), count=gone))
        left &= ~limit.broken
    judged.count = int(left.sum())
