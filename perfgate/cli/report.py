"""``perfgate report``: judge and render a measurements.json again; pure, needs no repository."""

from __future__ import annotations

import os
from pathlib import Path

import click

from perfgate.cli import options, verdict


@click.command("report")
@click.argument("measurements", type=click.Path(path_type=Path))
@options.PRICES
@options.TEMPLATE
@options.OUT
@options.JSON
def command(measurements: Path, prices: str | None, out: Path, template: Path | None, as_json: bool) -> int:
    """Judge MEASUREMENTS (a measurements.json or the folder that holds it) and write the report from it.

    The exit code is the verdict's, as of `perfgate run`.
    """
    from perfgate.pipeline.run import MEASUREMENTS_FILE, derive, load

    path = measurements / MEASUREMENTS_FILE if measurements.is_dir() else measurements
    evidence = load(path)
    result = derive(
        evidence,
        evidence.policy,
        out=out,
        template=options.read_template(template),
        private=options.read_prices(prices, os.environ),
    )
    verdict.tell(result, as_json=as_json)
    return result.exit_code
