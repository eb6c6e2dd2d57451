from __future__ import annotations

import pytest

from perfgate.cost.runner import recognised, runner
from perfgate.hardware import catalogue
from perfgate.records.hardware import OWN, SPOT, Market
from tests.cost.problems import make_offer

L4 = {"gpu0": "NVIDIA L4", "gpu0_memory": "22.5 GiB", "cpu": "no such CPU", "physical_cores": "4"}
XEON = {"cpu": "Intel(R) Xeon(R) Platinum 8375C CPU @ 2.90GHz", "physical_cores": "8"}


def platform(device):
    assert device is not None
    return device.platform.name


def market(*offers):
    return Market(offers=offers)


def test_recognised__cards_by_their_own_number():
    hardware = {**L4, "gpu1": "NVIDIA A10G", "gpu1_memory": "22.5 GiB"}
    assert platform(recognised(hardware, "cuda:0")) == "l4"
    assert platform(recognised(hardware, "cuda:1")) == "a10g"
    assert recognised(hardware, "cuda:2") is None


def test_recognised__a_cpu_machine_has_a_share_of_its_socket():
    device = recognised(XEON, "cpu")
    assert device is not None
    assert device.platform.name == "xeon-8375c"
    cores = catalogue.find("xeon-8375c").cores
    assert cores is not None
    assert device.share == pytest.approx(8 / cores)


@pytest.mark.parametrize("hardware", [{"cpu": "AMD EPYC"}, {}, {"cpu": "NVIDIA L4", "physical_cores": "4"}])
def test_recognised__unknown_stays_unknown(hardware):
    assert recognised(hardware, "cpu") is None


def test_runner__declared_number():
    found = runner(L4, "cuda:0", "0.81", market())
    assert (found.usd_per_hour, found.assumed) == (0.81, False)
    assert platform(found.device) == "l4"
    assert found.text == "declared: $0.81 an hour"


def test_runner__declared_offer_is_the_cheapest_of_its_regions_and_never_spot():
    offers = market(
        make_offer("l4", 0.9, provider="aws", instance="g6.xlarge", region="eu-1"),
        make_offer("l4", 0.8, provider="aws", instance="g6.xlarge", region="us-1"),
        make_offer("l4", 0.2, provider="aws", instance="g6.xlarge", region="us-1", terms=SPOT),
    )
    found = runner({}, "cuda:0", "aws/g6.xlarge", offers)
    assert found.usd_per_hour == 0.8
    assert platform(found.device) == "l4"
    assert found.text == "declared: aws/g6.xlarge, us-1, $0.80 an hour on 2026-01-01"
    assert found.date == "2026-01-01"


def test_runner__declared_offer_that_nobody_has_is_no_price_and_a_warning():
    found = runner(L4, "cuda:0", "aws/g6.xlrage", market())
    assert found.usd_per_hour is None
    assert "'aws/g6.xlrage'" in found.text
    assert found.warnings == (found.text,)


def test_runner__nothing_declared_takes_the_cheapest_device_that_is_not_spot():
    offers = market(
        make_offer("l4", 1.2, count=2),
        make_offer("l4", 0.7),
        make_offer("l4", 0.1, terms=SPOT),
        make_offer("a10g", 0.1),
    )
    found = runner(L4, "cuda:0", "", offers)
    assert (found.usd_per_hour, found.assumed) == (0.6, True)
    assert found.text.startswith("assumed: $0.60 an hour, the cheapest offer of one ")


def test_runner__own_machine_counts_as_an_offer():
    found = runner(L4, "cuda:0", "", market(make_offer("l4", 0.7), make_offer("l4", 0.5, terms=OWN)))
    assert found.usd_per_hour == 0.5


def test_runner__cpu_is_priced_by_its_cores():
    # Half a socket for $2: 8 of 32 cores are a quarter.
    found = runner(XEON, "cpu", "", market(make_offer("xeon-8375c", 2.0, share=0.5)))
    assert found.usd_per_hour == pytest.approx(1.0)


@pytest.mark.parametrize(
    ("hardware", "words"),
    [({"cpu": "AMD EPYC"}, "AMD EPYC is not in the hardware catalogue"), (XEON, "no offer of")],
)
def test_runner__no_price_says_why_and_what_to_do(hardware, words):
    found = runner(hardware, "cpu", "", market())
    assert found.usd_per_hour is None
    assert words in found.text
    assert "set runner under [cost]" in found.text


@pytest.mark.parametrize("text", ["-1", "0", "nan", "inf"])
def test_runner__a_price_is_above_zero_and_finite(text):
    assert runner(L4, "cuda:0", text, market()).usd_per_hour is None
