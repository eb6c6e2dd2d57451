"""Why a configuration is as fast as it is, in words."""

from __future__ import annotations

from typing import Any

import pytest

from perfgate.cost.explain import Facts, bound, why
from tests.cost.problems import make_time


def facts(**changes) -> Facts:
    time = {"bound": "memory", "intensity": 19.2, "ridge": 206.3} | changes.pop("time", {})
    given: dict[str, Any] = {
        "kernels": 161,
        "form": "single",
        "used": 1,
        "count": 1,
        "step_ns": 7.1e5,
        "link_ns": 0.0,
    } | changes
    return Facts(time=make_time(7.1e5, **time), **given)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({}, "memory bound at I = 19 < 206 FLOP/B"),
        ({"time": {"bound": "compute", "intensity": 310.0}}, "compute bound at I = 310 > 206 FLOP/B"),
        ({"time": {"bound": "launch"}}, "launch bound: 161 kernels, 4.41 µs each"),
        ({"time": {"bound": "launch"}, "kernels": 1}, "launch bound: 1 kernel, 710 µs each"),
        # What the sum of kernels says need not be what the step's own intensity says.
        (
            {"time": {"intensity": 310.0}},
            "memory bound in most kernels, although I = 310 > 206 FLOP/B",
        ),
        ({"time": {"bound": "compute"}}, "compute bound in most kernels, although I = 19 < 206 FLOP/B"),
        ({"time": {"intensity": 0.254}}, "memory bound at I = 0.25 < 206 FLOP/B"),
        ({"count": 8}, "memory bound at I = 19 < 206 FLOP/B, 7 of 8 devices idle"),
        (
            {"form": "tensor", "used": 2, "count": 2, "link_ns": 7.1e4},
            "memory bound at I = 19 < 206 FLOP/B, 10.0 % sending",
        ),
        (
            {"form": "tensor", "used": 2, "count": 2, "link_ns": 5e5},
            "link bound: 500 µs of 710 µs is sending",
        ),
    ],
)
def test_why__says_what_limits_and_with_which_figures(changes, text):
    assert why(facts(**changes)) == text


def test_bound__the_link_is_one_where_most_of_the_step_is_sending():
    assert bound(facts(link_ns=5e5)) == "link"
    assert bound(facts(link_ns=3e5)) == "memory"
