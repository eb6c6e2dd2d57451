from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.report.axes import Box, LogAxis, along, around, columns, log_axis, place, positive


def test_log_axis__equal_factors_are_equal_distances():
    axis = LogAxis(low=1, high=1000, start=0, end=300)
    assert [round(axis.at(value), 9) for value in (1, 10, 100, 1000)] == [0, 100, 200, 300]
    down = LogAxis(low=1, high=100, start=200, end=0)
    assert down.at(10) == pytest.approx(100)


def test_log_axis__holds_its_values_with_room():
    axis = log_axis([3.0, 300.0, None, 0.0, math.nan, math.inf, -5.0], 0, 100, room=2)
    assert axis is not None
    assert (axis.low, axis.high) == (1.5, 600)
    assert log_axis([None, 0.0, math.nan], 0, 100) is None


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.5, 2000, [1, 10, 100, 1000]),
        (1.5, 60, [2, 5, 10, 20, 50]),
        (0.12, 0.4, [0.15, 0.2, 0.3]),
        (1, 1e20, [1, 1e3, 1e6, 1e9, 1e12, 1e15, 1e18]),
    ],
)
def test_ticks__round_numbers(low, high, expected):
    assert LogAxis(low=low, high=high, start=0, end=1).ticks() == pytest.approx(tuple(expected))


@given(st.floats(1e-200, 1e200), st.floats(2.25, 1e30))
def test_ticks__a_few_within_the_axis(low, factor):
    axis = LogAxis(low=low, high=low * factor, start=0, end=1)
    ticks = axis.ticks()
    assert 2 <= len(ticks) <= 8
    assert all(axis.low <= tick <= axis.high for tick in ticks)


@pytest.mark.parametrize("value", [None, 0.0, -1.0, math.nan, math.inf, 1e300, 1e-300])
def test_positive__what_has_no_place(value):
    assert not positive(value)


def test_columns__wide_and_combining_letters():
    assert [columns(text) for text in ("abc", "模型", "e\u0301", "")] == [3, 4, 1, 0]


def test_place__beside_the_point_and_never_on_another_label():
    within = Box(left=0, top=0, right=400, bottom=200)
    wanted = [(100.0, 100.0, f"label {n}", 8.0) for n in range(6)]
    placed = [label for label in place(wanted, [], within, letters=12) if label]
    assert placed[0].anchor == "start"
    assert placed[0].x == 108
    assert 3 <= len(placed) <= 6
    boxes = [label.box(12) for label in placed]
    assert not [1 for n, one in enumerate(boxes) for other in boxes[:n] if one.meets(other)]
    assert all(box.inside(within) for box in boxes)


def test_place__no_room_no_label():
    tiny = Box(left=0, top=0, right=20, bottom=20)
    assert place([(10.0, 10.0, "much too long", 4.0), (5.0, 5.0, "", 4.0)], [], tiny, letters=12) == [None, None]


def test_place__lines_are_crossed_only_for_want_of_a_place():
    within = Box(left=0, top=0, right=400, bottom=200)
    lines = along([(100.0, 100.0), (400.0, 100.0)])
    (beside,) = place([(100.0, 100.0, "label", 8.0)], [], within, letters=12, lines=lines)
    assert beside is not None
    assert beside.anchor == "end"
    narrow = Box(left=90, top=80, right=400, bottom=112)
    taken = [around(100, 80, 12)]
    (crossing,) = place([(100.0, 100.0, "label", 8.0)], taken, narrow, letters=12, lines=lines)
    assert crossing is not None
    assert crossing.anchor == "start"


def test_along__covers_the_whole_line():
    boxes = along([(0.0, 0.0), (30.0, 40.0)])
    assert boxes[0].meets(around(0, 0, 1))
    assert boxes[-1].meets(around(30, 40, 1))
    assert along([(1.0, 1.0)]) == []
