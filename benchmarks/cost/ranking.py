"""Is the platform that perfgate calls cheapest at a time limit truly the cheapest? Against public measurements.

``python -m benchmarks.cost.ranking``. Models: timm's on RTX 3090, RTX 4090 and a Core i9, only those of families that
no constant was fitted on; NeuSight's language models on its devices, whole models of which are in no fit. The truth is
the measured time times the price that perfgate had. Limits are the quartiles of all true times of a table (of a step;
for timm of an item, since a CPU runs other batches than a GPU), and none. Needs the public data and their features.

"Device not in any fit": with constants that never saw the device (the one CPU excepted). "Without intervals": a limit
is met by the central value, where perfgate itself asks the unfavourable end of the interval to meet it. "Tied":
perfgate names the truly cheapest among those that its times cannot tell apart.
"""

from __future__ import annotations

import argparse
import datetime as dt
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from benchmarks.cost import calibration, cases, choosers, observations, public
from benchmarks.cost.cases import Case
from benchmarks.cost.choosers import Chooser
from benchmarks.cost.classes import DATACENTRE, LOW_POWER
from benchmarks.cost.observations import Observed
from benchmarks.cost.probes import probed
from benchmarks.cost.scores import Score, score
from benchmarks.tables import print_table
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

DRAWS = 3
DRAWN_FACTOR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """A column of the tables; a later source of times is one more of these."""

    name: str
    choose: Chooser


def methods(
    source: str, apart: Mapping[str, Calibration], probes: Mapping[str, MeasuredRoofline] | None = None
) -> list[Method]:
    """All choosers.

    ``source``: the device that the anchored one has measured. ``apart``: constants fitted without the device.
    ``probes``: what a probe would say of each device.
    """

    def roofline(_: Case) -> Times:
        return RooflineTimes()

    left_out = choosers.ClassTimes(apart)
    timed = choosers.anchored(source)

    def probe(_: Case) -> Times:
        return RooflineTimes(probes)

    probed = [
        Method(name="perfgate, every device probed", choose=choosers.by_times(probe)),
        Method(name="the same, without intervals", choose=choosers.by_times(choosers.central(probe))),
    ]
    return [
        Method(name="perfgate (calibrated roofline)", choose=choosers.by_times(roofline)),
        Method(
            name="the same, without intervals", choose=choosers.by_times(choosers.central(lambda _: RooflineTimes()))
        ),
        Method(name="perfgate, device not in any fit", choose=choosers.by_times(lambda _: left_out)),
        *(probed if probes else []),
        Method(name=f"perfgate, model timed on {source}", choose=choosers.by_times(timed)),
        Method(name="the same, without intervals", choose=choosers.by_times(choosers.central(timed))),
        Method(name="published-peak roofline", choose=choosers.by_times(lambda _: choosers.PeakTimes())),
        Method(name="price per peak FLOP", choose=choosers.by_times(lambda _: choosers.PerFlopTimes())),
        Method(name="price alone", choose=choosers.by_price),
    ]


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


def print_scores(title: str, found: Sequence[Case], columns: Sequence[Method]) -> dict[str, Score]:
    """One table: a row for each method."""
    scores: dict[str, Score] = {}
    rows = []
    for method in columns:
        one = score(found, [method.choose(case) for case in found])
        scores[f"{len(scores)} {method.name}"] = one
        rows.append(
            (
                method.name,
                f"{one.right:.1%}",
                f"{one.right_or_tied:.1%}",
                f"{one.regret:.1%}",
                f"{one.broken:.1%}",
                f"{one.refused:.1%}",
            )
        )
    if not found:
        print(f"\n### {title}\n\nnothing to decide")
        return {}
    print(f"\n### {title}\n\n{len(found)} decisions over {len({case.name for case in found})} models\n", flush=True)
    print_table(("times by", "right", "right or tied", "mean regret", "limit broken", "refused"), rows)
    return scores


def _prices(found: Mapping[str, Offer]) -> str:
    texts = [f"{name} {each.usd_per_hour:.3g} $/h ({each.provider} {each.date})" for name, each in found.items()]
    return f"Prices: {'; '.join(texts)}."


def _timm(data_rows: Sequence[Observed], draws: int, apart: Mapping[str, Calibration]) -> None:
    columns = methods("rtx-3090", apart)
    rented = listed(tuple(OWNED), ON_DEMAND, TODAY)
    for title, market in (("rented GPUs, own CPU", {**owned(), **rented}), ("own machines", owned())):
        print_scores(f"timm: {title}", _plenty(cases.cases(data_rows, market, per_item=True)), columns)
        print(f"\n{_prices(market)}")
    print_scores(
        f"timm: {draws} markets of random prices, within a factor of {DRAWN_FACTOR:g} of even",
        _plenty(drawn(data_rows, draws, DRAWN_FACTOR, per_item=True)),
        columns,
    )


def _neusight(
    rows: Sequence[Observed], draws: int, apart: Mapping[str, Calibration], probes: Mapping[str, MeasuredRoofline]
) -> None:
    names = sorted({one.platform for one in rows})
    columns = methods("t4", apart, probes)
    for title, terms, day in (
        ("on demand", ON_DEMAND, TODAY),
        ("spot", SPOT, TODAY),
        ("on demand, tables of 2025", ON_DEMAND, LAST_YEAR),
    ):
        market = listed(names, terms, day)
        found = _plenty(cases.cases(rows, market))
        if found:
            print_scores(f"NeuSight: {title}", found, columns)
            print(f"\n{_prices(market)} No price: {', '.join(sorted(set(names) - market.keys())) or 'none lacks one'}.")
    for what, some in (
        ("inference", [one for one in rows if "__infer__" in one.name]),
        ("training", [one for one in rows if "__train__" in one.name]),
    ):
        print_scores(
            f"NeuSight, {what}: {draws} markets of random prices, within a factor of {DRAWN_FACTOR:g} of even",
            _plenty(drawn(some, draws, DRAWN_FACTOR)),
            columns,
        )


def _plenty(found: Sequence[Case]) -> list[Case]:
    return [cases.with_memory_enough(case) for case in found]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--quick", action="store_true", help="a few models")
    arguments = parser.parse_args(argv)
    data = public.folder(arguments.data)
    if data is None:
        print(public.how_to_get("ranking"))
        return 0
    _, rows = observations.halves(observations.timm(data))
    labels = observations.labels(data)
    if not rows or not labels:
        print("ranking: no features; run python -m benchmarks.cost.features first")
        return 0
    if arguments.quick:
        some = {name for name, _ in islice(cases.models(rows), 20)}
        rows = [one for one in rows if one.name in some]
    plans = calibration.plans(data)
    apart = calibration.held_out(plans)
    operators = [one for name in (DATACENTRE, LOW_POWER) for one in plans[name].fit]
    _timm(rows, 1 if arguments.quick else DRAWS, apart)
    _neusight(labels, 2 if arguments.quick else 20, apart, probed(operators))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
