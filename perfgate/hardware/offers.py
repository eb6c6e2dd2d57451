"""Floor 2, hardware. Start here: all offers in force, the user's own among them, and what was left out and why.

In: the shipped price tables (``prices/*.csv``), the user's :class:`Prices`, the day. Out: a :class:`Market`. List
prices are judged first (``plausible``), then multiplied by the user's factors. Pure but for reading the tables once.
"""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import math
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from perfgate.errors import UsageError
from perfgate.hardware import catalogue, ownership, plausible, tables
from perfgate.hardware.plausible import HeldBack, Quote
from perfgate.hardware.reading import GIB
from perfgate.hardware.tables import Row, Table
from perfgate.records.cost import Prices
from perfgate.records.hardware import CPU, ON_DEMAND, OWN, SPOT, Excluded, Market, Offer, Platform, PriceTable
from perfgate.units import money

# 80 GB, 80 GiB and what the driver reports of them are one memory.
_SAME_MEMORY = 0.1
_SHOWN = 3
_MIN_COLUMN = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class _Listed:
    offers: tuple[Offer, ...]
    excluded: tuple[Excluded, ...]
    warnings: tuple[str, ...]


def market(prices: Prices, *, today: dt.date, tables: Sequence[Table] | None = None) -> Market:
    """All offers at ``today``'s knowledge: those of ``tables`` (None: the shipped ones) and the user's own.

    On-demand and spot are separate offers. Cheapest machine first, so that the order does not depend on files. Raises
    UsageError where an own price or a factor makes no sense.
    """
    listed = _listed(tuple(_shipped() if tables is None else tables))
    offers, warnings = _factored(listed.offers, prices.factors)
    day = today.isoformat()
    platforms = catalogue.platforms()
    own = [ownership.offer(each, platforms, today=day) for each in prices.own]
    offers = sorted([*offers, *own], key=_order)
    used = _tables(offers)
    return Market(
        offers=tuple(offers),
        tables=used,
        excluded=listed.excluded,
        warnings=(*listed.warnings, *warnings, *_stale(used, today, prices.max_age_days)),
    )


def newest_list() -> dt.date:
    """The day of the newest of the shipped price lists."""
    return dt.date.fromisoformat(max(row.date for table in _shipped() for row in table.rows))


def of_platform(market: Market, platform: str, *, terms: Collection[str] | None = None) -> tuple[Offer, ...]:
    """Offers of one platform, the cheapest machine first; ``terms`` None: all terms, spot among them."""
    found = (each for each in market.offers if each.platform == platform and (terms is None or each.terms in terms))
    return tuple(sorted(found, key=_order))


def _shipped() -> tuple[Table, ...]:
    return tables.shipped()


def _order(offer: Offer) -> tuple[float, str, str, str, str, str]:
    return offer.usd_per_hour, offer.provider, offer.instance, offer.region, offer.terms, offer.platform


@functools.lru_cache(maxsize=8)
def _listed(found: tuple[Table, ...]) -> _Listed:
    """What the tables say, before anything of the user's."""
    platforms = catalogue.platforms()
    quotes, nothing = plausible.quotes((row for table in found for row in table.rows), platforms)
    newest, older = _newest(quotes)
    kept, held = plausible.sift(newest, platforms)
    return _Listed(
        offers=tuple(_offer(quote, platforms) for quote in kept),
        excluded=_excluded([*nothing, *older, *held]),
        warnings=(*_copied_spot(found), *_dear_spot(kept)),
    )


def _newest(quotes: Iterable[Quote]) -> tuple[list[Quote], list[HeldBack]]:
    """One quote for each machine, region and term: the newest list's; in one list the dearer one.

    A list without regions speaks of all of them, so any newer list that has the machine replaces it.
    """
    best: dict[tuple[str, str, str, str], Quote] = {}
    dates: dict[tuple[str, str, str], str] = {}
    older: list[HeldBack] = []
    for quote in quotes:
        row = quote.row
        anywhere = (row.provider, row.instance, quote.terms)
        dates[anywhere] = max(row.date, dates.get(anywhere, ""))
        key = (*anywhere, row.region)
        rival = best.get(key)
        if rival is None:
            best[key] = quote
            continue
        winner, loser = (quote, rival) if (row.date, quote.usd) > (rival.row.date, rival.usd) else (rival, quote)
        best[key] = winner
        same = winner.row.date == loser.row.date
        why = "listed twice, the dearer price is used" if same else f"replaced by the list of {winner.row.date}"
        older.append(HeldBack(row=loser.row, terms=loser.terms, reason=why))
    kept: list[Quote] = []
    for key, quote in best.items():
        newest = dates[key[0], key[1], key[2]]
        if not quote.row.region and quote.row.date < newest:
            reason = f"replaced by the list of {newest}"
            older.append(HeldBack(row=quote.row, terms=quote.terms, reason=reason))
        else:
            kept.append(quote)
    return kept, older


def _offer(quote: Quote, platforms: Mapping[str, Platform]) -> Offer:
    row = quote.row
    platform = platforms[row.platform]
    ram = None if row.ram_gib is None else round(row.ram_gib * GIB)
    return Offer(
        provider=row.provider,
        region=row.region,
        instance=row.instance,
        platform=row.platform,
        count=row.count,
        usd_per_hour=quote.usd,
        terms=quote.terms,
        date=row.date,
        share=row.share,
        memory_bytes=ram if platform.kind == CPU else _device_memory(row, platform),
        vcpus=row.vcpus,
        ram_bytes=ram,
        source=row.source,
    )


