from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records.cost import Requirements
from perfgate.records.fleet import FleetPart, FleetPlan
from perfgate.records.hardware import OWN, SPOT
from perfgate.report import costs
from perfgate.report.costs import device, fleet_lines, fleet_rows, left_out, roof_rows, roofline_lines, row, rows
from tests.report.cost_builders import answer, front, offer, operator, point, roof, tied


def plain(text: str) -> str:
    return text.replace("\u00a0", " ").replace("\u202f", " ")


def test_rows__one_configuration_in_all_its_parts():
    first = rows(tied())[0]
    assert (first.platform, first.machine, first.region, first.terms) == (
        "L4",
        "aws/g6.xlarge",
        "us-east-1",
        "on-demand",
    )
    assert (first.price, first.date) == ("$0.805/h", "2026-07-20")
    assert (first.batch, first.dtype, first.compile, first.form) == ("b32", "bfloat16", "eager", "one device")
    assert (first.step, first.interval) == ("18.0 ms", "13.8 ms to 23.4 ms")
    assert (first.memory, first.utilisation, first.energy) == ("6.00 GiB of 20.0 GiB", "12.1 %", "40.0 mJ")
    # 0.805 USD / 3600 s x 18 ms = 4.025e-6 USD a step of 32 items.
    assert (first.per_1k_steps, first.per_1m_items) == ("$0.00402", "$0.126")
    assert first.marks == ("cheapest", "≈ 1")
    assert first.why == "memory bound at I = 19.1 < 403 FLOP/B"


def test_rows__the_front_in_its_order_with_its_knee():
    assert [(r.platform, r.marks) for r in rows(answer())] == [
        ("L4", ("cheapest",)),
        ("L40S", ("knee",)),
        ("2 × L40S", ()),
        ("H100 SXM", ()),
    ]
    assert rows(answer())[-1].energy == "n/a"


def test_rows__a_cheapest_off_the_front_comes_first():
    found = answer(*front()[1:], cheapest=front()[0])
    assert [r.platform for r in rows(found)] == ["L4", "L40S", "2 × L40S", "H100 SXM"]
    assert rows(found)[0].marks == ("cheapest",)


def test_rows__of_nothing():
    assert rows(answer(front=(), cheapest=None)) == []


@pytest.mark.parametrize(
    ("fields", "used", "expected"),
    [
        ({}, 1, "L4"),
        ({"count": 4}, 4, "4 × L4"),
        ({"count": 4}, 1, "1 of 4 × L4"),
        ({"share": 0.125}, 1, "12.5 % of one L4"),
        ({"platform": "xeon-8488c", "share": 2.0}, 1, "2 × Xeon 8488C"),
    ],
)
def test_device__what_is_used_of_which_machine(fields, used, expected):
    assert costs.device(point(offer(**fields), devices=used)) == expected


def test_named__says_what_is_needed_to_rent_it():
    assert costs.named(point()) == "L4 (aws/g6.xlarge, us-east-1, $0.805/h of 2026-07-20)"
    spot = point(offer(terms=SPOT, region=""))
    assert costs.named(spot) == "L4 (aws/g6.xlarge, spot, $0.805/h of 2026-07-20)"
    own = point(offer(terms=OWN, provider="own", instance="rack", region="", date=""))
    assert costs.named(own) == "L4 (own/rack, $0.805/h)"


def test_row__a_price_of_nothing_and_a_very_small_one():
    assert row(point(offer(usd=0.0))).price == "$0/h"
    assert row(point(offer(usd=0.00003), 1e3)).per_1m_items not in {"$0.00", "$0"}


def test_limits__in_the_order_of_their_weight_as_people_write_them():
    assert costs.limits(Requirements()) == ()
    found = costs.limits(
        Requirements(
            max_step_ns=20e6,
            percentile=0.99,
            min_throughput=500,
            job_items=1.28e6,
            deadline_s=3 * 3600,
            max_usd_per_hour=2.5,
            max_usd_per_month=900,
            min_utilisation=0.3,
        )
    )
    assert found == (
        "20 ms at p99",
        "500 items/s",
        "1.28 M items within 3 h 0 min",
        "$2.50 an hour",
        "$900.00 a month",
        "a utilisation of 30 %",
    )


@pytest.mark.parametrize(
    ("texts", "expected"), [((), ""), (("a",), "a"), (("a", "b"), "a and b"), (("a", "b", "c"), "a, b and c")]
)
def test_listed__joins_as_people_do(texts, expected):
    assert costs.listed(texts) == expected


def test_factor__the_larger_way_off():
    assert costs.factor(point()) == pytest.approx(1.3)
    assert costs.factor(point(low_ns=9e6, high_ns=18e6)) == 2.0
    assert costs.factor(point(low_ns=0.0)) is None


