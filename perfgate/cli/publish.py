"""``perfgate publish``: the second job. Judges the artifact of the first and writes to GitHub."""

from __future__ import annotations

import os
from pathlib import Path

import click

from perfgate.cli import options, verdict
from perfgate.cli.text import plain


@click.command("publish")
@click.option(
    "--measurements",
    type=click.Path(path_type=Path),
    default=Path("perfgate-out/measurements.json"),
    show_default=True,
    help="The measuring job's file.",
)
@click.option("--measure-result", default="", metavar="RESULT", help="needs.measure.result of the workflow.")
@click.option("--config", "config_file", default="perfgate.toml", show_default=True, metavar="FILE")
@click.option(
    "--comment-mode", type=click.Choice(["edit", "recreate", "notify", "off"]), default="edit", show_default=True
)
@click.option("--store", "store_url", default="", metavar="URL", help="Baseline database to record into.")
@options.PRICES
@options.TEMPLATE
@options.OUT
@options.JSON
def command(
    measurements: Path,
    measure_result: str,
    config_file: str,
    comment_mode: str,
    store_url: str,
    prices: str | None,
    out: Path,
    template: Path | None,
    as_json: bool,
) -> int:
    """Derive everything again from the measuring job's file, then write check run, comment, summary and outputs.

    Runs inside GitHub Actions; the token is read from INPUT_TOKEN or GITHUB_TOKEN. The exit code is the verdict's.
    """
    from perfgate.github import outputs
    from perfgate.pipeline.publish import PublishRequest, publish_measurements

    request = PublishRequest(
        measurements=measurements,
        out=out,
        root=options.here(),
        config_file=config_file,
        measure_result=measure_result,
        comment_mode=comment_mode,
        store_url=store_url,
        template=options.read_template(template),
        prices=options.read_prices(prices, os.environ),
    )
    published = publish_measurements(request, os.environ)
    if published.result is not None:
        verdict.tell(published.result, as_json=as_json)
    elif published.unjudged is not None:
        click.echo(plain(f"perfgate: {published.unjudged.title}: {published.unjudged.message}"))
    for warning in published.posted.warnings:
        click.echo(outputs.command("warning", warning, title="perfgate"))
    if published.posted.error is not None:
        click.echo(outputs.command("error", str(published.posted.error), title="perfgate"))
    return published.exit_code
