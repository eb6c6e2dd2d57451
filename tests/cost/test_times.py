"""Times by the calibrated roofline, and anchored to what was measured."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.cost import residuals, ways
from perfgate.cost.times import Anchor, RooflineTimes
from perfgate.records.cost import ANCHORED, MEASURED, ROOFLINE, Device
from perfgate.records.hardware import CPU, MeasuredRoofline
from perfgate.roofline.step import Z90
from tests.cost.problems import make_platform, make_way, with_kernels

A = Device(platform=make_platform("a"))
B = Device(platform=make_platform("b", peak_flop_per_s={"float16": 300e12}, bandwidth_bytes_per_s=3e12))
OLD = Device(platform=make_platform("old", peak_flop_per_s={"float32": 5e12}))
CPU_FULL = Device(
    platform=make_platform(
        "c", kind=CPU, vendor="intel", cores=16, memory_bytes=None, peak_flop_per_s={"float16": 2e12, "float32": 2e12},
        bandwidth_bytes_per_s=1e11,
    )
)  # fmt: skip
CPU_HALF = replace(CPU_FULL, share=0.5)
WAY = make_way(4)


def anchor(ns=5e6, *, way=WAY, device=A, spread=1.0) -> Anchor:
    return Anchor(way=way, device=device, ns=ns, low_ns=ns / spread, high_ns=ns * spread)


def probe(rate: float, threads: int = 0) -> MeasuredRoofline:
    return MeasuredRoofline(
        device="cpu", label="", flop_per_s={"float16": rate, "float32": rate}, bandwidth_bytes_per_s=rate / 100,
        probe_bytes=2**30, measured_at="2026-01-01T00:00:00Z", threads=threads,
    )  # fmt: skip


def test_roofline_times__nothing_measured_is_the_rooflines_own():
    found = RooflineTimes()(WAY, [A, B, CPU_FULL])

    assert [time.source for time in found if time] == [ROOFLINE] * 3
    # Never faster than the roof: 40 GFLOP at 100 TFLOP/s, 5 GB at 1 TB/s.
    assert found[0] is not None
    assert found[0].ns >= 5e6


def test_roofline_times__an_unknown_rate_is_no_time():
    assert RooflineTimes()(WAY, [OLD, A])[0] is None


def test_roofline_times__a_way_that_was_not_counted_by_kernels_has_no_time():
    assert RooflineTimes()(with_kernels(WAY), [A]) == [None]


def test_roofline_times__the_very_way_on_the_very_device_is_measured():
    found = RooflineTimes(anchors=[anchor(7e6, spread=1.02)])(WAY, [A])[0]

    assert found is not None
    assert (found.ns, found.low_ns, found.high_ns, found.source) == (7e6, 7e6 / 1.02, 7e6 * 1.02, MEASURED)


def test_roofline_times__carries_a_time_over_by_the_ratio_of_rooflines():
    plain = RooflineTimes()(WAY, [A, B])
    found = RooflineTimes(anchors=[anchor(7e6)])(WAY, [B])[0]

    assert found is not None
    assert plain[0] is not None
    assert plain[1] is not None
    assert found.ns == pytest.approx(7e6 * plain[1].ns / plain[0].ns)
    assert found.source == ANCHORED
    # Narrower than the roofline's own: s sqrt(2 (1 - 0.75)).
    assert residuals.spread(found) == pytest.approx(residuals.spread(plain[1]) * math.sqrt(0.5))


def test_roofline_times__the_measurements_own_spread_is_kept():
    exact = RooflineTimes(anchors=[anchor()])(WAY, [B])[0]
    noisy = RooflineTimes(anchors=[anchor(spread=2.0)])(WAY, [B])[0]

    assert exact is not None
    assert noisy is not None
    own = math.log(2.0) / Z90
    assert residuals.spread(noisy) == pytest.approx(math.hypot(residuals.spread(exact), own))


def test_roofline_times__a_gpu_says_nothing_of_a_cpu():
    found = RooflineTimes(anchors=[anchor()])(WAY, [CPU_FULL])[0]

    assert found is not None
    assert found.source == ROOFLINE


@pytest.mark.parametrize("changes", [{"mode": "train"}, {"dtype": "float32"}, {"compile": "default"}])
def test_roofline_times__another_mode_dtype_or_compile_anchors_nothing(changes):
    found = RooflineTimes(anchors=[anchor(way=replace(WAY, **changes))])(WAY, [A])[0]

    assert found is not None
    assert found.source == ROOFLINE


def test_roofline_times__another_batch_anchors_with_less_certainty():
    other = ways.at_batch(WAY, 8)
    times = RooflineTimes(anchors=[anchor(7e6)])

    found, plain = times(other, [A])[0], RooflineTimes()(other, [A])[0]
    base = RooflineTimes()(WAY, [A])[0]

    assert found is not None
    assert plain is not None
    assert base is not None
    assert found.source == ANCHORED
    assert found.ns == pytest.approx(7e6 * plain.ns / base.ns)
    assert 0 < residuals.spread(found) < residuals.spread(plain)


def test_roofline_times__the_most_certain_anchor_counts():
    # The same device with another batch is nearer than another device with the same.
    anchors = [anchor(1e9, device=B), anchor(7e6, way=ways.at_batch(WAY, 8)), anchor(1e9, device=B)]

    found = RooflineTimes(anchors=anchors)(WAY, [A])[0]

    assert found is not None
    assert found.ns < 1e8


def test_roofline_times__a_split_way_is_anchored_and_not_measured():
    found = RooflineTimes(anchors=[anchor()])(ways.tensor_share(WAY, 2), [A])[0]

    assert found is not None
    assert found.source == ANCHORED
    assert found.ns < 5e6


def test_roofline_times__a_probe_counts_before_the_published_peak():
    slow = RooflineTimes(measured={"a": probe(1e12)})(WAY, [A])[0]

    assert slow is not None
    assert slow.flop_per_s == 1e12


@pytest.mark.parametrize(
    ("threads", "device", "used"), [(16, CPU_FULL, True), (8, CPU_FULL, False), (8, CPU_HALF, True)]
)
def test_roofline_times__a_probe_of_a_cpu_holds_for_as_many_cores(threads, device, used):
    found = RooflineTimes(measured={"c": probe(7e11, threads)})(WAY, [device])[0]

    assert found is not None
    assert math.isclose(found.flop_per_s, 7e11) is used


def test_roofline_times__the_same_question_has_the_same_answer():
    times = RooflineTimes(anchors=[anchor()])

    assert times(WAY, [A, B]) == times(WAY, [A, B])
