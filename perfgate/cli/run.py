"""``perfgate run``: the whole gate, locally or in CI."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import click
from rich.console import Console

from perfgate.cli import options, verdict
from perfgate.cli.progress import shown


@click.command("run")
@options.revision_options
@click.option("--store", "store_url", default="", metavar="URL", help="Baseline database.  [default: configuration]")
@options.TEMPLATE
@options.OUT
@options.JSON
@options.QUIET
def command(out: Path, store_url: str, template: Path | None, as_json: bool, quiet: bool, **revisions: Any) -> int:
    """Measure base against head, judge, and write the report.

    Writes measurements.json, report.json, comment.md, summary.md and report.html into the folder of --out.
    Exit code 0: no regression; 1: regression or missing; others: see `perfgate --help`.
    """
    from perfgate.pipeline.publish import write_step_outputs
    from perfgate.pipeline.request import Ports
    from perfgate.pipeline.run import run

    request = options.measure_request(**revisions)
    text = options.read_template(template)
    with shown(Console(stderr=True), quiet=quiet) as progress:
        ports = Ports(progress=progress, environ=os.environ)
        result = run(request, ports, out=out, store_url=store_url, template=text)
    verdict.tell(result, as_json=as_json)
    if result.problem is None:
        write_step_outputs(result, os.environ)
    return result.exit_code
