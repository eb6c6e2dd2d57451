"""What the Markdown templates see: the report as ordered lists of texts, ready to be cut to a size.

Every list is a :class:`Part`, sorted so that what matters most comes first: cutting takes from the end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, TypeVar

from perfgate import units
from perfgate.records import metrics
from perfgate.records import report as verdicts
from perfgate.records.report import ModelResult, Report
from perfgate.report import counts, estimates, filters, fronts, money, operators, placements, workload_costs
from perfgate.report.costs import Line
from perfgate.report.counts import CountRow
from perfgate.report.estimates import EstimateRow
from perfgate.report.fronts import Front
from perfgate.report.operators import OperatorLine
from perfgate.report.placements import PlacementRow
from perfgate.report.rows import Row, is_news, report_rows
from perfgate.report.workload_costs import CostRow

T = TypeVar("T")

# Rows within their limits that still stand in the first table: enough to see what was gated, few enough to read.
QUIET_ROWS = 10
# Findings about operators: what explains a change stands among the first few, and the full report has the others.
OPERATOR_ROWS = 10
# Charts of the cost: of the workloads that moved or cost most.
FRONTS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Links:
    """Absolute addresses; empty: there is none. ``commit`` is a prefix to which a SHA is appended.

    ``accepts``: somebody reads ``/perfgate accept`` commands where the comment is shown. Only then is the reader told
    to write one.
    """

    full_report: str = ""
    run: str = ""
    commit: str = ""
    accepts: bool = False


NO_LINKS = Links()


@dataclass(frozen=True, slots=True, kw_only=True)
class Part(Generic[T]):
    """A list that may have been cut at its end. ``total`` counts what it held before."""

    items: tuple[T, ...]
    total: int

    @property
    def left_out(self) -> int:
        """How many items were cut."""
        return self.total - len(self.items)

    def cut(self, keep: int) -> Part[T]:
        """The first ``keep`` items."""
        return replace(self, items=self.items[: max(0, keep)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One sentence about one workload."""

    icon: str
    where: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Banner:
    """``kind`` is ``WARNING`` or ``NOTE``, GitHub's names for alerts."""

    kind: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """Texts are raw: the environment escapes them.

    ``rows``: what changed or is gated. ``quiet_left``: rows within their limits that only stand in
    ``everything``, which has all rows, the worst workload first. ``next_step``: what to do now, or empty.
    ``operators``: which operators differ, workload by workload; ``counts``: one row for each workload that was counted,
    ``convention`` says what its letters mean. ``money``: what stands behind "Money.", or empty; ``costs``: one row for
    each workload whose cost is known, ``fronts`` their charts, ``cost_facts`` whose prices these are (``cost_details``
    for the full report). ``estimates``: the estimator's answers, ``estimator_facts`` how good they are.
    ``placement``: what stands behind "Placement.", or empty; ``placements``: where operators belong.
    """

    icon: str
    lead: str
    title: str
    why: str
    money: str
    placement: str
    next_step: str
    accept: str
    workloads: int
    quiet_left: int
    duration: str
    rows: Part[Row]
    everything: Part[Row]
    operators: Part[OperatorLine]
    counts: Part[CountRow]
    convention: str
    costs: Part[CostRow]
    fronts: Part[Front]
    cost_facts: Part[Line]
    cost_details: Part[Line]
    estimates: Part[EstimateRow]
    estimator_facts: Part[Line]
    placements: Part[PlacementRow]
    findings: Part[Finding]
    skipped: Part[Line]
    notes: Part[str]
    facts: Part[Line]
    banners: Part[Banner]
    links: Links = field(default=NO_LINKS)


def build(
    report: Report,
    links: Links = NO_LINKS,
    *,
    quiet_rows: int = QUIET_ROWS,
    operator_rows: int = OPERATOR_ROWS,
    most_fronts: int = FRONTS,
) -> View:
    """The view of ``report``, cut to no size yet; of the findings about operators it has ``operator_rows``."""
    charts, all_charts = fronts.fronts(report, most_fronts)
    per_workload = report_rows(report)
    flat = sorted((row for rows in per_workload for row in rows), key=lambda row: row.sort)
    news = [row for row in flat if is_news(row)]
    quiet = [row for row in flat if row.verdict == verdicts.PASS and row.gated and not row.informative]
    listed = sorted([*news, *quiet[:quiet_rows]], key=lambda row: row.sort)
    by_workload = sorted((rows for rows in per_workload if rows), key=lambda rows: (rows[0].informative, rows[0].sort))
    return View(
        icon=filters.icon(report.verdict),
        lead=_lead(report),
        title=report.title,
        why=report.why,
        money=money.line(report),
        placement=placements.line(report),
        next_step=next_step(report),
        accept=filters.accept_example(report) if links.accepts else "",
        workloads=len(report.models),
        quiet_left=max(0, len(quiet) - quiet_rows),
        duration=units.wall_clock(report.run.duration_s),
        rows=_part(listed),
        # A second table with the very same rows would tell nothing.
        everything=_part([row for rows in by_workload for row in rows] if len(flat) > len(listed) else []),
        operators=_operators(report, operator_rows),
        counts=_part(counts.rows(report)),
        convention=counts.CONVENTION,
        costs=_part(workload_costs.rows(report)),
        fronts=Part(items=tuple(charts), total=all_charts),
        cost_facts=_part(workload_costs.facts(report)),
        cost_details=_part(workload_costs.details(report)),
        estimates=_part(estimates.rows(report)),
        estimator_facts=_part(estimates.facts(report)),
        placements=_part(placements.rows(report)),
        findings=_part(_findings(report)),
        skipped=_part([Line(label=item.model, text=item.reason) for item in report.skipped]),
        notes=_part(report.notes),
        # Where nothing was touched, nothing was measured, and nothing is to be said about how.
        facts=_part(facts(report) if report.verdict not in {verdicts.UNCHANGED, verdicts.NOT_MEASURED} else ()),
        banners=_part(_banners(report)),
        links=links,
    )


