"""Why a question is unlike what was learned from, and what each cause does to an interval."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.estimator import novelty
from perfgate.estimator.novelty import Novel
from perfgate.estimator.support import Rare, Support
from tests.estimator import steps


@pytest.fixture(scope="module")
def measured():
    return steps.examples(60)


@pytest.fixture(scope="module")
def known(measured):
    return novelty.seen(measured, {"linear", "dense convolution"}, Support())


def rare(share, more, less):
    return Rare(kind="16-bit upsampling", share=share, having=1, groups=40, more=more, less=less)


def test_causes__hardly_measured_kernels_move_the_ends_by_the_time_in_doubt(measured, known):
    common = novelty.causes(measured[0], known)
    found = novelty.causes(measured[0], known, [rare(0.2, 0.5, 0.15), rare(0.1, 0.1, 0.05)])
    assert len(found.why) == len(common.why) + 1
    assert any("20.0 % of its time is in upsampling" in text for text in found.why)
    assert not any("10.0 %" in text for text in found.why)
    assert found.factor > common.factor
    assert found.above == pytest.approx(math.log(1.6))
    assert found.below == pytest.approx(math.log(0.8))


def test_causes__no_kernels_move_an_end_further_than_a_factor_of_four(measured, known):
    found = novelty.causes(measured[0], known, [rare(1.0, 25.0, 0.99)])
    assert found.above == pytest.approx(1.4)
    assert found.below == pytest.approx(-1.4)


def test_novel__ends_are_widened_but_for_what_they_allow_for_already():
    new = Novel(why=("a", "b"), factor=3.0, below=-0.1, above=0.2)
    assert new.ends(-0.2, 0.3) == pytest.approx((-0.7, 1.1))
    assert new.ends(-0.2, 0.3, but=1.5) == pytest.approx((-0.5, 0.8))
    assert replace(new, factor=1.2).ends(-0.2, 0.3, but=1.5) == pytest.approx((-0.3, 0.5))


def test_amounts__more_kernels_are_outside_sooner_than_more_work(measured, known):
    def texts(**factors):
        largest = max(measured, key=lambda one: sum(each.calls * each.flop for each in one.kernels))
        most = max(sum(each.calls for each in one.kernels) for one in measured)
        groups = tuple(replace(each, flop=int(each.flop * factors.get("flop", 1))) for each in largest.kernels)
        if "calls" in factors:
            groups = (
                *groups,
                replace(groups[-1], flop=0, bytes=1, written_bytes=0, calls=int(factors["calls"] * most)),
            )
        return [text for text in novelty.causes(replace(largest, kernels=groups), known).why if "beyond" in text]

    assert not texts(flop=1.8)
    assert any("FLOP" in text for text in texts(flop=2.2))
    assert any("kernels" in text for text in texts(calls=1.8))
