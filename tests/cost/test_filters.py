"""Which offers may be considered: names that match, names that nothing has."""

from __future__ import annotations

import math

import pytest

from perfgate.cost.filters import check, names, select
from perfgate.errors import UsageError
from perfgate.records.cost import Requirements
from perfgate.records.hardware import Market
from tests.cost.problems import make_offer, make_platform

PLATFORMS = {name: make_platform(name) for name in ("l4", "l40s", "t4")}
OFFERS = (
    make_offer("l4", 0.8, provider="aws", region="us-east-1", instance="g6.xlarge"),
    make_offer("l4", 0.3, provider="aws", region="us-east-1", instance="g6.xlarge", terms="spot"),
    make_offer("l4", 3.2, provider="gcp", region="us-central1", instance="g2-48", count=4),
    make_offer("l40s", 1.8, provider="aws", region="eu-west-1", instance="g6e.xlarge"),
    make_offer("t4", 0.1, provider="own", region="", instance="rack", terms="own"),
)


def kept(**changes) -> set[str]:
    return {f"{offer.name} {offer.terms}" for offer in selected(**changes).offers}


def selected(**changes):
    return select(Market(offers=OFFERS), Requirements(**changes), PLATFORMS)


ALL = {"aws/g6.xlarge on-demand", "gcp/g2-48 on-demand", "aws/g6e.xlarge on-demand", "own/rack own"}


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, ALL),
        ({"devices": ("all",)}, ALL),
        ({"devices": ("L4",)}, {"aws/g6.xlarge on-demand", "gcp/g2-48 on-demand"}),
        ({"providers": ("gcp", "own")}, {"gcp/g2-48 on-demand", "own/rack own"}),
        ({"regions": ("eu-west-1",)}, {"aws/g6e.xlarge on-demand"}),
        ({"terms": ("spot",)}, {"aws/g6.xlarge spot"}),
        # What `terms = "all"` becomes.
        ({"terms": ()}, ALL | {"aws/g6.xlarge spot"}),
        ({"counts": (4,)}, {"gcp/g2-48 on-demand"}),
        ({"unavailable": ("aws",)}, {"gcp/g2-48 on-demand", "own/rack own"}),
        ({"unavailable": ("aws/g6.xlarge",)}, ALL - {"aws/g6.xlarge on-demand"}),
    ],
)
def test_select__each_filter_alone(changes, expected):
    found = selected(**changes)

    assert kept(**changes) == expected
    # Nothing vanishes without a reason.
    assert len(found.offers) + sum(one.count for one in found.excluded) == len(OFFERS)
    assert not found.warnings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"devices": ("l40",)}, "no device is called 'l40'; did you mean l40s"),
        ({"providers": ("asw",)}, "no provider is called 'asw'; did you mean aws"),
        ({"regions": ("us-east-2",)}, "no region is called 'us-east-2'; did you mean us-east-1"),
        ({"terms": ("on_demand",)}, "no term is called 'on_demand'; did you mean on-demand"),
        ({"forms": ("pipe",)}, "no parallel form is called 'pipe'; did you mean pipeline"),
        ({"objectives": ("costs",)}, "no objective is called 'costs'; did you mean cost"),
        ({"objectives": ()}, "no objective: name at least one of cost"),
        ({"devices": ("zzz",)}, "known: l4, l40s, t4"),
        ({"percentile": 99.0}, "write 0.5, 0.9 or 0.99"),
        ({"memory_headroom": 1.0}, "not a share below 1"),
        ({"max_step_ns": 0.0}, "max_step_ns is 0.0; give a number above 0"),
        ({"min_throughput": math.nan}, "min_throughput is nan"),
        ({"max_usd_per_hour": -1.0}, "max_usd_per_hour is -1.0"),
        ({"deadline_s": 60.0}, "give job_items as well"),
        ({"job_items": 60.0}, "give deadline as well"),
    ],
)
def test_select__what_nobody_knows_or_makes_no_sense_is_an_error(changes, message):
    with pytest.raises(UsageError, match=message):
        selected(**changes)


def test_select__a_known_platform_that_nobody_offers_is_a_warning():
    found = select(Market(offers=OFFERS[:1]), Requirements(devices=("t4",)), PLATFORMS)

    assert not found.offers
    assert any("nobody offers t4" in text for text in found.warnings)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"unavailable": ("aws/g6.xlrge",)}, "aws/g6.xlrge matches no offer; did you mean aws/g6.xlarge"),
        ({"counts": (16,)}, "no machine on offer has 16 devices"),
    ],
)
def test_select__a_filter_that_matches_nothing_is_said(changes, text):
    assert any(text in one for one in selected(**changes).warnings)


def test_select__a_region_is_not_guessed_for_own_machines():
    reasons = {one.reason for one in selected(regions=("us-east-1",)).excluded}

    assert "no region is declared, and regions are asked for" in reasons


def test_select__an_empty_market_is_no_error():
    found = select(Market(offers=()), Requirements(providers=("aws",), regions=("x",)), PLATFORMS)

    assert found.offers == ()
    assert "no offers at all" in found.warnings[0]


@pytest.mark.parametrize("price", [0.0, math.nan, -1.0, math.inf])
def test_select__what_is_no_price_never_wins(price):
    # https://github.com/skypilot-org/skypilot/issues/2496 (E25): a missing price was read as 0 and picked.
    market = Market(offers=(make_offer("t4", price), make_offer("l4", 0.004)))

    found = select(market, Requirements(), PLATFORMS)

    assert [offer.usd_per_hour for offer in found.offers] == [0.004]
    assert found.excluded[0].count == 1
    assert "price" in found.excluded[0].reason


def test_select__platforms_that_the_catalogue_lacks_are_left_out_and_said():
    found = select(Market(offers=(make_offer("b999", 1.0), *OFFERS)), Requirements(), PLATFORMS)

    assert "b999 is not in the catalogue of platforms" in {one.reason for one in found.excluded}


def test_select__the_order_of_offers_does_not_matter():
    assert select(Market(offers=OFFERS[::-1]), Requirements(), PLATFORMS) == selected()


def test_check__the_defaults_are_fine():
    check(Requirements())


def test_names__shortens():
    assert names(["b", "a", "a"]) == "a, b"
    assert names("abcdefgh", most=2) == "a, b and 6 more"


def test_select__all_stands_alone():
    with pytest.raises(UsageError, match="'all' stands beside other names"):
        selected(devices=("all", "l4"))


def test_select__own_without_a_price_of_ones_own_says_how_to_declare_one():
    with pytest.raises(UsageError, match=r"declare one under \[cost.prices\]"):
        select(Market(offers=OFFERS[:2]), Requirements(providers=("own",)), PLATFORMS)


def test_select__a_name_without_its_variant_suggests_the_variants():
    platforms = {name: make_platform(name) for name in ("mi100", "h100-nvl", "h100-pcie", "h100-sxm", "gh200")}
    with pytest.raises(UsageError, match="did you mean h100-nvl or h100-pcie or h100-sxm"):
        select(Market(offers=OFFERS), Requirements(devices=("h100",)), platforms)
