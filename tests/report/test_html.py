from __future__ import annotations

import re
from dataclasses import replace

import pytest

from perfgate.records import report as verdicts
from perfgate.report.html import page, sections
from perfgate.report.view import Links
from tests.report.builders import (
    difference,
    evidence,
    exact,
    failed_side,
    measurements,
    model,
    noisy,
    operator,
    report,
    totals,
    usual,
)
from tests.report.forms import FORMS
from tests.report.hostile import hostile
from tests.report.rendered import Node, parse
from tests.report.test_escape import HOSTILE

LINKS = Links(run="https://github.example/o/r/actions/runs/7", commit="https://github.example/o/r/commit/")
REQUESTS = {"script", "link", "img", "iframe", "object", "embed", "audio", "video", "source", "form", "base"}


def structure(html: str) -> Node:
    """The parsed page, after the checks that hold for every page."""
    root, comments = parse(html.removeprefix("<!doctype html>\n"))
    assert html.startswith("<!doctype html>")
    assert comments == []
    assert not REQUESTS & {node.tag for node in root.walk()}
    assert not [name for node in root.walk() for name in node.attributes if name.startswith("on") or name == "style"]
    (policy,) = (m for m in root.all("meta") if m.attributes.get("http-equiv") == "Content-Security-Policy")
    assert policy.attributes["content"] == "default-src 'none'; style-src 'unsafe-inline'; img-src data:"
    assert not re.search(r"@import|url\(", root.all("style")[0].text)
    for table in root.all("table"):
        assert all(cell.attributes.get("scope") in {"col", "row"} for cell in table.all("th"))
        assert len({len(row.all("td")) + len(row.all("th")) for row in table.all("tr")}) == 1
        assert table.all("caption")
        assert all(len(row.all("th")) == 1 for row in table.all("tbody")[0].all("tr"))
    ids = [node.attributes["id"] for node in root.walk() if "id" in node.attributes]
    assert len(ids) == len(set(ids))
    targets = {a.attributes["href"][1:] for a in root.all("a") if a.attributes["href"].startswith("#")}
    assert targets <= set(ids)
    assert len(root.all("h1")) == 1
    return root


@pytest.mark.parametrize("form", FORMS)
def test_page__every_form_is_sound_and_asks_for_nothing(form):
    judged, evidence_ = FORMS[form]()
    root = structure(page(judged, evidence_, links=LINKS))
    assert judged.title in root.all("h1")[0].text.replace("\u00a0", " ")


@pytest.mark.parametrize("form", ["head_fails", "no_baseline", "operators", "first_count", "cost_volume"])
def test_page__golden(form, golden):
    text = page(*FORMS[form](), links=LINKS)
    assert golden(f"{form}.report.html", text) == text


@pytest.mark.parametrize("name", HOSTILE)
def test_page__hostile_texts_stay_texts(name):
    text = HOSTILE[name]
    judged = hostile(text)
    failed = evidence(judged.models[0], head=failed_side(text, text), notes=(text,), end=text)
    root = structure(page(judged, measurements(judged, failed), links=Links(run=text, commit=LINKS.commit)))
    hrefs = [a.attributes["href"] for a in root.all("a")]
    assert all(href.startswith(("#", "https://github.example/")) for href in hrefs)


def test_page__verdicts_have_words_beside_their_icons():
    root = structure(page(*FORMS["mixed"]()))
    cells = [cell for cell in root.all("td") if cell.attributes.get("class") == "v"]
    assert cells
    for cell in cells:
        icons = "".join(icon.text for icon in cell.all("span") if icon.attributes.get("aria-hidden") == "true")
        assert re.search("[a-z]{3}", cell.text.replace(icons, ""))


def test_page__a_workload_shows_its_distribution_and_every_pair():
    root = structure(page(*FORMS["regression"]()))
    figure = root.all("figure")[0]
    assert "+7.9 %" in figure.all("figcaption")[0].text.replace("\u00a0", " ")
    assert "1 more did not count" in figure.all("figcaption")[0].text
    rows = [[cell.text for cell in row.all("td")] for row in figure.all("tbody")[0].all("tr")]
    assert len(rows) == 13
    assert [row[-1] for row in rows] == ["yes"] * 12 + [
        "no: another process used 40 % of a core".replace(" %", "\u00a0%")
    ]


def test_page__pairs_after_the_decision_are_told_apart():
    judged = report(model("m", noisy("latency", 0.079, verdicts.REGRESSION, pairs=5)))
    figure = structure(page(judged, measurements(judged))).all("figure")[0]
    assert "5 pairs · 7 more after the decision · 1 more did not count" in figure.all("figcaption")[0].text
    counts = [row.all("td")[-1].text for row in figure.all("tbody")[0].all("tr")]
    assert counts[:12] == ["yes"] * 5 + ["after the decision"] * 7


def test_page__the_traceback_of_a_failed_side_keeps_its_lines():
    root = structure(page(*FORMS["head_fails"]()))
    lines = root.all("pre")[0].text.rstrip().split("\n")
    assert lines[0] == "Traceback (most recent call last):"
    assert lines[-1] == "ModuleNotFoundError: No module named 'myrepo.layers'"


def test_page__evidence_of_other_workloads_is_no_obstacle():
    judged = report(model("m", *usual()))
    other = measurements(judged, evidence(model("other", *usual())))
    assert structure(page(judged, other)).all("figure") == []


