"""Prices that cannot be true. Cases E25, E26 and E29."""

from __future__ import annotations

import pytest

from perfgate.records.hardware import ON_DEMAND, SPOT
from perfgate.units import money
from tests.hardware.price_lists import market, reasons, row


@pytest.mark.parametrize(
    ("price", "reason"),
    [("NaN", "NaN is no price"), ("0", "0 is no price"), ("-0.5", "-0.5 is no price"), ("inf", "inf is no price"),
     ("", "no price")],
)  # fmt: skip
def test_market__a_price_that_is_none_is_left_out_with_a_reason(price: str, reason: str) -> None:
    # E25, https://github.com/skypilot-org/skypilot/issues/2496: a missing price was read as 0 and chosen.
    found = market(row("empty", on_demand=price), row("real", on_demand="0.8"))
    assert [offer.instance for offer in found.offers] == ["real"]
    assert reason in reasons(found).values()
    assert any("empty" in what for what in reasons(found))


def test_market__a_small_price_is_a_price_and_is_shown() -> None:
    # E25: 0.004 was printed as 0.00.
    (offer,) = market(row("tiny", on_demand="0.004")).offers
    assert offer.usd_per_hour == 0.004
    assert money(offer.usd_per_hour) == "$0.004"


def test_market__only_spot_has_no_on_demand_offer() -> None:
    # Verda sells some machines as spot only: the on-demand cell is empty.
    found = market(row("2B300.60V", platform="b300-sxm", count="2", spot="4.893"))
    assert [(offer.terms, offer.usd_per_hour) for offer in found.offers] == [(SPOT, 4.893)]
    assert reasons(found) == {"acme: 2B300.60V in north (on-demand)": "no on-demand price, only spot"}


def test_market__an_empty_spot_cell_is_no_offer_and_no_finding() -> None:
    found = market(row("a", on_demand="1"))
    assert [offer.terms for offer in found.offers] == [ON_DEMAND]
    assert found.excluded == ()


def _b200(provider: str, usd: str, **cells: str) -> str:
    return row("box", provider=provider, platform="b200-sxm", on_demand=usd, **cells)


def test_market__the_floor_of_an_auction_is_no_price() -> None:
    # E26, https://github.com/skypilot-org/skypilot/pull/9156: a B200 at $0.01 an hour.
    found = market(_b200("a", "5"), _b200("b", "6"), _b200("c", "7"), _b200("d", "0.01"))
    assert [offer.provider for offer in found.offers] == ["a", "b", "c"]
    assert reasons(found) == {
        "d: box in north (on-demand)": "below 0.2 of the median on-demand price of b200-sxm",
    }


@pytest.mark.parametrize(("usd", "kept"), [("1.21", True), ("1.19", False), ("29.9", True), ("30.1", False)])
def test_market__a_fifth_to_five_times_the_median_is_plausible(usd: str, kept: bool) -> None:
    # The median of 5, 6, 7 and d is 6 at either end, whatever d is: (5 + 7) / 2 has no part in it.
    found = market(_b200("a", "6"), _b200("b", "6"), _b200("c", "6"), _b200("d", usd))
    assert ("d" in {offer.provider for offer in found.offers}) is kept


def test_market__a_box_of_eight_is_judged_by_the_device() -> None:
    found = market(_b200("a", "6"), _b200("b", "6"), _b200("c", "48", count="8"), _b200("d", "6", count="8"))
    assert {offer.provider for offer in found.offers} == {"a", "b", "c"}


def test_market__a_part_is_judged_by_the_whole_device() -> None:
    found = market(_b200("a", "6"), _b200("b", "6"), _b200("c", "6"), _b200("d", "1", share="0.125"))
    assert {offer.provider for offer in found.offers} == {"a", "b", "c", "d"}


def test_market__forty_regions_of_one_provider_are_one_voice() -> None:
    dear = [_b200("dear", "20", region=f"r{number}") for number in range(40)]
    found = market(*dear, _b200("a", "5"), _b200("b", "3"))
    assert found.excluded == ()


def test_market__two_prices_of_a_platform_are_too_few_to_judge() -> None:
    assert market(_b200("a", "6"), _b200("b", "0.6")).excluded == ()


@pytest.mark.parametrize(("spot", "kept"), [("0.61", True), ("0.31", True), ("0.29", False), ("0.01", False)])
def test_market__spot_has_a_lower_bound_of_its_own(spot: str, kept: bool) -> None:
    found = market(_b200("a", "6"), _b200("b", "6"), _b200("c", "6", spot=spot))
    assert (SPOT in {offer.terms for offer in found.offers}) is kept


def test_market__accelerators_without_a_price_are_the_host_alone() -> None:
    # E29, https://github.com/skypilot-org/skypilot-catalog/issues/31: an A2 machine at $0.94, the price of its host.
    host = row("a2-host-12", platform="epyc-7r13", share="0.125", vcpu="12", on_demand="0.94")
    found = market(
        host, row("a2-highgpu-1g", platform="a100-sxm-40gb", vcpu="12", on_demand="0.94"),
        row("a2-highgpu-2g", platform="a100-sxm-40gb", count="2", vcpu="24", on_demand="7.35"),
    )  # fmt: skip
    assert {offer.instance for offer in found.offers} == {"a2-host-12", "a2-highgpu-2g"}
    assert reasons(found)["acme: a2-highgpu-1g in north (on-demand)"].endswith("cost without accelerators")


def test_market__a_host_of_equal_size_and_price_gives_it_away_where_others_are_cheaper() -> None:
    found = market(
        row("small", platform="epyc-7r13", share="0.02", vcpu="2", on_demand="0.05"),
        row("host", platform="epyc-7r13", share="0.125", vcpu="12", on_demand="0.94"),
        row("gpu", platform="a100-sxm-40gb", vcpu="12", on_demand="0.94"),
        row("close", platform="a100-sxm-40gb", vcpu="12", on_demand="0.95"),
    )
    assert {offer.instance for offer in found.offers} == {"small", "host", "close"}
    assert "equal to a machine without accelerators" in reasons(found).values()


def test_market__one_region_that_is_four_times_cheaper_is_not_believed() -> None:
    # E29 without the host's row: the same machine costs $3.67 elsewhere.
    rows = [row("a2-highgpu-1g", region=region, platform="a100-sxm-40gb", on_demand=usd)
            for region, usd in (("a", "3.67"), ("b", "3.67"), ("c", "4.05"), ("d", "0.94"))]  # fmt: skip
    found = market(*rows)
    assert {offer.region for offer in found.offers} == {"a", "b", "c"}
    assert "unlike the same machine in other regions (median $3.67)" in reasons(found).values()


def test_market__other_currencies_and_unknown_platforms_are_left_out() -> None:
    found = market(row("euro", on_demand="1", currency="EUR"), row("odd", platform="h1000", on_demand="1"))
    assert found.offers == ()
    assert reasons(found) == {
        "acme: euro in north": "price in EUR, not in US dollars",
        "acme: odd in north": "unknown platform h1000",
    }


def test_market__many_of_one_kind_are_one_line_with_their_number() -> None:
    found = market(*(row(f"m{number}", on_demand="0") for number in range(9)))
    (line,) = found.excluded
    assert line.count == 9
    assert line.what == "acme: m0 in north, m1 in north, m2 in north and 6 more (on-demand)"
