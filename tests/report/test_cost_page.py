from __future__ import annotations

from dataclasses import replace

from perfgate.records.report import REGRESSION
from perfgate.report.cost_page import FEW_POINTS, MOST_OPERATORS, MOST_POINTS, cost_sections, section
from perfgate.report.html import page, sections
from tests.report.builders import measurements, model, noisy, report, usual
from tests.report.cost_builders import answer, cost_report, operator, point, roof, side, workload_cost
from tests.report.cost_forms import COST_FORMS
from tests.report.rendered import Node
from tests.report.test_html import structure, table_named

SLOWER = model("resnet50", *usual(0.079, REGRESSION))


def shown(form: str) -> Node:
    return structure(page(*COST_FORMS[form]()))


def test_page__money_stands_below_the_verdict():
    (line,) = (node for node in shown("cost_moved").all("header")[0].all("p") if node.text.startswith("Money."))
    assert line.text.startswith("Money. This change moves the cheapest platform from L4 to L40S.")


def test_page__the_front_with_all_that_belongs_to_a_configuration():
    rows = table_named(shown("cost_tie"), "Configurations for resnet50 · train · b32")
    assert rows[0] == [
        "Platform",
        "Machine",
        "Price",
        "How",
        "Step time",
        "Memory",
        "Utilisation",
        "USD per 1 000 steps",
        "USD per 1 M items",
        "Energy per item",
        "Why",
    ]
    assert rows[1] == [
        "L4 (cheapest, ≈ 1)",
        "aws/g6.xlargeus-east-1, on-demand",
        "$0.805/h 2026-07-20",
        "b32, bfloat16, eager, one device",
        "18.0 ms (13.8 ms to 23.4 ms)",
        "6.00 GiB of 20.0 GiB",
        "12.1 %",
        "$0.00402",
        "$0.126",
        "40.0 mJ",
        "memory bound at I = 19.1 < 403 FLOP/Bby the calibrated roofline",
    ]
    assert len(rows) == 5


def test_page__both_drawings_have_words_and_tables():
    root = shown("cost_moved")
    drawings = [svg for svg in root.all("svg") if svg.attributes.get("class") == "plot"]
    assert [svg.attributes["role"] for svg in drawings] == ["img", "img"]
    assert all(svg.attributes["aria-label"] and svg.all("title") for svg in drawings)
    rows = {row[0]: row[1:] for row in table_named(root, "Roofline of resnet50 · train · b32")}
    assert rows["Fact"] == ["Base", "Head"]
    assert rows["Achieved P"] == ["3.59 TFLOP/s", "3.33 TFLOP/s"]
    # Equal on both sides: base's cell is there for the table's shape, head's says it.
    assert rows["π"] == ["121 TFLOP/s", "121 TFLOP/s"]
    operators = table_named(root, "Operators under the roof of resnet50 · train · b32")
    assert operators[1][0] == "layer3.*.conv2"


def test_page__overview_links_to_the_workloads_and_names_prices():
    root = shown("cost_volume")
    rows = table_named(root, "Cost and roofline of all workloads")
    assert [row[0] for row in rows[1:]] == ["resnet50 · train · b32", "bert · infer · b8", "vit · infer · b1"]
    texts = [node.text for node in root.all("dd")]
    assert any(text.startswith("aws 2026-07-20 (812 offers") for text in texts)


def test_page__without_cost_there_is_nothing_of_it():
    judged = report(SLOWER)
    html = page(judged, measurements(judged))
    assert "Cost and roofline" not in html
    assert ".roof" not in html
    assert all(entry.cost is None for entry in sections(judged, measurements(judged)))


def test_page__nothing_feasible_says_why():
    root = shown("cost_infeasible")
    assert any(node.text.startswith("No platform meets 20 ms; nearest: H100 SXM") for node in root.all("p"))
    labels = [node.attributes.get("aria-label", "") for node in root.all("div")]
    assert not [label for label in labels if label.startswith("Configurations")]


def test_section__long_tables_say_what_they_leave_out():
    found = answer(*(point(batch=n + 1) for n in range(MOST_POINTS + 7)))
    under = roof(operators=(operator(),) * (MOST_OPERATORS + 3))
    judged = report(SLOWER, cost=cost_report(workload_cost(SLOWER, None, side(found, roofline=under))))
    (item,) = cost_sections(judged).values()
    full, short = section(item, full=True), section(item, full=False)
    assert (len(full.front), len(full.operators)) == (MOST_POINTS, MOST_OPERATORS)
    assert full.front_caption.endswith("7 more left out, report.json has them")
    assert full.operators_caption.endswith("3 lesser ones left out")
    assert (len(short.front), short.operators, short.pareto, short.roofline) == (FEW_POINTS, (), "", "")


def test_sections__drawings_of_the_worst_and_of_those_with_news():
    entries = [model(f"m{n:02d}", noisy("latency", 0.0)) for n in range(60)]
    entries[59] = model("m59", noisy("latency", 0.2, REGRESSION))
    judged = report(*entries, cost=cost_report(*(workload_cost(entry, None, side()) for entry in entries)))
    drawn = [bool(entry.cost and entry.cost.pareto) for entry in sections(judged, measurements(judged))]
    assert drawn == [True] * 50 + [False] * 10
    assert all(entry.cost for entry in sections(judged, measurements(judged)))


def test_sections__a_second_look_has_no_cost_of_its_own():
    judged = report(SLOWER, replace(SLOWER, informative=True), cost=cost_report(workload_cost(SLOWER, None, side())))
    assert [bool(entry.cost) for entry in sections(judged, measurements(judged))] == [True, False]
