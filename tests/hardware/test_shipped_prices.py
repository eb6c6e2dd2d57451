"""The package's own price tables, as they are shipped."""

from __future__ import annotations

import datetime as dt

import pytest

from perfgate.hardware import catalogue, offers, tables
from perfgate.records.cost import Prices
from perfgate.records.hardware import CPU, ON_DEMAND, SPOT, Market, Offer

TODAY = dt.date(2026, 11, 30)
MAJOR = {"aws", "azure", "gcp", "lambda", "nebius", "oci", "verda"}
IMPLAUSIBLE = ("median", "without accelerators", "other regions")


@pytest.fixture(scope="module")
def shipped():
    return offers.market(Prices(), today=TODAY)


def _one(market: Market, name: str, region: str = "", terms: str = ON_DEMAND) -> Offer:
    (found,) = (each for each in market.offers if (each.name, each.region, each.terms) == (name, region, terms))
    return found


@pytest.mark.parametrize("table", tables.shipped(), ids=lambda table: table.name)
def test_shipped__every_row_is_of_the_catalogue_and_of_its_file(table) -> None:
    platforms = catalogue.platforms()
    assert table.rows
    for row in table.rows:
        assert row.platform in platforms, f"{table.name}:{row.line}"
        assert f"{row.provider}_{row.date}.csv" == table.name
        assert row.currency == tables.USD
        assert row.source
        if platforms[row.platform].kind == CPU:
            assert row.count == 1
            assert 0 < row.share <= 2, f"{table.name}:{row.line}"
        else:
            assert row.share == 1, f"{table.name}:{row.line}"


def test_shipped__the_large_providers_are_there_with_both_terms(shipped) -> None:
    assert {each.provider for each in shipped.offers} > MAJOR
    assert {each.provider for each in shipped.offers if each.terms == SPOT} >= {"gcp", "nebius", "oci", "verda"}
    assert len({each.platform for each in shipped.offers}) >= 75
    assert len({each.region for each in shipped.offers if each.provider == "gcp"}) >= 29


def test_shipped__no_price_vanishes(shipped) -> None:
    prices = sum(
        (row.on_demand is not None) + (row.spot is not None) + (row.on_demand is None and row.spot is not None)
        for table in tables.shipped()
        for row in table.rows
    )
    assert len(shipped.offers) + sum(each.count for each in shipped.excluded) == prices
    assert sum(each.offers for each in shipped.tables) == len(shipped.offers)


def test_shipped__one_real_price_is_too_good_for_the_rule_and_no_other(shipped) -> None:
    held = [each for each in shipped.excluded if any(mark in each.reason for mark in IMPLAUSIBLE)]
    assert [(each.what, each.count) for each in held] == [("verda: 1V100.6V in FIN-01 (on-demand)", 1)]


def test_shipped__verda_sells_some_machines_as_spot_only(shipped) -> None:
    (left,) = (each for each in shipped.excluded if each.reason == "no on-demand price, only spot")
    assert left.count == 5
    assert _one(shipped, "verda/2B300.60V", "FIN-03", SPOT).usd_per_hour == 4.893
    assert not [each for each in shipped.offers if each.name == "verda/8B200.240V" and each.terms == ON_DEMAND]


@pytest.mark.parametrize(
    ("name", "region", "platform", "count", "usd"),
    [
        ("aws/p5.48xlarge", "us-east-1", "h100-sxm", 8, 55.04),
        ("aws/g6f.large", "us-east-1", "l4-1of8", 1, 0.202),
        ("azure/Standard_NV6ads_A10_v5", "eastus", "a10-1of6", 1, 0.454),
        ("azure/Standard_NC6_Promo", "eastus", "k80", 1, 0.396),
        ("gcp/g2-standard-48", "us-central1", "l4", 4, 4.001665),
        ("gcp/n1-highmem-4+1xp4", "", "p4", 1, 0.84),
        ("lambda/gpu_1x_gh200", "", "gh200", 1, 2.29),
        ("oci/BM.GPU.MI300X.8", "", "mi300x", 8, 48.0),
        ("simplepod/gpu_1x_rtx3090_12", "Europe-EE", "rtx-3090", 1, 0.22),
        ("simplepod/gpu_1x_rtx4090_32", "Europe-PL", "rtx-4090", 1, 0.34),
    ],
)
def test_shipped__known_machines(shipped, name: str, region: str, platform: str, count: int, usd: float) -> None:
    found = _one(shipped, name, region)
    assert (found.platform, found.count, found.usd_per_hour) == (platform, count, usd)


def test_shipped__a_cpu_machine_is_its_part_of_a_socket(shipped) -> None:
    metal = _one(shipped, "aws/c7i.metal-48xl", "us-east-1")
    assert (metal.platform, metal.share, metal.vcpus) == ("xeon-8488c", 2.0, 192.0)
    assert metal.memory_bytes == 384 * 2**30
    small = _one(shipped, "aws/c7i.xlarge", "us-east-1")
    assert small.share == pytest.approx(2 / 48, rel=1e-4)


def test_shipped__a_box_of_eight_has_one_devices_memory_each(shipped) -> None:
    # Lambda publishes one device's total for its boxes, others the sum: neither may reach an offer.
    for name, region in (("lambda/gpu_8x_h100_sxm5", ""), ("nebius/gpu-h100-sxm_8gpu-128vcpu-1600gb", "eu-north1")):
        assert _one(shipped, name, region).memory_bytes in (None, 80 * 2**30)


def test_shipped__a_newer_list_replaces_the_older_one(shipped) -> None:
    found = _one(shipped, "nebius/gpu-h200-sxm_8gpu-128vcpu-1600gb", "eu-west1")
    assert (found.usd_per_hour, found.date) == (36.0, "2026-08-28")
    elsewhere = _one(shipped, "nebius/gpu-h200-sxm_8gpu-128vcpu-1600gb", "eu-north1")
    assert (elsewhere.usd_per_hour, elsewhere.date) == (28.0, "2026-01-01")


def test_shipped__old_lists_are_said_to_be_old(shipped) -> None:
    (warning,) = shipped.warnings
    assert "21 of 24 price lists are older than 120 days" in warning
    assert "2025-03-01 (639 days: azure, cudo, dataoorts)" in warning
    assert "2026-09-18" not in warning
