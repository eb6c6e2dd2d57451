"""What the estimator's benchmarks say of intervals."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.estimator import held_out
from benchmarks.estimator.held_out import Figures

FINE = Figures(
    n=9, median=0.05, mean=0.07, within_10=0.8, within_20=0.9, p90=0.2, covered=0.9, covered_by_group=0.88, width=1.3
)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"covered": 0.86}, "cover 86.0%"),
        ({"covered": 0.95}, "cover 95.0%"),
        ({"covered_by_group": 0.86}, "by group"),
        ({"width": 1.5}, "1.50 wide"),
    ],
)
def test_uncovered__names_what_is_out_of_its_limits(wrong, words):
    assert held_out.uncovered({"a": FINE}, ["a", "absent"], width=1.4) == []
    (line,) = held_out.uncovered({"a": replace(FINE, **wrong), "b": FINE}, ["a", "b"], width=1.4)
    assert line.startswith("a: ")
    assert words in line


def test_middle__errors_of_the_middle_draw_and_coverage_of_all():
    draws = [
        replace(FINE, median=median, covered=covered) for median, covered in ((0.1, 1.0), (0.04, 0.8), (0.06, 0.9))
    ]
    found = held_out.middle(draws)
    assert found.median == 0.06
    assert found.covered == pytest.approx(0.9)
