from __future__ import annotations

import pytest

from perfgate.roofline import calibration, machine
from tests.roofline.samples import GIGA, TERA, device, probe


def test_of__takes_published_peaks():
    found = machine.of(device())
    assert found.flop_per_s == {"float32": TERA, "float16": 4 * TERA, "int8": 8 * TERA}
    assert found.bandwidth_bytes_per_s == 100 * GIGA
    assert not found.measured
    assert found.calibration is None
    assert (found.name, found.label) == ("round", "Round")


def test_of__takes_published_measurements_before_peaks():
    found = machine.of(device(measured_flop_per_s={"float16": 3 * TERA}, measured_bandwidth_bytes_per_s=90 * GIGA))
    assert found.rate("float16") == 3 * TERA
    assert found.rate("float32") == TERA
    assert found.bandwidth_bytes_per_s == 90 * GIGA
    assert not found.measured


def test_of__takes_a_probe_before_everything():
    given = device(measured_flop_per_s={"float16": 3 * TERA}, measured_bandwidth_bytes_per_s=90 * GIGA)
    found = machine.of(given, probe(float16=2.5 * TERA))
    assert found.rate("float16") == 2.5 * TERA
    assert found.rate("int8") == 8 * TERA
    assert found.bandwidth_bytes_per_s == 80 * GIGA
    assert found.measured
    assert found.probed == {"float16"}


def test_of__gives_a_part_its_share_of_what_is_published_and_all_that_was_probed():
    given = device(share=0.25)
    assert machine.of(given).rate("float32") == TERA / 4
    assert machine.of(given).bandwidth_bytes_per_s == 25 * GIGA
    probed = machine.of(given, probe(float32=0.2 * TERA, bandwidth=20 * GIGA))
    assert probed.rate("float32") == 0.2 * TERA
    assert probed.rate("float16") == TERA
    assert probed.bandwidth_bytes_per_s == 20 * GIGA


def test_of__gives_two_sockets_twice_the_rates():
    found = machine.of(device(share=2.0, kind="cpu"))
    assert (found.rate("float32"), found.bandwidth_bytes_per_s) == (2 * TERA, 200 * GIGA)


@pytest.mark.parametrize(
    ("dtype", "expected"),
    [
        ("float16", 4 * TERA),
        ("amp-float16", 4 * TERA),
        ("amp-bfloat16", None),
        ("bfloat16", None),
        ("float64", None),
        ("float8_e4m3fn", None),
        ("int8", 8 * TERA),
        ("quint8", 8 * TERA),
        ("int64", None),
        ("", None),
    ],
)
def test_rate__of_a_dtype_is_its_own_or_unknown(dtype, expected):
    assert machine.of(device()).rate(dtype) == expected


def test_rate__of_every_8_bit_float_is_that_of_fp8():
    found = machine.of(device(peak_flop_per_s={"fp8": 5.0}))
    assert [found.rate(name) for name in ("float8_e4m3fn", "float8_e5m2", "fp8", "float16")] == [5.0, 5.0, 5.0, None]


def test_rate__of_a_cpu_without_half_precision_is_not_that_of_float32():
    given = device(kind="cpu", vendor="amd", peak_flop_per_s={"float32": TERA})
    assert machine.of(given).rate("bfloat16") is None
    assert machine.calibrated(given).rate("float16") is None


def test_rate__of_float32_is_tf32_where_libraries_take_it_unasked():
    rates = {"float32": TERA, "tf32": 8 * TERA}
    found = machine.of(device(peak_flop_per_s=rates))
    assert found.rate("float32", "matmul") == TERA
    assert found.rate("float32", "convolution") == found.rate("float32", "rnn") == 8 * TERA
    assert found.rate("tf32", "matmul") == 8 * TERA
    assert machine.of(device(peak_flop_per_s={"float32": TERA})).rate("float32", "convolution") == TERA
    assert machine.of(device(peak_flop_per_s=rates, vendor="amd")).rate("float32", "convolution") == TERA


def test_calibrated__reaches_a_share_of_peaks_and_all_of_measurements():
    constants = calibration.of(device().platform)
    assert constants is not None
    found = machine.calibrated(device(measured_flop_per_s={"int8": 6 * TERA}), probe(float32=0.7 * TERA))
    assert found.reach == {"float32": 1.0, "float16": constants.reach("float16"), "int8": 1.0}
    assert found.bandwidth_reach == 1.0
    unmeasured = machine.calibrated(device())
    assert set(unmeasured.reach.values()) == {constants.reach("float32")}
    assert unmeasured.bandwidth_reach == constants.reach_bandwidth < 1
    assert unmeasured.rate("float32") == TERA
    published = machine.calibrated(device(measured_bandwidth_bytes_per_s=90 * GIGA))
    assert published.bandwidth_reach == 1.0


def test_calibrated__reaches_in_half_precision_what_was_measured_in_the_other():
    rates = {"float16": 4 * TERA, "bfloat16": 4 * TERA, "float32": TERA}
    found = machine.calibrated(device(peak_flop_per_s=rates, measured_flop_per_s={"bfloat16": 2 * TERA}))
    assert found.reach["bfloat16"] == 1.0
    assert found.reach["float16"] == 0.5
    assert found.reach["float32"] != 0.5


def test_calibrated__is_ideal_where_no_class_fits():
    found = machine.calibrated(device(kind="abacus"))
    assert found.calibration is None
    assert (found.reach, found.bandwidth_reach) == ({}, 1.0)
