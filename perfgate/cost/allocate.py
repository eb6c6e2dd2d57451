"""Floor 3, cost. The smallest or cheapest machine that does a job within its limits.

In: counted ways, a market, requirements, a job and times. Out: :class:`Allocation`. Pure.

Every configuration is enumerated and judged as in ``optimise``, which stays exact because of one shape of machine only
the cheapest offer can be the answer. What rests on a time is held against the upper end of its interval at the job's
confidence. What differs from ``optimise`` is what is least: not dollars an item of a machine that is always busy, but
what this job costs (price an hour times its time, start-up included), or where it has no end what the machine costs an
hour, or the machine's size.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import NormalDist

import numpy as np

from perfgate.cost import explain, jobs
from perfgate.cost.candidates import Candidates, Rows
from perfgate.cost.constraints import NOTHING_NEAR, Judged, count_offers, judge
from perfgate.cost.jobs import Work
from perfgate.cost.limits import DEADLINE, THROUGHPUT, Limit, missed, money_limits
from perfgate.cost.machines import Sizes, host_bytes, sizes
from perfgate.cost.points import Points
from perfgate.cost.posing import pose
from perfgate.cost.shapes import Column, Index
from perfgate.cost.ties import inseparable, rounded
from perfgate.cost.times import Times
from perfgate.errors import UsageError
from perfgate.records.allocation import CHEAPEST, CHOICES, SMALLEST, Allocation, Assignment
from perfgate.records.cost import COST, Requirements, Way
from perfgate.records.estimate import Job
from perfgate.records.hardware import SPOT, Market, Platform
from perfgate.roofline.step import Z90

# Other machines that are returned.
MOST_ALTERNATIVES = 50
# More of a machine, or of several together: what a fleet can meet and a machine cannot.
_RATES = (THROUGHPUT, DEADLINE)


# What overflows is no number, and a row without one is left out by name: nobody needs numpy's warning.
@np.errstate(all="ignore")
def allocate(
    ways: Sequence[Way],
    market: Market,
    requirements: Requirements,
    job: Job,
    times: Times,
    *,
    choice: str = CHEAPEST,
    platforms: Mapping[str, Platform] | None = None,
    tail: float | None = None,
) -> Allocation:
    """The machine for a job; where none does it, the nearest miss.

    ``cheapest`` compares the price of the whole job, of a job without end the machine's price an hour, at the estimate;
    ``smallest`` the memory of all devices, then their peak rate, then the price an hour. Equal ones are told apart by
    the other of both, then by throughput.

    Args:
        ways, market, times, platforms, tail: As those of ``optimise.optimise``.
        requirements: What has to be met beside the job's own limits; its objectives play no part, and a job in it
            (``job_items``, ``deadline_s``) belongs into ``job``.
        job: The work, its limits, and the confidence of the interval whose upper end has to meet all limits.
        choice: One of ``CHOICES``.

    Raises UsageError for a job or requirements that contradict themselves, or name what does not exist.
    """
    _check(requirements, job, choice)
    wanted = replace(requirements, objectives=(COST,), min_throughput=_rate(requirements, job))
    posed = pose(ways, market, wanted, times, volume=None, platforms=platforms, tail=tail)
    excluded = (*market.excluded, *posed.selection.excluded)
    if posed.judged is None:
        return Allocation(
            job=job, choice=choice, candidates=0, feasible=0, excluded=excluded, warnings=posed.notes,
            tables=market.tables,
        )  # fmt: skip
    candidates = _confident(posed.candidates, job.confidence)
    problem = _Problem(job, wanted, candidates, posed.candidates, posed.tail)
    solution = _solve(problem, choice)
    shapes = candidates.shapes
    return Allocation(
        job=job,
        choice=choice,
        candidates=int(shapes.sellers[candidates.rows.shape].sum()),
        feasible=solution.judged.count,
        chosen=solution.chosen,
        alternatives=solution.alternatives,
        nearest=solution.nearest,
        missed=missed(solution.limits, solution.nearest_row),
        several=solution.several,
        excluded=(*excluded, *solution.judged.excluded),
        warnings=tuple(dict.fromkeys((*posed.notes, *solution.judged.warnings, *solution.warnings))),
        sources=candidates.sources(),
        tables=market.tables,
    )


def _check(requirements: Requirements, job: Job, choice: str) -> None:
    jobs.check(job)
    if choice not in CHOICES:
        msg = f"no choice is called {choice!r}; write one of {', '.join(CHOICES)}"
        raise UsageError(msg)
    if requirements.job_items is not None or requirements.deadline_s is not None:
        msg = "the job's items and its deadline are given twice: leave them out of the requirements"
        raise UsageError(msg)


@dataclass(frozen=True, slots=True)
class _Problem:
    """``candidates`` have intervals at the job's confidence, ``usual`` those of 90 % that ties are about."""

    job: Job
    requirements: Requirements
    candidates: Candidates
    usual: Candidates
    tail: float

    @property
    def price(self) -> Column:
        """Dollars an hour of the cheapest offer of every row."""
        return self.candidates.shapes.cheapest[self.candidates.rows.shape]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Solution:
    judged: Judged
    limits: tuple[Limit, ...]
    chosen: Assignment | None = None
    alternatives: tuple[Assignment, ...] = ()
    nearest: Assignment | None = None
    nearest_row: int | None = None
    several: bool = False
    warnings: tuple[str, ...] = ()


