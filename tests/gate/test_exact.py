from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.gate.exact import compare, ratio_of

values = st.floats(0, 1e15, allow_nan=False)
shares = st.floats(0, 2)


@pytest.mark.parametrize(
    ("base", "head", "limit", "verdict"),
    [
        (100, 100, 0.0, "pass"),
        (100, 100.0001, 0.0, "regression"),
        (100, 101, 0.01, "regression"),
        (100, 100.99, 0.01, "pass"),
        (100, 99, 0.01, "improvement"),
        (0, 0, 0.01, "pass"),
        (0, 1e-9, 0.5, "regression"),
        (3, 0, 0.5, "improvement"),
    ],
)
def test_compare__smaller_is_better(base, head, limit, verdict):
    assert compare(base, head, limit) == verdict


@pytest.mark.parametrize(
    ("base", "head", "verdict"), [(120, 0, "regression"), (0, 120, "improvement"), (120, 119.9, "pass")]
)
def test_compare__b20_larger_is_better(base, head, verdict):
    assert compare(base, head, 0.01, larger_is_better=True) == verdict


def test_compare__slack_is_an_absolute_change_that_counts_as_none():
    assert compare(100, 109, 0.01, slack=10) == "pass"
    assert compare(100, 110, 0.01, slack=10) == "regression"
    assert compare(0, 9, 0.01, slack=10) == "pass"


@given(values, values, shares)
def test_compare__sides_exchanged_is_the_other_direction(base, head, limit):
    mirror = {"regression": "improvement", "improvement": "regression", "pass": "pass"}
    assert compare(base, head, limit, larger_is_better=True) == mirror[compare(base, head, limit)]


@given(values, shares)
def test_compare__equal_values_pass_whatever_the_limit(value, limit):
    assert compare(value, value, limit) == "pass"


@given(values, values)
def test_ratio_of__finite_or_none(base, head):
    ratio = ratio_of(base, head)
    assert ratio is None or math.isfinite(ratio)
    assert (ratio is None) or base > 0
