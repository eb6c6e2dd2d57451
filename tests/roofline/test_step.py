from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.records.cost import StepTime
from perfgate.records.graph import KernelGroup
from perfgate.roofline import machine, step
from perfgate.roofline.calibration import KINDS, Calibration
from perfgate.roofline.machine import Machine
from tests.roofline.samples import GIGA, TERA, device, kernel, probe


def calibration(**more) -> Calibration:
    """Changes nothing unless told to."""
    fields = {
        "name": "tests",
        "kind": "gpu",
        "launch_ns": 0.0,
        "overlap": math.inf,
        "reach_flop": {"default": 1.0},
        "reach_bandwidth": 1.0,
        "flop_efficiency": by_kind(),
        "byte_efficiency": by_kind(),
        "half_ns": by_kind(0.0),
        "sigma": 0.2,
        "sigma_measured": 0.1,
    }
    return Calibration(**{**fields, **more})


def by_kind(default: float = 1.0, **kinds: float) -> tuple[float, ...]:
    return tuple(kinds.get(kind, default) for kind in KINDS)


def machine_with(**more) -> Machine:
    return machine.with_calibration(device(), calibration(**more))


def one(kernels: list[KernelGroup], on: Machine, dtype: str = "float32") -> StepTime:
    (found,) = step.times(kernels, [on], dtype)
    assert found is not None
    return found


IDEAL = machine.of(device())


def test_times__of_an_ideal_machine_are_the_roofline():
    # 5 products of 1 GFLOP at 1 TFLOP/s are 5 ms, 2 passes over 1 GB at 100 GB/s 20 ms.
    kernels = [kernel(10**9, 10**6, calls=5), kernel(0, 10**9, calls=2)]
    found = one(kernels, IDEAL)
    assert found.ns == pytest.approx(25e6)
    assert found.low_ns == found.high_ns == found.ns
    assert (found.source, found.bound) == ("roofline", "memory")
    assert found.intensity == pytest.approx(5e9 / (5e6 + 2e9))
    assert found.ridge == pytest.approx(10.0)
    assert found.flop_per_s == pytest.approx(TERA)


def test_times__a_kernel_takes_the_longer_of_computing_and_moving():
    assert one([kernel(10**9, 10**9)], IDEAL).ns == pytest.approx(1e7)
    assert one([kernel(10**11, 10**9)], IDEAL).ns == pytest.approx(1e8)


# https://github.com/PrincetonUniversity/LLMCompass/issues/2: users asked where latency is, and why it is counted twice.
def test_times__launching_is_added_once_to_each_kernel():
    """t = max(F / pi, M / beta) + t0, t0 in no other term: 4 us for each of 7 kernels."""
    kernels = [kernel(10**9, 10**6, calls=5), kernel(0, 10**8, calls=2)]
    ideal, launched = one(kernels, IDEAL), one(kernels, machine_with(launch_ns=4000.0))
    assert launched.ns - ideal.ns == pytest.approx(7 * 4000.0)


def test_times__launching_limits_a_step_of_small_kernels():
    small = [kernel(1000, 1000, calls=161)]
    found = one(small, machine_with(launch_ns=4000.0))
    assert found.bound == "launch"
    assert found.ns == pytest.approx(161 * (4000.0 + 10.0))
    assert one(small, IDEAL).bound == "memory"


def test_times__products_run_at_the_rate_of_their_dtype():
    kernels = [kernel(10**9, 1), kernel(4 * 10**9, 1, dtype="float16")]
    found = one(kernels, IDEAL, "amp-float16")
    assert found.ns == pytest.approx(2e6)
    # The rate of products one after another: 5 GFLOP in 2 ms.
    assert found.flop_per_s == pytest.approx(2.5 * TERA)
    assert found.ridge == pytest.approx(25.0)


def test_times__are_none_where_a_rate_is_not_known():
    half = [kernel(10**9, 1), kernel(10**9, 1, dtype="bfloat16")]
    with_bfloat16 = machine.of(device(peak_flop_per_s={"float32": TERA, "bfloat16": TERA}))
    first, second = step.times(half, [IDEAL, with_bfloat16], "bfloat16")
    assert first is None
    assert second is not None
    assert second.ns == pytest.approx(2e6)


