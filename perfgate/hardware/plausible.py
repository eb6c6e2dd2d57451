"""Floor 2, hardware. Prices that cannot be true are held back, each with its reason.

In: quotes (one price of one machine at one term). Out: those to use, and those held back. Price lists of GPUs are
wrong in ways that make the wrong machine the cheapest: a missing price read as 0, the floor of an auction for a price,
a machine's price without its accelerators. What is compared is dollars an hour for one whole device
(``usd / (count x share)``), with the median of the platform over *providers* (each its own median first, so that one
provider's thirty regions are one voice). Bounds and what they rest on are in ``docs/prices.md``.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfgate.hardware.tables import USD, Row
from perfgate.records.hardware import CPU, ON_DEMAND, SPOT, Platform
from perfgate.units import money, significant

# Dollars for one device over the platform's on-demand median. Real spot prices go down to 0.10 of it, and to 0.10 of
# their own machine's on-demand price: half of that is the bound.
LOWEST = {ON_DEMAND: 0.2, SPOT: 0.05}
HIGHEST = 5.0
# One machine type's regions are 0.85 to 1.44 of their median in all tables.
LOWEST_REGION, HIGHEST_REGION = 0.4, 2.5
MIN_PROVIDERS = 3
MIN_QUOTES = 4
MIN_REGIONS = 3
_SAME = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class Quote:
    """``usd`` an hour for the machine of ``row`` at ``terms``."""

    row: Row
    terms: str
    usd: float

    @property
    def a_device(self) -> float:
        """Dollars an hour for one whole device (CPU: one socket's cores)."""
        return self.usd / (self.row.count * self.row.share)


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldBack:
    """One price that is not used; ``terms`` empty: the whole row."""

    row: Row
    terms: str
    reason: str


def quotes(rows: Iterable[Row], platforms: Mapping[str, Platform]) -> tuple[list[Quote], list[HeldBack]]:
    """On-demand and spot apart. An empty spot cell is no offer; any other price that is none is held back."""
    kept: list[Quote] = []
    held: list[HeldBack] = []
    for row in rows:
        whole = _unusable(row, platforms)
        if whole:
            held.append(HeldBack(row=row, terms="", reason=whole))
            continue
        for terms, price in ((ON_DEMAND, row.on_demand), (SPOT, row.spot)):
            if price is None:
                if terms == ON_DEMAND:
                    held.append(HeldBack(row=row, terms=terms, reason="no on-demand price, only spot"))
            elif 0 < price < math.inf:
                kept.append(Quote(row=row, terms=terms, usd=price))
            else:
                held.append(HeldBack(row=row, terms=terms, reason=f"{_said(price)} is no price"))
    return kept, held


def sift(found: Sequence[Quote], platforms: Mapping[str, Platform]) -> tuple[list[Quote], list[HeldBack]]:
    """The quotes that can be true, in order, and the others. Every check sees what the others hold back too."""
    checks = (_host_alone(found, platforms), _out_of_range(found), _unlike_other_regions(found))
    kept: list[Quote] = []
    held: list[HeldBack] = []
    for quote in found:
        reason = next((reason for check in checks if (reason := check(quote))), "")
        if reason:
            held.append(HeldBack(row=quote.row, terms=quote.terms, reason=reason))
        else:
            kept.append(quote)
    return kept, held


def _unusable(row: Row, platforms: Mapping[str, Platform]) -> str:
    if row.currency != USD:
        return f"price in {row.currency}, not in US dollars"
    if row.platform not in platforms:
        return f"unknown platform {row.platform}"
    if row.on_demand is None and row.spot is None:
        return "no price"
    return ""


def _said(price: float) -> str:
    return "NaN" if math.isnan(price) else f"{price:g}"


_Check = Callable[[Quote], str]


def _out_of_range(found: Sequence[Quote]) -> _Check:
    medians = _medians(found)

    def check(quote: Quote) -> str:
        median = medians.get(quote.row.platform)
        if median is None:
            return ""
        ratio = quote.a_device / median
        # A ratio itself would make each reason another one; the bound and the side are the same for many.
        if ratio < LOWEST[quote.terms]:
            return f"below {LOWEST[quote.terms]:g} of the median on-demand price of {quote.row.platform}"
        if ratio > HIGHEST:
            return f"above {HIGHEST:g} times the median on-demand price of {quote.row.platform}"
        return ""

    return check


def _medians(found: Sequence[Quote]) -> dict[str, float]:
    """Platform -> median dollars for one device: over providers, or over quotes where there are few providers."""
    by_provider: defaultdict[str, defaultdict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    for quote in found:
        if quote.terms == ON_DEMAND:
            by_provider[quote.row.platform][quote.row.provider].append(quote.a_device)
    medians: dict[str, float] = {}
    for platform, providers in by_provider.items():
        if len(providers) >= MIN_PROVIDERS:
            medians[platform] = statistics.median(statistics.median(each) for each in providers.values())
            continue
        every = [value for each in providers.values() for value in each]
        if len(every) >= MIN_QUOTES:
            medians[platform] = statistics.median(every)
    return medians


def _unlike_other_regions(found: Sequence[Quote]) -> _Check:
    by_type: defaultdict[tuple[str, str], dict[str, float]] = defaultdict(dict)
    for quote in found:
        if quote.terms == ON_DEMAND:
            by_type[quote.row.provider, quote.row.instance][quote.row.region] = quote.usd
    medians = {
        key: statistics.median(regions.values()) for key, regions in by_type.items() if len(regions) >= MIN_REGIONS
    }

    def check(quote: Quote) -> str:
        median = medians.get((quote.row.provider, quote.row.instance))
        if quote.terms != ON_DEMAND or median is None:
            return ""
        if LOWEST_REGION <= quote.usd / median <= HIGHEST_REGION:
            return ""
        return f"unlike the same machine in other regions (median {money(median)})"

    return check


def _host_alone(found: Sequence[Quote], platforms: Mapping[str, Platform]) -> _Check:
    """Accelerators that cost nothing: the price is a host's of the same provider, or below its cheapest per vCPU.

    Providers that bill hosts and accelerators apart have to be joined; a forgotten join looks like a bargain.
    """
    hosts: dict[tuple[str, float], set[float]] = {}
    cheapest: dict[str, float] = {}
    for quote in found:
        row = quote.row
        if quote.terms == ON_DEMAND and row.vcpus and platforms[row.platform].kind == CPU:
            hosts.setdefault((row.provider, row.vcpus), set()).add(quote.usd)
            cheapest[row.provider] = min(quote.usd / row.vcpus, cheapest.get(row.provider, math.inf))

    def check(quote: Quote) -> str:
        row = quote.row
        if quote.terms != ON_DEMAND or not row.vcpus or platforms[row.platform].kind == CPU:
            return ""
        if quote.usd <= cheapest.get(row.provider, 0.0) * row.vcpus:
            return f"no more than {significant(row.vcpus)} vCPUs cost without accelerators"
        alike = hosts.get((row.provider, row.vcpus), ())
        if any(abs(quote.usd / host - 1) < _SAME for host in alike):
            return "equal to a machine without accelerators"
        return ""

    return check
