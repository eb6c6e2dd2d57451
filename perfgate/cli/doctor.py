"""``perfgate doctor``: what this runner is, what may disturb measurements here, and on request its roofline."""

from __future__ import annotations

import json
import os
from dataclasses import asdict

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import plain, say
from perfgate.config import values
from perfgate.errors import EXIT_PASS, UsageError
from perfgate.records.evidence import Environment
from perfgate.records.hardware import MeasuredRoofline


@click.command("doctor")
@click.option(
    "--roofline", is_flag=True, help="Measure pi (FLOP/s by dtype) and beta (bytes/s), and keep them for gates."
)
@click.option(
    "--device", "devices", multiple=True, metavar="DEVICE", help="cpu or cuda:N; may be repeated.  [default: cpu]"
)
@click.option("--python", default="", metavar="PATH", help="Interpreter with torch.")
@options.WORKING_CONFIG
@options.JSON
@options.QUIET
def command(
    roofline: bool, devices: tuple[str, ...], python: str, config_file: str, as_json: bool, quiet: bool
) -> int:  # fmt: skip
    """Describe this runner and what may disturb a measurement on it.

    Nothing is judged, and the result goes to standard output (no --out). With --roofline, large matrix products and a
    stream through memory measure what its devices reach; gates on this machine then use these rates in place of
    published peaks. Exit code 3: a device cannot be measured.
    """
    from perfgate.bench import machine
    from perfgate.pipeline.request import Ports
    from perfgate.pipeline.roofline import known, probe

    if devices and not roofline:
        msg = "--device says what --roofline measures; add --roofline, or leave it out to see what is known"
        raise UsageError(msg)
    wanted = _devices(devices)
    environment = machine.environment(os.environ)
    notes = machine.check(os.environ)
    root = options.here()
    if roofline:
        with shown(Console(stderr=True), quiet=quiet) as progress:
            measured = probe(
                root, Ports(progress=progress, environ=os.environ), wanted,
                python=python, fallback_python=options.own_python(os.environ), config_file=config_file,
            )  # fmt: skip
    else:
        measured = known(root, environment.hardware_id)
    if as_json:
        click.echo(
            json.dumps(
                {
                    "environment": asdict(environment),
                    "notes": list(notes),
                    "rooflines": [asdict(one) for one in measured],
                }
            )
        )
    else:
        _show(environment, notes, measured)
    return EXIT_PASS


def _devices(names: tuple[str, ...]) -> tuple[str, ...]:
    try:
        return tuple(dict.fromkeys(values.read_device(name) for name in names)) or ("cpu",)
    except ValueError as error:
        msg = f"--device {error}"
        raise UsageError(msg) from None


def _show(environment: Environment, notes: tuple[str, ...], measured: tuple[MeasuredRoofline, ...]) -> None:
    console = verdict.console()
    table = Table(box=None, pad_edge=False, show_header=False)
    table.add_column(style="dim")
    table.add_column(overflow="fold")
    for key, value in {**environment.hardware, **environment.conditions}.items():
        table.add_row(key.replace("_", " "), Text(plain(value)))
    console.print(table)
    for note in notes:
        say(console, f"Note: {note}")
    for one in measured:
        title = f"Roofline of {one.device} ({one.label}), measured {one.measured_at}"
        say(console, title)
        console.print(_roofline(one))
        say(console, _stream(one))
        for note in one.notes:
            say(console, f"Not measured: {note}", style="dim")
    if not measured:
        say(console, "Roofline: not measured here yet; run perfgate doctor --roofline")


def _roofline(measured: MeasuredRoofline) -> Table:
    table = Table(box=None, pad_edge=False)
    table.add_column("dtype")
    table.add_column("pi", justify="right")
    table.add_column("ridge pi/beta", justify="right")
    for dtype, rate in measured.flop_per_s.items():
        ridge = units.significant(rate / measured.bandwidth_bytes_per_s)
        table.add_row(Text(plain(dtype)), units.decimal(rate, "FLOP/s"), f"{ridge} FLOP/B")
    return table


def _stream(measured: MeasuredRoofline) -> str:
    beta = units.decimal(measured.bandwidth_bytes_per_s, "B/s")
    cache = f", last-level cache {units.size(measured.cache_bytes)}" if measured.cache_bytes else ""
    threads = f", {measured.threads} thread{'' if measured.threads == 1 else 's'}" if measured.threads else ""
    return f"beta {beta} over arrays of {units.size(measured.probe_bytes)}{cache}{threads}"
