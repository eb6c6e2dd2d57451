"""``perfgate measure``: evidence only; needs no token, writes no database."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perfgate.cli import options
from perfgate.cli.progress import shown
from perfgate.cli.text import plain
from perfgate.errors import EXIT_PASS


@click.command("measure")
@options.revision_options
@options.OUT
@options.JSON
@options.QUIET
def command(out: Path, as_json: bool, quiet: bool, **revisions: Any) -> int:
    """Measure base against head and write measurements.json into the folder of --out.

    The exit code says whether measuring was possible, not what it found: judge with `perfgate report` or
    `perfgate publish`.
    """
    from perfgate.github import outputs
    from perfgate.pipeline.measure import measure, start
    from perfgate.pipeline.request import Ports
    from perfgate.pipeline.run import save

    request = options.measure_request(**revisions)
    with shown(Console(stderr=True), quiet=quiet) as progress:
        measurements = measure(start(request), request, Ports(progress=progress, environ=os.environ))
    path = save(measurements, out)
    outputs.write_outputs(os.environ, {"measurements": str(path)})
    if as_json:
        click.echo(path.read_text(encoding="utf-8"))
    else:
        pairs = sum(len(workload.pairs) for workload in measurements.workloads)
        click.echo(f"{path}: {len(measurements.workloads)} workloads, {pairs} pairs", err=True)
    if measurements.error is not None:
        click.echo(plain(f"perfgate: {measurements.error.message}"), err=True)
        return measurements.error.exit_code
    return EXIT_PASS
