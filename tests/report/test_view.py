from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records import report as verdicts
from perfgate.records.evidence import Skipped
from perfgate.report.view import QUIET_ROWS, build
from tests.report.builders import POLICY, exact, model, noisy, report, shown, usual
from tests.report.forms import FORMS

WORST_FIRST = [
    verdicts.REGRESSION,
    verdicts.MISSING,
    verdicts.INVALID,
    verdicts.INCONCLUSIVE,
    verdicts.ACCEPTED,
    verdicts.IMPROVEMENT,
    verdicts.PASS,
]


def test_build__rows_are_worst_first_whatever_the_order_of_the_report():
    models = [model(f"m{n}", noisy("latency", 0.01 * n, verdict)) for n, verdict in enumerate(reversed(WORST_FIRST))]
    assert [row.verdict for row in build(report(*models)).rows.items] == WORST_FIRST


def test_build__within_a_verdict_times_come_first_and_then_the_largest_worsening():
    changes = [0.05, 0.30, 0.07]
    judged = report(
        *(model(f"m{change}", noisy("latency", change, verdicts.REGRESSION)) for change in changes),
        model("zero", exact("graph_breaks", 0, 1, verdicts.REGRESSION)),
        model("better", noisy("latency", -0.1, verdicts.IMPROVEMENT)),
        model("best", noisy("latency", -0.5, verdicts.IMPROVEMENT)),
    )
    names = [row.model for row in build(judged).rows.items]
    assert names == ["m0.3", "m0.07", "m0.05", "zero", "best", "better"]


def test_build__falling_throughput_is_worse_than_rising():
    judged = report(
        model("falls", replace(shown("throughput", 100.0, 50.0), verdict=verdicts.REGRESSION)),
        model("falls_less", replace(shown("throughput", 100.0, 90.0), verdict=verdicts.REGRESSION)),
    )
    assert [row.model for row in build(judged).rows.items] == ["falls", "falls_less"]


def test_build__zero_is_a_number_and_not_unknown():
    """C08, B16: falsy zeros."""
    row = build(report(model("m", exact("graph_breaks", 0, 0, limit=0.0, gated=True)))).rows.items[0]
    assert (row.base, row.head, row.change.replace("\u00a0", " "), row.limit.replace("\u00a0", " ")) == (
        "0",
        "0",
        "equal",
        "0 %",
    )


def test_build__shown_rows_are_news_only_if_exact_and_moved():
    judged = report(
        model(
            "m",
            shown("latency_p99", 1e6, 2e6),
            exact("params", 10, 11, verdicts.SHOWN),
            exact("operators", 10, 10, verdicts.SHOWN),
        )
    )
    assert [row.metric for row in build(judged).rows.items] == ["parameters"]


def test_build__quiet_rows_are_few_and_counted():
    judged = report(*(model(f"m{n}", noisy("latency", 0.001)) for n in range(QUIET_ROWS + 7)))
    view = build(judged)
    assert (len(view.rows.items), view.quiet_left, view.everything.total) == (QUIET_ROWS, 7, QUIET_ROWS + 7)


def test_build__no_second_table_with_the_very_same_rows():
    assert build(report(model("m", noisy("latency", 0.0)))).everything.total == 0


def test_build__a_workload_without_numbers_has_a_row_with_its_reason():
    judged = report(model("m", verdict=verdicts.MISSING, reasons=("gone from head",)))
    (row,) = build(judged).rows.items
    assert (row.verdict, row.change, row.base, row.head) == (verdicts.MISSING, "gone from head", "–", "–")


def test_build__a_workload_worse_than_its_metrics_has_a_row_of_its_own():
    judged = report(model("m", noisy("latency", 0.0), verdict=verdicts.REGRESSION, reasons=("does different work",)))
    assert build(judged).rows.items[0].change == "does different work"


