"""The market: offers, factors, own prices, ages. Case E27."""

from __future__ import annotations

import datetime as dt

import pytest

from perfgate.errors import UsageError
from perfgate.hardware import offers
from perfgate.records.cost import OwnPrice, Prices
from perfgate.records.hardware import ON_DEMAND, OWN, SPOT
from tests.hardware.price_lists import FRESH, TODAY, market, reasons, row, table


def test_market__on_demand_and_spot_are_offers_of_their_own() -> None:
    found = market(row("a", on_demand="1", spot="0.4", vcpu="8", ram_gib="32", source="acme/list"))
    assert [(each.terms, each.usd_per_hour) for each in found.offers] == [(SPOT, 0.4), (ON_DEMAND, 1.0)]
    one = found.offers[1]
    assert (one.name, one.region, one.platform, one.count, one.date) == ("acme/a", "north", "l4", 1, FRESH)
    assert (one.vcpus, one.ram_bytes, one.source) == (8.0, 32 * 2**30, "acme/list")


def test_market__a_cpu_machines_memory_is_the_machines() -> None:
    (found,) = market(row("c", platform="epyc-7r13", share="0.5", ram_gib="96", on_demand="1")).offers
    assert found.memory_bytes == 96 * 2**30
    assert found.share == 0.5


def test_market__device_memory_is_said_only_where_it_is_not_the_platforms() -> None:
    # GB, GiB and what a driver shows are one memory; Lambda's total is one device's anyway.
    found = market(
        row("same", platform="h100-sxm", gpu_mem_gib="79.6", on_demand="3"),
        row("half", platform="h100-sxm", gpu_mem_gib="40", on_demand="3"),
        row("part", platform="h100-sxm", share="0.5", gpu_mem_gib="40", on_demand="3"),
    )
    memory = {each.instance: each.memory_bytes for each in found.offers}
    assert memory == {"same": None, "half": 40 * 2**30, "part": None}


def test_market__the_cheapest_machine_is_first_and_the_order_is_fixed() -> None:
    rows = [row("b", on_demand="2"), row("a", on_demand="2"), row("c", on_demand="1")]
    assert [each.instance for each in market(*rows).offers] == ["c", "a", "b"]
    assert market(*rows).offers == market(*reversed(rows)).offers


def test_of_platform__has_all_terms_unless_asked() -> None:
    found = market(row("a", on_demand="1", spot="0.4"), row("t", platform="t4", on_demand="0.5"))
    assert [each.terms for each in offers.of_platform(found, "l4")] == [SPOT, ON_DEMAND]
    assert [each.terms for each in offers.of_platform(found, "l4", terms=(ON_DEMAND, OWN))] == [ON_DEMAND]
    assert offers.of_platform(found, "h100-sxm") == ()


def test_market__a_factor_of_the_instance_goes_before_the_providers() -> None:
    rows = [row("a", on_demand="1", spot="0.5"), row("b", on_demand="1"), row("b", provider="other", on_demand="1")]
    found = market(*rows, prices=Prices(factors={"acme": 0.8, "acme/b": 0.5}))
    assert {(each.name, each.terms): each.usd_per_hour for each in found.offers} == {
        ("acme/a", ON_DEMAND): 0.8, ("acme/a", SPOT): 0.4, ("acme/b", ON_DEMAND): 0.5, ("other/b", ON_DEMAND): 1.0,
    }  # fmt: skip
    assert found.warnings == ()


def test_market__list_prices_are_judged_not_discounted_ones() -> None:
    rows = [row("x", provider=name, platform="b200-sxm", on_demand="6") for name in ("a", "b", "c", "d")]
    found = market(*rows, prices=Prices(factors={"d": 0.1}))
    assert min(each.usd_per_hour for each in found.offers) == pytest.approx(0.6)


@pytest.mark.parametrize("key", ["acmee", "ACME"])
def test_market__a_factor_without_effect_is_said(key: str) -> None:
    (warning,) = market(row("a", on_demand="1"), prices=Prices(factors={key: 0.8})).warnings
    assert f"'{key}' has no effect" in warning
    assert "did you mean 'acme'?" in warning


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_market__a_factor_is_above_0(factor: float) -> None:
    with pytest.raises(UsageError, match=r"cost\.price_factor\.acme"):
        market(row("a", on_demand="1"), prices=Prices(factors={"acme": factor}))


def test_market__own_prices_stand_beside_the_lists_and_have_no_factor() -> None:
    own = OwnPrice(name="rack", platform="h100-sxm", count=8, usd_per_hour=2.0, region="cellar")
    found = market(row("a", on_demand="1"), prices=Prices(own=(own,), factors={"own": 0.5}))
    (rack,) = (each for each in found.offers if each.terms == OWN)
    assert (rack.name, rack.usd_per_hour, rack.count, rack.region) == ("own/rack", 2.0, 8, "cellar")
    assert any("used as declared" in warning for warning in found.warnings)
    assert any((each.provider, each.offers) == ("own", 1) for each in found.tables)


