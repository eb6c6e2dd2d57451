from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records.estimate import ENERGY, EstimatorReport
from perfgate.records.report import Report
from perfgate.report import estimates
from perfgate.report.comment import COMMENT_LIMIT, comment, summary
from perfgate.report.html import page
from tests.report.builders import measurements, model, report, usual
from tests.report.estimate_builders import (
    SURPRISE,
    UNSEEN,
    accuracy,
    device,
    estimated,
    estimator_report,
    side_estimate,
    workload_estimate,
)
from tests.report.forms import FORMS
from tests.report.rendered import Node
from tests.report.test_comment import LINKS, structure, table_below
from tests.report.test_escape import HOSTILE
from tests.report.test_html import structure as page_structure
from tests.report.test_html import table_named

TITLE = "Estimator: what the structure explains"
ENTRY = model("resnet50", *usual())
HEAD_ROW = ["Model · workload", "On", "Predicted step", "90 % interval (head)", "Measured", "Memory", "Remark"]
ROWS = [
    [
        "resnet50 · train · b32",
        "this runner",
        "13.2 ms",
        "11.9 ms to 14.5 ms",
        "13.9 ms → 15.0 ms",
        "",
        SURPRISE,
    ],
    ["resnet50 · train · b32", "L4", "18.0 ms → 19.0 ms", "17.1 ms to 20.9 ms", "–", "25.0 GiB, does not fit", ""],
    ["resnet50 · train · b32", "H100 SXM", "4.40 ms", "3.96 ms to 4.84 ms", "–", "", UNSEEN],
    ["vit · infer · b1", "this runner", "4.20 ms", "3.78 ms to 4.62 ms", "4.31 ms", "", ""],
]


def of(base, head, **fields) -> Report:
    """A report of one workload, of which this is estimated."""
    return report(ENTRY, estimator=estimator_report(workload_estimate(ENTRY, base, head), **fields))


def only(base, head) -> estimates.EstimateRow:
    (found,) = estimates.rows(of(base, head))
    return found


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


# ---------------------------------------------------------------- rows


def test_rows__the_worst_workload_first_and_its_devices_after_this_runner():
    found = estimates.rows(estimated()[0])
    assert [(row.model, row.device) for row in found] == [
        ("resnet50", "this runner"),
        ("resnet50", "L4"),
        ("resnet50", "H100 SXM"),
        ("vit", "this runner"),
    ]


def test_rows__what_is_equal_on_both_sides_is_said_once():
    same = only(side_estimate(13.2e6, 13.92e6), side_estimate(13.2e6, 13.92e6))
    assert (plain(same.predicted), plain(same.measured)) == ("13.2 ms", "13.9 ms")
    moved = only(side_estimate(13.2e6, 13.92e6), side_estimate(14.4e6, 15.02e6))
    assert (plain(moved.predicted), plain(moved.measured)) == ("13.2 ms → 14.4 ms", "13.9 ms → 15.0 ms")
    assert plain(moved.interval) == "13.0 ms to 15.8 ms"


@pytest.mark.parametrize("absent", ["base", "head"])
def test_rows__one_side_alone(absent):
    known = side_estimate(13.2e6, 13.92e6)
    row = only(*((None, known) if absent == "base" else (known, None)))
    assert (plain(row.predicted), plain(row.measured)) == ("13.2 ms", "13.9 ms")


def test_rows__a_step_that_was_not_measured():
    assert only(None, side_estimate(13.2e6, None)).measured == "–"


def test_rows__a_runner_of_which_nothing_is_said_has_no_row():
    found = estimates.rows(of(None, side_estimate(None, 13.92e6, device("l4"))))
    assert [(row.device, row.measured) for row in found] == [("L4", "–")]


@pytest.mark.parametrize(("fits", "text"), [(True, ", fits"), (False, ", does not fit"), (None, "")])
def test_rows__memory_is_heads_and_says_whether_it_fits(fits, text):
    before, after = device("l4", 9e6, 2**30, fits=True), device("l4", 9e6, 6 * 2**30, fits=fits)
    assert plain(only(side_estimate(None, None, before), side_estimate(None, None, after)).memory) == f"6.00 GiB{text}"


def test_rows__a_device_that_one_side_lacks():
    row = only(side_estimate(None, None, device("l4", 9e6, 2**30)), side_estimate(None, None))
    assert (plain(row.predicted), plain(row.memory)) == ("9.00 ms", "1.00 GiB")


def test_rows__a_remark_names_the_surprise_before_what_is_unseen():
    head = replace(side_estimate(), surprise=SURPRISE)
    assert head.runner is not None
    head = replace(head, runner=replace(head.runner, novel=(UNSEEN, "other software")))
    assert only(None, head).note == f"{SURPRISE}; {UNSEEN}; other software"
    # What surprised on base is no news about head.
    assert only(replace(side_estimate(), surprise=SURPRISE), side_estimate()).note == ""


def test_rows__of_the_whole_catalogue_twelve_devices():
    many = [device(f"gpu-{n}") for n in range(20)]
    assert len(estimates.rows(of(None, side_estimate(13.2e6, None, *many)))) == 1 + 12


def test_rows__only_of_workloads_that_are_judged():
    judged = report(replace(ENTRY, informative=True), estimator=of(None, side_estimate()).estimator)
    assert estimates.rows(judged) == []
    assert estimates.rows(replace(judged, models=())) == []