def test_bound__compares_the_intensity_with_the_ridge():
    assert costs.bound(roof()) == "memory bound at I = 19.1 < 403 FLOP/B"
    assert costs.bound(replace(roof(), bound="compute", intensity=800.0)) == "compute bound at I = 800 ≥ 403 FLOP/B"
    assert costs.bound(replace(roof(), bound="launch")) == "launch bound"
    # The step as a whole may lie on one side while its operators' time lies on the other.
    assert costs.bound(replace(roof(), bound="compute")) == "compute bound"


def test_roofline_lines__what_is_known_of_a_step():
    found = {line.label: plain(line.text) for line in roofline_lines(roof())}
    assert found["Device"] == "L4, π and β measured by the probe"
    assert (found["π"], found["β"]) == ("121 TFLOP/s", "300 GB/s")
    # 300 GB/s x 19.1 FLOP/B; 50 GFLOP in 15.02 ms.
    assert (found["Attainable P"], found["Achieved P"]) == ("5.73 TFLOP/s", "3.33 TFLOP/s")
    assert found["Share of the bound"] == "58.1 %"


def test_roofline_lines__without_a_measurement():
    found = {line.label: line.text for line in roofline_lines(replace(roof(None), measured=False))}
    assert (found["Achieved P"], found["Share of the bound"]) == ("n/a", "n/a")
    assert found["Device"].endswith("published")


def test_roof_rows__most_time_first_and_no_intensity_without_products():
    found = roof_rows(roof(), 4)
    assert [r.name for r in found] == ["layer3.*.conv2", "bn1/batch_norm", "relu", "layer4.*.conv2"]
    assert (found[2].flop, found[2].intensity) == ("–", "–")
    assert (found[3].bound, found[3].intensity) == ("compute", "643 FLOP/B")
    assert len(roof_rows(replace(roof(), operators=(operator(),) * 9))) == 9


@pytest.mark.parametrize("value", [1e308, -1e308, float("inf"), float("nan"), None])
def test_share__what_no_part_can_be(value):
    assert costs.share(value) == "n/a"


def plan(**fields) -> FleetPlan:
    parts = (
        FleetPart(point=front()[0], machines=3, items_per_s=5_333.3, usd_per_hour=2.415),
        FleetPart(point=front()[2], machines=1, items_per_s=6_956.5, usd_per_hour=4.2),
    )
    values = {
        "parts": parts,
        "items_per_s": 12_289.8,
        "usd_per_hour": 6.735,
        "egress_usd_per_hour": 0.12,
        "optimal": True,
        "gap": 0.0,
        "bound_usd_per_hour": 6.735,
    }
    return FleetPlan(**{**values, **fields})


def test_fleet_rows__machines_of_each_kind():
    first, second = fleet_rows(plan())
    assert (first.machines, first.platform, first.machine, first.price) == ("3", "L4", "aws/g6.xlarge", "$2.42/h")
    assert (second.platform, plain(second.throughput), second.hours) == ("2 × L40S", "6 960 items/s", "")


def test_fleet_lines__cost_and_how_good_it_is():
    found = {line.label: line.text for line in fleet_lines(plan(warnings=("prices are old",)))}
    assert found["Price"] == "$6.74/h, of which egress $0.12/h"
    assert (found["Cheapest mix"], found["Warning"]) == ("proven", "prices are old")
    assert "Whole job" not in found


def test_fleet_lines__a_gap_is_stated():
    running = plan(optimal=False, gap=0.021, bound_usd_per_hour=6.6)
    text = {line.label: line.text for line in fleet_lines(running)}["Cheapest mix"]
    assert text == "not proven: no mix costs less than $6.60/h, 2.1 % below"
    job = plan(optimal=False, gap=0.021, bound_usd_per_hour=6.6, usd_total=13.5, hours=2.0)
    found = {line.label: line.text for line in fleet_lines(job)}
    assert (found["Whole job"], found["Takes"]) == ("$13.50", "2 h 0 min")
    assert found["Cheapest mix"] == "not proven: no mix costs less than $13.20, 2.1 % below"


@pytest.mark.parametrize(
    ("what", "count", "text"),
    [
        ("offers", 493, "493 offers: spot"),
        ("configurations", 1, "1 configuration: spot"),
        ("aws: g6.xlarge", 2, "2 × aws: g6.xlarge: spot"),
    ],
)
def test_left_out__says_how_many(what, count, text):
    assert left_out(what, "spot", count) == text


def test_device__a_core_is_one_core():
    graviton = offer("graviton3", 0.04, share=1 / 64)
    assert device(point(graviton)) == "1 core of Graviton3"
