"""``perfgate sample``: sample networks under many conditions, into the database that the time estimator learns from."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import asdict
from statistics import quantiles
from typing import TYPE_CHECKING, TypeVar

import click
from rich.console import Console
from rich.table import Table

from perfgate import units
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import say
from perfgate.config import values
from perfgate.errors import EXIT_PASS, Interrupted, MeasuringError, UsageError
from perfgate.records.sampling import FAMILIES

if TYPE_CHECKING:
    from perfgate.pipeline.sample import SampleSummary

_MOST_FAILURES = 5
_SHORTEST_S = 5.0

T = TypeVar("T")


@click.command("sample")
@click.option("--budget", default="10min", show_default=True, metavar="TIME", help="How long to go on: 90s, 10min, 2h.")
@click.option(
    "--store", "store_url", default="", metavar="URL", help="Database.  [default: configuration, else .perfgate/]"
)
@click.option(
    "--device", "devices", multiple=True, metavar="DEVICE", help="cpu or cuda:N; may be repeated.  [default: cpu]"
)
@click.option(
    "--threads", default="", metavar="LIST", help="Compute threads on the CPU, as 1,2,4.  [default: 1, 2, 4, ... cores]"
)
@click.option(
    "--dtype",
    "dtypes",
    default="float32,bfloat16",
    show_default=True,
    metavar="LIST",
    help="The first one is taken twice as often as all others together.",
)
@click.option("--mode", "modes", default="infer,train", show_default=True, metavar="LIST", help="infer, train or both.")
@click.option(
    "--compile",
    "compiles",
    default="eager",
    show_default=True,
    metavar="LIST",
    help="eager, default, ...: compiling takes most of the time of a condition.",
)
@click.option("--family", "families", multiple=True, type=click.Choice(FAMILIES), help="Only this kind of network.")
@click.option("--most", type=click.IntRange(1), default=None, help="Stop after so many records.")
@click.option("--seed", type=click.IntRange(0), default=0, show_default=True, help="Of the design, weights and inputs.")
@click.option("--space-filling", "filling", is_flag=True, help="Never adapt: space-filling to the end.")
@click.option("--python", default="", metavar="PATH", help="Interpreter with torch.")
@options.WORKING_CONFIG
@options.JSON
@options.QUIET
def command(
    budget: str, store_url: str, devices: tuple[str, ...], threads: str, dtypes: str, modes: str, compiles: str,
    families: tuple[str, ...], most: int | None, seed: int, filling: bool, python: str, config_file: str,
    as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Run sample networks under many conditions and record time, memory, utilisation, energy, disk and cache.

    The design is space-filling first and then goes where least is known. Every record is written at once: whoever
    stops and starts again goes on where the records end. The result goes to standard output (no --out); exit code 2:
    wrong arguments, 3: nothing could run, 4: the database, 130: interrupted.
    """
    from perfgate.pipeline import doubt
    from perfgate.pipeline.request import Ports
    from perfgate.pipeline.sample import SampleRequest, sample
    from perfgate.sampling.design import Space

    space = Space(
        families=families or FAMILIES,
        modes=_each("--mode", modes, _mode),
        dtypes=_each("--dtype", dtypes, values.read_dtype),
        devices=_each("--device", ",".join(devices) or "cpu", values.read_device),
        compiles=_each("--compile", compiles, values.read_compile),
        threads=_each("--threads", threads, _thread) if threads else _all_threads(),
    )
    request = SampleRequest(
        root=options.here(),
        budget_s=_seconds(budget),
        space=space,
        store_url=store_url,
        python=python,
        fallback_python=options.own_python(os.environ),
        config_file=config_file,
        seed=seed,
        filling=filling,
        most=most,
    )
    with shown(Console(stderr=True), quiet=quiet) as progress:
        unsure = None if filling else doubt.of_estimator(seed)
        found = sample(request, Ports(progress=progress, environ=os.environ), doubt=unsure)
    if as_json:
        click.echo(json.dumps(asdict(found)))
    else:
        _show(found)
    if found.end == "interrupted":
        return Interrupted.exit_code
    if found.recorded or found.known:
        return EXIT_PASS
    raise MeasuringError(_nothing(found, budget))


