"""Floor 3, cost. Base against head: what each costs on the runner and at best, and whether the recommendation moved.

In: one counted and perhaps measured step of each side. Out: :class:`WorkloadCost`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate import units
from perfgate.cost.optimise import optimise
from perfgate.cost.times import Times
from perfgate.hardware import short_names
from perfgate.records.cost import (
    ITEMS,
    Answer,
    Point,
    Requirements,
    RooflineSummary,
    SideCost,
    Volume,
    Way,
    WorkloadCost,
)
from perfgate.records.hardware import Market

_NS_PER_HOUR = 3.6e12


@dataclass(frozen=True, slots=True, kw_only=True)
class Side:
    """One side's step: ``times`` knows its measured time (``step_ns``, None: not measured) where that helps.

    ``tail``: step time at the asked percentile over its median, as measured.
    """

    way: Way
    times: Times
    step_ns: float | None = None
    tail: float | None = None
    roofline: RooflineSummary | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """What both sides of a workload are asked."""

    model: str
    key: str
    market: Market
    runner_usd_per_hour: float | None = None
    requirements: Requirements = field(default_factory=Requirements)
    volume: Volume | None = None


def compare(question: Question, base: Side | None, head: Side | None) -> WorkloadCost:
    """The costs of both sides. Raises UsageError where the requirements name what does not exist."""
    base_cost = None if base is None else side_cost(question, base)
    head_cost = None if head is None else side_cost(question, head)
    sentence = ""
    if base_cost is not None and head_cost is not None:
        sentence = moved(base_cost.answer, head_cost.answer)
    return WorkloadCost(
        model=question.model,
        key=question.key,
        base=base_cost,
        head=head_cost,
        requirements=question.requirements,
        volume=question.volume,
        moved=bool(sentence),
        sentence=sentence,
    )


def side_cost(question: Question, side: Side) -> SideCost:
    """One side's money."""
    volume = question.volume
    answer = optimise((side.way,), question.market, question.requirements, side.times, volume=volume, tail=side.tail)
    per_step = None
    if side.step_ns is not None and question.runner_usd_per_hour is not None:
        per_step = side.step_ns / _NS_PER_HOUR * question.runner_usd_per_hour
    items = max(1, side.way.items)
    best = answer.cheapest
    return SideCost(
        answer=answer,
        roofline=side.roofline,
        runner_step_ns=side.step_ns,
        runner_usd_per_1k_steps=None if per_step is None else 1e3 * per_step,
        runner_usd_per_1m_items=None if per_step is None else 1e6 * per_step / items,
        usd_per_month=None if per_step is None or volume is None else monthly(volume, per_step, items),
        cheapest_usd_per_month=None
        if best is None or volume is None
        else monthly(volume, best.usd_per_1m_items * items / 1e6, items),
    )


def monthly(volume: Volume, usd_per_step: float, items: int) -> float:
    """Dollars a month; ``items`` of one step."""
    return volume.amount * (usd_per_step / items if volume.unit == ITEMS else usd_per_step)


def moved(base: Answer, head: Answer) -> str:
    """How the recommendation changed, as a sentence without a full stop; empty: it did not, as far as can be told.

    Configurations whose intervals cannot be told apart from the cheapest are one recommendation, so a move between
    them is none.
    """
    old, new = base.cheapest, head.cheapest
    if old is None or new is None:
        return _feasibility(base, head)
    if platform(old) == platform(new):
        return ""
    same_before = {platform(point) for point in base.tied} | {platform(old)}
    same_after = {platform(point) for point in head.tied} | {platform(new)}
    if platform(new) in same_before or platform(old) in same_after:
        return ""
    price = f"{units.money(new.usd_per_1m_items)} per 1 M items, {units.money(old.usd_per_1m_items)} before"
    return f"this change moves the cheapest platform from {platform(old)} to {platform(new)} ({price})"


def platform(point: Point) -> str:
    """What a configuration runs on, whoever rents it out: ``L4``, ``2 × L40S``."""
    label = short_names.short(point.offer.platform)
    return label if point.offer.count == 1 else f"{point.offer.count} × {label}"


def _feasibility(base: Answer, head: Answer) -> str:
    old, new = base.cheapest, head.cheapest
    if old is not None and new is None:
        misses = "; ".join(missed.text for missed in head.missed)
        return f"no platform meets the requirements any more; the cheapest was {platform(old)}" + (
            f"; nearest now: {misses}" if misses else ""
        )
    if new is not None and old is None and base.candidates:
        return f"{platform(new)} now meets the requirements, which no platform did before"
    return ""