def test_times__a_dtype_that_computes_nothing_needs_no_rate():
    kernels = [kernel(10**9, 1), kernel(0, 100, dtype="int64"), kernel(0, 10**6, dtype="bfloat16", kind="cast")]
    assert one(kernels, IDEAL).ns == pytest.approx(1e6 + 1 + 1e4)


def test_times__without_products_have_the_ridge_of_the_workload():
    found = one([kernel(0, 10**6)], IDEAL, "float16")
    assert (found.intensity, found.bound) == (0.0, "memory")
    assert found.flop_per_s == 4 * TERA
    assert step.times([kernel(0, 10**6)], [IDEAL], "float64") == [None]


def test_times__without_kernels_or_machines_are_none():
    assert step.times([], [IDEAL, IDEAL], "float32") == [None, None]
    assert step.times([kernel(1, 1)], [], "float32") == []


def test_times__of_nothing_moved_are_finite():
    found = one([kernel(0, 0, kind="sync")], machine_with(launch_ns=10.0, overlap=3.0))
    assert found.ns == 10.0
    assert all(math.isfinite(value) for value in (found.intensity, found.ridge, found.low_ns, found.high_ns))


def test_times__hold_90_percent_of_a_log_normal_residual():
    found = one([kernel(10**9, 1)], machine_with(sigma=0.3))
    assert found.high_ns / found.ns == pytest.approx(math.exp(1.6449 * 0.3), rel=1e-4)
    assert found.ns / found.low_ns == pytest.approx(found.high_ns / found.ns)


def test_times__are_surer_where_a_probe_measured_the_roofs():
    probed = machine.with_calibration(device(), calibration(), probe(float32=TERA))
    assert one([kernel(10**9, 1)], probed).high_ns < one([kernel(10**9, 1)], machine_with()).high_ns


def test_times__efficiencies_are_of_a_kind():
    on = machine_with(flop_efficiency=by_kind(convolution=0.5), byte_efficiency=by_kind(softmax=0.25))
    assert one([kernel(10**9, 1)], on).ns == pytest.approx(1e6)
    assert one([kernel(10**9, 1, kind="convolution")], on).ns == pytest.approx(2e6)
    assert one([kernel(0, 10**6, kind="softmax")], on).ns == pytest.approx(4e4)
    assert one([kernel(0, 10**6, kind="normalization")], on).ns == pytest.approx(1e4)


def test_times__a_kind_that_nobody_knows_is_other():
    on = machine_with(byte_efficiency=by_kind(other=0.5))
    assert one([kernel(0, 10**6, kind="new")], on).ns == pytest.approx(2e4)


def test_times__reach_is_of_peaks_only_and_never_counts_twice():
    """A probe's rate of large products holds what a peak only promises; efficiencies by kind stay."""
    constants = calibration(reach_flop={"default": 0.8}, reach_bandwidth=0.5, flop_efficiency=by_kind(convolution=0.5))
    kernels = [kernel(10**9, 1), kernel(10**9, 1, kind="convolution"), kernel(0, 10**6)]
    peak = machine.with_calibration(device(), constants)
    assert one(kernels, peak).ns == pytest.approx(1e6 / 0.8 + 1e6 / 0.4 + 2e4)
    probed = machine.with_calibration(device(), constants, probe(float32=0.8 * TERA, bandwidth=50 * GIGA))
    assert one(kernels, probed).ns == pytest.approx(1e6 / 0.8 + 1e6 / 0.4 + 2e4)


def test_times__the_roof_that_they_report_is_not_calibrated():
    found = one([kernel(10**9, 1)], machine_with(reach_flop={"default": 0.5}, reach_bandwidth=0.9))
    assert [found.flop_per_s, found.ridge] == pytest.approx([TERA, 10.0])


