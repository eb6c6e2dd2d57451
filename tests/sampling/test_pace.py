from __future__ import annotations

import itertools
import math
import statistics
from dataclasses import replace

import pytest

from perfgate.records.sampling import Condition, Network
from perfgate.sampling.design import Space, sequence
from perfgate.sampling.pace import Pace, memory_bytes

WIDE = {"inputs": 4096, "depth": 4, "width": 4096, "normalise": 0}


def wide(**changes):
    network = Network(family="fully-connected", parameters=WIDE)
    return Condition(**{"network": network, "mode": "infer", "batch": 64, **changes})


def drawn(count):
    return list(itertools.islice(sequence(Space(threads=(1, 2))), count))


def test_step_s__grows_with_the_work():
    pace = Pace()
    assert pace.step_s(wide(batch=128)) > pace.step_s(wide())
    assert pace.step_s(wide(mode="train", optimizer="sgd")) > 2 * pace.step_s(wide())
    assert pace.step_s(wide(threads=4)) < pace.step_s(wide())
    assert pace.step_s(wide(device="cuda:0")) < pace.step_s(wide())


def test_seconds__compiling_takes_most_of_it():
    pace = Pace()
    assert pace.seconds(wide(compile="default")) > pace.seconds(wide()) + 20


def test_learn__a_machine_that_is_five_times_slower_is_found_out():
    # Also slower by kind, so that one factor for all is not enough.
    true = Pace()
    factors = {"infer": 5.0, "train": 8.0}

    def really(one):
        return true.step_s(one) * factors[one.mode]

    pace = Pace()
    conditions = drawn(120)
    for one in conditions[:60]:
        pace.learn(one, step_s=really(one), spent_s=2.0 + 5 * really(one))
    errors = [abs(math.log(pace.step_s(one) / really(one))) for one in conditions[60:]]
    before = [abs(math.log(Pace().step_s(one) / really(one))) for one in conditions[60:]]
    assert statistics.median(errors) < 0.1 < statistics.median(before)
    totals = [pace.seconds(one) / (2.0 + 5 * really(one)) for one in conditions[60:]]
    assert 0.5 < statistics.median(totals) < 2.0


def test_learn__times_of_zero_do_no_harm():
    pace = Pace()
    pace.learn(wide(), step_s=0.0, spent_s=0.0)
    assert math.isfinite(pace.seconds(wide()))


@pytest.mark.parametrize(
    ("less", "more"),
    [
        ({}, {"batch": 4096}),
        ({}, {"mode": "train", "optimizer": "sgd"}),
        ({"mode": "train", "optimizer": "sgd"}, {"mode": "train", "optimizer": "adam"}),
        ({"mode": "train", "optimizer": "sgd", "accumulation": 8, "batch": 4096},
         {"mode": "train", "optimizer": "sgd", "batch": 4096}),
        ({"dtype": "bfloat16"}, {}),
    ],
)  # fmt: skip
def test_memory_bytes__orders_conditions(less, more):
    assert memory_bytes(wide(**less)) < memory_bytes(wide(**more))


def test_memory_bytes__holds_at_least_weights_gradients_and_states():
    weights = 4 * (4 * 4096**2)
    assert memory_bytes(wide(mode="train", optimizer="adam")) > 4 * weights
    assert memory_bytes(replace(wide(), batch=1)) > weights
