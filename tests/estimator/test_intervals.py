"""Conformal quantiles, and what relatives say of one another."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.estimator import anchors, intervals
from perfgate.estimator.anchors import Places


def test_quantiles__cover_what_they_promise_by_row():
    rng = np.random.default_rng(0)
    error, groups = rng.normal(0, 0.1, 4000), np.arange(4000) % 200
    found = intervals.quantiles(error[:2000], np.ones(2000), groups[:2000])
    inside = intervals.covered(error[2000:], np.ones(2000), found)
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
        assert 0.9 < intervals.covered(error[part], scale[part], found).mean() <= 1


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


def test_quantiles__of_a_setting_are_its_own_where_it_has_rows_enough():
    rng = np.random.default_rng(2)
    settings = np.repeat([0, 1, 2], [200, 200, 30])
    error = rng.normal(0, 1, 430) * np.array([0.02, 0.2, 0.1])[settings]
    found = intervals.by_setting(error, np.ones(430), np.arange(430) % 25, settings)
    assert set(found) == {0, 1}
    assert found[1].high > 5 * found[0].high
