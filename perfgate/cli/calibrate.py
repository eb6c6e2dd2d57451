"""``perfgate calibrate``: what this runner can resolve, by measuring equal code against itself."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from perfgate import units
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import plain
from perfgate.errors import EXIT_PASS, MeasuringError
from perfgate.report import filters


@click.command("calibrate")
@options.calibration_options
@click.option("--pairs", type=click.IntRange(3, 200), default=20, show_default=True, help="Pairs to measure.")
@options.OUT
@options.JSON
@options.QUIET
def command(pairs: int, out: Path, as_json: bool, quiet: bool, **revisions: Any) -> int:
    """Measure HEAD against itself (A/A): the noise s and the smallest change that this runner resolves.

    Exit code 3 where a limit of the configuration is finer than what the runner can see.
    """
    from perfgate.pipeline.calibrate import calibrate
    from perfgate.pipeline.request import Ports
    from perfgate.pipeline.run import save

    request = options.calibration_request(**revisions)
    with shown(Console(stderr=True), quiet=quiet) as progress:
        calibration = calibrate(request, Ports(progress=progress, environ=os.environ), pairs=pairs)
    save(calibration.measurements, out)
    error = calibration.measurements.error
    if error is not None:
        click.echo(plain(f"perfgate: {error.message}"), err=True)
        return error.exit_code
    if as_json:
        click.echo(json.dumps({"enough": calibration.enough, "rows": [asdict(row) for row in calibration.rows]}))
    else:
        _show(calibration.rows, pairs)
    if not calibration.enough:
        click.echo(
            "perfgate: a limit is finer than this runner resolves; raise it, take more pairs or quieten the runner",
            err=True,
        )
        return MeasuringError.exit_code
    return EXIT_PASS


def _show(rows: Any, pairs: int) -> None:
    table = Table(box=None, pad_edge=False, title=f"{pairs} pairs of equal code", title_justify="left")
    table.add_column("workload", overflow="fold")
    table.add_column("metric")
    for name in ("noise s", "bias", "smallest change", "limit"):
        table.add_column(name, justify="right")
    table.add_column("")
    for row in rows:
        found = row.resolution
        table.add_row(
            row.workload,
            filters.metric_label(row.metric),
            units.percent(found.sd),
            units.percent(found.bias, sign=True) + (" !" if found.biased else ""),
            units.percent(found.mde),
            units.share(row.tolerance) if row.tolerance is not None else "",
            "ok" if row.enough else "too fine",
        )
    verdict.console().print(table)
