from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.records.placement import MEMORY, PlacementReport
from perfgate.report import placements
from perfgate.report.comment import COMMENT_LIMIT, comment, summary
from perfgate.report.html import page
from tests.report.builders import measurements, model, report, usual
from tests.report.forms import FORMS
from tests.report.placement_builders import piece, placed, plan
from tests.report.test_comment import LINKS, structure, table_below
from tests.report.test_html import structure as page_structure
from tests.report.test_html import table_named

ENTRY = model("dlrm", *usual())
TITLE = "Placement: which operator runs where"


def of(*found):
    return report(ENTRY, placement=PlacementReport(workloads=found))


def plain(text: str) -> str:
    return text.replace("\u00a0", " ")


def test_line__names_what_runs_elsewhere_and_both_times():
    assert placements.line(of(placed(ENTRY, plan()))) == (
        "Best found: embedding on torch cpu, rest on torch cuda:0, 4.90 ms measured (all on torch cuda:0: 5.40 ms)."
    )


def test_line__is_silent_unless_the_recommendation_changed():
    assert placements.line(report(ENTRY)) == ""
    assert placements.line(of(placed(ENTRY, plan(), changed=False))) == ""
    assert placements.line(of(placed(ENTRY, None, changed=True, reason="no time left"))) == ""


def test_line__says_that_a_mixed_placement_does_not_pay_any_more():
    gone = plan(piece("torch cuda:0", "a", "b"), recommended=False)
    assert placements.line(of(placed(ENTRY, gone))).startswith("No mixed placement pays any more: all on torch cuda:0")


def test_line__of_several_names_the_first_and_counts_the_others():
    other = model("vit", *usual())
    text = placements.line(of(placed(ENTRY, plan()), placed(other, plan())))
    assert text.startswith("dlrm: Best found: ")
    assert text.endswith(" 1 more recommendation changed.")


@pytest.mark.parametrize(
    ("pieces", "expected"),
    [
        ((piece("ort cpu", "a"),), "all on ort cpu"),
        ((piece("ort cpu", "a"), piece("torch cpu", "b"), piece("ort cpu", "c")), "b on torch cpu, rest on ort cpu"),
        (
            (piece("ov cpu", *"abcd"), piece("torch cpu", *"efghi")),
            "a, b and 2 more on ov cpu, rest on torch cpu",
        ),
    ],
)
def test_words__name_the_smaller_parts(pieces, expected):
    assert placements.words(plan(*pieces)) == expected


def test_rows__those_that_changed_first_each_with_its_reason():
    judged, _ = FORMS["placements"]()
    first, second, third = placements.rows(judged)
    assert (first.model, plain(first.measured)) == ("dlrm", "4.90 ms (4.80 ms to 5.00 ms)")
    assert plain(first.change) == "−12.0 % to −7.0 %"
    assert first.note == "no placement is more than 10.0 % faster by the cost model"
    assert second.placement == "all on onnxruntime cpu 1"
    assert "earlier search" in second.note
    assert "not recommended" in second.note
    assert third.note == "torch.export cannot take it: data-dependent control flow"
    assert plain(third.single) == "torch cuda:0 5.30 ms"


def test_rows__memory_is_no_time_and_has_no_gap():
    (row,) = placements.rows(of(placed(ENTRY, plan(objective=MEMORY))))
    assert row.note == "made least: memory"


def test_comment__and_summary_have_the_line_and_the_table():
    judged, _ = FORMS["placements"]()
    text = comment(judged, links=LINKS)
    assert "**Placement.** dlrm: Best found: embedding on torch cpu" in text
    assert TITLE in text
    rows = table_below(structure(text), TITLE)
    assert plain(rows[1][0]).startswith("dlrm")
    assert len(rows) == 4
    assert TITLE in summary(judged, links=LINKS)
    assert "Placement" not in comment(report(ENTRY), links=LINKS)


def test_page__has_the_table():
    judged, found = FORMS["placements"]()
    head, first, *_ = table_named(page_structure(page(judged, found)), "Placement of all workloads")
    assert head[1] == "Placement"
    assert first[1] == "embedding on torch cpu, rest on torch cuda:0"


def test_comment__many_placements_are_cut_to_the_limit():
    entries = [replace(ENTRY, model=f"m{n}", key=f"m{n}/infer/b1") for n in range(900)]
    found = PlacementReport(workloads=tuple(placed(one, plan(), reason="x" * 200) for one in entries))
    judged = report(*entries, placement=found)
    assert len(comment(judged, links=LINKS).encode()) <= COMMENT_LIMIT
    assert measurements(judged) is not None
