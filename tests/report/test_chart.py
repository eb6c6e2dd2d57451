from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.records.metrics import METRICS
from perfgate.report.chart import points, strip
from tests.report.builders import noisy, pair, pairs
from tests.report.rendered import Node, parse


def drawn(markup: str) -> Node:
    root, _ = parse(markup)
    (svg,) = root.all("svg")
    return svg


def by_class(svg: Node, tag: str, name: str) -> list[Node]:
    return [node for node in svg.all(tag) if node.attributes.get("class") == name]


def test_points__values_change_and_reason_of_each_pair():
    first, second = points((pair(0, 10e6, 11e6), pair(1, 10e6, 5e6, void="foreign load")), "latency")
    assert (first.base, first.head, first.void) == (10e6, 11e6, "")
    assert first.change == pytest.approx(0.1)
    assert second.void == "foreign load"
    assert second.change == pytest.approx(-0.5)


def test_points__pairs_after_the_decision_are_marked():
    measured = (pair(0, 1e7, 1e7), pair(1, 1e7, 1e7, void="x"), pair(2, 1e7, 1e7), pair(3, 1e7, 1e7))
    assert [point.later for point in points(measured, "latency", 2)] == [False, False, False, True]
    svg = drawn(strip(points(measured, "latency", 2), noisy()))
    assert (len(by_class(svg, "circle", "pair")), len(by_class(svg, "circle", "later"))) == (2, 1)


def test_points__a_metric_that_was_not_measured_has_no_change():
    (point,) = points((pair(0, 10e6, 11e6),), "energy")
    assert (point.base, point.head, point.change) == (None, None, None)


def test_strip__one_dot_a_pair_at_the_place_of_its_change():
    result = noisy("latency", 0.1, limit=0.2)
    svg = drawn(strip(points((pair(0, 10e6, 10e6), pair(1, 10e6, 12e6)), "latency"), result))
    left, right = (float(dot.attributes["cx"]) for dot in by_class(svg, "circle", "pair"))
    (equal,) = by_class(svg, "line", "equal")
    (limit,) = by_class(svg, "line", "limit")
    (estimate,) = by_class(svg, "line", "estimate")
    assert left == float(equal.attributes["x1"])
    assert right == float(limit.attributes["x1"])
    assert float(estimate.attributes["x1"]) == pytest.approx((left + right) / 2, abs=0.11)
    (band,) = by_class(svg, "rect", "interval")
    assert float(band.attributes["x"]) < float(estimate.attributes["x1"])
    assert "limit 20 %" in svg.text


def test_strip__pairs_that_do_not_count_are_hollow_and_never_stretch_the_scale():
    shown = points((*pairs(0.01), pair(20, 10e6, 10.1e6, void="x")), "latency")
    svg = drawn(strip(shown, noisy("latency", 0.01)))
    assert len(by_class(svg, "circle", "pair")) == 12
    assert len(by_class(svg, "circle", "void")) == 1


def test_strip__larger_is_better_has_its_limit_on_the_left():
    result = noisy("latency", 0.0, metric="throughput", limit=0.03, ci_low=None, ci_high=None)
    assert METRICS["throughput"].larger_is_better
    svg = drawn(strip(points((pair(0, 10e6, 10e6),), "throughput"), result))
    (equal,), (limit,) = by_class(svg, "line", "equal"), by_class(svg, "line", "limit")
    assert float(limit.attributes["x1"]) < float(equal.attributes["x1"])


def test_strip__without_a_change_there_is_no_drawing():
    assert strip(points((pair(0, 10e6, 11e6),), "energy"), noisy()) == ""
    assert strip((), noisy()) == ""


@given(
    st.lists(st.floats(-0.999, 50.0), min_size=1, max_size=20),
    st.one_of(st.none(), st.floats(0.0, 3.0)),
    st.booleans(),
)
@settings(max_examples=100, deadline=None)
def test_strip__everything_lies_inside_the_picture(changes, limit, interval):
    shown = points([pair(index, 1e9, 1e9 * (1 + change)) for index, change in enumerate(changes)], "latency")
    middle = math.exp(sum(math.log1p(change) for change in changes) / len(changes))
    low, high = (middle * 0.9, middle * 1.1) if interval else (None, None)
    svg = drawn(strip(shown, noisy("latency", ratio=middle, ci_low=low, ci_high=high, limit=limit)))
    places = [
        float(node.attributes[name])
        for node in svg.walk()
        for name in ("x", "x1", "x2", "cx")
        if name in node.attributes
    ]
    assert all(0 <= place <= 640 for place in places)
    assert len(by_class(svg, "circle", "pair")) == len(changes)
    ticks = [node for node in svg.all("text") if "class" not in node.attributes]
    assert 1 <= len(ticks) <= 8
    assert len({tick.text for tick in ticks}) == len(ticks)
