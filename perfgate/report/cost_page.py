"""Floor 3, report. ``Report`` in; what the HTML page shows of each workload's cost out: drawings, tables, sentences.

All texts are raw (not escaped); drawings are markup.
"""

from __future__ import annotations

from dataclasses import dataclass

from markupsafe import Markup

from perfgate.records.cost import RooflineSummary, SideCost
from perfgate.records.report import Report
from perfgate.report import costs, pareto_chart, roofline_chart
from perfgate.report.costs import PointRow, RoofRow
from perfgate.report.workload_costs import Priced, considered, infeasible, priced, sources, tie

# A reader's limits, not the page's: the rest stands in report.json.
MOST_POINTS = 60
MOST_OPERATORS = 40
# Quiet workloads of a big report: enough to see the answer.
FEW_POINTS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLine:
    """A fact of both sides; ``head`` is empty where there is one side only, or both have the same."""

    label: str
    base: str
    head: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CostSection:
    """One workload's cost.

    ``lines``: the step under the roof, ``differ`` where both sides do. ``answer``: what the front is the answer to.
    """

    title: str
    sentences: tuple[str, ...]
    roofline: Markup
    roofline_caption: str
    lines: tuple[PairLine, ...]
    differ: bool
    operators: tuple[RoofRow, ...]
    operators_caption: str
    pareto: Markup
    front: tuple[PointRow, ...]
    front_caption: str


def cost_sections(report: Report) -> dict[int, Priced]:
    """Position of a workload in the report -> its cost."""
    return {item.position: item for item in priced(report) if item.position is not None}


def section(item: Priced, *, full: bool) -> CostSection:
    """All about one workload; not ``full``: no drawings, no operators and few configurations."""
    entry = item.entry
    base = entry.base.roofline if entry.base else None
    head = entry.head.roofline if entry.head else None
    shown = item.shown
    roof = head or base
    drawing = roofline_chart.roofline(base, head, item.name) if full else roofline_chart.NO_DRAWING
    lines = _lines(base, head)
    operators = costs.roof_rows(roof, MOST_OPERATORS) if roof and full else []
    rows = costs.rows(shown.answer) if shown else []
    kept = rows[: MOST_POINTS if full else FEW_POINTS]
    return CostSection(
        title=item.name,
        sentences=_sentences(item, shown),
        roofline=drawing.picture,
        roofline_caption=_roofline_caption(drawing),
        lines=lines,
        differ=any(line.head for line in lines),
        operators=tuple(operators),
        operators_caption=_operators_caption(len(roof.operators) - len(operators)) if roof else "",
        pareto=pareto_chart.pareto(entry, item.name) if full else Markup(""),
        front=tuple(kept),
        front_caption=_front_caption(shown, len(rows) - len(kept)),
    )


def _sentences(item: Priced, shown: SideCost | None) -> tuple[str, ...]:
    if shown is None:
        return ()
    answer, wanted = shown.answer, costs.limits(item.entry.requirements)
    texts = (
        costs.capital(item.entry.sentence),
        infeasible(answer, wanted),
        f"{considered(answer, wanted)}; times: {sources([answer])}" if answer.candidates else "",
        tie(answer),
    )
    return tuple(f"{text}." for text in texts if text)


def _lines(base: RooflineSummary | None, head: RooflineSummary | None) -> tuple[PairLine, ...]:
    sides = [{line.label: line.text for line in costs.roofline_lines(side)} for side in (base, head) if side]
    if not sides:
        return ()
    first, last = sides[0], sides[-1]
    return tuple(
        PairLine(label=label, base=first.get(label, ""), head="" if first.get(label) == text else text)
        for label, text in last.items()
    )


def _roofline_caption(drawing: roofline_chart.Drawing) -> str:
    undrawn = drawing.undrawn
    text = (
        "Roofline: what this runner allows at each intensity. Diamond: head, square: base (hollow: not measured, drawn "
        "at what is attainable); dashed: what is missing to the roof. Circles: operators in their least time, the "
        "larger the more of it"
    )
    if not undrawn:
        return text
    return f"{text}; {undrawn} operator{'' if undrawn == 1 else 's'} without a place here (most without products)"


def _operators_caption(left_out: int) -> str:
    text = "Operators under the roof of this runner; equal kernels together, the most time first"
    return f"{text}; {left_out} lesser ones left out" if left_out > 0 else text


def _front_caption(side: SideCost | None, left_out: int) -> str:
    if side is None or not side.answer.front:
        return ""
    text = "Configurations that nothing beats, the cheapest first; points with one ≈ number cannot be told apart"
    return f"{text}; {left_out} more left out, report.json has them" if left_out > 0 else text