def test_build__a_metric_without_numbers_says_what_happened_and_comes_first():
    gone = {"base": None, "head": None, "ratio": None, "ci_low": None, "ci_high": None, "pairs": 0}
    judged = report(
        model("slow", noisy("latency", 0.9, verdicts.REGRESSION)),
        model("broken", noisy("latency", 0.0, verdicts.REGRESSION, note="head fails: boom", **gone)),
    )
    (first, second) = build(judged).rows.items
    assert (first.model, first.change, first.bold) == ("broken", "head fails: boom", False)
    assert (second.model, second.bold) == ("slow", True)


def test_build__a_new_metric_is_not_explained_in_its_row():
    alone = {"base": None, "ratio": None, "ci_low": None, "ci_high": None, "pairs": 0}
    judged = report(model("m", noisy("latency", 0.0, verdicts.NO_BASELINE, note="base lacks it", **alone)))
    assert build(judged).rows.items[0].change == "n/a"


def test_build__notes_are_told_once():
    note = {"note": "base lacks it"}
    judged = report(
        model("a", noisy("latency", 0.1, verdicts.NEW, **note), noisy("energy", 0.1, verdicts.NEW, **note)),
        model("b", noisy("latency", 0.1, verdicts.NEW, **note), reasons=("step time: base lacks it",)),
    )
    texts = [item.text for item in build(judged).findings.items]
    assert texts == ["step time, energy per item: base lacks it", "step time: base lacks it"]


def test_build__an_informative_run_is_no_news():
    judged = report(model("m", *usual()), model("m", *usual(0.5, verdicts.REGRESSION), informative=True))
    view = build(judged)
    assert verdicts.REGRESSION not in {row.verdict for row in view.rows.items}
    assert view.everything.items[-1].informative


def test_build__first_run_shows_gated_metrics_only():
    alone = {"base": None, "ratio": None, "ci_low": None, "ci_high": None, "gated": False}
    metrics = [
        noisy("latency", 0.0, verdicts.NO_BASELINE, **alone),
        replace(shown("latency_p90", None, 5e6), verdict=verdicts.NO_BASELINE),
    ]
    assert [row.metric for row in build(report(model("m", *metrics))).rows.items] == ["step time"]


def test_build__reasons_and_notes_name_their_workload_worst_first():
    judged = report(
        model("fine", noisy("latency", 0.0, note="not said"), reasons=("outputs differ by 1e-6",)),
        model("bad", noisy("latency", 0.1, verdicts.REGRESSION, note="slower in every pair"), reasons=("F rose",)),
    )
    found = [(item.where.split(" ")[0], item.text) for item in build(judged).findings.items]
    assert found == [("bad", "F rose"), ("bad", "step time: slower in every pair"), ("fine", "outputs differ by 1e-6")]


def test_facts__say_what_the_run_could_see():
    texts = {fact.label: fact.text for fact in build(FORMS["mixed"]()[0]).facts.items}
    assert texts["Smallest change this run could see"].startswith("from 0.4 % (bert")
    assert "to 4.7 % (tiny" in texts["Smallest change this run could see"]
    assert texts["False alarms"] == "at most 1 % a run, over 2 gated comparisons"
    assert texts["Software"] == "python 3.11.2, torch 2.14.1"


def test_facts__without_timings_leave_out_what_is_not_known():
    labels = {fact.label for fact in build(report(policy=replace(POLICY, comparisons=0, looks=()))).facts.items}
    assert labels.isdisjoint({"Pairs", "Decisions", "False alarms", "Smallest change this run could see"})


@pytest.mark.parametrize(
    ("form", "said"),
    [("no_baseline", "once this is merged"), ("inconclusive", "budget"), ("invalid", "Run it again"), ("pass", "")],
)
def test_next_step__tells_what_to_do_where_the_verdict_does_not(form, said):
    step = build(FORMS[form]()[0]).next_step
    assert said in step if said else step == ""


def test_build__skipped_models_keep_their_reason():
    view = build(report(skipped=(Skipped(model="bert", reason="not touched"),)))
    assert [(fact.label, fact.text) for fact in view.skipped.items] == [("bert", "not touched")]