def _rate(requirements: Requirements, job: Job) -> float | None:
    rates = [rate for rate in (requirements.min_throughput, job.items_per_s) if rate is not None]
    return max(rates, default=None)


def _confident(candidates: Candidates, confidence: float) -> Candidates:
    """The same rows with intervals at ``confidence`` in place of 90 %, errors being log-normal."""
    rows = candidates.rows
    wider = NormalDist().inv_cdf((1 + confidence) / 2) / Z90
    slower = (rows.slow_items / rows.items) ** wider
    changed = copy.copy(candidates)
    changed.rows = replace(
        rows,
        low=rows.ns * (rows.low / rows.ns) ** wider,
        high=rows.ns * (rows.high / rows.ns) ** wider,
        slow_items=rows.items * slower,
        slow_utilisation=rows.utilisation * slower,
    )
    return changed


def _solve(problem: _Problem, choice: str) -> _Solution:
    candidates, price = problem.candidates, problem.price
    # Money counts last and for every offer, the job's together with the machine's.
    free = replace(problem.requirements, max_usd_per_hour=None, max_usd_per_month=None)
    judged = judge(candidates, free, tail=problem.tail, items_per_month=None)
    found = jobs.work(problem.job, candidates)
    own = jobs.limits(problem.job, found, price)
    sellers = candidates.shapes.sellers[candidates.rows.shape]
    for limit in own:
        if limit.name == DEADLINE:
            judged.remove(limit.broken, limit.reason(), sellers)
    rows = candidates.rows

    def bounds(each: Index, hourly: Column) -> list[Limit]:
        part = None if found is None else Work(found.likely_s[each], found.slow_s[each])
        money = money_limits(hourly, rows.slow_items[each], rows.items[each], problem.requirements, None)
        return money + [limit for limit in jobs.limits(problem.job, part, hourly) if limit.name == jobs.BUDGET]

    count_offers(candidates, judged, bounds)
    own += money_limits(price, rows.slow_items, rows.items, problem.requirements, None)
    for limit in own:
        judged.violation += limit.violation
        judged.feasible = judged.feasible & ~limit.broken
    limits = (*judged.limits, *own)
    points = _Assignments(problem, found, sizes(candidates.shapes), Points(candidates, problem.tail))
    feasible = np.flatnonzero(judged.feasible)
    if not len(feasible):
        return _nearest(points, judged, limits)
    ordered = points.ordered(feasible, choice)
    first = int(ordered[0])
    machines = ordered[np.sort(np.unique(rows.shape[ordered], return_index=True)[1])]
    others = machines[1 : 1 + MOST_ALTERNATIVES]
    alike = points.alike(others, first) if choice == CHEAPEST else np.zeros(len(others), dtype=bool)
    number = int(alike.any())
    chosen = points.assignment(first, tie=number)
    return _Solution(
        judged=judged,
        limits=limits,
        chosen=chosen,
        alternatives=tuple(
            points.assignment(int(row), tie=number if same else 0) for row, same in zip(others, alike, strict=True)
        ),
        warnings=tuple(_notes(chosen, problem)),
    )


