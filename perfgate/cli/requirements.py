"""Options of commands that look for hardware: keys of ``[cost]`` from the command line, and how they are read."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import Any

import click

from perfgate.cli.options import Command
from perfgate.config import values
from perfgate.errors import UsageError

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


def requirement_options(*, without: Collection[str] = ()) -> Callable[[Command], Command]:
    """Decorates a command with an option for every key of ``[cost]`` but those named in ``without``."""

    def decorate(command: Command) -> Command:
        for table, kind in ((_LISTS, str), (_NUMBERS, float), (_TEXTS, str)):
            for name, (metavar, text) in reversed(table.items()):
                if name not in without:
                    command = click.option(f"--{name}", type=kind, default=None, metavar=metavar, help=text)(command)
        return command

    return decorate


def given(required: Mapping[str, Any]) -> dict[str, object]:
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


def counts(text: str | None) -> list[int] | str | None:
    """Devices in one machine, of ``1,8``; ``all`` stays as it is. Raises UsageError."""
    return text if text == "all" else numbers("--counts", text)


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
