from __future__ import annotations

import random

from hypothesis import given
from hypothesis import strategies as st

from perfgate.bench.blocks import draw_order, shape

STEPS = st.integers(min_value=1, max_value=120_000_000_000)
BLOCKS = st.integers(min_value=1_000_000, max_value=2_000_000_000)


@given(STEPS, BLOCKS)
def test_shape__enough_samples_long_enough_and_bounded(step_ns, block_ns):
    chosen = shape(step_ns, block_ns)
    assert 5 <= chosen.samples <= 500
    assert chosen.length_ns >= block_ns
    # One sample too many at each of the two roundings, or the five that every block has.
    assert chosen.length_ns <= max(5 * chosen.inner * step_ns, 2 * block_ns + 2 * chosen.inner * step_ns)


@given(STEPS, BLOCKS)
def test_shape__short_calls_are_timed_together_until_a_millisecond(step_ns, block_ns):
    chosen = shape(step_ns, block_ns)
    if step_ns < 200_000:
        assert chosen.inner * step_ns >= 1_000_000
    elif block_ns <= 50_000_000:
        assert chosen.inner == 1


def test_shape__slow_steps_throw_one_call_away():
    assert shape(50_000_000, 50_000_000).request.discard_calls == 2
    assert shape(150_000_000, 50_000_000).request.discard_calls == 1
    assert shape(50_000_000, 2_000_000_000).request.discard_calls == 2


@given(st.integers(), st.integers(min_value=1, max_value=8))
def test_draw_order__both_sides_equally_often_and_no_drift(seed, groups):
    order = draw_order(random.Random(seed), groups)
    assert order.count("A") == order.count("B") == 2 * groups
    # Linear drift cancels: the mean place of A and of B are equal.
    assert sum(place for place, letter in enumerate(order) if letter == "A") * 2 == sum(range(4 * groups))


def test_draw_order__either_side_may_come_first():
    assert {draw_order(random.Random(seed), 1) for seed in range(20)} == {"ABBA", "BAAB"}
