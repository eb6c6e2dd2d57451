"""Floor 3, cost. Which offers may be considered at all: names, terms, counts and prices that make no sense.

In: the market, the requirements, the platforms that are known. Out: offers in a fixed order, what was left out and why.
A name that nothing has is an error or a warning with the nearest known one, never a filter that quietly does nothing.
"""

from __future__ import annotations

import difflib
import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from perfgate.errors import UsageError
from perfgate.records.cost import FORMS, OBJECTIVES, Requirements
from perfgate.records.hardware import ON_DEMAND, OWN, SPOT, Excluded, Market, Offer, Platform

TERMS = (ON_DEMAND, SPOT, OWN)
# What counts in ``Excluded.what``.
OFFERS = "offers"
CONFIGURATIONS = "configurations"
# In ``Requirements.devices``: no such filter.
ALL = "all"
_NAMED = 6
_ALIKE = 3


@dataclass(frozen=True, slots=True)
class Selection:
    """Offers that may be considered, by platform, provider, instance, region and terms; and what is not among them."""

    offers: tuple[Offer, ...]
    excluded: tuple[Excluded, ...]
    warnings: tuple[str, ...]


def select(market: Market, requirements: Requirements, platforms: Mapping[str, Platform]) -> Selection:
    """The offers that pass every filter by name. Raises UsageError for names that nobody knows."""
    check(requirements)
    devices = check_names(market, requirements, platforms)
    offers = sorted(market.offers, key=_order)
    left_out: Counter[str] = Counter()
    kept = []
    for offer in offers:
        reason = _reason(offer, requirements, devices, platforms)
        if reason:
            left_out[reason] += 1
        else:
            kept.append(offer)
    excluded = tuple(Excluded(what=OFFERS, reason=reason, count=count) for reason, count in left_out.items())
    return Selection(tuple(kept), excluded, tuple(_warnings(offers, kept, requirements, devices)))


def check_names(market: Market, requirements: Requirements, platforms: Mapping[str, Platform]) -> frozenset[str]:
    """Names of the asked platforms; empty: all. Raises UsageError for names that nobody knows, with the nearest."""
    devices = _devices(requirements.devices, platforms)
    offers = market.offers
    providers = {offer.provider for offer in offers} | {table.provider for table in market.tables}
    if offers:
        if OWN in requirements.providers and OWN not in providers:
            msg = "no machine of yours has a price; declare one under [cost.prices], or leave 'own' out"
            raise UsageError(msg)
        _known("provider", requirements.providers, providers)
        _known("region", requirements.regions, {offer.region for offer in offers if offer.region})
    return devices


def check(requirements: Requirements) -> None:
    """Raises UsageError where requirements make no sense whatever the market, each with what to write instead."""
    _known("term", requirements.terms, TERMS)
    _known("parallel form", requirements.forms, FORMS)
    _known("objective", requirements.objectives, OBJECTIVES)
    if not requirements.objectives:
        msg = f"no objective: name at least one of {', '.join(OBJECTIVES)}"
        raise UsageError(msg)
    if not 0 < requirements.percentile < 1:
        msg = f"percentile {requirements.percentile} is not between 0 and 1; write 0.5, 0.9 or 0.99"
        raise UsageError(msg)
    if not 0 <= requirements.memory_headroom < 1:
        msg = f"memory head-room {requirements.memory_headroom} is not a share below 1; write 0.1 for a tenth"
        raise UsageError(msg)
    for name in _LIMITS:
        value = getattr(requirements, name)
        if value is not None and not (math.isfinite(value) and value > 0):
            msg = f"{name} is {value}; give a number above 0, or leave it out"
            raise UsageError(msg)
    if (requirements.job_items is None) != (requirements.deadline_s is None):
        there, missing = ("job_items", "deadline") if requirements.deadline_s is None else ("deadline", "job_items")
        msg = f"a job has its items and its deadline: {there} is given, give {missing} as well"
        raise UsageError(msg)


def names(found: Iterable[str], *, most: int = _NAMED) -> str:
    """Some names for a sentence: ``k80, m60 and 3 more``."""
    ordered = sorted(set(found))
    shown = ", ".join(ordered[:most])
    return shown if len(ordered) <= most else f"{shown} and {len(ordered) - most} more"


_LIMITS = (
    "max_step_ns", "min_throughput", "job_items", "deadline_s", "max_usd_per_hour", "max_usd_per_month",
    "min_utilisation",
)  # fmt: skip


