"""``perfgate cost``: the cheapest hardware that runs one model within its limits; nothing is timed."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli import options, requirements, verdict
from perfgate.cli.progress import shown
from perfgate.cli.remarks import remarks, way_tree
from perfgate.cli.text import plain, say
from perfgate.config import cost_values
from perfgate.errors import EXIT_PASS, EXIT_REGRESSION, UsageError
from perfgate.records.hardware import SPOT

if TYPE_CHECKING:
    from perfgate.pipeline.cost_search import Found
    from perfgate.records.cost import Answer
    from perfgate.records.fleet import FleetPlan, Load

# More machines than that are none that anybody has.
_DIGITS = 9
_LONGEST = 120


@click.command("cost")
@requirements.model_options
@requirements.requirement_options()
@requirements.COUNTS
@click.option("--serve", type=float, default=None, metavar="RATE", help="Also plan a fleet for so many items a second.")
@click.option("--fleet", is_flag=True, help="Also plan a fleet that does --job-items by --deadline.")
@click.option("--spares", type=click.IntRange(0), default=0, help="Machines of the fleet that may fail at once.")
@click.option(
    "--egress", default="", metavar="SIZE", help="What leaves the provider's network for each item, as 20KiB."
)
@click.option("--minimum", multiple=True, metavar="OFFER=N", help="Least machines of an offer in the fleet.")
@click.option("--maximum", multiple=True, metavar="OFFER=N", help="Most machines of an offer, as own/rack=4.")
@requirements.surroundings_options
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Configurations to list.")
@options.JSON
@options.QUIET
def command(
    serve: float | None, fleet: bool, spares: int, egress: str, minimum: tuple[str, ...], maximum: tuple[str, ...],
    top: int, as_json: bool, quiet: bool, **asked: Any,
) -> int:  # fmt: skip
    """Find the cheapest hardware that runs MODEL within limits, and all Pareto-optimal choices.

    MODEL is what `perfgate count` takes: module:callable with --inputs, an .onnx file, or a model of perfgate.toml. It
    is counted on this machine; times elsewhere come from the calibrated roofline, prices from dated tables and from
    [cost] in perfgate.toml. The result goes to standard output (no --out). Exit code 1: nothing meets the limits; 2:
    wrong arguments or configuration; 3: the model cannot be built or run.
    """
    from perfgate.pipeline.cost_search import search
    from perfgate.pipeline.request import Ports

    load = _load(serve, spares, egress, _machines("--minimum", minimum), _machines("--maximum", maximum), fleet=fleet)
    request = requirements.cost_request(**asked, load=load)
    with shown(Console(stderr=True), quiet=quiet) as progress:
        found = search(request, Ports(progress=progress, environ=os.environ))
    if as_json:
        click.echo(json.dumps(_tree(found)))
    else:
        _show(found, top)
    return EXIT_PASS if found.answer.cheapest is not None else EXIT_REGRESSION


def _machines(option: str, texts: tuple[str, ...]) -> dict[str, int]:
    """Offer -> number of machines."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not (number.isascii() and number.isdecimal() and len(number) <= _DIGITS):
            msg = f"{option} {text[:_LONGEST]}: write an offer and a whole number, as in own/rack=4"
            raise UsageError(msg)
        found[name] = int(number)
    return found


def _load(
    serve: float | None, spares: int, egress: str, minimum: dict[str, int], maximum: dict[str, int], *, fleet: bool
) -> Load | None:
    """What a fleet must serve; that of a job is in the requirements."""
    from perfgate.records.fleet import Load

    if serve is None and not fleet:
        if spares or egress or minimum or maximum:
            msg = "--spares, --egress, --minimum and --maximum are about a fleet: give its load with --serve or --fleet"
            raise UsageError(msg)
        return None
    if serve is not None and fleet:
        msg = "--serve is a load without end and --fleet does a job by its deadline; leave one of them out"
        raise UsageError(msg)
    rate = requirements.read("--serve", cost_values.read_rate, serve)
    leaving = requirements.read("--egress", _egress, egress) or 0.0
    return Load(items_per_s=rate, spares=spares, egress_bytes_per_item=leaving, minimum=minimum, maximum=maximum)


