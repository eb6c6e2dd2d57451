"""The verdict in the terminal: one headline, one reason, one table, and where the reports are."""

from __future__ import annotations

import errno
import os
import sys
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli.text import plain
from perfgate.pipeline.run import Result
from perfgate.records import report as verdicts
from perfgate.records.report import MetricResult, Report
from perfgate.report import filters, money
from perfgate.report.document import report_json
from perfgate.report.view import next_step

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


LOG_WIDTH = 160


class _Output(Console):
    def on_broken_pipe(self) -> None:
        # rich would exit with 1, which is a verdict.
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


def console() -> Console:
    """Standard output; a log has no width of its own, and 80 columns would tear the table."""
    plain = _Output()
    return plain if plain.is_terminal else _Output(width=LOG_WIDTH)


def tell(result: Result, *, as_json: bool) -> None:
    """Print the verdict of ``result``, also where its files could not be written; then what kept them from it.

    A standard output that takes nothing (``| head``, a full disk) does not change the exit code.
    """
    try:
        if as_json:
            click.echo(report_json(result.report))
        else:
            show(result.report, console(), directory=None if result.problem else result.directory)
    except OSError as error:
        # What is still buffered must not fail again when Python ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        if error.errno != errno.EPIPE:
            click.echo(f"perfgate: standard output cannot be written ({error.strerror})", err=True)
    if result.problem is not None:
        click.echo(plain(f"perfgate: {result.problem}"), err=True)


def show(report: Report, console: Console, *, directory: Path | None = None) -> None:
    """Print ``report``; untrusted text is never read as markup, and its control characters reach no terminal."""
    headline = Text(report.verdict.upper().replace("-", " "), style=_STYLE.get(report.verdict, ""))
    console.print(Text.assemble(headline, "  ", plain(report.title)), soft_wrap=True)
    if report.why:
        console.print(Text(plain(report.why)), soft_wrap=True)
    if told := money.line(report):
        console.print(Text(plain(f"Money: {told}")), soft_wrap=True)
    for banner in report.banners:
        console.print(Text(f"! {plain(banner)}", style="yellow"), soft_wrap=True)
    # A fault says itself what to mend.
    if report.verdict != verdicts.ERROR and (advice := next_step(report)):
        console.print(Text(f"Next: {advice}"), soft_wrap=True)
    table = _table(report)
    if table.row_count:
        console.print(table)
    for skipped in report.skipped:
        console.print(Text(plain(f"skipped {skipped.model}: {skipped.reason}"), style="dim"), soft_wrap=True)
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
        label = plain(f"{model.model} · {filters.workload_label(model, varying)}")
        table.add_row(
            Text(label),
            Text(filters.metric_label(row.metric)),
            units.quantity(row.base, row.unit),
            units.quantity(row.head, row.unit),
            _change(row),
            filters.limit(row),
            Text(row.verdict, style=_STYLE.get(row.verdict, "")),
        )
    return table


def _told(row: MetricResult) -> bool:
    return row.gated or row.verdict not in {verdicts.SHOWN, verdicts.PASS}


def _change(row: MetricResult) -> str:
    """``+7.9 % (7.1 to 8.7)``; ``(exact)`` in the place of an interval for exact metrics."""
    return f"{filters.change(row)} {filters.interval(row)}".rstrip()
