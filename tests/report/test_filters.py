from __future__ import annotations

import math
from dataclasses import replace

import pytest

from perfgate.records import report as verdicts
from perfgate.records.evidence import Revision
from perfgate.report import filters
from tests.report.builders import BASE, exact, model, noisy, report, shown


def test_icon__every_verdict_has_one_and_a_word():
    known = {*verdicts.SEVERITY, verdicts.UNCHANGED, verdicts.NOT_MEASURED, verdicts.ERROR}
    assert set(filters.ICONS) == set(filters.WORDS) == known
    assert all(filters.WORDS.values())


@pytest.mark.parametrize(
    "verdict", sorted({*verdicts.SEVERITY, verdicts.UNCHANGED, verdicts.NOT_MEASURED, verdicts.ERROR} - {verdicts.PASS})
)
def test_icon__only_pass_is_green(verdict):
    assert filters.icon(verdict) != filters.icon(verdicts.PASS)


def test_icon__an_unknown_verdict_is_a_question():
    assert filters.icon("brilliant") == filters.icon(verdicts.INCONCLUSIVE)
    assert filters.severity("brilliant") == filters.severity(verdicts.INCONCLUSIVE)
    assert filters.word("brilliant") == "brilliant"


@pytest.mark.parametrize(
    ("result", "change", "interval"),
    [
        (noisy("latency", 0.079), "+7.9 %", "(7.1 to 8.7)"),
        (noisy("latency", -0.112), "−11.2 %", "(−12.0 to −10.4)"),
        (noisy("latency", 0.0), "0.0 %", "(−0.8 to 0.8)"),
        (noisy("latency", 0.0, ci_low=None, ci_high=None), "0.0 %", ""),
        (exact("flop", 100.0, 104.6), "+4.6 %", "(exact)"),
        (exact("flop", 100.0, 100.0), "equal", "(exact)"),
        (exact("params", 25_557_032, 25_557_033), "+1", "(exact)"),
        (exact("params", 25_557_033, 25_557_032), "−1", "(exact)"),
        (exact("graph_breaks", 0, 0), "equal", "(exact)"),
        (exact("graph_breaks", 0, 5), "from 0", "(exact)"),
        (exact("graph_breaks", 5, 0), "−100.0 %", "(exact)"),
        (exact("flop", None, 5.0), "n/a", ""),
        (exact("flop", 5.0, None), "n/a", ""),
        (shown("throughput", 120.0, 0.0), "−100.0 %", ""),
        (shown("throughput", 71.8, 66.5), "−7.4 %", ""),
    ],
)
def test_change__and_interval(result, change, interval):
    assert (filters.change(result), filters.interval(result)) == (change, interval)


@pytest.mark.parametrize(
    ("result", "expected"),
    [
        (noisy(limit=0.03), "3 %"),
        (noisy(limit=0.005), "0.5 %"),
        (noisy(limit=0.03, ceiling=20e6), "3 %, at most 20.0 ms"),
        (noisy(limit=None, ceiling=20e6), "at most 20.0 ms"),
        (noisy(limit=0.03, enforced=False), "3 % (report only)"),
        (noisy(limit=0.0), "0 %"),
        (shown("first_step", 1.0, 2.0), "–"),
    ],
)
def test_limit__says_what_is_in_force(result, expected):
    assert filters.limit(result) == expected


def test_worsening__follows_the_direction_of_the_metric():
    assert filters.worsening(noisy("latency", 0.08)) == pytest.approx(0.08)
    assert filters.worsening(shown("throughput", 100.0, 92.0)) == pytest.approx(0.08)
    assert filters.worsening(exact("graph_breaks", 0, 1)) == math.inf
    assert filters.worsening(exact("graph_breaks", 0, 0)) == 0.0


def test_workload_label__names_only_what_is_unusual_or_varies():
    plain = model("m")
    other = replace(plain, workload=replace(plain.workload, device="cuda:0", dtype="bfloat16", compile="default"))
    one, both = filters.varying_parts(report(plain)), filters.varying_parts(report(plain, other))
    assert filters.workload_label(plain, one) == "train · b32"
    assert filters.workload_label(plain, both) == "train · b32 · float32 · cpu · eager"
    assert filters.workload_label(other, one) == "train · b32 · bfloat16 · default"


def test_workload_label__an_informative_run_is_named_as_such():
    assert "own bench code" in filters.workload_label(model("m", informative=True), frozenset())


@pytest.mark.parametrize(
    ("revision", "expected"),
    [(BASE, "a04be77"), (Revision(sha="", name="worktree"), "worktree"), (Revision(sha=""), "the working tree")],
)
def test_commit_name__always_says_something(revision, expected):
    assert filters.commit_name(revision) == expected


def test_accept_example__covers_the_worst_regression_with_room_for_noise():
    judged = report(
        model("a", noisy("latency", 0.05, verdicts.REGRESSION)),
        model("b", noisy("latency", 0.08, verdicts.REGRESSION), mode="infer"),
    )
    assert filters.accept_example(judged) == "/perfgate accept b/infer/latency up to 9% because REASON"


@pytest.mark.parametrize(
    "judged",
    [
        report(model("a", noisy("latency", 0.05))),
        report(model("a", verdict=verdicts.MISSING)),
        report(model("a", exact("graph_breaks", 0, 5, verdicts.REGRESSION))),
        report(model("a", noisy("latency", 0.05, verdicts.REGRESSION)), exit_code=0, would_fail=True),
        report(model("a"), model("a", noisy("latency", 0.05, verdicts.REGRESSION), informative=True)),
    ],
    ids=["green", "missing", "no ratio", "report mode", "informative"],
)
def test_accept_example__is_silent_where_nothing_can_be_accepted(judged):
    assert filters.accept_example(judged) == ""
