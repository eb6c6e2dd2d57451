from __future__ import annotations

import math

import pytest

from perfgate.gate.limits import (
    definition,
    hardware_names,
    kind_of,
    limit_of,
    tolerance_of,
)
from perfgate.records.evidence import Environment
from tests.gate.builders import cell, limits, policy

A100 = ("gpu-1a2b", "NVIDIA A100-SXM4-80GB", "AMD EPYC 7742")


@pytest.mark.parametrize(
    ("metric", "relative"),
    [
        ("latency", 0.05),
        ("energy", 0.05),
        ("span:token", 0.05),
        ("peak_memory", 0.01),
        ("flop", 0.01),
        ("weight_bytes", 0.01),
        ("params", None),
        ("operators", None),
        ("latency_p99", None),
        ("throughput", None),
        ("utilisation", None),
        ("kernels", None),
    ],
)
def test_limit_of__defaults(metric, relative):
    found = limit_of(policy(tolerance=0.05), "resnet", metric)
    assert (found.relative, found.ceiling, found.enforced) == (relative, None, True)
    assert found.gated == (relative is not None)


@pytest.mark.parametrize(
    ("model", "hardware", "expected"),
    [("resnet", A100, 0.01), ("resnet", (), 0.02), ("bert", A100, 0.03), ("bert", (), 0.04)],
)
def test_limit_of__the_most_specific_place_wins(model, hardware, expected):
    here = policy(
        limits=limits(relative={"latency": 0.04}, hardware={"A100": limits(relative={"latency": 0.03})}),
        models={"resnet": limits(relative={"latency": 0.02}, hardware={"a100": limits(relative={"latency": 0.01})})},
    )
    assert limit_of(here, model, "latency", hardware).relative == expected
    assert limit_of(here, model, "energy", hardware).relative == here.tolerance


def test_limit_of__a_model_can_stop_gating_what_the_policy_gates():
    here = policy(limits=limits(relative={"flop": 0.1}), models={"resnet": limits(relative={"flop": None})})
    assert limit_of(here, "resnet", "flop").relative is None
    assert limit_of(here, "bert", "flop").relative == 0.1


@pytest.mark.parametrize(
    ("key", "name", "matches"),
    [
        ("l4", "NVIDIA L4", True),
        ("l4", "NVIDIA L40S", False),
        ("A100", "nvidia a100-sxm4-80gb", True),
        ("gpu-1a2b", "gpu-1a2b", True),
        ("epyc 7742", "AMD EPYC 7742", True),
        ("c++", "uses c++", True),
    ],
)
def test_limit_of__hardware_matches_as_a_whole_word(key, name, matches):
    here = policy(models={"resnet": limits(hardware={key: limits(ceilings={"latency": 1e6})})})
    assert (limit_of(here, "resnet", "latency", (name,)).ceiling == 1e6) == matches


@pytest.mark.parametrize(
    ("fields", "enforced"),
    [
        ({}, True),
        ({"mode": "report"}, False),
        ({"has_base": False}, False),
        ({"models": {"resnet": limits(mode="report")}}, False),
        ({"mode": "report", "models": {"resnet": limits(mode="enforce")}}, True),
        ({"mode": "report", "has_base": False, "models": {"resnet": limits(mode="enforce")}}, False),
        ({"limits": limits(metric_modes={"latency": "report"})}, False),
        ({"limits": limits(metric_modes={"flop": "report"})}, True),
        ({"models": {"resnet": limits(mode="report", metric_modes={"latency": "enforce"})}}, True),
    ],
)
def test_limit_of__modes(fields, enforced):
    assert limit_of(policy(**fields), "resnet", "latency").enforced == enforced


def test_hardware_names__id_first():
    found = hardware_names(Environment(hardware_id="x", hardware={"gpu": "NVIDIA L4", "cores": "8"}))
    assert found == ("x", "NVIDIA L4", "8")


def test_kind_of__peak_memory_depends_on_the_device():
    assert kind_of("peak_memory", cell(device="cpu")) == "noisy"
    assert kind_of("peak_memory", cell(device="cuda:1")) == "exact"
    assert kind_of("flop", cell()) == "exact"
    assert kind_of("something_new", cell()) == "exact"
    assert definition("something_new").unit == "count"


def test_tolerance_of__a_fall_is_a_rise_of_the_inverse():
    assert tolerance_of("latency", 0.03) == 0.03
    # 20 % less throughput is 25 % more time.
    assert tolerance_of("throughput", 0.2) == pytest.approx(0.25)
    assert tolerance_of("throughput", 1.0) == math.inf
