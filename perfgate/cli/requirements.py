"""Options of commands that look for hardware: the model, keys of ``[cost]``, prices; and the request that they make."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, Any

import click

from perfgate.cli import options
from perfgate.cli.options import Command
from perfgate.config import values
from perfgate.errors import UsageError

if TYPE_CHECKING:
    from perfgate.pipeline.cost_search import CostRequest
    from perfgate.records.fleet import Load

_LONGEST = 60

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

COUNTS = click.option("--counts", default=None, metavar="NUMBERS", help="Devices in one machine, as 1,8; or all.")


def model_options(command: Command) -> Command:
    """MODEL, --inputs, --mode, --batch, --dtype, --compile."""
    for option in (
        click.option("--compile", "compiled", is_flag=True,
                     help="Consider torch.compile (fused kernels) beside eager."),
        click.option("--dtype", "dtypes", default="", metavar="DTYPES",
                     help="Dtypes to choose from, as float32,amp-bfloat16."),
        click.option("--batch", "batches", default="", metavar="SIZES", help="Batch sizes to choose from, as 1,8,32."),
        click.option("--mode", type=click.Choice(["infer", "train", "step"]), default=None,
                     help="What one step is.  [default: infer]"),
        click.option("--inputs", multiple=True, metavar="SPEC",
                     help="Input, as of `perfgate count`; may be repeated."),
        click.argument("entry", metavar="MODEL"),
    ):  # fmt: skip
        command = option(command)
    return command


def surroundings_options(command: Command) -> Command:
    """--prices, --python, --config."""
    python = click.option("--python", default="", metavar="PATH", help="Interpreter that builds the model.")
    return options.PRICES(python(options.WORKING_CONFIG(command)))


def requirement_options(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Decorates a command with an option for every key of ``[cost]`` but those named in ``without``."""

    def decorate(command: Command) -> Command:
        for table, kind in ((_LISTS, str), (_NUMBERS, float), (_TEXTS, str)):
            for name, (metavar, text) in reversed(table.items()):
                if name not in without:
                    command = click.option(f"--{name}", type=kind, default=None, metavar=metavar, help=text)(command)
        return command

    return decorate


def cost_request(
    *,
    entry: str,
    inputs: tuple[str, ...],
    mode: str | None,
    batches: str,
    dtypes: str,
    compiled: bool,
    counts: str | None,
    prices: str | None,
    python: str,
    config_file: str,
    load: Load | None = None,
    **required: Any,
) -> CostRequest:
    """The request of all options above; ``required``: those of :func:`requirement_options`. Raises UsageError."""
    from perfgate.pipeline.cost_search import CostRequest
    from perfgate.pipeline.count import CountRequest

    return CostRequest(
        count=CountRequest(
            root=options.here(),
            entry=entry,
            inputs=inputs,
            mode=mode or "",
            python=python,
            fallback_python=options.own_python(os.environ),
            config_file=config_file,
        ),
        given=_given({**required, "counts": counts if counts == "all" else numbers("--counts", counts)}),
        batches=tuple(numbers("--batch", batches or None) or ()),
        dtypes=tuple(options.read_dtype(text) for text in listed(dtypes)),
        compiles=("eager", "default") if compiled else ("eager",),
        private=options.read_prices(prices, os.environ),
        load=load,
    )


def read(option: str, reader: Callable[[object], float], given: object) -> float | None:
    """What was given, by the reader of such values in the configuration; None: nothing was. Raises UsageError."""
    if given is None or given == "":
        return None
    try:
        return reader(given)
    except ValueError as error:
        msg = f"{option} {error}"
        raise UsageError(msg) from None


def _given(required: Mapping[str, Any]) -> dict[str, object]:
    """Options as the keys of [cost]; what was not given is left out."""
    found = {}
    for name, value in required.items():
        if value is not None:
            several = name.replace("_", "-") in _LISTS and value != "all"
            found[name] = listed(value) if several else value
    return found


def listed(text: str) -> list[str]:
    """The parts of ``a, b``."""
    return [part.strip() for part in text.split(",") if part.strip()]


def numbers(option: str, text: str | None) -> list[int] | None:
    """The numbers of ``1,8,32``, each once; None stays None. Raises UsageError."""
    if text is None:
        return None
    try:
        return list(dict.fromkeys(values.read_batch(int(part)) for part in listed(text)))
    except ValueError:
        shown = text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."
        msg = f"{option} {shown}: write whole numbers from 1 to {2**31 - 1} with commas, as in 1,8,32"
        raise UsageError(msg) from None
