"""An allocation for people: the machine, what the job takes on it, and which others would do."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.console import Console
from rich.table import Table
from rich.text import Text

from perfgate import units
from perfgate.cli.remarks import remarks
from perfgate.cli.text import plain, say
from perfgate.records.allocation import SMALLEST

if TYPE_CHECKING:
    from perfgate.pipeline.allocate import Allocated
    from perfgate.records.allocation import Assignment
    from perfgate.records.estimate import Job


def show(console: Console, found: Allocated, top: int) -> None:
    """Prints the table form."""
    allocation = found.allocation
    if allocation.chosen is None:
        for line in miss(found):
            say(console, line)
    else:
        for line in _chosen(found, allocation.chosen):
            say(console, line)
        if top and allocation.alternatives:
            console.print(_table(allocation.alternatives[:top]))
        if any(other.point.tie for other in allocation.alternatives):
            say(console, "≈: may be as cheap: the data cannot tell", style="dim")
    remarks(console, allocation)


def miss(found: Allocated) -> Iterator[str]:
    """Why no machine does it, what comes nearest, and what might do it."""
    from perfgate.report import costs

    allocation = found.allocation
    yield f"{found.model}: no machine {_within(found)}"
    for missed in allocation.missed:
        yield f"Nearest miss: {missed.text}"
    if allocation.nearest is not None:
        yield f"Nearest: {costs.named(allocation.nearest.point)}, run as {_run(allocation.nearest)}"
    if allocation.several and (command := _fleet(found)):
        loss = ", but what machines lose that train together is not modelled" if _trains(found) else ""
        yield f"Several machines together may do it{loss}: {command}"


def short_name(model: str) -> str:
    """``resnet50`` of ``torchvision.models:resnet50``."""
    return model.rpartition(":")[2].rpartition("/")[2].removesuffix(".onnx")


def _chosen(found: Allocated, best: Assignment) -> Iterator[str]:
    from perfgate.report import costs

    job, point = found.allocation.job, best.point
    word = "smallest" if found.allocation.choice == SMALLEST else "cheapest"
    yield f"{found.model}: {word} machine {_within(found)}: {costs.named(point)}"
    if best.usd is not None and best.slow_usd is not None and best.job_s is not None and best.slow_job_s is not None:
        yield (
            f"Whole job: {units.money(best.usd)} (up to {units.money(best.slow_usd)}), {_time(best.job_s)} "
            f"(up to {_time(best.slow_job_s)}) with {units.wall_clock(job.start_up_s)} of start-up"
        )
    interval = f", {costs.interval(point)} at {units.share(job.confidence)}" if costs.interval(point) else ""
    yield f"Run as {_run(best)}: {units.duration(point.step_ns)} a step{interval}, {point.why}"
    free = f" of {units.size(point.free_bytes)}" if point.free_bytes is not None else ""
    yield (
        f"{units.rate(point.items_per_s)} (at least {units.rate(best.slow_items_per_s)}), "
        f"{units.size(point.memory_bytes)}{free} a device, {units.size(best.host_bytes)} of main memory"
    )


def _within(found: Allocated) -> str:
    """``for 1 M items within 24 h, $50 in all, that meets 20 ms``, at its confidence."""
    from perfgate.cost.jobs import amount
    from perfgate.report import costs

    job = found.allocation.job
    items = amount(job)
    parts = []
    if items is not None:
        passes = "" if job.epochs is None else f" ({job.epochs:g} epochs)"
        parts.append(f"{units.decimal(items, '').strip()} items{passes}")
    if job.items_per_s is not None:
        parts.append(units.rate(job.items_per_s))
    if job.deadline_s is not None:
        parts.append(f"within {units.wall_clock(job.deadline_s)}")
    if job.budget_usd is not None:
        parts.append(f"for {units.money(job.budget_usd)}")
    limits = costs.listed(costs.limits(found.requirements))
    if limits:
        parts.append(f"meeting {limits}")
    text = " ".join(parts)
    start = f"for {text} " if items is not None or job.items_per_s is not None else f"{text} " if text else ""
    return f"{start}at {units.share(job.confidence)} confidence"


def _trains(found: Allocated) -> bool:
    return any(way.mode != "infer" for way in found.ways)


def _run(one: Assignment) -> str:
    point = one.point
    compiled = [point.compile] if point.compile != "eager" else []
    return " ".join((f"b{point.batch}", point.dtype, *compiled, point.form))


def _time(seconds: float) -> str:
    return units.wall_clock(seconds) if seconds >= 1 else units.duration(seconds * 1e9)


def _table(others: tuple[Assignment, ...]) -> Table:
    from perfgate.report import costs

    ends = others[0].usd is not None
    table = Table(box=None, pad_edge=False, title="Other machines that do it", title_justify="left")
    table.add_column("")
    table.add_column("platform", overflow="fold")
    table.add_column("machine", overflow="fold")
    for name in ("price", *(("job", "time") if ends else ("items/s",)), "run as", "step"):
        table.add_column(name, justify="left" if name == "run as" else "right")
    for one in others:
        point = one.point
        job = (units.money(one.usd), _time(one.job_s or 0.0)) if ends else (units.rate(point.items_per_s),)
        cells = (
            "≈" if point.tie else "", costs.device(point), f"{point.offer.name} {point.offer.region}".strip(),
            costs.hourly(point.offer.usd_per_hour), *job, _run(one), units.duration(point.step_ns),
        )  # fmt: skip
        table.add_row(*(Text(plain(cell)) for cell in cells))
    return table


def _fleet(found: Allocated) -> str:
    """The command that plans several machines; empty: there is none for such a job."""
    from perfgate.cost.jobs import amount

    job: Job = found.allocation.job
    model = shlex.quote(found.model)
    rate = job.items_per_s or found.requirements.min_throughput
    items = amount(job)
    if items is not None and job.deadline_s is not None:
        seconds = max(1, int(job.deadline_s - job.start_up_s))
        return f"perfgate cost {model} --fleet --job-items {items:g} --deadline {seconds}s"
    return "" if items is not None or rate is None else f"perfgate cost {model} --serve {rate:g}"