def test_market__an_own_price_is_never_held_back() -> None:
    rows = [row("x", provider=name, platform="b200-sxm", on_demand="6") for name in ("a", "b", "c")]
    own = OwnPrice(name="gift", platform="b200-sxm", usd_per_hour=0.01)
    assert market(*rows, prices=Prices(own=(own,))).offers[0].name == "own/gift"


def test_market__old_lists_are_named_with_date_and_age() -> None:
    # E27, https://github.com/skypilot-org/skypilot/issues/4904: the table was stale and nobody could see it.
    old = "2025-03-01"
    rows = [row("a", on_demand="1"), row("b", provider="old", on_demand="1", fetched_at=old)]
    found = market(*rows)
    assert {(each.provider, each.date, each.offers) for each in found.tables} == {("acme", FRESH, 1), ("old", old, 1)}
    (warning,) = found.warnings
    assert "older than 120 days" in warning
    assert "the oldest of 2025-03-01 (639 days: old)" in warning
    assert "acme" not in warning


def test_market__the_age_that_is_too_old_is_the_users() -> None:
    rows = [table(row("a", on_demand="1", fetched_at="2026-11-01"))]
    at = [offers.market(Prices(max_age_days=29), today=TODAY + dt.timedelta(days=days), tables=rows) for days in (0, 1)]
    assert [len(each.warnings) for each in at] == [0, 1]


def test_market__an_old_own_price_is_old_too() -> None:
    own = OwnPrice(name="rack", platform="l4", usd_per_hour=1.0, date="2024-01-01")
    assert any("2024-01-01" in warning for warning in market(prices=Prices(own=(own,))).warnings)


def test_market__an_own_price_with_a_day_that_is_none_is_refused() -> None:
    own = OwnPrice(name="rack", platform="l4", usd_per_hour=1.0, date="July")
    with pytest.raises(UsageError, match="YYYY-MM-DD"):
        market(prices=Prices(own=(own,)))


def test_market__spot_dearer_than_on_demand_is_said_and_kept() -> None:
    # E27, https://github.com/skypilot-org/skypilot/issues/4914: the bill of a spot machine was above on demand.
    found = market(row("a", on_demand="1", spot="1.2"), row("b", on_demand="1", spot="0.4"))
    assert len(found.offers) == 4
    assert found.warnings == ("spot is dearer than on demand: acme/a in north ($1.20 for $1.00)",)


def test_market__a_spot_column_that_copies_on_demand_is_said() -> None:
    # E26, https://github.com/skypilot-org/skypilot/pull/9156; RunPod's list is filled so.
    copied = [row(f"m{number}", on_demand=f"{number}.39", spot=f"{number}.39") for number in (1, 2, 3)]
    assert market(*copied).warnings == (
        f"spot prices of acme ({FRESH}) equal the on-demand prices in all 3 rows: probably a copy",
    )
    assert market(*copied, row("n", on_demand="2", spot="1")).warnings == ()


def test_market__the_newest_list_wins_by_machine_region_and_terms() -> None:
    found = market(
        row("a", on_demand="2", spot="0.9", fetched_at="2026-08-01"), row("a", on_demand="3"),
        row("a", region="south", on_demand="2.5", fetched_at="2026-08-01"),
    )  # fmt: skip
    assert {(each.region, each.terms, each.usd_per_hour) for each in found.offers} == {
        ("north", ON_DEMAND, 3.0), ("north", SPOT, 0.9), ("south", ON_DEMAND, 2.5),
    }  # fmt: skip
    assert reasons(found) == {"acme: a in north (on-demand)": f"replaced by the list of {FRESH}"}


def test_market__a_list_without_regions_gives_way_to_any_newer_one() -> None:
    rows = [row("a", region="", on_demand="2", fetched_at="2025-03-01"), row("a", region="south", on_demand="1")]
    found = market(*rows)
    assert [each.region for each in found.offers] == ["south"]
    assert reasons(found) == {"acme: a (on-demand)": f"replaced by the list of {FRESH}"}


def test_market__the_dearer_of_two_prices_of_one_day_is_used() -> None:
    # SimplePod lists one machine at two prices.
    found = market(row("a", on_demand="1.36"), row("a", on_demand="1.28"))
    assert [each.usd_per_hour for each in found.offers] == [1.36]
    assert reasons(found) == {"acme: a in north (on-demand)": "listed twice, the dearer price is used"}


def test_market__the_order_of_rows_and_lists_changes_nothing() -> None:
    rows = [row(f"m{n}", on_demand="", spot="1") for n in range(5)] + [row("a", on_demand="2"), row("b", on_demand="1")]
    own = [OwnPrice(name=name, platform="l4", usd_per_hour=1.0) for name in ("one", "two")]
    there = market(*rows, prices=Prices(own=tuple(own)))
    back = market(*reversed(rows), prices=Prices(own=tuple(reversed(own))))
    assert there == back