def _nothing(found: SampleSummary, budget: str) -> str:
    """Why a run that was not stopped recorded nothing, and what to do."""
    if found.failures:
        first = found.failures[0]
        return f"nothing was recorded: {first.condition} did not run ({first.phase}): {first.message}"
    if found.end == "budget":
        return f"nothing was recorded: --budget {budget} was over before the first condition was; give more"
    return (
        "nothing was recorded: no condition fits the budget and the free memory; give a longer --budget, free memory, "
        "or allow more with --family, --mode and --dtype"
    )


def _seconds(text: str) -> float:
    try:
        seconds = units.parse_duration_ns(text) / 1e9
    except ValueError as error:
        msg = f"--budget {error}"
        raise UsageError(msg) from None
    if seconds < _SHORTEST_S:
        msg = f"--budget {text} is too short to start a worker; give at least {_SHORTEST_S:.0f}s"
        raise UsageError(msg)
    return seconds


def _each(option: str, text: str, read: Callable[[str], T]) -> tuple[T, ...]:
    """The values of a list with commas, in order, each once. Raises UsageError."""
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        found = tuple(dict.fromkeys(read(part) for part in parts))
    except ValueError as error:
        msg = f"{option} {error}"
        raise UsageError(msg) from None
    if not found:
        msg = f"{option} names nothing; leave it out for the default"
        raise UsageError(msg)
    return found


def _mode(text: str) -> str:
    if text not in ("infer", "train"):
        msg = f"{text!r} is no mode of a sample workload; write infer, train or infer,train"
        raise ValueError(msg)
    return text


def _thread(text: str) -> int:
    from perfgate.bench import machine

    most = len(machine.physical_cores())
    number = int(text) if text.isdecimal() else 0
    if not 1 <= number <= most:
        msg = f"{text}: write whole numbers from 1 to {most}, the cores that perfgate may use here"
        raise ValueError(msg)
    return number


def _all_threads() -> tuple[int, ...]:
    """1, 2, 4, ... and all cores."""
    from perfgate.bench import machine

    cores = len(machine.physical_cores())
    quota = machine.cpu_quota()
    most = cores if quota is None else max(1, min(cores, int(quota)))
    powers = [2**power for power in range(most.bit_length()) if 2**power <= most]
    return tuple(dict.fromkeys((*powers, most)))


def _show(found: SampleSummary) -> None:
    console = verdict.console()
    before = f", {found.known} were there before" if found.known else ""
    records = f"{found.recorded} record{'' if found.recorded == 1 else 's'}"
    say(console, f"{records} in {units.wall_clock(found.seconds)} ({_ENDS[found.end]}){before}: {found.store}")
    if found.steps_ns:
        table = Table(box=None, pad_edge=False)
        table.add_column("kind of network")
        table.add_column("records", justify="right")
        for family, count in found.families.items():
            table.add_row(family, str(count))
        console.print(table)
        low, middle, high = _spread(found.steps_ns)
        modes = ", ".join(f"{count} {mode}" for mode, count in found.modes.items())
        say(console, f"Step time {units.duration(low)} to {units.duration(high)}, median {units.duration(middle)}")
        say(console, f"{modes}; {found.adaptive} chosen by what was known least")
    if found.disturbed:
        share = f"{found.disturbed} of {found.recorded} record{'' if found.recorded == 1 else 's'}"
        say(console, f"Note: other programs took the processors in {share}; sample on a quiet machine")
    for name, why in found.lacking.items():
        say(console, f"Not recorded: {name.replace('_', ' ')} ({why})", style="dim")
    for failure in found.failures[:_MOST_FAILURES]:
        say(console, f"Did not run: {failure.condition} ({failure.phase}): {failure.message}")
    if len(found.failures) > _MOST_FAILURES:
        say(console, f"Did not run: {len(found.failures) - _MOST_FAILURES} more, which --json lists")


_ENDS = {
    "budget": "the budget is spent",
    "enough": "as many as asked for",
    "exhausted": "nothing else fits the budget and the memory",
    "interrupted": "interrupted; run it again to go on",
}


def _spread(steps: tuple[float, ...]) -> tuple[float, float, float]:
    """Lowest, median, highest."""
    ordered = sorted(steps)
    middle = quantiles(ordered, n=2)[0] if len(ordered) > 1 else ordered[0]
    return ordered[0], middle, ordered[-1]
