"""What is said of estimates against measurements."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfgate.estimator import accuracy, memory
from perfgate.records.estimate import FITTED, PEAK_MEMORY, STEP_TIME, Estimate
from tests.estimator import steps


def answer(target, value, low, high):
    return Estimate(target=target, value=value, low=low, high=high, coverage=0.9, source=FITTED)


def test_of_answers__by_hand():
    rng = np.random.default_rng(0)
    rows = [replace(steps.example(rng, 0, family=family), targets={STEP_TIME: 100.0}) for family in (0, 0, 1, 2)]
    ends = [(105, 90, 120), (85, 80, 90), (130, 65, 130), (100, 50, 200)]
    found = accuracy.of_answers(STEP_TIME, rows, [answer(STEP_TIME, *one) for one in ends])
    assert (found.target, found.n, found.groups) == (STEP_TIME, 4, 3)
    assert [found.median_ape, found.mean_ape] == pytest.approx([0.1, 0.125])
    assert (found.within_10, found.within_20, found.coverage) == (0.5, 0.75, 0.75)
    assert found.width == pytest.approx((120 / 90 + 2) / 2)


@pytest.mark.parametrize(("machine", "beside"), [(steps.GPU, memory.CONTEXT_BYTES), (steps.CPU, 0)])
def test_of_answers__peak_memory_is_held_against_what_the_device_held(machine, beside):
    """An estimate holds the context of an accelerator, which a measured peak of the allocator does not."""
    one = replace(steps.example(np.random.default_rng(0), 0, machine=machine), targets={PEAK_MEMORY: 2.0**30})
    held = 2.0**30 + beside
    found = accuracy.of_answers(PEAK_MEMORY, [one], [answer(PEAK_MEMORY, held, 0.9 * held, 1.1 * held)])
    assert (found.median_ape, found.coverage) == (0, 1)
