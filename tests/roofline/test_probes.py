"""Which probes can be true."""

from __future__ import annotations

import math

import pytest

from perfgate.roofline.probes import possible
from tests.roofline.samples import probe


@pytest.mark.parametrize(
    "found", [probe(float32=1e11), probe(8e12, float32=5e15), probe(1e9, float32=1e11, float16=2e7)]
)
def test_possible__from_a_slow_core_to_the_fastest_card(found):
    assert possible(found)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-308, 1e308, math.nan, math.inf])
def test_possible__a_rate_that_no_device_has_spoils_the_probe(rate):
    assert not possible(probe(float32=rate))
    assert not possible(probe(rate, float32=1e11))
    assert not possible(probe(float32=1e11, float16=rate))


def test_possible__without_any_rate_there_is_no_probe():
    assert not possible(probe())