def _egress(given: object) -> float:
    """Nothing at all may leave; everything else is a size."""
    text = str(given)
    return 0.0 if units.parse_bytes(text) == 0 else cost_values.read_memory(text)


def _tree(found: Found) -> dict[str, Any]:
    return {
        "model": found.model,
        "requirements": asdict(found.requirements),
        "volume": None if found.volume is None else asdict(found.volume),
        "usd_per_month": found.usd_per_month,
        "ways": [way_tree(way) for way in found.ways],
        **asdict(found.answer),
        "plan": None if found.plan is None else asdict(found.plan),
    }


def _show(found: Found, top: int) -> None:
    from perfgate.report import costs

    console = verdict.console()
    answer = found.answer
    limits = ", ".join(costs.limits(found.requirements))
    within = f" that meets {limits}" if limits else ""
    if answer.cheapest is not None:
        best = answer.cheapest
        price = (
            f"{units.money(best.usd_per_1m_items)} per 1 M items, {units.money(best.usd_per_1k_steps)} per 1 000 steps"
        )
        say(console, f"{found.model}: cheapest{within}: {costs.named(best)}, {price}")
        say(console, f"{units.duration(best.step_ns)} a step ({costs.interval(best)}), {best.why}")
        if found.volume is not None:
            amount = f"{units.decimal(found.volume.amount, '')} {found.volume.unit}"
            say(console, f"{units.money(found.usd_per_month)} a month for {amount}")
    else:
        say(console, f"{found.model}: nothing{within or ' is feasible'}")
        for missed in answer.missed:
            say(console, f"Nearest miss: {missed.text}")
        if answer.nearest is not None:
            say(console, f"Nearest: {costs.named(answer.nearest)}")
    if answer.front:
        console.print(_front(answer, top))
    if len(answer.front) > top:
        say(console, f"… {len(answer.front) - top} more on the front; --top shows more, --json all")
    if found.plan is not None:
        _plan(console, found.plan)
    remarks(console, answer)


def _front(answer: Answer, top: int) -> Table:
    from perfgate.report import costs

    table = Table(box=None, pad_edge=False, title="Pareto front, the cheapest first", title_justify="left")
    table.add_column("")
    table.add_column("platform", overflow="fold")
    table.add_column("machine", overflow="fold")
    for name in ("price", "run as", "step", "memory", "use", "$/1 M items"):
        table.add_column(name, justify="left" if name == "run as" else "right")
    table.add_column("why", overflow="fold")
    for row in costs.rows(answer)[:top]:
        run = " ".join((row.batch, row.dtype, *([row.compile] if row.compile != "eager" else []), row.form))
        # What may be taken away at any time is not what one reads over.
        price = f"{row.price} {row.terms}" if row.terms == SPOT else row.price
        cells = (
            ", ".join(row.marks), row.platform, f"{row.machine} {row.region}", price, run, row.step,
            row.memory.partition(" of ")[0], row.utilisation, row.per_1m_items, row.why,
        )  # fmt: skip
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def _plan(console: Console, plan: FleetPlan) -> None:
    from perfgate.report import costs

    table = Table(box=None, pad_edge=False, title="Fleet", title_justify="left")
    table.add_column("machines", justify="right")
    table.add_column("machine", overflow="fold")
    table.add_column("items/s", justify="right")
    table.add_column("price", justify="right")
    for row in costs.fleet_rows(plan):
        cells = (row.machines, f"{row.platform} ({row.machine} {row.region})", row.throughput, row.price)
        table.add_row(*(Text(plain(cell)) for cell in cells))
    console.print(table)
    for line in costs.fleet_lines(plan):
        say(console, f"{line.label}: {line.text}")
