"""Is the platform that perfgate calls cheapest at a time limit truly the cheapest? Against public measurements.

``python -m benchmarks.cost.ranking``. Models: timm's on RTX 3090, RTX 4090 and a Core i9, only those of families that
no constant was fitted on; NeuSight's language models on its devices, whole models of which are in no fit. The truth is
the measured time times the price that perfgate had. Limits are the quartiles of all true times of a table (of a step;
for timm of an item, since a CPU runs other batches than a GPU), and none. Needs the public data and their features.

"With the estimator's times": learned from other families (timm: the half that constants are fitted on; NeuSight: single
operators and the models of all other names), and the roofline where the estimator does not know the case.

"Device not in any fit": with constants that never saw the device (the one CPU excepted), and without the rates that the
catalogue has as measured. "Without intervals": a limit is met by the central value, where perfgate itself asks the
unfavourable end of the interval to meet it. "Tied": perfgate names the truly cheapest among those that its times cannot
tell apart.

A summary comes first: over all decisions at listed prices, and over all at random ones.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

from benchmarks.cost import calibration, cases, choosers, estimated, observations, public, ranking_tables
from benchmarks.cost.cases import Case
from benchmarks.cost.classes import DATACENTRE, LOW_POWER
from benchmarks.cost.observations import Observed
from benchmarks.cost.probes import probed
from benchmarks.cost.ranking_tables import Method, Table
from benchmarks.cost.scores import score
from perfgate.cost.times import RooflineTimes, Times
from perfgate.hardware import offers, tables
from perfgate.records.cost import OwnPrice, Prices
from perfgate.records.hardware import ON_DEMAND, SPOT, MeasuredRoofline, Offer
from perfgate.roofline.calibration import Calibration

# The day that list prices are of; later tables do not count.
TODAY = dt.date(2026, 9, 30)
LAST_YEAR = dt.date(2025, 12, 31)

# Machines of one's own: list prices in US dollars at launch (RTX 3090 1499, RTX 4090 1599, Core i9-10940X 784) and 1000
# for the rest of the machine; power is the device's and 150 W.
_REST_USD, _REST_W, _USD_PER_KWH = 1000.0, 150.0, 0.15
OWNED = {"rtx-3090": (1499.0, 350.0), "rtx-4090": (1599.0, 450.0), "core-i9-10940x": (784.0, 165.0)}

# Single devices that no shipped table has, as the-full-stack's table of cloud GPUs of 2025-03 lists them on demand.
DOCUMENTED = {"v100-pcie-32gb": ("ovhcloud", "t2-le-45", 0.88, "2025-03-01")}

# Random markets around even prices: for timm, and for NeuSight with its fewer models.
TIMM_DRAWS, NEUSIGHT_DRAWS = 3, 20
DRAWN_FACTOR = 2.0
# What ``--quick`` takes of each source.
_FEW = 5

_CENTRAL = "the same, without intervals"
_ESTIMATED = "perfgate, with the estimator's times"


@dataclass(frozen=True, slots=True, kw_only=True)
class Held:
    """What choosers know besides what is shipped.

    ``apart``: platform -> constants fitted without it. ``probes``: platform -> what a probe would say of it.
    ``timm``, ``neusight``: the estimator's times for cases of either source; None: not fitted.
    """

    apart: Mapping[str, Calibration]
    probes: Mapping[str, MeasuredRoofline]
    timm: Callable[[Case], Times] | None = None
    neusight: Callable[[Case], Times] | None = None


def methods(source: str, held: Held, estimator: Callable[[Case], Times] | None) -> list[Method]:
    """All choosers. ``source``: the device that the anchored one has measured."""

    def roofline(_: Case) -> Times:
        return RooflineTimes()

    def probe(_: Case) -> Times:
        return RooflineTimes(held.probes)

    left_out = choosers.ClassTimes(held.apart)
    timed = choosers.anchored(source)
    on_one = "perfgate, model timed on one device"
    apart = [Method(name="perfgate, device not in any fit", choose=choosers.by_times(lambda _: left_out))]
    probed = _both("perfgate, every device probed", probe)
    return [
        *_both("perfgate (calibrated roofline)", roofline, "perfgate as shipped", "perfgate, central estimates"),
        *([] if estimator is None else _both(_ESTIMATED, estimator, _ESTIMATED, f"{_ESTIMATED}, central")),
        *(apart if held.apart else []),
        *(probed if held.probes else []),
        *_both(f"perfgate, model timed on {source}", timed, on_one, f"{on_one}, central"),
        *_rules_of_thumb(),
    ]


def _both(name: str, make: Callable[[Case], Times], *summary: str) -> list[Method]:
    """As perfgate chooses, and by central values."""
    shipped, central = summary or ("", "")
    return [
        Method(name=name, choose=choosers.by_times(make), summary=shipped),
        Method(name=_CENTRAL, choose=choosers.by_times(choosers.central(make)), summary=central),
    ]


def _rules_of_thumb() -> list[Method]:
    found = {
        "published-peak roofline": choosers.by_times(lambda _: choosers.PeakTimes()),
        "price per peak FLOP": choosers.by_times(lambda _: choosers.PerFlopTimes()),
        "price alone": choosers.by_price,
    }
    return [Method(name=name, choose=choose, summary=name) for name, choose in found.items()]


def owned() -> dict[str, Offer]:
    """Machines of one's own for timm's devices."""
    own = tuple(
        OwnPrice(
            name=name,
            platform=name,
            purchase_usd=usd + _REST_USD,
            power_w=watts + _REST_W,
            usd_per_kwh=_USD_PER_KWH,
        )
        for name, (usd, watts) in OWNED.items()
    )
    market = offers.market(Prices(own=own), today=TODAY, tables=())
    return {each.platform: each for each in market.offers}


def listed(platforms: Sequence[str], terms: str, day: dt.date) -> dict[str, Offer]:
    """The cheapest machine with one of each device by the shipped tables that were out by ``day``."""
    known = tuple(table for table in tables.shipped() if all(row.date <= day.isoformat() for row in table.rows))
    market = offers.market(Prices(max_age_days=10_000), today=day, tables=known)
    found: dict[str, Offer] = {}
    for name in platforms:
        own = [each for each in offers.of_platform(market, name, terms=(terms,)) if each.count == 1 and each.share == 1]
        if own:
            found[name] = own[0]
        elif name in DOCUMENTED and terms == ON_DEMAND:
            provider, instance, usd, date = DOCUMENTED[name]
            found[name] = replace(cases.offer(name, usd), provider=provider, instance=instance, terms=terms, date=date)
    return found


def drawn(observed: Sequence[Observed], draws: int, factor: float, *, per_item: bool = False) -> list[Case]:
    """Every decision under ``draws`` markets of random prices around those at which all platforms cost the same."""
    even = cases.even_prices(observed)
    rng = random.Random(1)
    return [
        case
        for _ in range(draws)
        for case in cases.cases(observed, cases.drawn_offers(even, rng, factor), per_item=per_item)
    ]


def table(source: str, title: str, found: Sequence[Case], columns: Sequence[Method], note: str = "") -> Table:
    """Every chooser's scores of these decisions; ``note`` are listed prices, empty where they were drawn."""
    plenty = [cases.with_memory_enough(case) for case in found]
    return Table(
        source=source,
        title=title,
        cases=len(plenty),
        models=len({case.name for case in plenty}),
        rows=[(each, score(plenty, [each.choose(case) for case in plenty])) for each in columns] if plenty else [],
        note=note,
    )


