from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfgate.records.cost import ITEMS, ROOFLINE, CostReport, Volume
from perfgate.records.report import REGRESSION
from perfgate.report.money import line
from tests.report.builders import model, report, usual
from tests.report.cost_builders import (
    answer,
    cost_report,
    front,
    infeasible,
    offer,
    point,
    side,
    tied,
    unpriced,
    workload_cost,
)
from tests.report.cost_forms import COST_FORMS, MOVED
from tests.report.forms import FORMS

SLOWER = model("resnet50", *usual(0.079, REGRESSION))
BEFORE = side(usd_per_month=9_400.0)
AFTER = side(usd_per_month=10_580.0)


def said(*costs: Any, models: Any = (SLOWER,), **fields: Any) -> str:
    return line(report(*models, cost=cost_report(*costs, **fields))).replace("\u202f", " ").replace("\u00a0", " ")


def volumes(**fields: Any) -> Any:
    return workload_cost(SLOWER, BEFORE, AFTER, volume=Volume(amount=40e6), **fields)


def test_line__nothing_without_news_or_volume():
    assert said(workload_cost(SLOWER, side(), side())) == ""
    assert line(report(SLOWER)) == ""
    assert line(report(SLOWER, cost=CostReport())) == ""
    assert all(line(build()[0]) == "" for name, build in FORMS.items() if name not in COST_FORMS)


def test_line__the_declared_volume_in_dollars_a_month():
    text = said(volumes())
    assert text.startswith(
        "At the declared 40 M training steps a month: +$1 180 a month on this runner ($9 400 → $10 580). "
        "Cheapest that still meets 20 ms: L4 (aws/g6.xlarge, us-east-1, $0.805/h of 2026-07-20), "
        "$0.00402 per 1 000 steps (on this runner now $0.00336)"
    )
    assert text.endswith("; the time is by the calibrated roofline, within a factor of 1.3.")


def test_line__cheaper_has_a_minus_sign():
    text = said(workload_cost(SLOWER, AFTER, BEFORE, volume=Volume(amount=40e6)))
    assert "−$1 180 a month on this runner ($10 580 → $9 400)" in text


def test_line__items_and_an_unknown_kind_of_step():
    cost = workload_cost(SLOWER, BEFORE, AFTER, volume=Volume(amount=3e9, unit=ITEMS))
    assert "At the declared 3 G items a month" in said(cost)
    other = replace(SLOWER, key="k2", workload=replace(SLOWER.workload, mode="step"))
    assert "40 M steps a month" in said(replace(volumes(), key="k2"), models=(other,))


def test_line__a_change_that_may_be_none_is_not_called_one():
    quiet = model("resnet50", *usual(0.002))
    text = said(volumes(), models=(quiet,))
    assert "$9 400 → $10 580 a month on this runner, no certain change." in text
    assert "+$" not in text


def test_line__no_base_and_an_equal_month():
    assert ": $10 580 a month on this runner. " in said(replace(volumes(), base=None))
    assert ": $9 400 a month on this runner, as before. " in said(replace(volumes(), head=BEFORE))


def test_line__an_assumed_price_is_said_to_be_assumed():
    text = said(volumes(), runner_assumed=True)
    assert "($9 400 → $10 580), whose price is assumed: $0.805/h, aws/g6.xlarge in us-east-1 of 2026-07-20. " in text
    assert "assumed" not in said(volumes())
    once = said(volumes(), runner_assumed=True, runner_price="aws/g6.xlarge, $0.805/h of 2026-07-20")
    assert once.count("$0.805/h of 2026-07-20") == 2  # the runner's, and the cheapest offer's


def test_line__an_unknown_price_leaves_the_cheapest():
    before, after = (unpriced(cheapest_usd_per_month=usd) for usd in (7_960.0, 8_210.0))
    cost = workload_cost(SLOWER, before, after, volume=Volume(amount=40e6))
    text = said(cost, runner_usd_per_hour=None, runner_price="the device is not known")
    assert (
        "$7 960 → $8 210 a month on the cheapest platform; no price for this runner (the device is not known)" in text
    )
    assert "on this runner now" not in text


def test_line__neither_price_says_no_month():
    cost = workload_cost(SLOWER, unpriced(), unpriced(), volume=Volume(amount=40e6))
    assert said(cost, runner_usd_per_hour=None).startswith("Cheapest that still meets 20 ms: L4 ")


