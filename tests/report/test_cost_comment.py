"""What the comment and the job summary say of money."""

from __future__ import annotations

from dataclasses import replace

from perfgate.report.comment import comment, summary
from tests.report.builders import model, report, usual
from tests.report.cost_builders import cost_report, side, workload_cost
from tests.report.forms import FORMS
from tests.report.test_comment import LINKS, structure, table_below


def test_comment__money_stands_below_why():
    judged = replace(FORMS["cost_moved"]()[0], why="because")
    shown = [node.text for node in structure(comment(judged)).all("p")]
    assert shown[0] == "Why. because"
    assert shown[1].startswith("Money. This change moves the cheapest platform from L4 to L40S. ")


def test_comment__cost_and_roofline_of_every_workload():
    root = structure(comment(FORMS["cost_volume"]()[0]))
    rows = table_below(root, "Cost and roofline")
    assert [row[0] for row in rows[1:]] == ["resnet50 · train · b32", "bert · infer · b8", "vit · infer · b1"]
    assert rows[1][1:5] == ["$0.00311 → $0.00336", "$0.0973 → $0.105", "$0.126", "L4"]
    (folded,) = (node for node in root.all("details") if node.all("summary")[0].text == "Cost and roofline")
    charts = [node.text for node in folded.all("pre")]
    assert len(charts) == 3
    assert "L40S · b32 · bfloat16                 $0.145  ██████████████▋        19.0 %  knee" in charts[0]
    assert any("614 prices held back" in node.text for node in folded.all("li"))


def test_comment__nothing_about_cost_where_nothing_is_known():
    for form, build in FORMS.items():
        text = comment(build()[0]) + summary(build()[0])
        assert ("Cost and roofline" in text) == form.startswith("cost_"), form
    assert "**Money.**" not in comment(FORMS["cost_long"]()[0])


def test_comment__charts_of_three_workloads_and_of_twenty_in_the_summary():
    entries = [model(f"m{n}", *usual(0.0)) for n in range(30)]
    judged = report(*entries, cost=cost_report(*(workload_cost(entry, side(), side()) for entry in entries)))
    written = comment(judged, links=LINKS)
    assert written.count("this runner now") == 3
    assert "… 27 more charts left out: the [full report](" in written
    assert summary(judged).count("this runner now") == 20
