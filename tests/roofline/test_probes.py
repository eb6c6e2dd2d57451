"""Which probes can be true."""

from __future__ import annotations

import math

import pytest

from perfgate.records.hardware import MeasuredRoofline
from perfgate.roofline.probes import possible


def probe(pi: float = 1e11, beta: float = 2e10, **more: float) -> MeasuredRoofline:
    return MeasuredRoofline(
        device="cpu",
        label="some CPU",
        flop_per_s={"float32": pi, **more},
        bandwidth_bytes_per_s=beta,
        probe_bytes=2**28,
        measured_at="2026-11-30T12:00:00Z",
    )


@pytest.mark.parametrize("found", [probe(), probe(5e15, 8e12), probe(1e11, 1e9, float16=2e7)])
def test_possible__from_a_slow_core_to_the_fastest_card(found):
    assert possible(found)


@pytest.mark.parametrize("rate", [0.0, -1.0, 1e-308, 1e308, math.nan, math.inf])
def test_possible__a_rate_that_no_device_has_spoils_the_probe(rate):
    assert not possible(probe(pi=rate))
    assert not possible(probe(beta=rate))
    assert not possible(probe(float16=rate))


def test_possible__without_any_rate_there_is_no_probe():
    none = MeasuredRoofline(
        device="cpu", label="", flop_per_s={}, bandwidth_bytes_per_s=1e10, probe_bytes=1, measured_at=""
    )
    assert not possible(none)
