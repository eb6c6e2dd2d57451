from __future__ import annotations

import math

import pytest

from perfgate.records import report as verdicts
from perfgate.report.operators import by_workload, caption, workload_lines, worst_first
from tests.report.builders import difference, model, noisy, operator, report


def only(**fields):
    return line(operator(**fields))


def line(change):
    ((found,),) = workload_lines(report(model("m", noisy(), difference=difference(change))))
    return found


def said(text: str) -> str:
    return text.replace("\u00a0", " ")


@pytest.mark.parametrize(
    ("fields", "what"),
    [
        ({}, "convolution changed: bfloat16 → float32"),
        ({"how": ("stride 1 → 2", "padding 1 → 0")}, "convolution changed: stride 1 → 2; padding 1 → 0"),
        ({"what": "added", "name": "head/cat", "op": "aten::cat", "how": ()}, "added"),
        ({"what": "added", "name": "head/cat#2", "op": "aten::cat", "how": ()}, "added"),
        ({"what": "removed", "name": "head", "op": "com.microsoft::Attention", "how": ()}, "Attention removed"),
        ({"what": "slower", "op": "aten::add", "phase": "optimizer", "how": ()}, "add slower, optimizer"),
        ({"op": "aten::convolution_backward", "phase": "backward", "how": ()}, "convolution_backward changed"),
        ({"op": "", "kind": "sync", "what": "slower", "how": ()}, "sync slower"),
    ],
)
def test_what__says_which_operator_did_what_and_how(fields, what):
    assert only(**fields).what == what


def test_line__a_module_without_a_path_has_a_name():
    assert only(name="").name == "the model itself"


@pytest.mark.parametrize(("count", "text"), [(1, ""), (6, "6 operators")])
def test_line__counts_more_than_one_operator(count, text):
    assert said(only(count=count).count) == text


def test_line__changes_have_signs_and_nothing_is_a_dash():
    found = only(flop=2_400_000_000, bytes=-1_048_576, calls=-1_200)
    assert (said(found.flop), said(found.bytes), found.calls) == ("+2.40 GFLOP", "−1.00 MiB", "−1\u202f200")
    none = only(flop=0, bytes=0, calls=0)
    assert (none.flop, none.bytes, none.calls, none.time) == ("–", "–", "–", "–")


@pytest.mark.parametrize(
    ("ns", "share", "text"),
    [
        (1.02e6, 0.927, "+1.02 ms (93 %)"),
        (1.02e6, None, "+1.02 ms"),
        (-3e3, -0.02, "−3.00 µs (-2 %)"),
        (None, 0.9, "–"),
        (0.0, None, "–"),
        (math.nan, 0.1, "–"),
        (1e300, 0.1, "–"),
        (1e6, math.inf, "+1.00 ms"),
        (1e6, 1e308, "+1.00 ms"),
    ],
)
def test_time__with_its_share_where_that_is_known(ns, share, text):
    assert said(only(time_ns=ns, share=share).time) == text


def test_worst_first__the_first_finding_of_each_workload_before_the_second_of_any():
    def found(name, verdict, count, **fields):
        changes = [operator(f"{name}{n}") for n in range(count)]
        return model(name, noisy("latency", 0.1, verdict), difference=difference(*changes), **fields)

    judged = report(
        found("fine", verdicts.PASS, 2),
        found("bad", verdicts.REGRESSION, 3),
        found("again", verdicts.REGRESSION, 1, informative=True),
        model("same", noisy(), difference=difference()),
        model("unknown", noisy()),
    )
    lines = worst_first(judged)
    assert [found.name for found in lines] == ["bad0", "fine0", "bad1", "fine1", "bad2"]
    assert [found.name for found in by_workload(lines)] == ["bad0", "bad1", "bad2", "fine0", "fine1"]
    assert [len(found) for found in workload_lines(judged)] == [2, 3, 1, 0, 0]


def test_caption__sums_and_what_is_left_out():
    changed = difference(operator(flop=2_000_000_000, bytes=0, calls=2), operator(bytes=0), more=1)
    lines = workload_lines(report(model("m", noisy(), difference=changed)))[0]
    assert caption(changed, lines).endswith("all together: F +2.00 GFLOP, calls +2; 1 lesser finding left out")
    quiet = difference(operator(bytes=0))
    assert caption(quiet, lines[:1]) == "Head minus base in one step, most important first"