# ---------------------------------------------------------------- facts


def test_facts__what_it_was_fitted_on_and_how_good_it_is():
    found = [(fact.label, plain(fact.text)) for fact in estimates.facts(estimated()[0])]
    good = "mean 12.1 %, 84.0 % within 20 % (240 held-out records of 9 groups); intervals hold 91.0 %"
    assert found == [
        ("Estimator", "fitted again on 1\u202f240 records of 23 groups in 3.40 s"),
        ("Accuracy, step time", f"median error 8.3 %, {good}"),
        ("Accuracy, peak memory", f"median error 2.1 %, {good}"),
        ("Remark", "energy was recorded of 3 runs only: not estimated"),
    ]


def test_facts__a_target_of_a_newer_version_keeps_its_name():
    judged = of(None, side_estimate(), accuracy=(accuracy(ENERGY), accuracy("disk")))
    assert [fact.label for fact in estimates.facts(judged)][1:] == ["Accuracy, energy", "Accuracy, disk"]


@pytest.mark.parametrize("reason", ["12 records, at least 40 are needed", ""])
def test_facts__one_that_is_not_used_says_why_and_nothing_else(reason):
    unused = replace(of(None, side_estimate()), estimator=replace(estimator_report(), used=False, reason=reason))
    assert estimates.rows(unused) == []
    said = [(fact.label, fact.text) for fact in estimates.facts(unused)]
    assert said == ([("Estimator", f"not used: {reason}")] if reason else [])


# ---------------------------------------------------------------- comment, summary and page


def test_comment__estimates_of_every_workload():
    root = structure(comment(estimated()[0], links=LINKS))
    assert table_below(root, TITLE) == [HEAD_ROW, *ROWS]
    (folded,) = (node for node in root.all("details") if node.all("summary")[0].text == TITLE)
    assert len(folded.all("li")) == 4


def test_page__estimates_of_every_workload():
    root = page_structure(page(*estimated(), links=LINKS))
    rows = table_named(root, "Estimates of all workloads")
    assert [[plain(cell) for cell in row] for row in rows] == [HEAD_ROW, *ROWS]
    assert "Estimator" in [node.text for node in root.all("dt")]
    # The table's own style is there without any cost, too.
    assert ".front" in root.all("style")[0].text


def headings(root: Node) -> list[str]:
    return [node.text for tag in ("h2", "h3", "h4", "summary") for node in root.all(tag)]


@pytest.mark.parametrize("found", [None, EstimatorReport(used=False)], ids=["none", "unused"])
def test_nothing_of_it_where_nothing_is_said(found):
    judged = report(ENTRY, estimator=found)
    texts = (comment(judged), summary(judged), page(judged, measurements(judged)))
    assert not [text for text in texts if TITLE in text]


def test_page__says_why_it_is_not_used_and_the_comment_does_not():
    judged = report(ENTRY, estimator=EstimatorReport(used=False, reason="too few records"))
    root = page_structure(page(judged, measurements(judged)))
    assert TITLE in headings(root)
    assert "not used: too few records" in [node.text for node in root.all("dd")]
    assert not [node for node in root.all("div") if node.attributes.get("aria-label") == "Estimates of all workloads"]
    assert TITLE not in comment(judged) + summary(judged)


@pytest.mark.parametrize("name", HOSTILE)
def test_texts__hostile_names_stay_texts(name):
    """The checks of ``structure`` are what may fail: widths of tables, elements, addresses."""
    text = HOSTILE[name]
    entry = model(text, *usual())
    strange = side_estimate(13.2e6, 13.92e6, device(text, novel=(text, text)), surprise=text)
    found = estimator_report(workload_estimate(entry, strange, strange), accuracy=(accuracy(text),), notes=(text,))
    judged = report(entry, estimator=found)
    assert len(table_below(structure(comment(judged)), TITLE)) == 3
    root = page_structure(page(judged, measurements(judged)))
    assert len(table_named(root, "Estimates of all workloads")) == 3
    assert not [node for node in root.all("a") if "e.invalid" in node.attributes["href"]]


def test_comment__many_estimates_are_cut_to_the_first_and_the_rest_is_counted():
    entries = [model(f"m{n:03d}", *usual()) for n in range(400)]
    remark = device("l4", novel=("r" * 290,))
    workloads = (workload_estimate(entry, None, side_estimate(13.2e6, None, remark)) for entry in entries)
    judged = report(*entries, estimator=estimator_report(*workloads))
    written = comment(judged, links=LINKS)
    rows = table_below(structure(written), TITLE)[1:]
    assert len(written.encode("utf-8")) < COMMENT_LIMIT
    assert 20 <= len(rows) < 800
    assert rows[0][0] == "m000 · train · b32"
    assert f"… {800 - len(rows)} more rows left out: the [full report](" in written
    assert "fitted again on" in written
    assert len(table_named(page_structure(page(judged, measurements(judged))), "Estimates of all workloads")) == 801


def test_comment__estimates_go_before_the_worst_rows_of_the_first_table():
    judged = FORMS["estimated"]()[0]
    short = comment(judged, links=LINKS, limit=2_500)
    structure(short)
    assert "13.9 ms" in plain(short)
    assert "H100 SXM" not in short
