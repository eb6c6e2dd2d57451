"""What can run at all: parallel forms, memory, and what is left out because something of it is not known."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.errors import UsageError
from perfgate.records.cost import (
    ANCHORED,
    ENERGY,
    MEASURED,
    TIME,
)
from perfgate.records.hardware import Excluded, Market
from tests.cost.problems import (
    GIB,
    TIMES,
    B,
    FakeTimes,
    changed,
    make_offer,
    make_platform,
    make_way,
    solve,
)


def test_optimise__an_unknown_dtype_is_left_out_and_said():
    times = FakeTimes(TIMES, dtypes={"a": ("float32",)})

    answer = solve(ways=[make_way(), make_way(dtype="float32")], times=times)

    assert {(point.offer.platform, point.dtype) for point in answer.front} <= {("b", "float16"), ("a", "float32")}
    reasons = {one.reason: one.count for one in answer.excluded}
    assert reasons["float16: no rate or no step time is known for a"] == 1


def test_optimise__no_platform_can_run_it():
    answer = solve(times=FakeTimes({"a": None, "b": None}))

    assert (answer.candidates, answer.feasible, answer.nearest) == (2, 0, None)
    assert any("nearest miss" in text for text in answer.warnings)
    assert answer.sources == {}


@pytest.mark.parametrize("ns", [0.0, -1.0, math.nan, math.inf])
def test_optimise__times_that_are_none_are_an_error(ns):
    def wrong(way, devices):
        return changed(FakeTimes(TIMES)(way, devices), ns=ns)

    with pytest.raises(UsageError, match="is none"):
        solve(times=wrong)


def test_optimise__memory_of_the_offer_decides():
    small = Market(offers=(make_offer("a", 1.0, memory_bytes=GIB),))

    answer = solve(market=small)

    assert answer.cheapest is None
    # 1 GB and 0.11 GB, with 640 MiB of context and workspace.
    assert answer.missed[0].text == "memory 1.66 GiB > 922 MiB"
    gone = Excluded(what="configurations", reason="needs more memory than a device has free", count=1)
    assert gone in answer.excluded


def test_optimise__unknown_memory_is_left_out_unless_little_is_needed():
    unknown = {"a": make_platform("a", memory_bytes=None)}
    market = Market(offers=(make_offer("a", 1.0),))
    tiny = make_way()
    tiny = replace(tiny, totals=replace(tiny.totals, weight_bytes=10**6, peak_activation_bytes=10**6))

    large, small = solve(market=market, platforms=unknown), solve(market=market, platforms=unknown, ways=[tiny])

    assert large.cheapest is None
    assert any("memory is not known of a" in one.reason for one in large.excluded)
    assert small.cheapest is not None
    assert small.cheapest.free_bytes is None
    assert any("memory is not known of a" in text for text in small.warnings)


def test_optimise__energy_without_power_is_left_out_only_where_it_counts():
    platforms = {"a": make_platform("a", power_w=None), "b": B}

    asked = solve(platforms=platforms, objectives=(ENERGY,))
    not_asked = solve(platforms=platforms, objectives=(TIME,))

    assert [point.offer.platform for point in asked.front] == ["b"]
    assert any("no power is known for a" in one.reason for one in asked.excluded)
    assert [point.offer.platform for point in not_asked.front] == ["a"]
    assert not_asked.front[0].energy_j_per_item is None


def test_optimise__forms_without_a_link_rate_are_left_out_and_said():
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    reasons = {one.reason: one.count for one in solve(market=market).excluded}

    # Two and four devices each.
    assert reasons["tensor: no link rate is known for a"] == 2
    assert reasons["pipeline: no link rate is known for a"] == 2
    assert "data: no link rate is known for a" not in reasons


def test_optimise__training_replicas_need_a_link_too():
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    reasons = {one.reason for one in solve(market=market, ways=[make_way(4, mode="train")]).excluded}

    assert "data: no link rate is known for a" in reasons


def test_optimise__splitting_a_large_model_makes_it_fit():
    linked = {"a": make_platform("a", link_bytes_per_s=3e11)}
    market = Market(offers=(make_offer("a", 4.0, count=4),))
    way = make_way()
    large = replace(way, totals=replace(way.totals, weight_bytes=30 * GIB))

    answer = solve(market=market, platforms=linked, ways=[large])

    assert {point.form for point in answer.front} <= {"tensor", "pipeline"}
    assert answer.cheapest is not None
    assert answer.cheapest.devices == 4
    assert answer.cheapest.memory_bytes < 16 * GIB


def test_optimise__tensor_parallelism_shortens_a_step():
    linked = {"a": make_platform("a", link_bytes_per_s=3e11)}
    market = Market(offers=(make_offer("a", 4.0, count=4),))

    times = {
        form: solve(market=market, platforms=linked, objectives=(TIME,), forms=(form,)).front[0].step_ns
        for form in ("single", "data", "tensor", "pipeline")
    }

    assert times["tensor"] < times["single"] == times["data"] < times["pipeline"]


def test_optimise__what_is_measured_is_not_measured_in_another_form():
    def measured(way, devices):
        return changed(FakeTimes({"a": 1e6})(way, devices), source=MEASURED)

    market = Market(offers=(make_offer("a", 4.0, count=4),))

    answer = solve(market=market, times=measured, forms=("single", "data"))

    assert answer.sources == {MEASURED: 1, ANCHORED: 1}


def test_optimise__forms_that_no_machine_can_have_are_said():
    answer = solve(forms=("tensor",))

    assert answer.candidates == 0
    assert any("parallel forms" in text for text in answer.warnings)
