from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.records.evidence import Block
from perfgate.stats.pairs import log_ratios, noisy_metrics, rounds, side_value, side_values, valid_pairs
from tests.stats.helpers import pair, pairs, side


def test_log_ratios__median_over_all_blocks_of_a_side():
    base = side(blocks=(Block(samples_ns=(100, 101)), Block(samples_ns=(99, 9_000))))
    assert log_ratios([pair(base, 201)], "latency") == pytest.approx([math.log(201 / 100.5)])


def test_log_ratios__void_pairs_do_not_count():
    found = log_ratios([pair(100, 110), pair(100, 900, 1, void="foreign process"), pair(100, 120, 2)], "latency")
    assert found == pytest.approx([math.log(1.1), math.log(1.2)])


@pytest.mark.parametrize("lacking", [None, 0])
def test_log_ratios__empty_if_one_pair_lacks_the_value(lacking):
    found = [pair(side(peak_bytes=10), side(peak_bytes=20)), pair(side(peak_bytes=10), side(peak_bytes=lacking), 1)]
    assert log_ratios(found, "peak_memory") == ()


def test_log_ratios__positive_means_worse_where_larger_is_better():
    found = [pair(side(cpu_ns=90, wall_ns=100), side(cpu_ns=45, wall_ns=100))]
    assert log_ratios(found, "utilisation") == pytest.approx([math.log(2)])
    assert log_ratios([pair(100, 200)], "throughput") == pytest.approx(log_ratios([pair(100, 200)], "latency"))


def test_side_value__energy_is_joule_per_item_over_all_blocks():
    measured = side(
        blocks=(Block(samples_ns=(1, 1), energy_j=3.0), Block(samples_ns=(1,), energy_j=6.0)), inner=5, items=3
    )
    assert side_value(measured, "energy") == pytest.approx(9 / (3 * 5 * 3))
    partly = side(blocks=(Block(samples_ns=(1,), energy_j=3.0), Block(samples_ns=(1,))))
    assert side_value(partly, "energy") is None


@pytest.mark.parametrize("metric", ["cost", "monthly_cost"])
def test_side_value__cost_is_hours_of_the_machine_per_million_items(metric):
    # 7.2 ms for 2 items: 1 M items take 3600 s.
    assert side_value(side((7_200_000,), items=2), metric) == pytest.approx(1.0)
    assert side_value(side((7_200_000,), items=0), metric) is None
    changed = [pair(side((100,), items=1), side((220,), items=2))]
    assert log_ratios(changed, metric) == pytest.approx([math.log(1.1)])
    assert metric not in noisy_metrics(changed)


def test_side_value__nan_energy_is_no_value():
    assert side_values([pair(side(energy_j=1.0), side(energy_j=math.nan))], "energy") == ((0.25,), ())


def test_side_value__spans_and_quantiles():
    measured = side(tuple(range(1, 102)), spans_ns={"token": (5, 7, 9)})
    assert side_value(measured, "span:token") == 7
    assert side_value(measured, "latency_p90") == pytest.approx(91)
    assert side_value(measured, "latency_p99") == pytest.approx(100)
    assert side_value(measured, "span:other") is None
    assert side_value(measured, "nonsense") is None


def test_noisy_metrics__lists_what_any_side_has():
    head = side(spans_ns={"b": (1, 1, 1, 1), "a": (2, 2, 2, 2)}, peak_bytes=7)
    assert noisy_metrics([pair(100, head)]) == ("latency", "peak_memory", "span:a", "span:b")


def test_noisy_metrics__no_valid_pairs():
    assert noisy_metrics([]) == ()
    assert valid_pairs([pair(1, 1, void="crash")]) == ()


def test_rounds__only_where_they_repeat():
    assert rounds(pairs((1, 1), (1, 1))) is None
    assert rounds([pair(1, 1, 0, round=0), pair(1, 1, 1, round=0), pair(1, 1, 2, round=1)]) == (0, 0, 1)


@given(
    st.lists(st.tuples(st.integers(1, 10**12), st.integers(1, 10**12)), min_size=1, max_size=20), st.integers(1, 1000)
)
def test_log_ratios__a_common_factor_changes_nothing(sides, factor):
    plain = log_ratios(pairs(*sides), "latency")
    scaled = log_ratios(pairs(*((b * factor, h * factor) for b, h in sides)), "latency")
    assert scaled == pytest.approx(plain, abs=1e-9)
    swapped = log_ratios(pairs(*((h, b) for b, h in sides)), "latency")
    assert swapped == pytest.approx([-value for value in plain], abs=1e-9)
