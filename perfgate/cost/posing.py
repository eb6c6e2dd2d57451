"""Floor 3, cost. The problem before it is solved: offers selected, configurations enumerated and judged.

In: what ``optimise`` takes. Out: :class:`Posed`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist

from perfgate import units
from perfgate.cost.candidates import Candidates
from perfgate.cost.constraints import Judged, judge
from perfgate.cost.filters import Selection, select
from perfgate.cost.shapes import shapes
from perfgate.cost.times import Times
from perfgate.errors import UsageError
from perfgate.hardware import catalogue
from perfgate.records.cost import ITEMS, SINGLE, STEPS, TIME, Requirements, Volume, Way
from perfgate.records.hardware import Market, Platform

# Standard deviation of the logarithm of the step times of one process, where nobody measured it.
TAIL_SIGMA = 0.05


@dataclass(frozen=True, slots=True)
class Posed:
    """A problem with every configuration judged.

    ``judged`` None: there is no configuration at all, and ``notes`` say why. ``tail``: the asked percentile of the step
    time over its median. ``items_per_month``: the declared volume.
    """

    selection: Selection
    notes: tuple[str, ...]
    tail: float
    items_per_month: float | None
    candidates: Candidates
    judged: Judged | None


def pose(
    ways: Sequence[Way],
    market: Market,
    requirements: Requirements,
    times: Times,
    *,
    volume: Volume | None,
    platforms: Mapping[str, Platform] | None,
    tail: float | None,
) -> Posed:
    """Arguments and errors as those of ``optimise.optimise``."""
    if not ways:
        msg = "nothing to optimise: give at least one counted way to run the model"
        raise UsageError(msg)
    per_month = items_per_month(volume, ways[0])
    known = catalogue.platforms() if platforms is None else platforms
    selection = select(market, requirements, known)
    factor = _tail(requirements.percentile, tail)
    notes = [*market.warnings, *selection.warnings, *_notes(ways, requirements, volume, tail)]
    found = shapes(selection.offers, known, requirements.memory_headroom)
    candidates = Candidates(ways, found, times, requirements.forms)
    judged = None
    if len(candidates.rows):
        judged = judge(candidates, requirements, tail=factor, items_per_month=per_month)
    elif selection.offers:
        notes.append("no machine on offer can have one of the asked parallel forms")
    return Posed(selection, tuple(dict.fromkeys(notes)), factor, per_month, candidates, judged)


def items_per_month(volume: Volume | None, way: Way) -> float | None:
    """Items of a declared volume, steps being those of ``way``; None: nothing is declared. Raises UsageError."""
    if volume is None:
        return None
    if volume.unit not in {STEPS, ITEMS} or not (math.isfinite(volume.amount) and volume.amount > 0):
        msg = f"a volume of {volume.amount} {volume.unit} a month is none; write for example 40M steps/month"
        raise UsageError(msg)
    return volume.amount * (way.items if volume.unit == STEPS else 1)


def _tail(percentile: float, measured: float | None) -> float:
    if measured is None:
        return math.exp(TAIL_SIGMA * NormalDist().inv_cdf(percentile))
    if not (math.isfinite(measured) and measured > 0):
        msg = f"a percentile of {measured} times the median is none; give a finite ratio above 0"
        raise UsageError(msg)
    return measured


def _notes(ways: Sequence[Way], requirements: Requirements, volume: Volume | None, tail: float | None) -> Iterator[str]:
    """What a reader should know before any result."""
    percentile = f"p{100 * requirements.percentile:g}"
    if tail is None and requirements.percentile != 0.5 and requirements.max_step_ns is not None:
        scatter = units.percent(TAIL_SIGMA)
        yield f"{percentile} of the step time is its median with an assumed scatter of {scatter}: it was not measured"
    if requirements.max_usd_per_month is not None and volume is None:
        yield "no volume is declared: the price a month is that of the machine for 730 hours"
    floor = requirements.min_throughput is not None or requirements.deadline_s is not None
    batches = {way.batch for way in ways}
    if TIME in requirements.objectives and not floor and len(batches) > 1:
        yield (
            f"step time is an objective and throughput has no floor: the smallest batch ({min(batches)}) wins it "
            "whatever the platform; set min_throughput"
        )
    if requirements.forms and SINGLE not in requirements.forms:
        yield "machines with one device are left out: the asked parallel forms need several"