def _order(offer: Offer) -> tuple[object, ...]:
    price = offer.usd_per_hour if math.isfinite(offer.usd_per_hour) else math.inf
    known = (offer.platform, offer.provider, offer.instance, offer.region, offer.terms, offer.count, offer.share)
    return (*known, price, offer.memory_bytes or 0, offer.date)


def _reason(
    offer: Offer, requirements: Requirements, devices: frozenset[str], platforms: Mapping[str, Platform]
) -> str:
    """Why an offer is left out; empty: it is not."""
    tests: tuple[tuple[bool, Callable[[], str]], ...] = (
        (offer.platform not in platforms, lambda: f"{offer.platform} is not in the catalogue of platforms"),
        (
            not (math.isfinite(offer.usd_per_hour) and offer.usd_per_hour > 0),
            lambda: f"a price of {offer.usd_per_hour} an hour is none",
        ),
        (
            offer.count < 1 or not (math.isfinite(offer.share) and offer.share > 0),
            lambda: "the machine has no device",
        ),
        (bool(devices) and offer.platform not in devices, lambda: "not one of the asked devices"),
        (
            bool(requirements.terms) and offer.terms not in requirements.terms,
            lambda: f"{offer.terms}: not one of the asked terms",
        ),
        (bool(requirements.providers) and not _in(offer.provider, requirements.providers), lambda: "other provider"),
        (bool(requirements.regions) and not _in(offer.region, requirements.regions), lambda: _region(offer)),
        (bool(requirements.counts) and offer.count not in requirements.counts, lambda: "other number of devices"),
        (_unavailable(offer, requirements.unavailable), lambda: "declared not available"),
    )
    return next((text() for left_out, text in tests if left_out), "")


def _region(offer: Offer) -> str:
    return "other region" if offer.region else "no region is declared, and regions are asked for"


def _in(text: str, wanted: Sequence[str]) -> bool:
    return text.casefold() in {one.casefold() for one in wanted}


def _unavailable(offer: Offer, listed: Sequence[str]) -> bool:
    return _in(offer.provider, listed) or _in(offer.name, listed)


def _devices(wanted: Sequence[str], platforms: Mapping[str, Platform]) -> frozenset[str]:
    """Names of platforms, in any case, by their name or label; empty: all. Raises UsageError."""
    if any(name.casefold() == ALL for name in wanted):
        if len(wanted) > 1:
            msg = f"devices: {ALL!r} stands beside other names; write it alone, or leave it out"
            raise UsageError(msg)
        return frozenset()
    by_text = {platform.label.casefold(): name for name, platform in platforms.items()}
    by_text |= {name.casefold(): name for name in platforms}
    _known("device", wanted, by_text)
    return frozenset(by_text[name.casefold()] for name in wanted)


def _known(what: str, wanted: Sequence[str], known: Iterable[str]) -> None:
    candidates = sorted(known)
    folded = {one.casefold() for one in candidates}
    wrong = [one for one in wanted if one.casefold() not in folded]
    if not wrong:
        return
    near = _near(wrong[0], candidates)
    msg = f"no {what} is called {wrong[0]!r}; {near or f'known: {names(candidates, most=12)}'}"
    raise UsageError(msg)


def _near(text: str, candidates: Sequence[str]) -> str:
    folded = [one.casefold() for one in candidates]
    # Whoever leaves out the variant means one of its variants.
    matches = [one for one in folded if one.startswith(f"{text.casefold()}-")][:_ALIKE]
    matches = matches or difflib.get_close_matches(text.casefold(), folded, n=_ALIKE, cutoff=0.5)
    return f"did you mean {' or '.join(matches)}?" if matches else ""


def _warnings(
    offers: Sequence[Offer], kept: Sequence[Offer], requirements: Requirements, devices: frozenset[str]
) -> Iterable[str]:
    if not offers:
        yield "there are no offers at all: no price table is in use and no own price is declared"
        return
    priced = {offer.platform for offer in offers}
    if missing := devices - priced:
        yield f"nobody offers {names(missing)} in the price tables: declare an own price to consider it"
    texts = {offer.name for offer in offers} | {offer.provider for offer in offers}
    for name in requirements.unavailable:
        if not _in(name, tuple(texts)):
            near = _near(name, sorted(texts))
            yield f"unavailable: {name} matches no offer{f'; {near}' if near else ''}"
    for count in requirements.counts:
        if all(offer.count != count for offer in offers):
            yield f"counts: no machine on offer has {count} devices"
    if not kept:
        yield "no offer passes the filters on devices, providers, regions, terms, counts and availability"
