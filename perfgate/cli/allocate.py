"""``perfgate allocate``: the smallest or cheapest machine for one job, in the words of what starts it."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console

from perfgate import units
from perfgate.cli import allocation_text, options, requirements, verdict
from perfgate.cli.progress import shown
from perfgate.cli.remarks import way_tree
from perfgate.cli.text import plain
from perfgate.config import cost_values, values
from perfgate.errors import EXIT_PASS, EXIT_REGRESSION

if TYPE_CHECKING:
    from perfgate.pipeline.allocate import Allocated

TABLE, JSON = "table", "json"
FORMS = (TABLE, JSON, "runs-on", "kubernetes", "slurm", "skypilot")
# What a job of its own says here, or what plays no part.
_NOT_HERE = ("deadline", "job-items", "volume", "objectives", "max-usd-per-month")


@click.command("allocate")
@requirements.model_options
@click.option("--dataset-items", type=float, default=None, metavar="N", help="Items of the data set.")
@click.option("--epochs", type=float, default=None, metavar="N", help="Passes over --dataset-items.  [default: 1]")
@click.option("--items", type=float, default=None, metavar="N", help="Items of the whole job, in place of both.")
@click.option("--serve", type=float, default=None, metavar="RATE", help="Items (requests) a second, without end.")
@click.option("--deadline", default="", metavar="TIME", help="By when the job has to be done, as 36h or '14 days'.")
@click.option("--budget", type=float, default=None, metavar="USD", help="The most that the whole job may cost.")
@click.option(
    "--start-up", default="5min", show_default=True, metavar="TIME", help="Until the machine works; counts and is paid."
)
@click.option(
    "--confidence", default="90%", show_default=True, metavar="SHARE",
    help="Of the interval whose upper end has to meet all limits.",
)  # fmt: skip
@click.option(
    "--cheapest/--smallest", "cheapest", default=True, show_default="--cheapest",
    help="Least money, or least memory, then least peak rate, then least price an hour.",
)  # fmt: skip
@click.option("--memory", default="", metavar="SIZE", help="What a step was measured to hold, as 14GiB.  [modelled]")
@requirements.requirement_options(without=_NOT_HERE)
@click.option("--max-usd-per-month", type=float, default=None, metavar="USD", help="The most that 730 hours may cost.")
@requirements.COUNTS
@requirements.surroundings_options
@click.option("--format", "form", type=click.Choice(FORMS), default=TABLE, show_default=True, help="What to print.")
@click.option("--top", type=click.IntRange(0), default=5, show_default=True, help="Other machines to list.")
@options.JSON
@options.QUIET
def command(
    dataset_items: float | None, epochs: float | None, items: float | None, serve: float | None, deadline: str,
    budget: float | None, start_up: str, confidence: str, cheapest: bool, memory: str, form: str, top: int,
    as_json: bool, quiet: bool, **asked: Any,
) -> int:  # fmt: skip
    """Find the smallest or cheapest machine that does a job within its limits, and ask for it.

    MODEL is what `perfgate count` takes. The job is --items, or --epochs over --dataset-items, by --deadline and within
    --budget; or --serve so many items a second. Limits hold at the upper end of the interval at --confidence. --format
    prints labels for runs-on, a pod's resources, options for sbatch, or a SkyPilot task. The result goes to standard
    output (no --out). Exit code 1: no machine does it, and the nearest miss is shown; 2: wrong arguments or
    configuration; 3: the model cannot be built or run.
    """
    from perfgate.pipeline.allocate import AllocateRequest, allocate
    from perfgate.pipeline.request import Ports
    from perfgate.records.allocation import CHEAPEST, SMALLEST
    from perfgate.records.estimate import Job

    job = Job(
        items=requirements.read("--items", cost_values.read_amount, items),
        dataset_items=requirements.read("--dataset-items", cost_values.read_amount, dataset_items),
        epochs=requirements.read("--epochs", cost_values.read_amount, epochs),
        items_per_s=requirements.read("--serve", cost_values.read_rate, serve),
        deadline_s=requirements.read("--deadline", cost_values.read_deadline_s, deadline),
        budget_usd=requirements.read("--budget", cost_values.read_usd, budget),
        confidence=requirements.read("--confidence", _confidence, confidence) or 0.0,
        start_up_s=requirements.read("--start-up", _start_up_s, start_up) or 0.0,
    )
    peak = requirements.read("--memory", cost_values.read_memory, memory)
    request = AllocateRequest(
        what=requirements.cost_request(**asked),
        job=job,
        choice=CHEAPEST if cheapest else SMALLEST,
        peak_bytes=None if peak is None else round(peak),
    )
    with shown(Console(stderr=True), quiet=quiet) as progress:
        found = allocate(request, Ports(progress=progress, environ=os.environ))
    _print(found, JSON if as_json else form, top)
    return EXIT_PASS if found.allocation.chosen is not None else EXIT_REGRESSION


def _print(found: Allocated, form: str, top: int) -> None:
    if form == JSON:
        click.echo(json.dumps(_tree(found)))
    elif form == TABLE:
        allocation_text.show(verdict.console(), found, top)
    elif found.allocation.chosen is None:
        # A scheduler that is given nothing must not be given something else.
        for line in allocation_text.miss(found):
            click.echo(plain(f"perfgate: {line}"), err=True)
    else:
        from perfgate.cost.emit import emit

        click.echo(emit(found.allocation, form, name=allocation_text.short_name(found.model)), nl=False)


def _tree(found: Allocated) -> dict[str, Any]:
    return {
        "model": found.model,
        "requirements": asdict(found.requirements),
        "ways": [way_tree(way) for way in found.ways],
        **asdict(found.allocation),
    }


def _start_up_s(given: object) -> float:
    """A start-up may take no time at all; everything else is a time of a job."""
    text = str(given)
    return 0.0 if units.parse_duration_ns(text) == 0 else cost_values.read_deadline_s(text)


def _confidence(given: object) -> float:
    found = values.read_share(given)
    if not 0 < found < 1:
        msg = f"{given}: write a share above 0 and below 100 %, as in 90%"
        raise ValueError(msg)
    return found
