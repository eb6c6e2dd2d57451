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
from perfgate.cli import options, verdict
from perfgate.cli.progress import shown
from perfgate.cli.text import plain
from perfgate.config import values
from perfgate.errors import EXIT_PASS, EXIT_REGRESSION, UsageError
from perfgate.pipeline.request import CONFIG_FILE

if TYPE_CHECKING:
    from perfgate.pipeline.cost_search import Found
    from perfgate.records.cost import Answer, FleetPlan, Load

# Reasons for leaving something out that are printed.
_SHOWN = 6

# Options that are keys of [cost]: of each its metavar and help. Lists are written with commas.
_TEXTS = {
    "max-step-time": ("TIME", "Limit of one step, as 20ms."),
    "percentile": ("P", "Percentile that the limit is about: p50, p90 or p99.  [default: p50]"),
    "memory-headroom": ("SHARE", "Share of a device's memory that stays free.  [default: 10%]"),
    "min-utilisation": ("SHARE", "Least share of the peak rate that is used."),
    "deadline": ("TIME", "By when --job-items have to be done."),
    "volume": ("VOLUME", "How much is run, as '40M steps/month' or '2e6 items/day'."),
}
_NUMBERS = {
    "min-throughput": ("N", "Least items a second of a machine."),
    "max-usd-per-hour": ("USD", "The most that a machine may cost an hour."),
    "max-usd-per-month": ("USD", "The most that a month may cost at --volume."),
    "job-items": ("N", "Items of a job that ends by --deadline."),
}
_LISTS = {
    "devices": ("NAMES", "Platforms, as l4,a10g,h100-sxm; or all.  [default: all]"),
    "providers": ("NAMES", "Providers, as aws,gcp; own for machines of yours."),
    "regions": ("NAMES", "Regions, as us-east-1."),
    "terms": ("TERMS", "on-demand, spot, own; or all.  [default: on-demand,own]"),
    "unavailable": ("OFFERS", "Offers that cannot be had, as aws/p5.48xlarge or aws."),
    "forms": ("FORMS", "single, data, tensor, pipeline.  [default: all]"),
    "objectives": (
        "NAMES",
        "Optimised together: cost, utilisation, time, energy.  [default: cost,utilisation]",
    ),
}


def _requirement_options(command: Any) -> Any:
    for table, kind in ((_LISTS, str), (_NUMBERS, float), (_TEXTS, str)):
        for name, (metavar, text) in reversed(table.items()):
            command = click.option(f"--{name}", type=kind, default=None, metavar=metavar, help=text)(command)
    return command


@click.command("cost")
@click.argument("entry", metavar="MODEL")
@click.option("--inputs", multiple=True, metavar="SPEC", help="Input, as of `perfgate count`; may be repeated.")
@click.option(
    "--mode", type=click.Choice(["infer", "train", "step"]), default=None, help="What one step is.  [default: infer]"
)
@click.option("--batch", "batches", default="", metavar="SIZES", help="Batch sizes to choose from, as 1,8,32.")
@click.option("--dtype", "dtypes", default="", metavar="DTYPES", help="Dtypes to choose from, as float32,amp-bfloat16.")
@click.option("--compile", "compiled", is_flag=True, help="Consider torch.compile (fused kernels) beside eager.")
@_requirement_options
@click.option("--counts", default=None, metavar="NUMBERS", help="Devices in one machine, as 1,8.")
@click.option("--serve", type=float, default=None, metavar="RATE", help="Also plan a fleet for so many items a second.")
@click.option("--fleet", is_flag=True, help="Also plan a fleet that does --job-items by --deadline.")
@click.option("--spares", type=click.IntRange(0), default=0, help="Machines of the fleet that may fail at once.")
@click.option(
    "--egress", default="", metavar="SIZE", help="What leaves the provider's network for each item, as 20KiB."
)
@click.option("--minimum", multiple=True, metavar="OFFER=N", help="Least machines of an offer in the fleet.")
@click.option("--maximum", multiple=True, metavar="OFFER=N", help="Most machines of an offer, as own/rack=4.")
@options.PRICES
@click.option("--python", default="", metavar="PATH", help="Interpreter that builds the model.")
@click.option(
    "--config",
    "config_file",
    default=CONFIG_FILE,
    show_default=True,
    metavar="FILE",
    help="Configuration in the working tree.",
)
@click.option("--top", type=click.IntRange(1), default=20, show_default=True, help="Configurations to list.")
@options.JSON
@options.QUIET
def command(
    entry: str, inputs: tuple[str, ...], mode: str | None, batches: str, dtypes: str, compiled: bool,
    counts: str | None, serve: float | None, fleet: bool, spares: int, egress: str, minimum: tuple[str, ...],
    maximum: tuple[str, ...], prices: str | None, python: str, config_file: str, top: int, as_json: bool, quiet: bool,
    **required: Any,
) -> int:  # fmt: skip
    """Find the cheapest hardware that runs MODEL within limits, and all Pareto-optimal choices.

    MODEL is what `perfgate count` takes: module:callable with --inputs, an .onnx file, or a model of perfgate.toml. It
    is counted on this machine; times elsewhere come from the calibrated roofline, prices from dated tables and from
    [cost] in perfgate.toml. The result goes to standard output (no --out). Exit code 1: nothing meets the limits; 2:
    wrong arguments or configuration; 3: the model cannot be built or run.
    """
    from perfgate.pipeline.cost_search import CostRequest, search
    from perfgate.pipeline.count import CountRequest
    from perfgate.pipeline.request import Ports

    request = CostRequest(
        count=CountRequest(
            root=options.here(),
            entry=entry,
            inputs=inputs,
            mode=mode or "",
            python=python,
            fallback_python=options.own_python(os.environ),
            config_file=config_file,
        ),
        given=_given({**required, "counts": _numbers("--counts", counts)}),
        batches=tuple(_numbers("--batch", batches or None) or ()),
        dtypes=tuple(options.read_dtype(text) for text in _list(dtypes)),
        compiles=("eager", "default") if compiled else ("eager",),
        private=options.read_prices(prices, os.environ),
        load=_load(
            serve, spares, egress, _machines("--minimum", minimum), _machines("--maximum", maximum), fleet=fleet
        ),
    )
    with shown(Console(stderr=True), quiet=quiet) as progress:
        found = search(request, Ports(progress=progress, environ=os.environ))
    if as_json:
        click.echo(json.dumps(_tree(found)))
    else:
        _show(found, top)
    return EXIT_PASS if found.answer.cheapest is not None else EXIT_REGRESSION