@dataclass(frozen=True, slots=True)
class _Assignments:
    """Orders rows, and makes them records. ``work`` None: the job has no end."""

    problem: _Problem
    work: Work | None
    sizes: Sizes
    points: Points

    def ordered(self, chosen: Index, choice: str) -> Index:
        """The rows ``chosen``, the best first."""
        rows = self._rows
        shape, price = rows.shape[chosen], self.problem.price[chosen]
        money = price if self.work is None else price * self.work.likely_s[chosen]
        memory = self.sizes.memory[shape]
        size = (np.where(np.isnan(memory), np.inf, memory), self.sizes.peak[shape])
        cost = (rounded(money), price)
        first, second = (size, (price, rounded(money))) if choice == SMALLEST else (cost, size)
        keys = (*first, *second, -rounded(rows.slow_items[chosen]), chosen)
        return chosen[np.lexsort(keys[::-1])]

    def alike(self, others: Index, first: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        """Which of the other rows may do the job as cheaply: only times are uncertain, prices are not."""
        price = self.problem.price
        if self.work is None:
            return np.asarray(price[others] == price[first])
        return inseparable(self.problem.usual, others, price * self.work.likely_s, first)

    def assignment(self, row: int, *, tie: int = 0) -> Assignment:
        """The record of a row with its cheapest offer."""
        candidates, rows = self.problem.candidates, self._rows
        shape, way = int(rows.shape[row]), candidates.ways[int(rows.way[row])]
        point = self.points.point(row, tie=tie)
        memory = float(self.sizes.memory[shape])
        known: dict[str, float] = {}
        if self.work is not None:
            job_s, slow_s = float(self.work.likely_s[row]), float(self.work.slow_s[row])
            hourly = point.offer.usd_per_hour / 3600
            known = {"job_s": job_s, "slow_job_s": slow_s, "usd": hourly * job_s, "slow_usd": hourly * slow_s}
        return Assignment(
            point=point,
            slow_items_per_s=float(rows.slow_items[row]),
            memory_bytes=None if np.isnan(memory) else round(memory),
            peak_flop_per_s=float(self.sizes.peak[shape]),
            host_bytes=host_bytes(way, point, candidates.shapes.platform(shape), self.problem.requirements),
            **known,
        )

    @property
    def _rows(self) -> Rows:
        return self.problem.candidates.rows


def _nearest(points: _Assignments, judged: Judged, limits: tuple[Limit, ...]) -> _Solution:
    """The row that breaks least in total, the cheapest of equals."""
    row = judged.nearest(points.problem.price)
    if row is None:
        return _Solution(judged=judged, limits=limits, warnings=(NOTHING_NEAR,))
    together = np.isfinite(judged.violation)
    for limit in limits:
        if limit.name not in _RATES:
            together = together & ~limit.broken
    return _Solution(
        judged=judged,
        limits=limits,
        nearest=points.assignment(row),
        nearest_row=row,
        several=bool(together.any()),
    )


def _notes(chosen: Assignment, problem: _Problem) -> Iterator[str]:
    point, job = chosen.point, problem.job
    limited = (problem.requirements.max_step_ns, job.items_per_s, job.deadline_s)
    if any(limit is not None for limit in limited) and (note := explain.unconfirmed(point)):
        yield note
    if point.offer.terms == SPOT and job.deadline_s is not None:
        yield "a spot machine may be taken away: the deadline holds only where it is not"
    if point.devices < point.offer.count:
        idle = point.offer.count - point.devices
        yield f"{idle} of the machine's {point.offer.count} devices stay idle and are paid for"
