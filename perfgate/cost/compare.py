"""Floor 3, cost. Base against head: what each costs on the runner and at best, and whether the recommendation moved.

In: one counted and perhaps measured step of each side. Out: :class:`WorkloadCost`. Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from perfgate import units
from perfgate.cost.optimise import optimise
from perfgate.cost.times import Times
from perfgate.hardware import short_names
from perfgate.records.cost import (
    ITEMS,
    STEPS,
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

    ``way`` None: no platform can be looked for, ``why`` says why if there is anything to say, and what its ``items``
    cost on the runner is all there is. ``tail``: step time at the asked percentile over its median, as measured.
    """

    way: Way | None
    times: Times
    items: int = 1
    why: str = ""
    step_ns: float | None = None
    tail: float | None = None
    roofline: RooflineSummary | None = None

    @property
    def items_a_step(self) -> int:
        """Of the way, or as given where there is none."""
        return max(1, self.items if self.way is None else self.way.items)


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
    # A month does the same work on both sides: its steps are base's.
    first, asked = base or head, question.volume
    if first is not None:
        question = replace(question, volume=in_items(question.volume, first.items_a_step))
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
        volume=asked,
        moved=bool(sentence),
        sentence=sentence,
    )


def side_cost(question: Question, side: Side) -> SideCost:
    """One side's money; a volume in steps counts steps of this side."""
    items = side.items_a_step
    volume = in_items(question.volume, items)
    answer = Answer(candidates=0, feasible=0, warnings=(f"no platform was looked for: {side.why}",) if side.why else ())
    if side.way is not None:
        ways, rules = (side.way,), question.requirements
        answer = optimise(ways, question.market, rules, side.times, volume=volume, tail=side.tail)
    per_step = None
    if side.step_ns is not None and question.runner_usd_per_hour is not None:
        per_step = side.step_ns / _NS_PER_HOUR * question.runner_usd_per_hour
    per_item = None if per_step is None else per_step / items
    best = None if answer.cheapest is None else answer.cheapest.usd_per_1m_items / 1e6
    return SideCost(
        answer=answer,
        roofline=side.roofline,
        runner_step_ns=side.step_ns,
        runner_usd_per_1k_steps=None if per_step is None else 1e3 * per_step,
        runner_usd_per_1m_items=None if per_item is None else 1e6 * per_item,
        usd_per_month=_monthly(volume, per_item),
        cheapest_usd_per_month=_monthly(volume, best),
    )


def in_items(volume: Volume | None, items: int) -> Volume | None:
    """The same volume counted in items, ``items`` of them a step."""
    if volume is None or volume.unit != STEPS:
        return volume
    return Volume(amount=volume.amount * items, unit=ITEMS)


def _monthly(volume: Volume | None, usd_per_item: float | None) -> float | None:
    return None if volume is None or usd_per_item is None else volume.amount * usd_per_item


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
    if old is not None and new is None and head.candidates:
        misses = "; ".join(missed.text for missed in head.missed)
        return f"no platform meets the requirements any more; the cheapest was {platform(old)}" + (
            f"; nearest now: {misses}" if misses else ""
        )
    if new is not None and old is None and base.candidates:
        return f"{platform(new)} now meets the requirements, which no platform did before"
    return ""