def _given(required: dict[str, Any]) -> dict[str, object]:
    """Options as the keys of [cost]; what was not given is left out."""
    given = {}
    for name, value in required.items():
        if value is not None:
            listed = name.replace("_", "-") in _LISTS and value != "all"
            given[name] = _list(value) if listed else value
    return given


def _list(text: str) -> list[str]:
    return [part.strip() for part in text.split(",") if part.strip()]


def _numbers(option: str, text: str | None) -> list[int] | None:
    if text is None:
        return None
    try:
        return [values.read_batch(int(part)) for part in _list(text)]
    except ValueError:
        msg = f"{option} {text}: write whole numbers of at least 1 with commas, as in 1,8,32"
        raise UsageError(msg) from None


def _machines(option: str, texts: tuple[str, ...]) -> dict[str, int]:
    """Offer -> number of machines."""
    found = {}
    for text in texts:
        name, _, number = text.rpartition("=")
        if not name or not number.isdecimal():
            msg = f"{option} {text}: write an offer and a whole number, as in own/rack=4"
            raise UsageError(msg)
        found[name] = int(number)
    return found


def _load(
    serve: float | None, spares: int, egress: str, minimum: dict[str, int], maximum: dict[str, int], *, fleet: bool
) -> Load | None:
    """What a fleet must serve; that of a job is in the requirements."""
    from perfgate.records.cost import Load

    if serve is None and not fleet:
        if spares or egress or minimum or maximum:
            msg = "--spares, --egress, --minimum and --maximum are about a fleet: give its load with --serve or --fleet"
            raise UsageError(msg)
        return None
    if serve is not None and fleet:
        msg = "--serve is a load without end and --fleet does a job by its deadline; leave one of them out"
        raise UsageError(msg)
    try:
        leaving = units.parse_bytes(egress) if egress else 0.0
    except ValueError as error:
        msg = f"--egress {error}"
        raise UsageError(msg) from None
    return Load(items_per_s=serve, spares=spares, egress_bytes_per_item=leaving, minimum=minimum, maximum=maximum)


def _tree(found: Found) -> dict[str, Any]:
    return {
        "model": found.model,
        "requirements": asdict(found.requirements),
        "volume": None if found.volume is None else asdict(found.volume),
        "ways": [
            {
                "mode": way.mode, "batch": way.batch, "dtype": way.dtype, "compile": way.compile, "items": way.items,
                "flop": way.totals.flop, "traffic_bytes": asdict(way.totals.traffic),
                "weight_bytes": way.totals.weight_bytes, "kernels": way.totals.kernels,
            }
            for way in found.ways
        ],
        **asdict(found.answer),
        "plan": None if found.plan is None else asdict(found.plan),
    }  # fmt: skip


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
        _say(console, f"{found.model}: cheapest{within}: {costs.named(best)}, {price}")
        _say(console, f"{units.duration(best.step_ns)} a step ({costs.interval(best)}), {best.why}")
    else:
        _say(console, f"{found.model}: nothing{within or ' is feasible'}")
        for missed in answer.missed:
            _say(console, f"Nearest miss: {missed.text}")
        if answer.nearest is not None:
            _say(console, f"Nearest: {costs.named(answer.nearest)}")
    if answer.front:
        console.print(_front(answer, top))
    if len(answer.front) > top:
        _say(console, f"… {len(answer.front) - top} more on the front; --top shows more, --json all")
    if found.plan is not None:
        _plan(console, found.plan)
    _remarks(console, answer)


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
        cells = (
            ", ".join(row.marks), row.platform, f"{row.machine} {row.region}", row.price, run, row.step,
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
        _say(console, f"{line.label}: {line.text}")


def _remarks(console: Console, answer: Answer) -> None:
    _say(console, f"{answer.feasible:,} of {answer.candidates:,} configurations are feasible".replace(",", "\u202f"))
    # What the limits did stands at the end; what is wrong with prices is many lines and the same for every model.
    for item in answer.excluded[-_SHOWN:]:
        _say(console, f"Left out: {item.what}: {item.reason}", style="dim")
    if len(answer.excluded) > _SHOWN:
        _say(console, f"Left out: {len(answer.excluded) - _SHOWN} more kinds, which --json lists", style="dim")
    for warning in answer.warnings:
        _say(console, f"Note: {warning}")
    dates = sorted(table.date for table in answer.tables if table.date)
    if dates:
        offers = f"{sum(table.offers for table in answer.tables):,}".replace(",", "\u202f")
        _say(console, f"Prices: {offers} offers from lists of {dates[0]} to {dates[-1]}", style="dim")


def _say(console: Console, text: str, style: str = "") -> None:
    """Names come from the model and the user's configuration: brackets in them are no markup."""
    console.print(Text(plain(text)), highlight=False, style=style)
