"""``Report`` and ``Measurements`` in; one self-contained HTML page out: no script, no font, no request to anywhere."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from markupsafe import Markup

from perfgate import units
from perfgate.records import metrics
from perfgate.records.evidence import Measurements, WorkloadEvidence
from perfgate.records.report import MetricResult, ModelResult, Report
from perfgate.report import chart, cost_page, counts, filters, operators, templates
from perfgate.report.cost_page import CostSection
from perfgate.report.costs import Line
from perfgate.report.counts import CountLine
from perfgate.report.operators import OperatorLine
from perfgate.report.rows import Row, report_rows
from perfgate.report.view import NO_LINKS, Links, build, verdict_counts

# The page has no size limit, but a reader has: more rows than this stand only in the sections below.
_FIRST_TABLE_ROWS = 500
_QUIET_ROWS = 50
# The pairs of more workloads than this would make tens of megabytes; those with news keep theirs all the same.
_SECTIONS_WITH_PAIRS = 150
# Drawings of the cost are larger still.
_SECTIONS_WITH_COST = 50
# Nor does a quiet workload after those need every operator.
_OPERATORS_OF_THE_QUIET = 5

_ENDS = {
    "decided": "every gated metric was decided",
    "n_max": "the last look was reached",
    "budget": "the budget was used up",
    "unstable": "the runner was not stable",
    "failed": "a side failed",
    "not-begun": "not begun for lack of budget",
    "interrupted": "the run was interrupted",
    "recorded": "one side only, nothing to compare",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class PairLine:
    """One row of the table of pairs, as text."""

    index: int
    round: int
    order: str
    base: str
    head: str
    change: str
    counts: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Distribution:
    """What the pairs say about one metric."""

    metric: str
    caption: str
    drawing: Markup
    pairs: tuple[PairLine, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """One workload. ``failures``: what each failed side said, with its traceback.

    ``operators``: every finding of the comparison of both graphs, ``operators_caption`` what they come to.
    ``counts_differ`` is False where both sides count the same, or only one was counted. ``cost`` None: not known.
    """

    position: int
    title: str
    icon: str
    word: str
    quiet: bool
    rows: tuple[Row, ...]
    reasons: tuple[str, ...]
    operators: tuple[OperatorLine, ...] = ()
    operators_caption: str = ""
    counts: tuple[CountLine, ...] = ()
    counts_differ: bool = False
    cost: CostSection | None = None
    distributions: tuple[Distribution, ...] = ()
    end: str = ""
    notes: tuple[str, ...] = ()
    failures: tuple[Line, ...] = ()
    pairs_left_out: bool = False


def page(report: Report, measurements: Measurements, *, links: Links = NO_LINKS) -> str:
    """The page. Workloads of the report that the evidence does not hold have no pairs."""
    view = build(report, links, quiet_rows=_QUIET_ROWS)
    context = {
        "report": report,
        "view": view,
        "links": links,
        "main_rows": view.rows.cut(_FIRST_TABLE_ROWS),
        "main_costs": view.costs.cut(_FIRST_TABLE_ROWS),
        "sections": sections(report, measurements),
        "counts": verdict_counts(report),
    }
    return templates.render("report.html.j2", context, html=True)


def sections(report: Report, measurements: Measurements) -> tuple[Section, ...]:
    """One section a workload, the worst first."""
    evidence = {(entry.workload.key, entry.informative): entry for entry in measurements.workloads}
    varying, money = filters.varying_parts(report), cost_page.cost_sections(report)
    numbered = enumerate(zip(report.models, report_rows(report), operators.workload_lines(report), strict=True))
    ordered = sorted(numbered, key=lambda item: (item[1][0].informative, filters.severity(item[1][0].verdict)))
    found = []
    for place, (position, (model, rows, changed)) in enumerate(ordered):
        section = _section(model, rows, position, varying)
        full = place < _SECTIONS_WITH_PAIRS or not section.quiet
        section = _with_counts(section, model, changed if full else changed[:_OPERATORS_OF_THE_QUIET])
        if position in money:
            drawn = place < _SECTIONS_WITH_COST or not section.quiet
            section = replace(section, cost=cost_page.section(money[position], full=drawn))
        known = evidence.get((model.key, model.informative))
        if known:
            section = _with_evidence(section, model, known, pairs=full)
        found.append(section)
    return tuple(found)


def _section(model: ModelResult, rows: tuple[Row, ...], position: int, varying: frozenset[str]) -> Section:
    return Section(
        position=position,
        title=f"{model.model} · {filters.workload_label(model, varying)}",
        icon=filters.icon(model.verdict),
        word=filters.word(model.verdict),
        quiet=model.verdict in filters.QUIET or model.informative,
        rows=rows,
        reasons=model.reasons,
    )


def _with_counts(section: Section, model: ModelResult, changed: tuple[OperatorLine, ...]) -> Section:
    counted = counts.lines(model.base_totals, model.head_totals)
    return replace(
        section,
        operators=changed,
        operators_caption="" if model.difference is None else operators.caption(model.difference, changed),
        counts=counted,
        counts_differ=any(not line.same for line in counted),
    )


def _with_evidence(section: Section, model: ModelResult, evidence: WorkloadEvidence, *, pairs: bool) -> Section:
    return replace(
        section,
        distributions=tuple(_distributions(model, evidence)) if pairs else (),
        pairs_left_out=bool(evidence.pairs) and not pairs,
        end=_ENDS.get(evidence.end, evidence.end),
        notes=evidence.notes,
        failures=tuple(_failures(evidence)),
    )


def _distributions(model: ModelResult, evidence: WorkloadEvidence) -> Iterable[Distribution]:
    for result in model.metrics:
        # What is the step time times a price has the step time's drawing.
        if result.kind != metrics.NOISY or not result.pairs or result.unit == "usd":
            continue
        shown = chart.points(evidence.pairs, result.metric, result.pairs)
        drawing = chart.strip(shown, result)
        if drawing:
            yield Distribution(
                metric=filters.metric_label(result.metric),
                caption=_caption(result, shown),
                drawing=drawing,
                pairs=tuple(_line(point, result.unit) for point in shown),
            )


def _caption(result: MetricResult, shown: tuple[chart.Point, ...]) -> str:
    void = sum(1 for point in shown if point.void)
    later = sum(1 for point in shown if point.later)
    parts = [f"{filters.change(result)} {filters.interval(result)}".strip(), f"{result.pairs} pairs"]
    if later:
        parts.append(f"{later} more after the decision")
    if void:
        parts.append(f"{void} more did not count")
    if result.limit is not None:
        parts.append(f"limit {units.share(result.limit)}")
    if result.mde is not None:
        parts.append(f"smallest change it could see {units.percent(result.mde)}")
    return f"{filters.metric_label(result.metric)}: {' · '.join(parts)}"


def _line(point: chart.Point, unit: str) -> PairLine:
    return PairLine(
        index=point.index + 1,
        round=point.round + 1,
        order=point.order,
        base=units.quantity(point.base, unit),
        head=units.quantity(point.head, unit),
        change=units.percent(point.change, sign=True),
        counts=f"no: {point.void}" if point.void else "after the decision" if point.later else "yes",
    )


def _failures(evidence: WorkloadEvidence) -> Iterable[Line]:
    for name, side in (("base", evidence.base), ("head", evidence.head)):
        if side.failure:
            label = f"{name} failed in phase {side.failure.phase}: {side.failure.message}"
            yield Line(label=label, text=side.failure.trace)
