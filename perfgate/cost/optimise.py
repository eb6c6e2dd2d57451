"""Floor 3, cost. The optimum under requirements: ways, a market and times in, :class:`Answer` out. Pure.

A configuration x is an offer (platform, number of devices, terms, region), how many of its devices are used and in
which parallel form, and a way (batch, dtype, compile). Cost(x) in dollars an item and Util(x) = P / pi over the devices
that are paid for, and where asked step time and energy, are optimised together: all configurations are enumerated
(``candidates``), those that break a requirement are left out and counted (``filters``, ``constraints``), and of the
rest the exact set of non-dominated ones is found (``pareto``). See ``docs/cost.md``.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.cost import explain, pareto
from perfgate.cost.candidates import Candidates
from perfgate.cost.constraints import NOTHING_NEAR, Judged
from perfgate.cost.limits import missed, money_limits
from perfgate.cost.points import Points, usd_per_item
from perfgate.cost.posing import pose
from perfgate.cost.shapes import Column, Index
from perfgate.cost.ties import inseparable, rounded, tied
from perfgate.cost.times import Times
from perfgate.records.cost import (
    COST,
    ENERGY,
    TIME,
    UTILISATION,
    Answer,
    Point,
    Requirements,
    Volume,
    Way,
)
from perfgate.records.hardware import Market, Platform

# Points of a front that are returned; a longer one is thinned out.
MOST_POINTS = 200


# What overflows is no number, and a row without one is left out by name: nobody needs numpy's warning.
@np.errstate(all="ignore")
def optimise(
    ways: Sequence[Way],
    market: Market,
    requirements: Requirements,
    times: Times,
    *,
    volume: Volume | None = None,
    platforms: Mapping[str, Platform] | None = None,
    tail: float | None = None,
) -> Answer:
    """The Pareto set, the cheapest configuration and what cannot be told from it; else the nearest miss.

    Args:
        ways: What may be run, at least one; a volume in steps counts steps of the first.
        market: Offers. Its notes on prices are passed on.
        requirements: What has to be met, and the objectives.
        times: How long a way takes on one device.
        volume: What is run in a month, for ``max_usd_per_month``.
        platforms: Name -> platform; None: the catalogue.
        tail: The step time at ``requirements.percentile`` over its median, as measured; None: a log-normal scatter
            of ``posing.TAIL_SIGMA``, which is said.

    Raises UsageError for requirements that name what does not exist, or contradict themselves.
    """
    posed = pose(ways, market, requirements, times, volume=volume, platforms=platforms, tail=tail)
    candidates, judged, selection = posed.candidates, posed.judged, posed.selection
    if judged is None:
        excluded = (*market.excluded, *selection.excluded)
        return Answer(candidates=0, feasible=0, excluded=excluded, warnings=posed.notes, tables=market.tables)
    chosen = _choose(candidates, judged, requirements, posed.tail)
    return Answer(
        candidates=int(candidates.shapes.sellers[candidates.rows.shape].sum()),
        feasible=judged.count,
        front=chosen.front,
        cheapest=chosen.cheapest,
        tied=chosen.tied,
        nearest=chosen.nearest,
        missed=missed(judged.limits, chosen.nearest_row),
        excluded=(*market.excluded, *selection.excluded, *judged.excluded),
        warnings=tuple(dict.fromkeys((*posed.notes, *judged.warnings, *chosen.warnings))),
        sources=candidates.sources(),
        tables=market.tables,
    )


@np.errstate(all="ignore")
def machines(
    ways: Sequence[Way],
    market: Market,
    requirements: Requirements,
    times: Times,
    *,
    volume: Volume | None = None,
    platforms: Mapping[str, Platform] | None = None,
    tail: float | None = None,
) -> tuple[Point, ...]:
    """What a fleet can be made of: for every offer, the configuration that does the most items a second on it.

    That is also the cheapest an item on that machine. Each meets the requirements by itself, so whoever asks for a
    fleet leaves out what only all machines together have to meet. The cheapest an item first. Arguments and errors as
    those of :func:`optimise`.
    """
    posed = pose(ways, market, requirements, times, volume=volume, platforms=platforms, tail=tail)
    if posed.judged is None:
        return ()
    candidates, points = posed.candidates, Points(posed.candidates, posed.tail)
    rows = candidates.rows
    # Of rows of one shape the fastest; the cheapest offer of a shape is feasible where any is.
    feasible = np.flatnonzero(posed.judged.feasible)
    ordered = feasible[np.lexsort((feasible, -rounded(rows.items[feasible])))]
    best = ordered[np.unique(rows.shape[ordered], return_index=True)[1]]
    found = []
    for row in best:
        offers = candidates.shapes.sold(int(rows.shape[row]))
        price = np.array([offer.usd_per_hour for offer in offers])
        speeds = np.full(len(price), rows.slow_items[row]), np.full(len(price), rows.items[row])
        fits = np.ones(len(price), dtype=bool)
        for limit in money_limits(price, *speeds, requirements, posed.items_per_month):
            fits &= ~limit.broken
        found += [points.point(int(row), offer=offer) for offer, fit in zip(offers, fits, strict=True) if fit]
    return tuple(sorted(found, key=lambda point: point.usd_per_1m_items))


@dataclass(frozen=True, slots=True)
class _Choice:
    front: tuple[Point, ...] = ()
    cheapest: Point | None = None
    tied: tuple[Point, ...] = ()
    nearest: Point | None = None
    nearest_row: int | None = None
    warnings: tuple[str, ...] = ()


def _choose(candidates: Candidates, judged: Judged, requirements: Requirements, factor: float) -> _Choice:
    points = Points(candidates, factor)
    cost = rounded(usd_per_item(candidates))
    feasible = np.flatnonzero(judged.feasible)
    if not len(feasible):
        return _nearest(points, judged, cost)
    values = _objectives(candidates, feasible, cost, requirements.objectives)
    # By cost, then by the objectives in their order, so that the cheapest is one of the front where cost counts.
    places = _ordered(pareto.front(values, distinct=True), values, cost[feasible])
    least = np.flatnonzero(cost[feasible] == cost[feasible].min())
    cheapest = int(feasible[_ordered(least, values, cost[feasible])[0]])
    front = feasible[places]
    knee = int(front[pareto.knee(_logarithms(values[places]))])
    shown = _thinned(front, knee)
    ties = tied(candidates, feasible, cost, cheapest)
    alike = inseparable(candidates, shown, cost, cheapest)
    number = 1 if ties or alike.sum() > 1 else 0
    best = points.point(cheapest, knee=bool(cheapest == knee), tie=number)
    return _Choice(
        front=tuple(
            points.point(int(row), knee=bool(row == knee), tie=number if same else 0)
            for row, same in zip(shown, alike, strict=True)
        ),
        cheapest=best,
        tied=tuple(points.point(row, knee=bool(row == knee), tie=number) for row in ties),
        warnings=tuple(_found_notes(best, len(front), requirements)),
    )


def _objectives(candidates: Candidates, chosen: Index, cost: Column, objectives: Sequence[str]) -> Column:
    """Columns to be minimised, of the rows ``chosen``."""
    rows = candidates.rows
    columns = {COST: cost, UTILISATION: -rows.utilisation, TIME: rows.ns, ENERGY: rows.energy}
    return np.column_stack([rounded(columns[name][chosen]) for name in objectives])


def _logarithms(values: Column) -> Column:
    """Objectives as logarithms, still to be minimised: twice as dear weighs as much as half as well used."""
    # A step without matrix products has utilisation 0 everywhere.
    return np.sign(values) * np.log(np.maximum(np.abs(values), np.finfo(np.float64).tiny))


def _ordered(places: Index, values: Column, cost: Column) -> Index:
    """Places in ``values`` and ``cost``: by cost, then by the objectives, then as they are."""
    keys = [places, *(values[places, column] for column in reversed(range(values.shape[1]))), cost[places]]
    return places[np.lexsort(keys)]


def _thinned(front: Index, knee: int) -> Index:
    """At most ``MOST_POINTS`` of a front in its order: both ends, the knee, and evenly spaced ones between."""
    if len(front) <= MOST_POINTS:
        return front
    places = np.unique(np.linspace(0, len(front) - 1, MOST_POINTS - 1).round().astype(np.intp))
    return front[np.union1d(places, np.flatnonzero(front == knee))]


def _nearest(points: Points, judged: Judged, cost: Column) -> _Choice:
    row = judged.nearest(cost)
    if row is None:
        return _Choice(warnings=(NOTHING_NEAR,))
    return _Choice(nearest=points.point(row), nearest_row=row)


def _found_notes(best: Point, size: int, requirements: Requirements) -> Iterator[str]:
    if size > MOST_POINTS:
        yield f"the front has {size} points, of which {MOST_POINTS} are shown"
    if requirements.max_step_ns is not None and (note := explain.unconfirmed(best)):
        yield note
