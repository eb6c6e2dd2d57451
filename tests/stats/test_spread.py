from __future__ import annotations

import random

import pytest

from perfgate.stats.spread import less_stable, relative_spread
from tests.stats.helpers import pair, side


def measured(seed: int, *, base_cv=0.01, head_cv=0.01, base_process=0.01, head_process=0.01, slower=1.0, count=12):
    rng = random.Random(seed)

    def samples(process: float, cv: float, scale: float = 1.0) -> tuple[int, ...]:
        level = 1e7 * scale * rng.gauss(1, process)
        return tuple(round(level * rng.gauss(1, cv)) for _ in range(20))

    return [
        pair(side(samples(base_process, base_cv)), side(samples(head_process, head_cv, slower)), index)
        for index in range(count)
    ]


def test_less_stable__noise_inside_the_process():
    found = less_stable(measured(1, head_cv=0.04))
    assert found is not None
    assert found.where == "within"
    assert found.ratio == pytest.approx(4, rel=0.3)


def test_less_stable__luck_of_the_process():
    found = less_stable(measured(2, head_process=0.2))
    assert found is not None
    assert found.where == "between"


def test_less_stable__a_slower_head_is_no_finding():
    assert less_stable(measured(3, slower=3.0)) is None


def test_less_stable__a_more_stable_head_is_no_finding():
    assert less_stable(measured(4, base_cv=0.05, base_process=0.1)) is None


def test_less_stable__noise_of_the_machine_hits_both_sides():
    assert less_stable(measured(5, base_cv=0.1, head_cv=0.1, base_process=0.1, head_process=0.1)) is None


def test_less_stable__false_findings_are_rare():
    found = sum(less_stable(measured(seed, count=8)) is not None for seed in range(200))
    assert found <= 2 + 3 * 1.5, "one percent of 200, and three standard errors"


def test_less_stable__few_pairs_or_no_spread_find_nothing():
    assert less_stable(measured(6, head_cv=0.2, count=4)) is None
    assert less_stable([pair(100, 100, index) for index in range(12)]) is None


def test_less_stable__ratio_is_none_where_base_has_no_spread():
    base = side((100, 100, 100, 100))
    heads = [80, 120, 90, 110, 70, 130, 60, 140]
    found = less_stable([pair(base, level, index) for index, level in enumerate(heads)])
    assert found is not None
    assert (found.where, found.ratio) == ("between", None)


def test_relative_spread__ignores_a_single_outlier():
    plain = relative_spread(side((97, 98, 99, 100, 101, 102, 103, 104)))
    with_outlier = relative_spread(side((97, 98, 99, 100, 101, 102, 103, 9_000)))
    assert plain is not None
    assert with_outlier is not None
    assert with_outlier == plain
    assert relative_spread(side((1, 2, 3))) is None