@pytest.mark.parametrize(
    ("overlap", "expected"), [(1.0, 7e6), (2.0, 5e6), (3.0, (27 + 64) ** (1 / 3) * 1e6), (math.inf, 4e6)]
)
def test_times__computing_and_moving_overlap_by_the_exponent(overlap, expected):
    # 3 ms of computing, 4 ms of moving.
    found = one([kernel(3 * 10**9, 4 * 10**8)], machine_with(overlap=overlap))
    assert found.ns == pytest.approx(expected)


def test_times__small_kernels_do_not_fill_a_machine():
    """At a time of ``half_ns`` at the full rate, a kernel reaches half of that rate; large ones all of it."""
    on = machine_with(half_ns=by_kind(0.0, matmul=1e5))
    assert one([kernel(10**8, 1)], on).ns == pytest.approx(2e5)
    assert one([kernel(10**8, 1, kind="convolution")], on).ns == pytest.approx(1e5)
    assert one([kernel(10**13, 1)], on).ns == pytest.approx(1e10, rel=0.01)


def test_times__machines_of_different_classes_do_not_mix():
    """All at once or one by one: the same."""
    kernels = [kernel(3 * 10**9, 4 * 10**8), kernel(0, 10**7, kind="copy"), kernel(10**8, 10**8, dtype="float16")]
    machines = [
        IDEAL,
        machine_with(overlap=1.0, launch_ns=9.0),
        machine_with(overlap=2.5, half_ns=by_kind(300.0)),
        machine.of(device(peak_flop_per_s={"float32": TERA})),
        machine_with(overlap=2.0, byte_efficiency=by_kind(0.7)),
    ]
    together = step.times(kernels, machines, "float32")
    apart = [step.times(kernels, [on], "float32")[0] for on in machines]
    assert [found is None for found in together] == [False, False, False, True, False]
    for left, right in zip(together, apart, strict=True):
        if left is not None:
            assert right is not None
            assert left.ns == pytest.approx(right.ns, rel=1e-12)
            assert replace(left, ns=0, low_ns=0, high_ns=0) == replace(right, ns=0, low_ns=0, high_ns=0)


amounts = st.integers(0, 10**12)
kernel_lists = st.lists(
    st.builds(kernel, amounts, amounts, kind=st.sampled_from(KINDS), calls=st.integers(1, 50)), min_size=1, max_size=8
)


@settings(max_examples=150, deadline=None)
@given(kernel_lists, st.sampled_from([1.0, 1.7, 2.0, math.inf]))
def test_times__are_never_below_the_roofline_and_grow_with_work(kernels, overlap):
    on = machine_with(
        overlap=overlap, launch_ns=3.0, half_ns=by_kind(0.0, convolution=1e5), byte_efficiency=by_kind(0.7)
    )
    found, ideal = one(kernels, on), one(kernels, IDEAL)
    assert found.ns >= ideal.ns * (1 - 1e-12)
    more = [replace(kernels[0], flop=2 * kernels[0].flop + 1, bytes=2 * kernels[0].bytes + 1), *kernels[1:]]
    assert one(more, on).ns >= found.ns * (1 - 1e-12)
    assert 0 < found.low_ns <= found.ns <= found.high_ns < math.inf
    assert ideal.bound in {"compute", "memory"}


def test_terms__are_the_roofs_and_a_fit_may_change_the_constants():
    kernels = [kernel(10**9, 10**6, calls=2), kernel(10**9, 10**6, kind="convolution"), kernel(0, 10**6)]
    machines = [machine.calibrated(device()), IDEAL]
    found = step.terms(kernels, machines)
    assert found.compute_ns == pytest.approx(np.array([[1e6, 1e6], [1e6, 1e6], [0, 0]]))
    assert found.memory_ns == pytest.approx(np.full((3, 2), 1e4))
    constants = step.constants(found, machines)
    times = [time.ns for time in step.times(kernels, machines, "float32") if time is not None]
    assert step.step_ns(found, constants) == pytest.approx(times)
    slower = replace(constants, launch_ns=constants.launch_ns + 100.0)
    assert step.step_ns(found, slower) - step.step_ns(found, constants) == pytest.approx([400.0, 400.0])
    halved = replace(constants, flop_efficiency=constants.flop_efficiency / 2)
    assert step.step_ns(found, halved)[1] == pytest.approx(6e6 + 1e4)
