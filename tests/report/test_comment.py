from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.records import report as verdicts
from perfgate.records.evidence import Revision, Skipped
from perfgate.records.report import Report
from perfgate.report.comment import COMMENT_LIMIT, MARKER, comment, summary
from perfgate.report.view import Links
from tests.report.builders import difference, model, noisy, operator, report, totals, usual
from tests.report.cost_builders import cost_report, side, workload_cost
from tests.report.forms import FORMS
from tests.report.hostile import hostile
from tests.report.rendered import Node, render, stripped
from tests.report.test_escape import HOSTILE

LINKS = Links(
    full_report="https://github.example/o/r/actions/runs/7/artifacts/9",
    run="https://github.example/o/r/actions/runs/7",
    commit="https://github.example/o/r/commit/",
)


def structure(text: str) -> Node:
    """The rendered comment, after the checks that hold for every comment."""
    root, comments = render(text)
    assert text.splitlines()[-1] == MARKER
    assert text.count(MARKER) == 1 == len(comments)
    assert stripped(root) == []
    assert len(root.all("h3")) == 1
    for table in root.all("table"):
        widths = {len(row.all("td")) + len(row.all("th")) for row in table.all("tr")}
        assert widths == {7}
    charts = {line for node in root.all("pre") for line in node.text.splitlines()}
    for line in text.splitlines():
        # A table that GitHub does not see as one stays in the text as pipes; a chart may have any.
        assert not line.startswith("|") or line.endswith("|") or line in charts
    assert not [node for node in root.all("p") if "| --" in node.text or "|:--" in node.text]
    assert len(root.all("details")) == text.count("<details>") == text.count("</details>")
    assert all(node.all("summary") for node in root.all("details"))
    return root


def rows_of(root: Node) -> list[list[str]]:
    table = root.all("table")[0]
    return [[cell.text.replace("\u00a0", " ") for cell in row.all("td")] for row in table.all("tr") if row.all("td")]


@pytest.mark.parametrize("form", FORMS)
def test_comment__golden(form, golden):
    text = comment(FORMS[form]()[0], links=LINKS)
    structure(text)
    assert golden(f"{form}.comment.md", text) == text


@pytest.mark.parametrize("form", ["mixed", "unchanged", "operators", "cost_volume"])
def test_summary__golden(form, golden):
    text = summary(FORMS[form]()[0], links=LINKS)
    assert MARKER not in text
    assert stripped(render(text)[0]) == []
    golden(f"{form}.summary.md", text)


@pytest.mark.parametrize("form", FORMS)
def test_comment__first_line_is_the_verdict_in_words(form):
    judged = FORMS[form]()[0]
    first = comment(judged).splitlines()[0]
    assert first.startswith("### ")
    assert "perfgate" in first
    assert judged.title.split(" ", maxsplit=1)[0].replace("_", " ") in first.replace("_", " ")


def test_comment__report_mode_says_would_have_failed_in_the_first_line():
    assert "would have failed" in comment(FORMS["report_mode"]()[0]).splitlines()[0]
    assert "would have failed" not in comment(FORMS["regression"]()[0])


def test_comment__would_have_failed_is_not_said_twice():
    judged = replace(FORMS["report_mode"]()[0], title="would have failed: slower")
    assert comment(judged).splitlines()[0].count("would have failed") == 1


def test_comment__head_that_does_not_import_shows_the_last_line_of_its_traceback():
    root = structure(comment(FORMS["head_fails"]()[0]))
    assert "ModuleNotFoundError: No module named 'myrepo.layers'" in rows_of(root)[0][4]


def test_comment__the_table_reads_as_the_report_says():
    rows = rows_of(structure(comment(FORMS["regression"]()[0])))
    assert rows[0] == ["resnet50 · train · b32", "step time", "13.9 ms", "15.0 ms", "+7.9 % (7.1 to 8.7)", "3 %", "❌"]
    assert ["resnet50 · train · b32", "weights", "97.5 MiB", "97.5 MiB", "equal (exact)", "1 %", "✅"] in rows


def table_below(root: Node, summary: str) -> list[list[str]]:
    """Rows of the table in the folded section ``summary``, its head first."""
    (found,) = (node for node in root.all("details") if node.all("summary")[0].text == summary)
    cells = ([c for c in row.walk() if c.tag in {"th", "td"}] for row in found.all("table")[0].all("tr"))
    return [[cell.text.replace("\u00a0", " ") for cell in row] for row in cells]