def _prices(found: Mapping[str, Offer]) -> str:
    texts = [f"{name} {each.usd_per_hour:.3g} $/h ({each.provider} {each.date})" for name, each in found.items()]
    return f"Prices: {'; '.join(texts)}."


def timm_tables(rows: Sequence[Observed], draws: int, held: Held) -> Iterator[Table]:
    """At rents, at the cost of owning, and at random prices."""
    columns = methods("rtx-3090", replace(held, probes={}), held.timm)
    rented = listed(tuple(OWNED), ON_DEMAND, TODAY)
    for title, market in (("rented GPUs, own CPU", {**owned(), **rented}), ("own machines", owned())):
        yield table("timm", title, cases.cases(rows, market, per_item=True), columns, _prices(market))
    yield table("timm", _random(draws), drawn(rows, draws, DRAWN_FACTOR, per_item=True), columns)


def neusight_tables(rows: Sequence[Observed], draws: int, held: Held) -> Iterator[Table]:
    """At list prices and at random ones."""
    names = sorted({one.platform for one in rows})
    columns = methods("t4", held, held.neusight)
    for title, terms, day in (
        ("on demand", ON_DEMAND, TODAY),
        ("spot", SPOT, TODAY),
        ("on demand, tables of 2025", ON_DEMAND, LAST_YEAR),
    ):
        market = listed(names, terms, day)
        lacking = ", ".join(sorted(set(names) - market.keys())) or "none lacks one"
        note = f"{_prices(market)} No price: {lacking}."
        yield table("NeuSight", title, cases.cases(rows, market), columns, note)
    for what, mode in (("inference", "__infer__"), ("training", "__train__")):
        some = [one for one in rows if mode in one.name]
        if list(cases.models(some)):
            yield table("NeuSight", f"{what}, {_random(draws)}", drawn(some, draws, DRAWN_FACTOR), columns)


def _random(draws: int) -> str:
    return f"{draws} market{'s' if draws > 1 else ''} of random prices, within a factor of {DRAWN_FACTOR:g} of even"


def run(data: Path) -> int:
    """Every model; all choosers."""
    _, rows = observations.halves(observations.timm(data))
    labels = observations.labels(data)
    if not rows or not labels:
        print("ranking: no features; run python -m benchmarks.cost.features first")
        return 0
    plans = calibration.plans(data)
    operators = [one for name in (DATACENTRE, LOW_POWER) for one in plans[name].fit]
    held = Held(
        apart=calibration.held_out(plans),
        probes=probed(operators),
        timm=estimated.timm(data),
        neusight=estimated.neusight(data, labels),
    )
    found = [*timm_tables(rows, TIMM_DRAWS, held), *neusight_tables(labels, NEUSIGHT_DRAWS, held)]
    ranking_tables.print_all(found)
    return 0


def quick(data: Path) -> int:
    """A handful of models, no fits, and nothing counted that was not counted before."""
    _, rows = observations.halves(observations.timm(data, count=False))
    rows, labels = few(rows, _FEW), few(observations.labels(data, count=False), _FEW)
    if not rows or not labels:
        print("ranking: left out: no counted models at hand; once without --quick counts them (minutes)")
        return 0
    print(f"{_FEW} models of each source; what needs fits (devices left out, probes) is left out; so few say little")
    nothing = Held(apart={}, probes={})
    ranking_tables.print_all([*timm_tables(rows, 1, nothing), *neusight_tables(labels, 1, nothing)])
    return 0


def few(rows: Sequence[Observed], most: int) -> list[Observed]:
    """The first models that more than one platform has."""
    some = {name for name, _ in islice(cases.models(rows), most)}
    return [one for one in rows if one.name in some]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--quick", action="store_true", help="a few models, some choosers")
    arguments = parser.parse_args(argv)
    data = public.folder(arguments.data)
    if data is None:
        print(public.how_to_get("ranking"))
        return 0
    return quick(data) if arguments.quick else run(data)


if __name__ == "__main__":
    raise SystemExit(main())