def test_sections__worst_first_and_open_only_where_there_is_news():
    judged = report(
        model("fine", *usual()),
        model("bad", noisy("latency", 0.1, verdicts.REGRESSION)),
        model("bad", noisy("latency", 0.1, verdicts.REGRESSION), informative=True),
    )
    built = sections(judged, measurements(judged))
    assert [(section.position, section.quiet) for section in built] == [(1, False), (0, True), (2, True)]


def test_sections__the_informative_run_has_its_own_pairs():
    first = model("m", noisy("latency", 0.1, verdicts.REGRESSION))
    second = replace(first, informative=True)
    judged = report(first, second)
    built = sections(judged, measurements(judged, evidence(first, 0.1), evidence(second, 0.5, end="n_max", pairs=())))
    assert [len(section.distributions) for section in built] == [1, 0]
    assert built[1].end == "the last look was reached"


def test_sections__many_quiet_workloads_leave_their_pairs_to_the_evidence():
    judged, _ = FORMS["many"]()
    built = sections(judged, measurements(judged))
    assert [bool(section.distributions) for section in built] == [True] * 150 + [False] * 50
    assert not any(section.pairs_left_out for section in built[:150])
    assert all(section.pairs_left_out and section.rows for section in built[150:])


def test_page__zero_is_shown_as_zero():
    judged = report(model("m", exact("graph_breaks", 0, 5, verdicts.REGRESSION)))
    root = structure(page(judged, measurements(judged)))
    row = [cell.text.replace("\u00a0", " ") for cell in root.all("tbody")[0].all("td")]
    assert row[:4] == ["graph breaks", "0", "5", "from 0 (exact)"]


def test_page__lone_surrogates_do_not_reach_the_file():
    judged = report(model("a\ud800b", noisy()), title="x\udfffy")
    html = page(judged, measurements(judged))
    assert "a\\ud800b" in html.encode("utf-8").decode("utf-8")


def cells(row: Node) -> list[str]:
    found = (cell for cell in row.walk() if cell.tag in {"th", "td"})
    return [cell.text.strip().replace("\u00a0", " ") for cell in found]


def table_named(root: Node, label: str) -> list[list[str]]:
    """Rows of the table in the region ``label``, its head first."""
    (region,) = (node for node in root.all("div") if node.attributes.get("aria-label") == label)
    return [cells(row) for row in region.all("tr")]


def test_page__operators_with_what_they_read_and_write():
    html = page(*FORMS["operators"]())
    root = structure(html)
    rows = table_named(root, "Operators of resnet50 · train · b32")
    assert [row[0] for row in rows[1:]] == [
        "layer3.*.conv2 (6 operators)",
        "layer3.*/_to_copy (12 operators)",
        "preprocess/upsample_bilinear2d",
    ]
    assert rows[1][1].startswith("convolution changed: bfloat16 → float32")
    assert "base bfloat16[1,256,14,14]" in rows[1][1]
    assert rows[2][2:] == ["–", "+3.45 MiB", "+12", "+80.0 µs (7 %)"]
    assert not [node for node in root.all("div") if node.attributes.get("aria-label", "").startswith("Operators of r")][
        1:
    ]


def test_page__every_kept_finding_and_how_many_are_not():
    root = structure(page(*FORMS["many_operators"]()))
    rows = table_named(root, "Operators of bert · train · b32")
    assert len(rows) == 51
    (caption,) = {c.text for c in root.all("caption") if "findings left out" in c.text}
    assert "; 17 lesser findings left out" in caption


def test_page__counts_side_by_side_where_they_differ():
    root = structure(page(*FORMS["operators"]()))
    rows = {row[0]: row[1:] for row in table_named(root, "Counts of resnet50 · train · b32")}
    assert rows["Count"] == ["Base", "Head", "Change"]
    assert rows["F"] == ["8.18 GFLOP (4.09 GMAC)", "8.18 GFLOP (4.09 GMAC)", "equal"]
    assert rows["M eager"] == ["408 MiB", "421 MiB", "+3.1 %"]
    assert rows["Fingerprint"] == ["3f2a91c07d5e", "b0c411111111", ""]
    assert rows["Not in F"] == ["nothing", "mylib::fused_mlp (12 calls, first at blocks.0.mlp)", ""]
    same = table_named(root, "Counts of resnet50 · infer · b1")
    assert same[0] == ["Count", "Value"]
    assert ["I max", "79.4 FLOP/B"] in same


def test_page__one_side_alone_is_shown_as_it_is():
    root = structure(page(*FORMS["first_count"]()))
    rows = table_named(root, "Counts of resnet50 · train · b32")
    assert rows[0] == ["Count", "Value"]
    assert ["Batch", "32"] in rows


def test_page__many_quiet_workloads_show_their_first_operators_only():
    changed = difference(*[operator(f"b{n}") for n in range(9)])
    judged = report(*(model(f"m{n}", noisy("latency", 0.0), difference=changed) for n in range(160)))
    built = sections(judged, measurements(judged))
    assert [len(section.operators) for section in built] == [9] * 150 + [5] * 10
    assert built[-1].operators_caption.endswith("4 lesser findings left out")


def test_page__an_uploaded_file_with_endless_findings_stays_readable():
    judged = report(model("m", noisy("latency", 0.0), difference=difference(*[operator()] * 3_000)))
    (section,) = sections(judged, measurements(judged))
    assert len(section.operators) == 50
    assert section.operators_caption.endswith("2950 lesser findings left out")


def test_page__counts_and_convention_stand_below_the_workload():
    judged = report(model("m", *usual(), head_totals=totals(), base_totals=None))
    root = structure(page(judged, measurements(judged)))
    assert any("1 MAC = 2 FLOP" in p.text for details in root.all("details") for p in details.all("p"))