def test_comment__operators_behind_the_change():
    judged = FORMS["operators"]()[0]
    text = comment(judged)
    assert table_below(structure(text), "Operators behind the change") == [
        ["Model · workload", "Operator", "What changed", "ΔF", "ΔM eager", "ΔCalls", "ΔTime (share)"],
        [
            "resnet50 · train · b32",
            "layer3.*.conv2 (6 operators)",
            "convolution changed: bfloat16 → float32",
            "–",
            "+9.19 MiB",
            "–",
            "+1.02 ms (93 %)",
        ],
        [
            "resnet50 · train · b32",
            "layer3.*/_to_copy (12 operators)",
            "added: bfloat16 → float32",
            "–",
            "+3.45 MiB",
            "+12",
            "+80.0 µs (7 %)",
        ],
        ["resnet50 · train · b32", "preprocess/upsample_bilinear2d", "slower", "–", "–", "–", "+12.0 µs"],
    ]


def test_comment__counts_of_every_workload():
    rows = table_below(structure(comment(FORMS["operators"]()[0])), "Counts: F, M and I")
    assert rows[1:] == [
        [
            "resnet50 · train · b32",
            "8.18 GFLOP (4.09 GMAC)",
            "408 MiB → 421 MiB",
            "19.1 FLOP/B → 18.5 FLOP/B",
            "25\u202f557\u202f032",
            "174 → 186",
            "9.19 MiB",
        ],
        [
            "resnet50 · infer · b1",
            "8.18 GFLOP (4.09 GMAC)",
            "408 MiB",
            "19.1 FLOP/B",
            "25\u202f557\u202f032",
            "174",
            "9.19 MiB",
        ],
    ]


def test_comment__no_section_where_no_operator_differs():
    for form in ("regression", "first_count"):
        assert "Operators behind the change" not in comment(FORMS[form]()[0])
    assert "Counts: F, M and I" not in comment(FORMS["regression"]()[0])
    assert "1 MAC = 2 FLOP" in comment(FORMS["regression"]()[0])


def test_comment__ten_operators_and_the_rest_in_the_full_report():
    judged = FORMS["many_operators"]()[0]
    rows = table_below(structure(comment(judged, links=LINKS)), "Operators behind the change")[1:]
    assert [row[0].split(" · ")[0:2] for row in rows] == [["vit", "infer"]] * 4 + [["vit", "train"]] * 3 + [
        ["bert", "train"]
    ] * 3
    assert "… 140 more operators left out: the [full report](" in comment(judged, links=LINKS)
    assert summary(judged).count("| blocks&#46;") + summary(judged).count("| blocks.") == 50


def test_comment__only_a_red_one_says_how_to_accept():
    heard = Links(accepts=True)
    said = {form: "/perfgate accept" in comment(build()[0], links=heard) for form, build in FORMS.items()}
    costly = {"cost_moved", "cost_volume", "cost_tie", "cost_infeasible"}
    red = {"regression", "mixed", "many", "operators", "estimated"} | costly
    assert {form for form, present in said.items() if present} == red


def test_comment__tells_nobody_to_write_a_command_that_nobody_reads():
    assert not any("/perfgate accept" in comment(build()[0]) for build in FORMS.values())


def test_comment__last_sentence_names_both_commits_policy_duration_and_links():
    root = structure(comment(FORMS["regression"]()[0], links=LINKS))
    footer = root.all("p")[-1]
    assert footer.text.startswith("Measured 9f31c2e (slow-down) against a04be77 (main) · policy from perfgate.toml")
    assert "6 min 12 s" in footer.text
    assert [link.attributes["href"] for link in footer.all("a")] == [
        LINKS.commit + FORMS["regression"]()[0].head.sha,
        LINKS.commit + FORMS["regression"]()[0].base.sha,
        LINKS.full_report,
        LINKS.run,
    ]


def test_comment__a_tree_without_a_commit_is_named():
    judged = replace(FORMS["pass"]()[0], head=Revision(sha=""))
    assert "Measured `the working tree` against" in comment(judged, links=LINKS)


