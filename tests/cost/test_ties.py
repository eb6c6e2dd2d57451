"""What the times cannot tell from the cheapest."""

from __future__ import annotations

import math

import numpy as np
import pytest

from perfgate.cost import residuals
from perfgate.cost.optimise import optimise
from perfgate.records.cost import COST, MEASURED, TIME, Requirements
from perfgate.records.hardware import CPU, Market
from tests.cost.problems import FakeTimes, changed, make_offer, make_platform, make_time, make_way

NAMES = ("a", "b", "c")


def tied(ratios=(1.0, 1.1, 3.0), *, sigma=0.2, kinds=("gpu", "gpu", "gpu"), times=None, offers=()):
    """Platforms of one speed whose prices, and so costs, are in these ratios."""
    platforms = {name: make_platform(name, kind=kind) for name, kind in zip(NAMES, kinds, strict=True)}
    given = tuple(make_offer(name, ratio, ram_bytes=2**36) for name, ratio in zip(NAMES, ratios, strict=True))
    found = times or FakeTimes(dict.fromkeys(NAMES, 1e6), sigma)
    answer = optimise(
        [make_way()], Market(offers=(*given, *offers)), Requirements(forms=("single",)), found, platforms=platforms
    )
    return answer, [point.offer.platform for point in answer.tied]


def test_tied__holds_what_intervals_cannot_separate():
    answer, names = tied()

    assert names == ["b"]
    assert answer.cheapest is not None
    assert answer.cheapest.tie == answer.tied[0].tie == 1


def test_tied__exact_times_separate_everything():
    answer, names = tied(sigma=0.0)

    assert names == []
    assert answer.cheapest is not None
    assert answer.cheapest.tie == 0


def test_tied__equal_costs_on_two_platforms_are_tied_even_then():
    assert tied((1.0, 1.0, 3.0), sigma=0.0)[1] == ["b"]


@pytest.mark.parametrize(("ratio", "expected"), [(1.25, ["b"]), (1.28, [])])
def test_tied__related_devices_share_their_errors(ratio, expected):
    # s sqrt(2 (1 - 0.75)) = 0.1414; 1.645 of it: a factor of 1.262.
    assert tied((1.0, ratio, 9.0))[1] == expected


@pytest.mark.parametrize(("ratio", "expected"), [(1.55, ["b"]), (1.65, [])])
def test_tied__unrelated_devices_do_not(ratio, expected):
    # s sqrt(2) = 0.283: a factor of 1.592.
    assert tied((1.0, ratio, 9.0), kinds=("gpu", CPU, "gpu"))[1] == expected


def test_tied__a_measured_time_shares_no_error_with_a_modelled_one():
    def half_measured(way, devices):
        found = FakeTimes(dict.fromkeys(NAMES, 1e6), 0.2)(way, devices)
        exact = FakeTimes(dict.fromkeys(NAMES, 1e6), 0.01)(way, devices)
        return [*changed(exact[:1], source=MEASURED), *found[1:]]

    # sqrt(0.2^2 + 0.01^2) = 0.2: a factor of 1.39.
    assert tied((1.0, 1.35, 9.0), times=half_measured)[1] == ["b"]
    assert tied((1.0, 1.42, 9.0), times=half_measured)[1] == []


def test_tied__other_prices_of_the_same_machine_are_no_ties():
    answer, names = tied((1.0, 5.0, 9.0), offers=(make_offer("a", 1.0, region="r9"), make_offer("a", 1.01)))

    assert names == []
    assert answer.cheapest is not None
    assert answer.cheapest.tie == 0


def test_tied__each_machine_is_named_once_the_cheapest_first():
    more = (make_offer("c", 1.2, instance="z"), make_offer("b", 1.12, instance="y"))

    assert tied((1.0, 1.1, 1.05), offers=more)[1] == ["c", "b"]


def test_front__says_which_of_its_points_are_tied():
    platforms = {name: make_platform(name) for name in NAMES}
    # c is three times as dear an item, and twice as fast.
    times = FakeTimes({"a": 2e6, "b": 1.9e6, "c": 1e6}, 0.2)
    market = Market(offers=(make_offer("a", 1.0), make_offer("b", 1.1), make_offer("c", 6.0)))

    answer = optimise([make_way()], market, Requirements(objectives=(COST, TIME)), times, platforms=platforms)

    assert [(point.offer.platform, point.tie) for point in answer.front] == [("a", 1), ("b", 1), ("c", 0)]


def test_spread__of_an_interval_of_90_percent():
    assert residuals.spread(make_time(5.0, 0.3)) == pytest.approx(0.3)
    assert residuals.spreads(np.array([1.0]), np.array([1.0]))[0] == 0


def test_of_ratio__between_no_and_full_correlation():
    assert float(residuals.of_ratio(0.3, 0.4, 0.0)) == pytest.approx(0.5)
    assert float(residuals.of_ratio(0.3, 0.4, 1.0)) == pytest.approx(0.1)
    assert float(residuals.of_ratio(0.3, 0.3, 1.0)) == 0
    assert float(residuals.of_ratio(0.2, 0.2, 0.75)) == pytest.approx(0.2 * math.sqrt(0.5))


def test_across_platforms__only_within_a_kind():
    assert residuals.across_platforms("gpu", "gpu") == 0.75
    assert residuals.across_platforms("gpu", "cpu") == 0
    assert residuals.across_platforms("tpu", "tpu") == 0
