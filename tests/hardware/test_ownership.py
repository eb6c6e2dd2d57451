"""What machines of one's own cost an hour."""

from __future__ import annotations

from typing import Any

import pytest

from perfgate.errors import UsageError
from perfgate.hardware import catalogue, ownership
from perfgate.records.cost import OwnPrice


def test_usd_per_hour__a_declared_price_is_taken_as_it_is() -> None:
    assert ownership.usd_per_hour(OwnPrice(name="rack", platform="l4", usd_per_hour=0.004)) == 0.004


def test_usd_per_hour__purchase_and_energy_over_the_hours_of_use() -> None:
    rack = OwnPrice(
        name="rack", platform="h100-sxm", count=8, purchase_usd=280_000, lifetime_years=4, power_w=10_200,
        usd_per_kwh=0.15, duty=0.5,
    )  # fmt: skip
    # 280 000 / 4 = 70 000 a year over 4 380 h, and 10.2 kW at 0.15.
    assert ownership.usd_per_hour(rack) == pytest.approx(70_000 / 4380 + 1.53)


def test_usd_per_hour__half_the_use_doubles_the_purchase_not_the_energy() -> None:
    def at(duty: float) -> float:
        return ownership.usd_per_hour(
            OwnPrice(name="a", platform="l4", purchase_usd=35_040, power_w=1000, usd_per_kwh=0.2, duty=duty)
        )

    assert at(1.0) == pytest.approx(1.2)
    assert at(0.5) == pytest.approx(2.2)


@pytest.mark.parametrize(
    ("keys", "said"),
    [
        ({}, "cost.prices.rack: has no price"),
        ({"usd_per_hour": 0.0}, "cost.prices.rack.usd_per_hour"),
        ({"usd_per_hour": float("nan")}, "above 0"),
        ({"purchase_usd": -1.0}, "purchase_usd"),
        ({"purchase_usd": 1e4, "lifetime_years": 0.0}, "lifetime_years"),
        ({"purchase_usd": 1e4, "duty": 1.5}, "duty"),
        ({"purchase_usd": 0.0}, "costs nothing"),
        ({"power_w": 300.0}, "costs nothing"),
    ],
)
def test_usd_per_hour__names_the_key_and_never_the_price(keys: dict[str, Any], said: str) -> None:
    with pytest.raises(UsageError, match=said) as error:
        ownership.usd_per_hour(OwnPrice(name="rack", platform="l4", **keys))
    assert "10000" not in str(error.value)
    assert "-1" not in str(error.value)


def test_offer__is_dated_today_unless_it_says_its_day() -> None:
    platforms = catalogue.platforms()
    own = OwnPrice(name="rack", platform="l4", count=2, usd_per_hour=1.0, region="cellar")
    found = ownership.offer(own, platforms, today="2026-11-30")
    assert (found.name, found.region, found.terms, found.date) == ("own/rack", "cellar", "own", "2026-11-30")
    dated = OwnPrice(name="rack", platform="l4", usd_per_hour=1.0, date="2024-01-01")
    assert ownership.offer(dated, platforms, today="2026-11-30").date == "2024-01-01"


def test_offer__an_unknown_platform_has_close_matches() -> None:
    with pytest.raises(UsageError, match=r"cost\.prices\.rack\.platform: 'h100-sxn'.*did you mean h100-sxm"):
        ownership.offer(OwnPrice(name="rack", platform="h100-sxn", usd_per_hour=1.0), catalogue.platforms(), today="")


def test_offer__sockets_of_a_cpu_are_a_share_above_1_and_cards_are_a_count() -> None:
    platforms = catalogue.platforms()
    sockets = OwnPrice(name="box", platform="graviton4", share=2.0, usd_per_hour=1.0)
    assert ownership.offer(sockets, platforms, today="2026-11-30").share == 2.0
    cards = OwnPrice(name="box", platform="l4", share=2.0, usd_per_hour=1.0)
    with pytest.raises(UsageError, match=r"cost\.prices\.box\.share: is above 1; write count"):
        ownership.offer(cards, platforms, today="2026-11-30")


def test_usd_per_hour__more_than_any_number_is_no_price() -> None:
    with pytest.raises(UsageError, match="more than any number"):
        ownership.usd_per_hour(OwnPrice(name="a", platform="l4", purchase_usd=1e308, lifetime_years=1e-300))
