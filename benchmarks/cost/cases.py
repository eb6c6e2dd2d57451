"""Decisions to be made from measured times: one model, machines with prices, and a limit on its step time.

In: :class:`Observed` steps and offers. Out: :class:`Case`. The truth is the measured time times the same price.
"""

from __future__ import annotations

import math
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean, median

from benchmarks.cost.observations import Observed
from perfgate.records.cost import Way
from perfgate.records.hardware import OWN, Market, Offer

# Quantiles of all true times of a set that are limits; None: no limit.
QUANTILES = (0.25, 0.5, 0.75, None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Truth:
    """What was measured on one platform: the way that ran there, seconds a step, and the price of the machine."""

    way: Way
    step_s: float
    usd_per_hour: float

    @property
    def usd_per_item(self) -> float:
        """True cost of an item."""
        return self.usd_per_hour / 3600 * self.step_s / self.way.items


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One decision. ``truths``: platform -> what is true there; ``market`` has offers of just these platforms.

    ``limit_s``: on a step's time; with ``per_item`` on the time of one item, as the deadline of a job sets it, which
    is what platforms that run different batches have in common.
    """

    name: str
    group: str
    truths: Mapping[str, Truth]
    market: Market
    limit_s: float | None = None
    per_item: bool = False

    @property
    def ways(self) -> tuple[Way, ...]:
        """Every way that some platform runs, each once."""
        found: list[Way] = []
        for truth in self.truths.values():
            if not any(truth.way is way for way in found):
                found.append(truth.way)
        return tuple(found)

    def feasible(self, platform: str) -> bool:
        """Whether it truly meets the limit."""
        truth = self.truths[platform]
        time = truth.step_s / truth.way.items if self.per_item else truth.step_s
        return self.limit_s is None or time <= self.limit_s

    @property
    def best(self) -> str | None:
        """The truly cheapest platform that meets the limit."""
        found = [name for name in self.truths if self.feasible(name)]
        return min(found, key=lambda name: (self.truths[name].usd_per_item, name), default=None)


def models(observed: Iterable[Observed]) -> Iterator[tuple[str, list[Observed]]]:
    """Observations of one model, all platforms together; those measured on one platform only are no decision."""
    found: dict[str, list[Observed]] = defaultdict(list)
    for one in observed:
        found[one.name].append(one)
    yield from ((name, rows) for name, rows in found.items() if len(rows) > 1)


def way(one: Observed) -> Way:
    """What the optimiser is given of an observation."""
    assert one.totals is not None
    mode = "train" if any(kernel.phase != "forward" for kernel in one.kernels) else "infer"
    return Way(
        mode=mode,
        batch=one.batch,
        items=one.batch,
        dtype=one.dtype,
        compile="default" if one.compiled else "eager",
        totals=one.totals,
    )


def cases(observed: Sequence[Observed], offers: Mapping[str, Offer], *, per_item: bool = False) -> list[Case]:
    """Every model on the platforms that have a price, at each limit that at least one of them meets."""
    priced = [one for one in observed if one.platform in offers]
    found = list(models(priced))
    times = sorted(one.seconds / (one.batch if per_item else 1) for _, rows in found for one in rows)
    limits = [_quantile(times, share) for share in QUANTILES]
    return [
        replace(case, per_item=per_item, limit_s=limit)
        for name, rows in found
        for case in [_case(name, rows, offers)]
        for limit in limits
        if replace(case, per_item=per_item, limit_s=limit).best is not None
    ]


def _case(name: str, rows: Sequence[Observed], offers: Mapping[str, Offer]) -> Case:
    ways: dict[int, Way] = {}
    truths: dict[str, Truth] = {}
    for one in rows:
        own = ways.setdefault(id(one.totals), way(one))
        truths[one.platform] = Truth(way=own, step_s=one.seconds, usd_per_hour=offers[one.platform].usd_per_hour)
    market = Market(offers=tuple(offers[platform] for platform in truths))
    return Case(name=name, group=rows[0].group, truths=truths, market=market)


def _quantile(ordered: Sequence[float], share: float | None) -> float | None:
    """Half-way, in the logarithm, between two neighbouring true times: no platform meets it by a hair's breadth."""
    if share is None or len(ordered) < 2:
        return None
    place = min(int(share * (len(ordered) - 1)), len(ordered) - 2)
    return math.sqrt(ordered[place] * ordered[place + 1])


def even_prices(observed: Sequence[Observed]) -> dict[str, float]:
    """Dollars an hour at which all platforms cost the same on average: the hardest market to choose in.

    Least squares of log(items a second) = model + platform, by turns; scaled to one dollar for the median platform.
    """
    speed = {(name, one.platform): math.log(one.batch / one.seconds) for name, rows in models(observed) for one in rows}
    platform = dict.fromkeys(sorted({place for _, place in speed}), 0.0)
    model = dict.fromkeys(sorted({name for name, _ in speed}), 0.0)
    for _ in range(50):
        model = {key: fmean(v - platform[p] for (m, p), v in speed.items() if m == key) for key in model}
        platform = {key: fmean(v - model[m] for (m, p), v in speed.items() if p == key) for key in platform}
    middle = median(platform.values())
    return {name: math.exp(value - middle) for name, value in platform.items()}


def drawn_offers(even: Mapping[str, float], rng: random.Random, factor: float) -> dict[str, Offer]:
    """Own machines at :func:`even_prices` times a random factor between ``1/factor`` and ``factor``."""
    reach = math.log(factor)
    return {name: offer(name, price * math.exp(rng.uniform(-reach, reach))) for name, price in even.items()}


def offer(platform: str, usd_per_hour: float) -> Offer:
    """An own machine with one such device and memory enough."""
    return Offer(
        provider=OWN,
        region="",
        instance=platform,
        platform=platform,
        count=1,
        usd_per_hour=usd_per_hour,
        terms=OWN,
        date="2026-01-01",
        ram_bytes=2**40,
    )


def with_memory_enough(case: Case) -> Case:
    """The same decision where memory limits nothing: every platform in it did run the model."""
    plenty = tuple(replace(each, memory_bytes=2**50) for each in case.market.offers)
    return replace(case, market=replace(case.market, offers=plenty))
