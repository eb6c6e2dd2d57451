"""``perfgate place``: which operator of a model runs on which device and compute library, measured and deployed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click
from rich.console import Console

from perfgate import units
from perfgate.cli import options, requirements, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import say
from perfgate.config import values
from perfgate.errors import EXIT_PASS, EXIT_REGRESSION, UsageError
from perfgate.records.placement import OBJECTIVES

if TYPE_CHECKING:
    from perfgate.pipeline.place import Placed
    from perfgate.records.placing import Built

_NS = 1e9
_MOST_THREADS = 1024


@click.command("place")
@click.argument("entry", metavar="MODEL", required=False, default="")
@click.option("--inputs", multiple=True, metavar="SPEC", help="Input, as of `perfgate count`; may be repeated.")
@click.option("--batch", type=click.IntRange(1), default=None, help="Batch size.")
@click.option("--dtype", default="", metavar="DTYPE", help="float32, bfloat16, ...")
@click.option("--devices", default="", metavar="NAMES", help="Devices, as cuda:0,cpu.  [default: the model's, and cpu]")
@click.option("--libraries", default="", metavar="NAMES", help="Compute libraries.  [default: all that are installed]")
@click.option("--threads", default="", metavar="NUMBERS", help="Numbers of CPU threads to try, as 1,2.")
@click.option("--objective", type=click.Choice(OBJECTIVES), default=None, help="What is made least.")
@click.option("--max-step-time", default="", metavar="TIME", help="Limit of one step for --objective memory, as 20ms.")
@click.option("--memory", multiple=True, metavar="DEVICE=SIZE", help="What the model may hold there, as cuda:0=4GiB.")
@click.option("--budget", default="", metavar="TIME", help="For all of it.  [default: 5min]")
@click.option("--seed", type=click.IntRange(0), default=0, help="Of weights, inputs and the search.")
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=None, metavar="FILE", help="The plan.")
@click.option(
    "--apply",
    "plan",
    type=click.Path(path_type=Path, dir_okay=False),
    default=None,
    metavar="FILE",
    help="Deploy this plan instead of searching; needs --to.",
)
@click.option(
    "--to",
    type=click.Path(path_type=Path),
    default=None,
    metavar="DIR",
    help="Folder for the deployed model, which runs without perfgate.",
)
@click.option("--python", default="", metavar="PATH", help="Interpreter that builds the model.")
@options.WORKING_CONFIG
@options.JSON
@options.QUIET
def command(
    entry: str, inputs: tuple[str, ...], batch: int | None, dtype: str, devices: str, libraries: str, threads: str,
    objective: str | None, max_step_time: str, memory: tuple[str, ...], budget: str, seed: int, out: Path | None,
    plan: Path | None, to: Path | None, python: str, config_file: str, as_json: bool, quiet: bool,
) -> int:  # fmt: skip
    """Find which operator of MODEL runs fastest on which device and compute library, and deploy that.

    MODEL is what `perfgate count` takes. Its operators are timed on every library that takes them, placements are
    searched, and the best are deployed and measured against the best single library; a plan is recommended only where
    it is certainly faster. --out writes it, --apply with --to deploys it as a folder. Exit code 1: no placement keeps
    the limits; 2: wrong arguments or configuration; 3: the model cannot be built, run or measured.
    """
    from perfgate.pipeline import place_command
    from perfgate.pipeline.count import CountRequest
    from perfgate.pipeline.request import Ports

    searching = {
        "--devices": devices, "--libraries": libraries, "--threads": threads, "--objective": objective,
        "--max-step-time": max_step_time, "--memory": memory, "--budget": budget,
    }  # fmt: skip
    _check(entry, out, plan, to, searching)
    request = place_command.CommandRequest(
        count=CountRequest(
            root=options.here(),
            entry=entry,
            inputs=inputs,
            mode="infer",
            batch=batch,
            dtype=options.read_dtype(dtype),
            python=python,
            fallback_python=options.own_python(os.environ),
            config_file=config_file,
        ),
        devices=tuple(_each("--devices", devices, values.read_place)),
        libraries=tuple(_each("--libraries", libraries, values.read_library)),
        threads=_threads(threads),
        objective=objective or "",
        latency_s=_seconds("--max-step-time", max_step_time),
        budget_s=_seconds("--budget", budget),
        memory=_memory(memory),
        seed=seed,
    )
    console = Console(stderr=True)
    if plan is not None and to is not None:
        with shown(console, quiet=quiet) as progress:
            built = place_command.deployed(
                request, place_command.read(plan), to, Ports(progress=progress, environ=os.environ)
            )
        return _told(built, to, as_json=as_json)
    if out is not None:
        place_command.check_out(out)
    with shown(console, quiet=quiet) as progress:
        found = place_command.placed(request, Ports(progress=progress, environ=os.environ))
    return _found(found, out, as_json=as_json)


def _found(found: Placed, out: Path | None, *, as_json: bool) -> int:
    from perfgate.cli import placement_text
    from perfgate.pipeline import place_command

    if out is not None and found.advised is not None:
        place_command.save(found.advised, out)
    if as_json:
        click.echo(json.dumps(placement_text.tree(found)))
    else:
        placement_text.show(verdict.console(), found, out)
    return EXIT_REGRESSION if found.plan is None else EXIT_PASS


def _told(built: Built, to: Path, *, as_json: bool) -> int:
    from dataclasses import asdict

    if as_json:
        click.echo(json.dumps(asdict(built)))
        return EXIT_PASS
    console = verdict.console()
    difference = "not compared" if built.plan.difference is None else f"{built.plan.difference:.1e}"
    count = len(built.plan.pieces)
    say(console, f"{built.plan.model}: deployed to {to} in {count} piece{'s' * (count != 1)}")
    say(console, f"Largest difference from the reference {difference}, allowed {built.plan.tolerance:.0e}")
    if built.step_s is not None:
        say(console, f"About {units.duration(built.step_s * _NS)} a step here")
    say(console, f"Import placed from {to} and call placed.load(); python {to}/placed.py --check compares again")
    return EXIT_PASS


def _check(entry: str, out: Path | None, plan: Path | None, to: Path | None, search: Mapping[str, object]) -> None:
    if plan is None and to is not None:
        msg = "--to is where --apply deploys to; write --apply plan.json too, or --out for the plan of a search"
        raise UsageError(msg)
    if plan is not None and to is None:
        msg = "--apply needs --to DIR, the folder for the deployed model"
        raise UsageError(msg)
    if plan is not None and out is not None:
        msg = "--out writes the plan of a search, and --apply does not search; leave one of them out"
        raise UsageError(msg)
    if plan is not None and (given := [name for name, value in search.items() if value]):
        msg = f"{given[0]} is for a search, and --apply does not search; leave it out: the plan says what runs where"
        raise UsageError(msg)
    if plan is None and not entry:
        msg = "MODEL is missing: module:callable, an .onnx file, or a model of perfgate.toml"
        raise UsageError(msg)


def _each(option: str, text: str, reader: Callable[[object], str]) -> list[str]:
    found = []
    for item in requirements.listed(text):
        try:
            found.append(reader(item))
        except ValueError as error:
            msg = f"{option}: {error}"
            raise UsageError(msg) from None
    return list(dict.fromkeys(found))


def _threads(text: str) -> tuple[int, ...]:
    found = tuple(requirements.numbers("--threads", text or None) or ())
    if any(not 1 <= count <= _MOST_THREADS for count in found):
        msg = f"--threads {text}: write numbers from 1 to {_MOST_THREADS}, as 1,2"
        raise UsageError(msg)
    return tuple(dict.fromkeys(found))


def _seconds(option: str, text: str) -> float | None:
    if not text:
        return None
    try:
        return values.read_duration_ns(text) / _NS
    except ValueError as error:
        msg = f"{option}: {error}"
        raise UsageError(msg) from None


def _memory(texts: tuple[str, ...]) -> dict[str, int]:
    found = {}
    for text in texts:
        name, _, size = text.rpartition("=")
        try:
            found[values.read_place(name)] = round(values.read_bytes(size))
        except ValueError as error:
            msg = f"--memory {text}: {error}; write it as in cuda:0=4GiB"
            raise UsageError(msg) from None
    return found
