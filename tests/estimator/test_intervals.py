"""Conformal quantiles, and what relatives say of one another."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.estimator import anchors, intervals
from perfgate.estimator.anchors import Places


def within(error, scale, found):
    """Whether each truth lies in the interval around an estimate of 1."""
    low, high = found.interval(np.ones(len(error)), scale)
    return (np.exp(error) >= low) & (np.exp(error) <= high)


def test_quantiles__cover_what_they_promise_by_row():
    rng = np.random.default_rng(0)
    error, groups = rng.normal(0, 0.1, 4000), np.arange(4000) % 200
    found = intervals.quantiles(error[:2000], np.ones(2000), groups[:2000])
    inside = within(error[2000:], np.ones(2000), found)
    assert 0.88 < inside.mean() < 0.93


def test_quantiles__small_groups_count_as_much_as_large_ones():
    """Nine groups of one row that are far off, one of a thousand that is not."""
    error = np.concatenate([np.full(9, 1.0), np.random.default_rng(0).normal(0, 0.01, 1000)])
    groups = np.concatenate([np.arange(9), np.full(1000, 9)])
    assert intervals.quantiles(error, np.ones(1009), groups).high == pytest.approx(1.0)


def test_quantiles__adapt_to_the_scale_and_to_a_skewed_tail():
    rng = np.random.default_rng(1)
    scale = rng.uniform(0.5, 3, 3000)
    error = np.abs(rng.normal(0, 0.1, 3000)) * scale
    found = intervals.quantiles(error, scale, np.arange(3000))
    assert found.low == 0.0
    assert 0.15 < found.high < 0.25
    for part in (scale < 1, scale > 2.5):
        assert 0.9 < within(error[part], scale[part], found).mean() <= 1


def test_quantiles__few_groups_are_wide():
    none = intervals.quantiles(np.zeros(0), np.zeros(0), np.zeros(0))
    two = intervals.quantiles(np.array([0.01, -0.01]), np.ones(2), np.arange(2))
    assert none.high == intervals.UNKNOWN
    assert two.high > 0.15


def places(z, group, model, setting=0):
    n = len(z)
    one = np.zeros(n, np.int64)
    return Places(z=np.array(z, float), group=np.array(group), model=np.array(model), setting=one + setting, kind=one)


def test_relatives__near_ones_count_and_far_ones_do_not():
    known = places([[0.0], [0.01], [5.0]], [0, 0, 1], [0, 1, 2])
    residual = np.array([0.2, 0.2, -0.6])
    found = anchors.interpolate(known, residual, places([[0.0], [40.0]], [0, -1], [0, -1]))
    assert found.mean[0] == pytest.approx(0.2, abs=0.01)
    assert found.mean[1] == pytest.approx(0, abs=1e-9)
    assert (found.variance < [0.05, 1.01]).all()
    assert found.variance[1] > 0.99
    assert found.nearest[0] == 0


def test_relatives__of_the_held_out_group_are_not_looked_at():
    known = places([[0.0], [0.3]], [0, 1], [0, 1])
    asked = places([[0.0]], [0], [0])
    found = anchors.interpolate(known, np.array([0.5, 0.1]), asked, without_group=True)
    assert 0 < found.mean[0] < 0.1
    assert found.nearest[0] == 1


def test_relatives__on_another_machine_count_less():
    known = places([[0.0]], [0], [0])
    here = anchors.interpolate(known, np.array([0.5]), places([[0.0]], [0], [0]))
    there = anchors.interpolate(known, np.array([0.5]), places([[0.0]], [0], [0], setting=3))
    assert here.mean[0] > there.mean[0] > 0.3
    assert here.variance[0] < there.variance[0]


def test_relatives__width_follows_how_wrong_neighbours_were():
    known = places([[0.0], [0.01], [5.0], [5.01]], [0, 0, 1, 1], [0, 1, 2, 3])
    errors = np.array([0.5, 0.5, 0.01, 0.01])
    found = anchors.interpolate(known, np.zeros(4), places([[0.0], [5.0]], [0, 1], [-1, -1]), errors=errors)
    assert found.scatter[0] > 1.5 * found.scatter[1]


def test_relatives__one_of_the_group_counts_where_the_others_do_not():
    known = places([[0.0], [0.1], [0.2]], [0, 0, 1], [0, 1, 2])
    residual = np.array([0.5, -0.3, 0.0])
    asked = places([[0.0]], [0], [-1])
    none = anchors.interpolate(known, residual, asked, without_group=True)
    one = anchors.interpolate(known, residual, asked, without_group=True, but=np.array([1]))
    assert (none.nearest[0], one.nearest[0]) == (2, 1)
    assert one.mean[0] < -0.15
    assert one.variance[0] < 0.6 < none.variance[0]
    assert (none.distance[0], one.distance[0]) == (pytest.approx(0.2), pytest.approx(0.1))


def test_relatives__a_family_is_alike_further_than_strangers_are():
    known = places([[0.0], [3.0]], [0, 1], [0, 1])
    residual = np.array([0.4, 0.4])
    found = anchors.interpolate(known, residual, places([[0.6], [3.6]], [0, -1], [-1, -1]))
    assert found.mean[0] > 0.2 > 0.05 > found.mean[1]


def doubts(n, rng, **given):
    """Of answers that rest on much and on little."""
    ones = np.ones(n)
    return intervals.doubts(
        given.get("variance", rng.uniform(0, 1, n)), given.get("distance", 0.2 * ones), ones, 0.0 * ones
    )


def test_calibrate__covers_where_relatives_are_near_and_where_they_are_not():
    rng = np.random.default_rng(3)
    n = 6000
    variance = rng.uniform(0, 1, n)
    error, groups = rng.normal(0, 0.02 + 0.2 * variance, n), np.arange(n) % 150
    doubt = doubts(n, rng, variance=variance)
    found = intervals.calibrate(error[: n // 2], doubt[: n // 2], groups[: n // 2])
    inside, rest = found.covered(error[n // 2 :], doubt[n // 2 :]), variance[n // 2 :]
    for part in (rest < 0.2, (rest > 0.4) & (rest < 0.6), rest > 0.8):
        assert 0.86 < inside[part].mean() < 0.95
    low, high = found.ends(doubts(2, rng, variance=np.array([0.05, 0.95])))
    assert (high - low)[1] > 2.5 * (high - low)[0]


def test_calibrate__what_is_further_from_all_that_was_measured_is_wider():
    rng = np.random.default_rng(4)
    distance = rng.uniform(0, 0.5, 3000)
    error = rng.normal(0, 0.05 * np.exp(2 * distance))
    doubt = doubts(3000, rng, variance=np.ones(3000), distance=distance)
    found = intervals.calibrate(error, doubt, np.arange(3000) % 100)
    low, high = found.ends(doubts(2, rng, variance=np.ones(2), distance=np.array([0.05, 0.5])))
    assert (high - low)[1] > 1.8 * (high - low)[0]


def test_calibrate__twenty_errors_give_what_is_usual_of_their_size():
    rng = np.random.default_rng(5)
    covered, widths = [], []
    for _ in range(40):
        error = 0.1 * rng.standard_t(4, 20)
        found = intervals.calibrate(error, doubts(20, rng, variance=np.ones(20)), np.arange(20))
        doubt = doubts(500, rng, variance=np.ones(500))
        covered.append(found.covered(0.1 * rng.standard_t(4, 500), doubt).mean())
        low, high = found.ends(doubt[:1])
        widths.append(float(high[0] - low[0]))
    assert 0.85 < np.mean(covered) < 0.97
    narrow, wide = np.quantile(widths, [0.1, 0.9])
    assert wide < 2 * narrow


def test_calibrate__nothing_held_out_is_as_wide_as_the_unknown():
    found = intervals.calibrate(np.zeros(0), np.zeros((0, 4)), np.zeros(0))
    low, high = found.ends(np.zeros((1, 4)))
    assert (low[0], high[0]) == (pytest.approx(-intervals.UNKNOWN), pytest.approx(intervals.UNKNOWN))


def test_calibrate__a_setting_has_its_own_where_it_has_rows_enough():
    rng = np.random.default_rng(2)
    settings = np.repeat([0, 1, 2], [200, 200, 30])
    error = rng.normal(0, 1, 430) * np.array([0.02, 0.2, 0.1])[settings]
    doubt = doubts(430, rng, variance=np.ones(430))
    found = intervals.by_setting(error, doubt, np.arange(430) % 25, settings)
    assert set(found) == {0, 1}
    assert found[1].ends(doubt[:1])[1][0] > 5 * found[0].ends(doubt[:1])[1][0]
