from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records.report import REGRESSION
from perfgate.report.axes import columns
from perfgate.report.fronts import bar, chosen, fronts
from tests.report.builders import model, report, usual
from tests.report.cost_builders import answer, cost_report, front, infeasible, offer, point, side, workload_cost
from tests.report.cost_forms import COST_FORMS

SLOWER = model("resnet50", *usual(0.079, REGRESSION))


def chart(head, **fields):
    (found,), count = fronts(report(SLOWER, cost=cost_report(workload_cost(SLOWER, side(), head, **fields))))
    assert count == 1
    return found


def test_fronts__rows_with_bars_in_proportion():
    found = chart(side())
    assert found.where.replace("\u00a0", " ") == "resnet50 · train · b32"
    assert found.lines == (
        "                           USD per 1 M items  utilisation",
        "L4 · b32 · bfloat16                   $0.126  █████████▎             12.1 %  cheapest",
        "L40S · b32 · bfloat16                 $0.145  ██████████████▋        19.0 %  knee",
        "2 × L40S · b32 · bfloat16             $0.168  ████████████████▏      21.0 %",
        "H100 SXM · b32 · bfloat16             $0.263  ████████████████████   26.0 %",
        "this runner now                       $0.105  ██▏                     2.8 %",
    )


def test_fronts__columns_stay_aligned_whatever_the_names():
    names = ("l4", "our 模型 rack", "e\u0301cole", "x" * 90, "")
    found = chart(side(answer(*(point(offer(name)) for name in names))))
    # The price ends in the same column everywhere.
    assert len({columns(line[: line.index("$") + 6]) for line in found.lines if "$" in line}) == 1


def test_fronts__long_ones_keep_the_cheapest_the_knee_and_both_ends():
    (found,), _ = fronts(COST_FORMS["cost_long"]()[0])
    assert len(found.lines) == 1 + 10 + 1
    assert found.lines[-1] == "… and 14 more between them"
    assert "b8" in found.lines[1]
    assert "cheapest" in found.lines[1]
    assert any("knee" in line for line in found.lines)
    assert "b31" in found.lines[10]


@pytest.mark.parametrize("most", [4, 5, 9, 23, 24])
def test_chosen__as_many_as_asked_for_in_order(most):
    points = tuple(point(batch=1 + n, knee=n == 11) for n in range(24))
    found = chosen(points, answer(*points), most)
    assert len(found) == most
    assert [p.batch for p in found] == sorted({p.batch for p in found})
    assert {1, 12, 24} <= {p.batch for p in found}


def test_fronts__nothing_feasible_has_words_instead_of_a_chart():
    found = chart(side(infeasible()))
    assert found.lines == ()
    assert found.note.startswith("No platform meets 20 ms; nearest: H100 SXM")


def test_fronts__none_without_a_front():
    assert fronts(report(SLOWER)) == ([], 0)
    empty = side(answer(front=(), cheapest=None, candidates=0))
    assert fronts(report(SLOWER, cost=cost_report(workload_cost(SLOWER, None, empty)))) == ([], 0)


def test_fronts__zero_utilisation_divides_by_nothing():
    found = chart(side(answer(replace(front()[0], utilisation=0.0)), roofline=None))
    assert found.lines[1].endswith("0.0 %  cheapest")
    assert "█" not in found.lines[1]


@pytest.mark.parametrize(
    ("share", "expected"), [(0.0, "    "), (1e-9, "▏   "), (0.5, "██  "), (0.53, "██▏ "), (1.0, "████"), (7.0, "████")]
)
def test_bar__to_an_eighth(share, expected):
    assert bar(share, 4) == expected
