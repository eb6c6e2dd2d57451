"""``perfgate report``: judge and render a measurements.json again; pure, needs no repository."""

from __future__ import annotations

from pathlib import Path

import click

from perfgate.cli import options, verdict


@click.command("report")
@click.argument("measurements", type=click.Path(path_type=Path))
@options.OUT
@options.JSON
def command(measurements: Path, out: Path, as_json: bool) -> int:
    """Judge MEASUREMENTS (a measurements.json or the folder that holds it) and write the report from it.

    The exit code is the verdict's, as of `perfgate run`.
    """
    from perfgate.pipeline.run import MEASUREMENTS_FILE, derive, load

    path = measurements / MEASUREMENTS_FILE if measurements.is_dir() else measurements
    evidence = load(path)
    result = derive(evidence, evidence.policy, out=out)
    if as_json:
        click.echo((out / "report.json").read_text(encoding="utf-8"))
    else:
        verdict.show(result.report, verdict.console(), directory=result.directory)
    return result.report.exit_code