def _device_memory(row: Row, platform: Platform) -> int | None:
    """The list's figure only where it is not the platform's, rounded otherwise."""
    if row.device_gib is None:
        return None
    said = round(row.device_gib * GIB)
    whole = (platform.memory_bytes or 0) * row.share
    return None if whole and abs(said / whole - 1) <= _SAME_MEMORY else said


def _factored(offers: Sequence[Offer], factors: Mapping[str, float]) -> tuple[list[Offer], list[str]]:
    """Times ``provider/instance``'s factor, else ``provider``'s. Raises UsageError for a factor that is none."""
    for key, factor in factors.items():
        if not 0 < factor < math.inf:
            msg = f"cost.price_factor.{key}: is not above 0; write 0.7 for 30 % off"
            raise UsageError(msg)
    if not factors:
        return list(offers), []
    used: set[str] = set()
    result = []
    for offer in offers:
        key = offer.name if offer.name in factors else offer.provider
        if key in factors:
            used.add(key)
            result.append(replace(offer, usd_per_hour=offer.usd_per_hour * factors[key]))
        else:
            result.append(offer)
    known = {offer.provider for offer in offers} | {offer.name for offer in offers}
    return result, [_unused_factor(key, known) for key in factors if key not in used]


def _unused_factor(key: str, known: set[str]) -> str:
    if key == OWN or key.startswith(f"{OWN}/"):
        return f"price_factor {key!r} has no effect: own prices are used as declared"
    names = {name.lower(): name for name in sorted(known)}
    close = difflib.get_close_matches(key.lower(), names, n=1)
    hint = f"did you mean {names[close[0]]!r}?" if close else "write a provider, or PROVIDER/INSTANCE"
    return f"price_factor {key!r} has no effect: no offer in use has that name, or each has a factor of its own; {hint}"


def _tables(offers: Iterable[Offer]) -> tuple[PriceTable, ...]:
    counts: defaultdict[tuple[str, str, str], int] = defaultdict(int)
    for offer in offers:
        counts[offer.provider, offer.date, offer.source] += 1
    return tuple(
        PriceTable(provider=provider, date=date, source=source, offers=count)
        for (provider, date, source), count in sorted(counts.items())
    )


def _stale(used: Sequence[PriceTable], today: dt.date, max_age_days: int) -> list[str]:
    """One sentence with every list in use that is too old, its date and its age, the oldest first."""
    ages: defaultdict[dt.date, set[str]] = defaultdict(set)
    for table in used:
        try:
            date = dt.date.fromisoformat(table.date)
        except ValueError:
            msg = f"date {table.date!r} of a price of {table.provider} is no day; write YYYY-MM-DD"
            raise UsageError(msg) from None
        if (today - date).days > max_age_days:
            ages[date].add(table.provider)
    if not ages:
        return []
    oldest, count = min(ages), sum(map(len, ages.values()))
    old = f"{count} of {len(used)} price lists are older than {max_age_days} days"
    whose = ", ".join(sorted(ages[oldest])[:_SHOWN])
    return [
        f"{old}, the oldest of {oldest} ({(today - oldest).days} days: {whose}); check a price before you rely on it"
    ]


def _excluded(held: Iterable[HeldBack]) -> tuple[Excluded, ...]:
    """One line for each provider and reason, with the first few names."""
    names: defaultdict[tuple[str, str, str], list[str]] = defaultdict(list)
    for each in held:
        where = f" in {each.row.region}" if each.row.region else ""
        names[each.row.provider, each.terms, each.reason].append(f"{each.row.instance}{where}")
    result = []
    for (provider, terms, reason), found in sorted(names.items()):
        # Whatever the order of the list's rows, the same ones are named.
        found.sort()
        more = f" and {len(found) - _SHOWN} more" if len(found) > _SHOWN else ""
        what = f"{provider}: {', '.join(found[:_SHOWN])}{more}{f' ({terms})' if terms else ''}"
        result.append(Excluded(what=what, reason=reason, count=len(found)))
    return tuple(result)


def _copied_spot(found: Iterable[Table]) -> list[str]:
    """Lists whose spot column is the on-demand column once more."""
    pairs: defaultdict[tuple[str, str], list[bool]] = defaultdict(list)
    for table in found:
        for row in table.rows:
            if row.on_demand is not None and row.spot is not None:
                pairs[row.provider, row.date].append(row.on_demand == row.spot)
    return [
        f"spot prices of {provider} ({date}) equal the on-demand prices in all {len(same)} rows: probably a copy"
        for (provider, date), same in sorted(pairs.items())
        if len(same) >= _MIN_COLUMN and all(same)
    ]


def _dear_spot(kept: Iterable[Quote]) -> list[str]:
    """Spot that costs more than on demand: real bills do, but mostly it is a wrong row."""
    on_demand: dict[tuple[str, str, str], float] = {}
    spot: list[Quote] = []
    for quote in kept:
        row = quote.row
        if quote.terms == ON_DEMAND:
            on_demand[row.provider, row.region, row.instance] = quote.usd
        elif quote.terms == SPOT:
            spot.append(quote)
    dear = []
    for quote in spot:
        row = quote.row
        price = on_demand.get((row.provider, row.region, row.instance), math.inf)
        if quote.usd > price:
            where = f" in {row.region}" if row.region else ""
            dear.append(f"{row.provider}/{row.instance}{where} ({money(quote.usd)} for {money(price)})")
    if not dear:
        return []
    more = f" and {len(dear) - _SHOWN} more" if len(dear) > _SHOWN else ""
    return [f"spot is dearer than on demand: {', '.join(dear[:_SHOWN])}{more}"]
