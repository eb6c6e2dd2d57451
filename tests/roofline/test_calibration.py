from __future__ import annotations

import datetime as dt
import math

import pytest

from perfgate.graph.operators import definition
from perfgate.hardware import catalogue
from perfgate.roofline import calibration
from tests.roofline.samples import platform

ENTRY = """
[[class]]
name = "gpu"
kind = "gpu"
launch_ns = 5.0
overlap = inf
sigma = 0.2
reach_bandwidth = 0.9
reach_flop = { default = 0.8, int8 = 0.6 }
flop_efficiency = { default = 1.0, convolution = 0.7 }
byte_efficiency = { default = 1.0 }
half_ns = { default = 0.0 }
source = [{ constants = ["sigma"], data = "somewhere", n = 3, date = "2026-11-30" }]
"""


def test_kinds__are_those_that_graphs_have():
    named = {value for name, value in vars(definition).items() if name.isupper() and isinstance(value, str)}
    assert set(calibration.KINDS) == named


def test_read__gives_every_kind_its_constant():
    (found,) = calibration.read(ENTRY)
    efficiency = dict(zip(calibration.KINDS, found.flop_efficiency, strict=True))
    assert efficiency.pop("convolution") == 0.7
    assert set(efficiency.values()) == {1.0}
    assert (found.reach("int8"), found.reach("float32")) == (0.6, 0.8)
    assert found.sigma_measured == found.sigma == 0.2
    assert math.isinf(found.overlap)
    assert found.sources == (calibration.Source(constants=("sigma",), data="somewhere", n=3, date="2026-11-30"),)


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("sigma = 0.2", "", "calibration of gpu: unknown nothing; missing sigma"),
        ("sigma = 0.2", "sigma = 0.2\nsigmaa = 1", "unknown sigmaa; missing nothing"),
        ("sigma = 0.2", 'sigma = "0.2"', "sigma is '0.2'; give a number above 0"),
        ("sigma = 0.2", "sigma = 0", "sigma is 0; give a number above 0"),
        ("sigma = 0.2", "sigma = nan", "sigma is nan"),
        ("launch_ns = 5.0", "launch_ns = -1", "launch_ns is -1; give a number of at least 0"),
        ("{ default = 1.0, convolution = 0.7 }", "{ convolution = 0.7 }", "flop_efficiency has no 'default'"),
        ("convolution = 0.7", "konvolution = 0.7", "names no kind of kernel: konvolution"),
        ("[[class]]", "[[klass]]", "not klass"),
    ],
)
def test_read__says_what_is_wrong_and_where(old, new, message):
    with pytest.raises(ValueError, match=message):
        calibration.read(ENTRY.replace(old, new))


def test_shipped__says_of_each_class_where_it_comes_from():
    names = [one.name for one in calibration.shipped()]
    assert len(set(names)) == len(names)
    known = {"launch_ns", "overlap", "sigma", "sigma_measured", "reach_bandwidth", "reach_flop", "flop_efficiency",
             "byte_efficiency", "half_ns"}  # fmt: skip
    for one in calibration.shipped():
        assert one.sources
        for source in one.sources:
            assert set(source.constants) <= known
            assert source.data
            assert source.n >= 0
            dt.date.fromisoformat(source.date)


def test_shipped__stays_within_what_is_possible():
    for one in calibration.shipped():
        assert 0 < one.reach_bandwidth <= 1
        assert all(0 < reach <= 1 for reach in one.reach_flop.values())
        assert 0.02 < one.sigma_measured <= one.sigma < 1
        assert 0 < one.launch_ns < 1e5
        assert one.overlap >= 1
        # A direct convolution counted, a Winograd one run: up to 2.25 times the rate in a 3 x 3 one.
        assert all(0 < share < 10 for share in (*one.flop_efficiency, *one.byte_efficiency))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"name": "rtx-3090", "power_w": 350.0}, "nvidia-consumer"),
        ({"name": "rtx-4090", "power_w": 450.0}, "nvidia-consumer-large-cache"),
        ({"name": "gtx-1080-ti", "power_w": 250.0}, "nvidia-consumer"),
        ({"name": "rtx-6000-ada", "power_w": 300.0}, "nvidia-datacentre"),
        ({"name": "h100-sxm", "power_w": 700.0}, "nvidia-datacentre"),
        ({"name": "rtx-4000-ada", "power_w": 130.0}, "nvidia-datacentre"),
        ({"name": "h100-sxm"}, "nvidia-datacentre"),
        ({"name": "l4", "power_w": 72.0}, "nvidia-low-power"),
        ({"name": "mi300x", "vendor": "amd", "power_w": 750.0}, "amd-gpu"),
        ({"name": "max-1550", "vendor": "intel"}, "gpu"),
        ({"name": "tpu-v5e", "vendor": "google", "kind": "tpu"}, "tpu"),
        ({"name": "trainium2", "vendor": "aws", "kind": "accelerator"}, "accelerator"),
        ({"name": "epyc-7763", "vendor": "amd", "kind": "cpu", "power_w": 280.0}, "cpu"),
        ({"name": "graviton4", "vendor": "aws", "kind": "cpu"}, "cpu"),
    ],
)
def test_of__is_the_class_of_a_platform(fields, expected):
    found = calibration.of(platform(**fields))
    assert found is not None
    assert found.name == expected


def test_of__a_slice_is_of_the_class_of_its_device():
    whole = platform("a100-sxm-40gb", power_w=400.0)
    part = platform("a100-sxm-40gb-mig-1g.5gb", part_of="a100-sxm-40gb", share=1 / 7, power_w=400.0 / 7)
    assert calibration.of(part) is calibration.of(whole)


def test_of__every_platform_of_the_catalogue_has_a_class():
    assert [name for name, one in catalogue.platforms().items() if calibration.of(one) is None] == []
