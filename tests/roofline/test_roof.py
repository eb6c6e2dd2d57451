from __future__ import annotations

import pytest

from perfgate.roofline.roof import roof
from tests.roofline.samples import GIGA, TERA

# An A100 with 40 GB: 312 TFLOP/s in float16, 1 555 GB/s.
A100 = {"flop_per_s": 312 * TERA, "bandwidth_bytes_per_s": 1555 * GIGA}


def test_roof__of_a_wide_product_is_pi():
    # Linear 4096 -> 4096 in float16, 512 rows: 2 x 512 x 4096 x 4096 FLOP.
    found = roof(17_179_869_184, 41_951_232, **A100)
    assert found.ridge == pytest.approx(200.643, abs=1e-3)
    assert found.intensity == pytest.approx(409.520, abs=1e-3)
    assert found.attainable_flop_per_s == 312 * TERA
    assert found.bound == "compute"
    assert found.least_ns == pytest.approx(55_063.7, abs=0.1)


def test_roof__of_one_row_is_beta_times_intensity():
    found = roof(33_554_432, 33_579_008, **A100)
    assert found.intensity == pytest.approx(0.999268, abs=1e-6)
    assert found.attainable_flop_per_s == pytest.approx(1.55386 * TERA, rel=1e-5)
    assert found.bound == "memory"
    assert found.least_ns == pytest.approx(21_594.2, abs=0.1)


def test_roof__counts_flop_and_not_macs():
    """A rate of 2 TFLOP/s does 10^12 multiply-accumulates a second: twice as many FLOP."""
    mac = 10**12
    found = roof(2 * mac, 1, flop_per_s=2 * TERA, bandwidth_bytes_per_s=GIGA)
    assert found.least_ns == 1e9


def test_roof__at_the_ridge_is_compute_bound():
    found = roof(1000, 100, flop_per_s=10.0, bandwidth_bytes_per_s=1.0)
    assert (found.bound, found.intensity, found.attainable_flop_per_s) == ("compute", 10.0, 10.0)
    assert found.least_ns == 100e9


def test_roof__is_the_same_time_by_rate_and_by_terms():
    found = roof(12_345, 678, flop_per_s=1e3, bandwidth_bytes_per_s=7.0)
    assert found.least_ns == pytest.approx(12_345 / found.attainable_flop_per_s * 1e9)


def test_roof__of_nothing_takes_no_time():
    found = roof(0, 0, flop_per_s=1.0, bandwidth_bytes_per_s=1.0)
    assert (found.intensity, found.attainable_flop_per_s, found.least_ns) == (0.0, 0.0, 0.0)


@pytest.mark.parametrize("rates", [(0.0, 1.0), (1.0, 0.0), (-1.0, 1.0), (float("nan"), 1.0)])
def test_roof__refuses_rates_that_are_none(rates):
    with pytest.raises(ValueError, match="above 0"):
        roof(1, 1, flop_per_s=rates[0], bandwidth_bytes_per_s=rates[1])


def test_roof__of_resnet_50_is_bound_by_memory_until_kernels_fuse():
    # One image of 224 pixels in float32; ridge 30 FLOP/B, between kernels one by one and a single one for all.
    flop, rates = 8_178_368_512, {"flop_per_s": 30 * TERA, "bandwidth_bytes_per_s": 1000 * GIGA}
    eager, fused, least = (roof(flop, moved, **rates) for moved in (427_813_952, 210_000_000, 103_046_720))
    assert [one.bound for one in (eager, fused, least)] == ["memory", "compute", "compute"]
    assert eager.intensity == pytest.approx(19.12, abs=0.01)
    assert least.intensity == pytest.approx(79.37, abs=0.01)
    assert eager.least_ns == pytest.approx(427_814, abs=1)
    assert least.least_ns == pytest.approx(272_612, abs=1)
