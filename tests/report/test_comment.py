from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.records import report as verdicts
from perfgate.records.evidence import Revision, Skipped
from perfgate.records.report import Report
from perfgate.report.comment import COMMENT_LIMIT, MARKER, comment, summary
from perfgate.report.view import Links
from tests.report.builders import model, noisy, report, usual
from tests.report.forms import FORMS
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
    for line in text.splitlines():
        # A table that GitHub does not see as one stays in the text as pipes.
        assert not line.startswith("|") or line.endswith("|")
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
    golden(f"{form}.comment.md", text)


@pytest.mark.parametrize("form", ["mixed", "unchanged"])
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


def test_comment__only_a_red_one_says_how_to_accept():
    heard = Links(accepts=True)
    said = {form: "/perfgate accept" in comment(build()[0], links=heard) for form, build in FORMS.items()}
    assert {form for form, present in said.items() if present} == {"regression", "mixed", "many"}


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


def hostile(text: str) -> Report:
    """A report in which every text that a pull request can choose is ``text``."""
    revision = Revision(sha=text[:40], name=text)
    entry = model(text, noisy("latency", 0.08, verdicts.REGRESSION, note=text), reasons=(text,))
    entry = replace(entry, workload=replace(entry.workload, dtype=text, device=text, compile=text, mode=text))
    named = replace(entry.metrics[0], metric=text, unit=text, verdict=verdicts.INCONCLUSIVE)
    gone = replace(entry, metrics=(), verdict=verdicts.MISSING)
    judged = report(entry, replace(entry, metrics=(named,)), gone, model("plain", *usual()))
    return replace(
        judged,
        title=text,
        why=text,
        banners=(text,),
        notes=(text,),
        skipped=(Skipped(model=text, reason=text),),
        base=revision,
        head=revision,
        software={text: text},
        environment=replace(judged.environment, hardware={text: text}, conditions={text: text}),
        policy=replace(judged.policy, source=text, mode=text),
    )


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
    structure(comment(hostile(text)))


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


@given(st.integers(1_000, 20_000), st.integers(0, 40))
@settings(max_examples=40, deadline=None)
def test_comment__keeps_any_limit(limit, models):
    judged = report(
        *(model(f"m{number}", *usual(0.09, verdicts.REGRESSION), reasons=("why " * 20,)) for number in range(models)),
        title="t" * 300,
        why="w" * 900,
        banners=("b" * 300,) * 5,
        notes=("n" * 300,) * 5,
        skipped=tuple(Skipped(model=f"s{number}", reason="r" * 100) for number in range(models)),
    )
    text = comment(judged, links=LINKS, limit=limit)
    structure(text)
    assert len(text.encode("utf-8")) < limit
    assert "full report" in text.lower()


def test_comment__a_limit_without_room_is_refused():
    with pytest.raises(ValueError, match="1000"):
        comment(report(), limit=999)