@pytest.mark.parametrize("name", HOSTILE)
def test_comment__hostile_texts_change_nothing_but_text(name):
    """B31, C11."""
    judged = hostile(HOSTILE[name])
    links = Links(full_report=HOSTILE[name], run="https://e.invalid/" + HOSTILE[name], commit=LINKS.commit)
    root = structure(comment(judged, links=links))
    assert not root.all("img")
    assert not root.all("input")
    assert {link.attributes["href"].split("/")[2] for link in root.all("a")} <= {"e.invalid", "github.example"}
    assert "49" not in root.all("h3")[0].text
    assert stripped(render(summary(judged, links=links))[0]) == []


@given(st.text(max_size=60))
@settings(max_examples=60, deadline=None)
def test_comment__any_text_changes_nothing_but_text(text):
    root = structure(comment(hostile(text)))
    assert root.all("table")


def big(bad: int, names: str = "🚀🔥模型_") -> Report:
    """B30: 2 000 models with 8 metrics; in the last ``bad`` of them everything gated is worse."""

    def metrics(number: int):
        worse = number >= 2_000 - bad
        return [
            replace(entry, verdict=verdicts.REGRESSION) if worse and entry.gated else entry for entry in usual(0.05)
        ]

    return report(*(model(f"{names}{number:04d}", *metrics(number)) for number in range(2_000)), why="why")


@pytest.mark.parametrize("bad", [0, 30, 2_000])
def test_comment__is_cut_worst_first_and_stays_whole(bad):
    text = comment(big(bad), links=LINKS)
    root = structure(text)
    assert COMMENT_LIMIT * 0.9 < len(text.encode("utf-8")) < COMMENT_LIMIT
    red = [row for row in rows_of(root) if row[-1] == "❌"]
    others = [row for row in rows_of(root) if row[-1] != "❌"]
    assert len(red) == bad * 4 if bad < 2_000 else (len(red) > 400 and not others)
    assert rows_of(root)[: len(red)] == red
    assert re.search(r"… \d+ more rows left out: the \[full report\]\(https://github.example/", text)
    assert "How this was measured" in text


def test_summary__is_cut_to_its_own_limit():
    text = summary(big(2_000), links=LINKS)
    assert 1_048_576 * 0.9 < len(text.encode("utf-8")) < 1_048_576
    assert "more rows left out" in text


@pytest.mark.parametrize("text", ["layer|`<@\n" * 625, "\u200f" * 5_000, "&" * 5_000, "w" * 5_000])
def test_comment__operators_with_names_of_any_kind_fit(text):
    """The worst rows of the first table stay, whatever is written into the names of operators."""
    changed = difference(*[operator(text, text, op=text, how=(text,))] * 50, sentences=(text,) * 3)
    counted: dict[str, Any] = {"base_totals": totals(), "head_totals": totals(fingerprint="1"), "difference": changed}
    judged = report(
        *(model(f"m{n}", noisy("latency", 0.1, verdicts.REGRESSION), reasons=(text,), **counted) for n in range(60)),
        why=text,
    )
    written = comment(judged, links=LINKS)
    root = structure(written)
    assert len(written.encode("utf-8")) < COMMENT_LIMIT
    assert len(rows_of(root)) == 60
    assert len(table_below(root, "Operators behind the change")) > 1
    assert "How this was measured" in written


@given(st.integers(1_000, 20_000), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_comment__keeps_any_limit(limit, models):
    counted: dict[str, Any] = {
        "base_totals": totals(),
        "head_totals": totals(),
        "difference": difference(*[operator()] * 12),
    }
    red = usual(0.09, verdicts.REGRESSION)
    judged = report(
        *(model(f"m{number}", *red, reasons=("why " * 20,), **counted) for number in range(models)),
        title="t" * 300,
        why="w" * 900,
        banners=("b" * 300,) * 5,
        notes=("n" * 300,) * 5,
        skipped=tuple(Skipped(model=f"s{number}", reason="r" * 100) for number in range(models)),
    )
    moved = (workload_cost(entry, side(), side(), moved=True, sentence="m" * 90) for entry in judged.models)
    judged = replace(judged, cost=cost_report(*moved, warnings=("w" * 300,) * 5))
    text = comment(judged, links=LINKS, limit=limit)
    structure(text)
    assert len(text.encode("utf-8")) < limit
    assert "full report" in text.lower()


def test_comment__a_limit_without_room_is_refused():
    with pytest.raises(ValueError, match="1000"):
        comment(report(), limit=999)