def test_line__a_moved_recommendation_comes_first():
    text = said(workload_cost(SLOWER, side(), side(answer(*front()[1:])), moved=True, sentence=MOVED))
    assert text.startswith(
        "This change moves the cheapest platform from L4 to L40S. Cheapest that still meets 20 ms: L40S"
    )


def test_line__ties_are_said_as_ties():
    text = said(workload_cost(SLOWER, side(), side(tied()), moved=True, sentence="x moved"))
    assert text.endswith("L4, A10G and 50 % of one A10 cannot be told apart.")
    same = answer(front()[0], tied=(replace(front()[0], batch=16),))
    assert "told apart" not in said(workload_cost(SLOWER, side(), side(same), moved=True))


def test_line__many_ties_are_counted():
    others = tuple(point(offer(f"a{n}0"), tie=1) for n in range(1, 8))
    text = said(workload_cost(SLOWER, side(), side(answer(front()[0], tied=others)), moved=True))
    assert text.endswith("L4, A10, A20, A30 and 4 more cannot be told apart.")


def test_line__nothing_feasible_names_what_comes_nearest():
    text = said(workload_cost(SLOWER, side(), side(infeasible()), volume=Volume(amount=1e6)))
    assert text == (
        "No platform meets 20 ms; nearest: H100 SXM (aws/p5.4xlarge, us-east-1, $6.88/h of 2026-07-20), "
        "step time 33.9 ms > 20 ms."
    )
    moved = said(workload_cost(SLOWER, side(), side(infeasible()), moved=True, sentence="no platform meets 20 ms now"))
    assert moved.startswith("No platform meets 20 ms now. Nearest: H100 SXM (")


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({"source": "measured"}, "$0.00336)."),
        ({"source": "anchored", "high_ns": 19e6, "low_ns": 17e6}, "by the ratio of rooflines, within a factor of 1.1."),
        ({"source": "estimated", "high_ns": 900e6}, "by the estimator, very roughly."),
        ({"source": ROOFLINE, "low_ns": 0.0}, "by the calibrated roofline."),
    ],
)
def test_line__where_the_time_comes_from(fields, expected):
    cheapest = replace(front()[0], **fields)
    assert said(workload_cost(SLOWER, side(), side(answer(cheapest)), moved=True)).endswith(expected)


def test_line__several_workloads_tell_of_the_moved_one_and_count_the_others():
    fast = model("bert", *usual(0.05, REGRESSION), mode="infer", batch=8)
    small = workload_cost(fast, side(usd_per_month=100.0), side(usd_per_month=105.0), volume=Volume(amount=1e6))
    moved = workload_cost(SLOWER, side(), side(), moved=True, sentence=MOVED)
    text = said(small, moved, models=(fast, SLOWER))
    assert text.startswith(f"resnet50 · train · b32: {MOVED}. ")
    assert text.endswith("And 1 more workload, together +$5.00 a month: see below.")
    plain = said(small, volumes(), models=(fast, SLOWER))
    assert plain.startswith("At the declared 40 M training steps a month of resnet50 · train · b32: +$1 180 ")


def test_line__uncertain_changes_of_others_are_not_added_up():
    quiet = model("bert", *usual(0.0), mode="infer", batch=8)
    small = workload_cost(quiet, side(usd_per_month=100.0), side(usd_per_month=100.2), volume=Volume(amount=1e6))
    assert said(small, volumes(), models=(quiet, SLOWER)).endswith("And 1 more workload: see below.")


def test_line__a_workload_that_head_does_not_have_costs_nothing():
    assert said(workload_cost(SLOWER, side(), None, volume=Volume(amount=1e6))) == ""


def test_line__a_workload_that_the_report_does_not_have_is_named_by_its_key():
    plain = replace(model("bert", *usual(0.0)), key="other")
    text = said(volumes(), workload_cost(plain, side(), side()), models=())
    assert f"of resnet50 · {SLOWER.key[:60]}: " in text


def test_line__the_months_are_those_of_the_table():
    """The rows rest on the pairs that decided, and a reader compares both."""
    row = replace(usual(0.079, REGRESSION)[0], metric="monthly_cost", unit="usd", base=9_100.0, head=9_990.0)
    slower = model("resnet50", *usual(0.079, REGRESSION), row)
    text = said(workload_cost(slower, BEFORE, AFTER, volume=Volume(amount=40e6)), models=(slower,))
    assert "+$890.00 a month on this runner ($9 100 → $9 990)" in text
