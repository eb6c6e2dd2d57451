"""One line of a table: a metric of a workload with all numbers already turned into text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate import units
from perfgate.records import metrics
from perfgate.records import report as verdicts
from perfgate.records.report import MetricResult, ModelResult, Report
from perfgate.report import filters

# Verdicts that say by themselves why there is no change.
_SELF_EVIDENT = (verdicts.NEW, verdicts.NO_BASELINE)

LONGEST_UNBROKEN = 32
NO_BREAK = "\u00a0"

_KIND_ORDER = {metrics.NOISY: 0, metrics.EXACT: 1, metrics.SHOWN: 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """Texts are raw (not escaped). ``bold`` marks the change as the news; ``quiet``: nothing to look at.

    ``sort`` orders rows worst first; ``position`` is the workload's place in the report.
    ``gated`` includes what would be gated if there were a base.
    """

    model: str
    workload: str
    metric: str
    base: str
    head: str
    change: str
    interval: str
    limit: str
    verdict: str
    icon: str
    word: str
    note: str
    bold: bool
    quiet: bool
    gated: bool
    informative: bool
    position: int
    sort: tuple[int, bool, float, int, int]


def workload_rows(model: ModelResult, label: str, position: int) -> tuple[Row, ...]:
    """The rows of one workload, worst first; a verdict that none of its metrics explains gets a row of its own."""
    rows = [_metric_row(model, label, result, position) for result in model.metrics]
    worst = min((filters.severity(row.verdict) for row in rows), default=len(verdicts.SEVERITY))
    if filters.severity(model.verdict) < worst and model.verdict not in filters.QUIET:
        rows.append(_workload_row(model, label, position))
    return tuple(sorted(rows, key=lambda row: row.sort))


def report_rows(report: Report) -> tuple[tuple[Row, ...], ...]:
    """The rows of every workload, in the report's order."""
    varying = filters.varying_parts(report)
    return tuple(
        workload_rows(model, filters.workload_label(model, varying), position)
        for position, model in enumerate(report.models)
    )


def is_news(row: Row) -> bool:
    """True if the row belongs into the table that everybody reads: what changed, or is gated and undecided."""
    if row.informative:
        return False
    if row.verdict in {verdicts.NEW, verdicts.NO_BASELINE}:
        return row.gated
    return not row.quiet


def unbroken(text: str) -> str:
    """Number and unit stay on one line of a narrow cell; an added parenthesis or second limit may wrap."""
    if len(text) > LONGEST_UNBROKEN:
        return text
    return text.replace(" ", NO_BREAK).replace(f"{NO_BREAK}(", " (").replace(f",{NO_BREAK}", ", ")


def both(texts: Sequence[str]) -> str:
    """``base → head``; one of them where they are equal or only one side is there, a dash where none is."""
    different = texts if len(set(texts)) > 1 else texts[-1:]
    return " → ".join(unbroken(text) for text in different) or filters.NOTHING


def _metric_row(model: ModelResult, label: str, result: MetricResult, position: int) -> Row:
    known = filters.definition(result.metric)
    # A shown exact metric (parameters, operator calls) that moved is news although no limit watches it.
    moved = result.kind == metrics.EXACT and None not in {result.base, result.head} and result.base != result.head
    quiet = result.verdict == verdicts.PASS or (result.verdict == verdicts.SHOWN and not moved)
    worse = filters.worsening(result)
    change = unbroken(filters.change(result))
    untold = bool(change == units.NOT_AVAILABLE and result.note) and result.verdict not in _SELF_EVIDENT
    if untold and not quiet:
        # "n/a" beside a red cross would leave the reader guessing: what happened stands in its place.
        change = result.note
    return Row(
        model=model.model,
        workload=unbroken(label),
        metric=filters.metric_label(result.metric),
        base=unbroken(units.quantity(result.base, result.unit)),
        head=unbroken(units.quantity(result.head, result.unit)),
        change=change,
        interval=unbroken(filters.interval(result)),
        limit=unbroken(filters.limit(result)),
        verdict=result.verdict,
        icon=filters.icon(result.verdict),
        word=filters.word(result.verdict),
        note=result.note,
        bold=filters.emphasised(result.verdict) and not untold,
        quiet=quiet,
        gated=result.gated or result.ceiling is not None or bool(known and known.default_limit is not None),
        informative=model.informative,
        position=position,
        sort=(
            filters.severity(result.verdict),
            # What people wait for comes before what explains it.
            not result.metric.startswith(("latency", "span:")) or result.kind == metrics.SHOWN,
            -abs(worse) if result.verdict == verdicts.IMPROVEMENT else -worse,
            _KIND_ORDER.get(result.kind, len(_KIND_ORDER)),
            position,
        ),
    )


def _workload_row(model: ModelResult, label: str, position: int) -> Row:
    """The row of a workload that has no numbers: its head raises, it vanished, it could not be measured."""
    return Row(
        model=model.model,
        workload=unbroken(label),
        metric="whole workload",
        base=filters.NOTHING,
        head=filters.NOTHING,
        change=model.reasons[0] if model.reasons else filters.word(model.verdict),
        interval="",
        limit=filters.NOTHING,
        verdict=model.verdict,
        icon=filters.icon(model.verdict),
        word=filters.word(model.verdict),
        note="",
        bold=False,
        quiet=False,
        gated=True,
        informative=model.informative,
        position=position,
        sort=(filters.severity(model.verdict), False, float("-inf"), -1, position),
    )
