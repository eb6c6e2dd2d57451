"""The verdict in the terminal: one headline, one reason, one table, and where the reports are."""

from __future__ import annotations

from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.pipeline.run import Result
from perfgate.records import report as verdicts
from perfgate.records.report import MetricResult, Report
from perfgate.report import filters
from perfgate.report.document import report_json

_STYLE = {
    verdicts.REGRESSION: "bold red",
    verdicts.MISSING: "bold red",
    verdicts.ERROR: "bold red",
    verdicts.INVALID: "yellow",
    verdicts.INCONCLUSIVE: "yellow",
    verdicts.NO_BASELINE: "cyan",
    verdicts.NEW: "cyan",
    verdicts.ACCEPTED: "cyan",
    verdicts.IMPROVEMENT: "bold green",
    verdicts.PASS: "green",
    verdicts.UNCHANGED: "green",
    verdicts.NOT_MEASURED: "cyan",
}


LOG_WIDTH = 140


def console() -> Console:
    """Standard output; a log has no width of its own, and 80 columns would tear the table."""
    plain = Console()
    return plain if plain.is_terminal else Console(width=LOG_WIDTH)


def tell(result: Result, *, as_json: bool) -> None:
    """Print the verdict of ``result``, also where its files could not be written; then what kept them from it."""
    if as_json:
        click.echo(report_json(result.report))
    else:
        show(result.report, console(), directory=None if result.problem else result.directory)
    if result.problem is not None:
        click.echo(f"perfgate: {result.problem}", err=True)


def show(report: Report, console: Console, *, directory: Path | None = None) -> None:
    """Print ``report``; untrusted text is never read as markup."""
    headline = Text(report.verdict.upper().replace("-", " "), style=_STYLE.get(report.verdict, ""))
    console.print(Text.assemble(headline, "  ", report.title), soft_wrap=True)
    if report.why:
        console.print(Text(report.why), soft_wrap=True)
    for banner in report.banners:
        console.print(Text(f"! {banner}", style="yellow"), soft_wrap=True)
    table = _table(report)
    if table.row_count:
        console.print(table)
    for skipped in report.skipped:
        console.print(Text(f"skipped {skipped.model}: {skipped.reason}", style="dim"), soft_wrap=True)
    if directory is not None:
        console.print(Text(f"Report: {directory / 'report.html'}", style="dim"), soft_wrap=True)


def _table(report: Report) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("workload", overflow="fold", min_width=12)
    table.add_column("metric", no_wrap=True)
    for name in ("base", "head", "change (95 % CI)", "limit"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict")
    rows = [(model, row) for model in report.models for row in model.metrics if _told(row)]
    rows.sort(key=lambda item: verdicts.SEVERITY.index(item[1].verdict))
    varying = filters.varying_parts(report)
    for model, row in rows:
        label = f"{model.model} · {filters.workload_label(model, varying)}"
        table.add_row(
            Text(label),
            Text(filters.metric_label(row.metric)),
            units.quantity(row.base, row.unit),
            units.quantity(row.head, row.unit),
            change(row),
            units.share(row.limit) if row.limit is not None else "",
            Text(row.verdict, style=_STYLE.get(row.verdict, "")),
        )
    return table


def _told(row: MetricResult) -> bool:
    return row.gated or row.verdict not in {verdicts.SHOWN, verdicts.PASS}


def change(row: MetricResult) -> str:
    """``+7.9 % (7.1 to 8.7)``; "exact" in the place of an interval for exact metrics."""
    if row.ratio is None:
        return units.NOT_AVAILABLE
    text = units.percent(row.ratio - 1, sign=True)
    if row.ci_low is not None and row.ci_high is not None:
        low, high = units.percent(row.ci_low - 1), units.percent(row.ci_high - 1)
        return f"{text} ({low.removesuffix(' %')} to {high.removesuffix(' %')})"
    return f"{text} exact" if row.kind == "exact" else text
