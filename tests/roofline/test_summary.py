from __future__ import annotations

import pytest

from perfgate.records.cost import RooflineSummary
from perfgate.records.graph import KernelGroup
from perfgate.roofline import machine
from perfgate.roofline.summary import MOST, summary
from tests.roofline.samples import GIGA, TERA, device, kernel, probe

ON = machine.of(device())
# 5 ms of products at 1 TFLOP/s; 20 ms of 2 GB at 100 GB/s.
KERNELS = [kernel(10**9, 10**6, calls=5), kernel(0, 10**9, calls=2, name="relu")]


def found(kernels: list[KernelGroup], on: machine.Machine = ON, dtype: str = "float32", ns=None) -> RooflineSummary:
    result = summary(kernels, on, dtype, measured_ns=ns)
    assert result is not None
    return result


def test_summary__is_the_step_under_the_roof():
    result = found(KERNELS)
    assert (result.device, result.measured, result.bound) == ("Round", False, "memory")
    assert result.flop_per_s == pytest.approx(TERA)
    assert result.bandwidth_bytes_per_s == 100 * GIGA
    assert result.ridge == pytest.approx(10.0)
    assert result.intensity == pytest.approx(5e9 / 2.005e9)
    assert result.attainable_flop_per_s == pytest.approx(100 * GIGA * 5 / 2.005)
    assert result.bound_ns == pytest.approx(25e6)
    assert (result.achieved_flop_per_s, result.share) == (None, None)


def test_summary__says_what_share_of_the_bound_was_reached():
    result = found(KERNELS, ns=50e6)
    assert result.achieved_flop_per_s == pytest.approx(5e9 / 0.05)
    assert result.share == pytest.approx(0.5)


def test_summary__a_step_that_took_no_time_was_not_measured():
    assert found(KERNELS, ns=0.0).share is None


def test_summary__faster_than_the_bound_is_said_as_it_is():
    assert found(KERNELS, ns=20e6).share == pytest.approx(1.25)


def test_summary__orders_operators_by_what_the_roof_allows():
    relu, fc = found(KERNELS).operators
    assert (relu.name, relu.bound, relu.bytes) == ("relu", "memory", 2 * 10**9)
    assert (fc.name, fc.bound, fc.flop) == ("fc", "compute", 5 * 10**9)
    assert [relu.bound_ns, fc.bound_ns] == pytest.approx([20e6, 5e6])
    assert [relu.share, fc.share] == pytest.approx([0.8, 0.2])
    assert (fc.intensity, fc.calls, fc.dtype) == (1000.0, 5, "float32")


def many(count: int) -> list[KernelGroup]:
    return [kernel(0, 10**6 * (number + 1), name=f"op{number}") for number in range(count)]


def test_summary__puts_what_is_beyond_the_limit_into_one_row():
    kernels = [*many(MOST + 10), kernel(10**6, 1, name="fc")]
    result = found(kernels)
    assert len(result.operators) == MOST
    last = result.operators[-1]
    assert (last.name, last.kind, last.bound, last.calls) == ("12 others", "others", "memory", 12)
    assert sum(row.bytes for row in result.operators) == sum(one.bytes for one in kernels)
    assert sum(row.flop for row in result.operators) == 10**6
    assert sum(row.bound_ns for row in result.operators) == pytest.approx(result.bound_ns)
    assert sum(row.share for row in result.operators) == pytest.approx(1.0)
    assert result.operators[0].name == f"op{MOST + 9}"


def test_summary__at_the_limit_names_every_operator():
    assert [row.name for row in found(many(MOST)).operators][-1] == "op0"


def test_summary__is_measured_where_the_probe_gave_both_roofs():
    assert found(KERNELS, machine.of(device(), probe(float32=TERA))).measured
    assert not found(KERNELS, machine.of(device(), probe(float16=TERA))).measured


def test_summary__knows_roofs_and_no_calibration():
    assert found(KERNELS, machine.calibrated(device())) == found(KERNELS)


def test_summary__is_none_where_nobody_knows():
    assert summary([], ON, "float32", measured_ns=1.0) is None
    assert summary([kernel(10, 10, dtype="bfloat16")], ON, "bfloat16", measured_ns=1.0) is None
    assert summary([kernel(0, 10)], ON, "float64", measured_ns=1.0) is None


def test_summary__of_a_step_that_moves_and_computes_nothing():
    result = found([kernel(0, 0, kind="sync")], ns=10.0)
    assert (result.bound_ns, result.share, result.operators[0].share) == (0.0, 0.0, 0.0)
