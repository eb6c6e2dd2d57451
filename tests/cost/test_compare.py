from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.cost import compare
from perfgate.records.cost import ITEMS, STEPS, Requirements, Volume
from perfgate.records.hardware import Market
from tests.cost.problems import FakeTimes, make_offer, make_way

MARKET = Market(offers=(make_offer("l4", 1.0), make_offer("l40s", 2.5)))


def question(**fields):
    return compare.Question(model="m", key="m/infer/b1/float16/cuda:0/eager", market=MARKET, **fields)


def side(l4_ms, l40s_ms, *, sigma=0.0, step_ns=None, batch=4):
    times = FakeTimes({"l4": l4_ms * 1e6, "l40s": l40s_ms * 1e6}, sigma=sigma)
    return compare.Side(way=make_way(batch), times=times, step_ns=step_ns)


def best(cost):
    assert cost is not None
    assert cost.answer.cheapest is not None
    return cost.answer.cheapest


def test_compare__a_faster_dear_platform_becomes_the_cheapest():
    # Dollars an item go with price times time: 1 x 10 against 2.5 x 5, then 1 x 20 against 2.5 x 5.
    found = compare.compare(question(), side(10, 5), side(20, 5))
    assert best(found.base).offer.platform == "l4"
    assert best(found.head).offer.platform == "l40s"
    assert found.moved
    assert found.sentence.startswith(
        "this change moves the cheapest platform from L4 to L40S ($3.47 per 1 M items, $2.78"
    )


def test_compare__same_recommendation_is_no_news():
    found = compare.compare(question(), side(10, 5), side(11, 5))
    assert (found.moved, found.sentence) == (False, "")


def test_compare__what_the_intervals_cannot_separate_has_not_moved():
    # 12.4 against 12.5 before and 12.6 after: the order turns, and nobody can tell.
    assert compare.compare(question(), side(12.4, 5), side(12.6, 5)).moved
    assert not compare.compare(question(), side(12.4, 5, sigma=0.2), side(12.6, 5, sigma=0.2)).moved


def test_compare__nothing_feasible_any_more():
    rules = Requirements(max_step_ns=45e6)
    found = compare.compare(question(requirements=rules), side(10, 20), side(12, 20))
    assert found.moved
    assert found.sentence.startswith("no platform meets the requirements any more; the cheapest was L4; nearest now:")
    assert "45" in found.sentence


def test_compare__feasible_for_the_first_time():
    rules = Requirements(max_step_ns=45e6)
    found = compare.compare(question(requirements=rules), side(12, 20), side(10, 20))
    assert found.sentence == "L4 now meets the requirements, which no platform did before"


def test_compare__one_side_alone_moves_nothing():
    found = compare.compare(question(), None, side(10, 5))
    assert found.base is None
    assert found.head is not None
    assert not found.moved


def test_side_cost__measured_step_times_the_price_of_the_runner():
    # A step of 36 ms is 1e-5 h, at $2 an hour $0.02 per 1 000 steps, with 4 items $5 per 1 M items.
    asked = question(runner_usd_per_hour=2.0, volume=Volume(amount=40e6, unit=STEPS))
    found = compare.side_cost(asked, side(10, 5, step_ns=36e6))
    assert found.runner_usd_per_1k_steps == pytest.approx(0.02)
    assert found.runner_usd_per_1m_items == pytest.approx(5.0)
    assert found.usd_per_month == pytest.approx(800.0)
    # On the L4 an item takes 10 ms, so a step of four 40 ms at $1 an hour.
    assert found.cheapest_usd_per_month == pytest.approx(40e6 * 40e-3 / 3600)


def test_side_cost__volume_in_items():
    asked = question(runner_usd_per_hour=2.0, volume=Volume(amount=40e6, unit=ITEMS))
    found = compare.side_cost(asked, side(10, 5, step_ns=36e6))
    assert found.usd_per_month == pytest.approx(200.0)


@pytest.mark.parametrize(("price", "step_ns"), [(None, 36e6), (2.0, None)])
def test_side_cost__unknown_price_or_time_is_no_number(price, step_ns):
    asked = question(runner_usd_per_hour=price, volume=Volume(amount=1.0))
    found = compare.side_cost(asked, side(10, 5, step_ns=step_ns))
    assert found.runner_usd_per_1k_steps is None
    assert found.runner_usd_per_1m_items is None
    assert found.usd_per_month is None
    assert found.cheapest_usd_per_month is not None


def test_platform__several_devices_are_said():
    point = best(compare.side_cost(question(), side(10, 5)))
    assert compare.platform(point) == "L4"
    assert compare.platform(replace(point, offer=replace(point.offer, count=2))) == "2 × L4"


def test_compare__a_side_without_kernels_has_the_runners_money_and_moves_nothing():
    blind = compare.Side(way=None, times=FakeTimes({}), items=4, step_ns=36e6, why="it was not counted")
    asked = question(runner_usd_per_hour=2.0, volume=Volume(amount=40e6, unit=STEPS))
    for base, head in ((side(10, 5, step_ns=36e6), blind), (blind, side(10, 5, step_ns=36e6))):
        found = compare.compare(asked, base, head)
        assert (found.moved, found.sentence) == (False, "")
        for known in (found.base, found.head):
            assert known is not None
            assert known.usd_per_month == pytest.approx(800.0)
    alone = compare.side_cost(asked, blind)
    assert alone.answer.warnings == ("no platform was looked for: it was not counted",)
    assert alone.cheapest_usd_per_month is None


def test_compare__a_month_does_the_same_work_on_both_sides():
    # Head's step has twice the items, so a month of base's steps needs half as many of head's.
    asked = question(runner_usd_per_hour=2.0, volume=Volume(amount=40e6, unit=STEPS))
    found = compare.compare(asked, side(10, 5, step_ns=36e6, batch=4), side(10, 5, step_ns=36e6, batch=8))
    assert found.base is not None
    assert found.head is not None
    assert found.base.usd_per_month == pytest.approx(800.0)
    assert found.head.usd_per_month == pytest.approx(400.0)
    assert found.volume == Volume(amount=40e6, unit=STEPS)
