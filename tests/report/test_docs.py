"""docs/report.md and the code say the same."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path

from perfgate.records import cost
from perfgate.records.estimate import (
    Accuracy,
    DeviceEstimate,
    Estimate,
    EstimatorReport,
    SideEstimate,
    Term,
    WorkloadEstimate,
)
from perfgate.records.graph import Difference, KernelGroup, NotCounted, OperatorChange, Share, Totals, Traffic
from perfgate.records.hardware import Excluded, Offer, PriceTable
from perfgate.records.placement import Piece, PlacementPlan, PlacementReport, Single, WorkloadPlacement
from perfgate.records.report import MetricResult, ModelResult, PolicySummary, Report
from perfgate.report import filters, templates

TEXT = (Path(__file__).parents[2] / "docs" / "report.md").read_text(encoding="utf-8")


def names(text: str) -> set[str]:
    return set(re.findall(r"`([a-z0-9_-]+)`", text))


def test_docs__every_key_of_report_json_is_named():
    section = TEXT.split("## report.json")[1].split("## Your own")[0]
    graph = (Totals, KernelGroup, Traffic, Share, NotCounted, Difference, OperatorChange)
    money = (cost.CostReport, cost.WorkloadCost, cost.SideCost, cost.Requirements, cost.Volume, cost.Answer)
    places = (cost.Point, cost.Missed, cost.RooflineSummary, cost.RooflineOperator, Offer, Excluded, PriceTable)
    told = (EstimatorReport, Accuracy, WorkloadEstimate, SideEstimate, DeviceEstimate, Estimate, Term)
    placed = (PlacementReport, WorkloadPlacement, PlacementPlan, Piece, Single)
    for record in (Report, ModelResult, MetricResult, PolicySummary, *graph, *money, *places, *told, *placed):
        assert {field.name for field in dataclasses.fields(record)} <= names(section), record


def test_docs__every_verdict_stands_beside_its_icon():
    section = TEXT.split("## Reading the comment")[1].split("## report.json")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:3]] for line in section.splitlines() if line.startswith("| ")]
    documented = {name: icon for icon, verdict in rows for name in names(verdict)}
    assert {name: documented.get(name) for name in filters.ICONS} == filters.ICONS


def test_docs__blocks_are_those_of_the_template_in_its_order():
    base = (templates.folder() / "base.md.j2").read_text(encoding="utf-8")
    sentence = TEXT.split("Blocks, in order: ")[1].split(". In scope")[0]
    assert re.findall(r"`(\w+)`", sentence) == re.findall(r"{% block (\w+) %}", base)


def test_docs__the_template_example_works():
    from perfgate.report.comment import comment
    from tests.report.forms import FORMS

    example = TEXT.split("```jinja\n")[1].split("```")[0]
    text = comment(FORMS["pass"]()[0], user_template=example)
    assert "Questions about this comment: ask perfgate.toml at a04be77 (base)'s owners." in text