def facts(report: Report) -> tuple[Line, ...]:
    """How this was measured, one line a topic; topics without content are left out."""
    policy = report.policy
    looks = ", ".join(str(look) for look in policy.looks)
    lines = (
        ("Hardware", _pairs(report.environment.hardware)),
        ("Conditions", _pairs(report.environment.conditions)),
        ("Software", _pairs(report.software)),
        ("Pairs", _pair_counts(report)),
        ("Caches", "warm: calls at the start of every block are thrown away" if report.models else ""),
        ("Decisions", f"tried after {looks} pairs" if looks else ""),
        ("Smallest change this run could see", _smallest_effects(report)),
        ("False alarms", _false_alarms(report)),
        ("Tolerance", f"{units.share(policy.tolerance)} for step time and energy, unless the table says otherwise"),
        ("Mode", policy.mode),
        ("Started", report.run.started_at),
        ("perfgate", report.run.perfgate),
    )
    return tuple(Line(label=label, text=text) for label, text in lines if text)


def next_step(report: Report) -> str:
    """What to do about a verdict that is neither green nor red; empty for the others."""
    match report.verdict:
        case verdicts.NO_BASELINE:
            return "Nothing to do: once this is merged, pull requests are compared with it."
        case verdicts.INCONCLUSIVE:
            return "Run it again on a quieter runner, or raise looks (pairs) or budget (time) under [gate]."
        case verdicts.INVALID:
            return "Run it again while nothing else uses the runner; the numbers below are not to be relied on."
        case verdicts.ERROR:
            return "Mend what stopped the measurement and run it again; nothing is said about this change's speed."
    return ""


def _lead(report: Report) -> str:
    said = "would have failed" in report.title.lower()
    return "perfgate (report only, would have failed)" if filters.would_fail_only(report) and not said else "perfgate"


def _part(items: Sequence[T]) -> Part[T]:
    return Part(items=tuple(items), total=len(items))


def _operators(report: Report, keep: int) -> Part[OperatorLine]:
    found = operators.worst_first(report)
    return Part(items=tuple(operators.by_workload(found[:keep])), total=len(found))


def _findings(report: Report) -> list[Finding]:
    """Reasons of the workloads and notes of their news rows; the worst workload first."""
    varying = filters.varying_parts(report)
    ordered = sorted(report.models, key=lambda model: (model.informative, filters.severity(model.verdict)))
    found: list[Finding] = []
    for model in ordered:
        where = f"{model.model} · {filters.workload_label(model, varying)}"
        # A reason may be good news ("outputs are equal"), so it does not carry the workload's sign.
        found.extend(Finding(icon="", where=where, text=reason) for reason in model.reasons)
        found.extend(_noted(model, where))
    return found


def _noted(model: ModelResult, where: str) -> list[Finding]:
    """The notes of the metrics that are not quiet; metrics with the same note share a line."""
    shared: dict[tuple[str, str], list[str]] = {}
    for result in model.metrics:
        told = any(result.note in reason for reason in model.reasons)
        if result.note and not told and result.verdict not in filters.QUIET:
            shared.setdefault((result.verdict, result.note), []).append(filters.metric_label(result.metric))
    return [
        Finding(icon=filters.icon(verdict), where=where, text=f"{', '.join(labels)}: {note}")
        for (verdict, note), labels in shared.items()
    ]


def _banners(report: Report) -> list[Banner]:
    # What weakens the gate must not look like a remark.
    kind = "WARNING" if report.verdict != verdicts.NO_BASELINE else "NOTE"
    return [Banner(kind=kind, text=text) for text in report.banners]


def _pairs(items: dict[str, str]) -> str:
    return ", ".join(f"{key.replace('_', ' ')} {value}" for key, value in items.items())


def _pair_counts(report: Report) -> str:
    counts = [result.pairs for model in report.models for result in model.metrics if result.pairs]
    if not counts:
        return ""
    span = str(min(counts)) if min(counts) == max(counts) else f"{min(counts)} to {max(counts)}"
    return f"{span} pairs of processes for each comparison, base and head alive together and timed in turns"


def _smallest_effects(report: Report) -> str:
    varying = filters.varying_parts(report)
    seen = [
        (result.mde, f"{model.model} · {filters.workload_label(model, varying)}, {filters.metric_label(result.metric)}")
        for model in report.models
        for result in model.metrics
        if result.gated and result.mde is not None and result.kind == metrics.NOISY
    ]
    if not seen:
        return ""
    best, worst = min(seen), max(seen)
    if len(seen) == 1:
        return f"{units.percent(best[0])} ({best[1]})"
    return f"from {units.percent(best[0])} ({best[1]}) to {units.percent(worst[0])} ({worst[1]})"


def _false_alarms(report: Report) -> str:
    count = report.policy.comparisons
    if not count:
        return ""
    shared = f"{count} gated comparisons" if count > 1 else "1 gated comparison"
    return f"at most {units.share(report.policy.false_alarm_rate)} a run, over {shared}"


def verdict_counts(report: Report) -> tuple[tuple[str, int], ...]:
    """How many judged workloads have which verdict, worst first."""
    counts = Counter(model.verdict for model in report.models if not model.informative)
    return tuple(sorted(counts.items(), key=lambda item: filters.severity(item[0])))
