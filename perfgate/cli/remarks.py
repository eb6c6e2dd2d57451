"""What every search for hardware says beside its result: the counted ways; what was left out, and whose prices."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from rich.console import Console

from perfgate import units
from perfgate.cli.text import say

if TYPE_CHECKING:
    from perfgate.records.allocation import Allocation
    from perfgate.records.cost import Answer, Way

# Reasons for leaving something out that are printed.
_SHOWN = 6


def remarks(console: Console, answer: Answer | Allocation) -> None:
    """The lines below a table."""
    from perfgate.report import costs

    feasible, all_of_them = (units.quantity(count, "count") for count in (answer.feasible, answer.candidates))
    say(console, f"{feasible} of {all_of_them} configurations are feasible")
    asked = [item for item in answer.excluded if item.what in costs.COUNTED]
    for item in asked[-_SHOWN:]:
        say(console, f"Left out: {costs.left_out(item.what, item.reason, item.count)}", style="dim")
    if len(asked) > _SHOWN:
        say(console, f"Left out: {len(asked) - _SHOWN} more kinds, which --json lists", style="dim")
    # What is wrong with prices is many lines, and the same for every model.
    if held := sum(item.count for item in answer.excluded if item.what not in costs.COUNTED):
        many = f"{held} price{'' if held == 1 else 's'} held back or replaced"
        say(console, f"Left out: {many}, which --json lists", style="dim")
    for warning in answer.warnings:
        say(console, f"Note: {warning}")
    dates = sorted(table.date for table in answer.tables if table.date)
    if dates:
        offers = units.quantity(sum(table.offers for table in answer.tables), "count")
        say(console, f"Prices: {offers} offers from lists of {dates[0]} to {dates[-1]}", style="dim")


def way_tree(way: Way) -> dict[str, Any]:
    """A counted way as JSON has it."""
    totals = way.totals
    return {
        "mode": way.mode, "batch": way.batch, "dtype": way.dtype, "compile": way.compile, "items": way.items,
        "flop": totals.flop, "traffic_bytes": asdict(totals.traffic), "weight_bytes": totals.weight_bytes,
        "kernels": totals.kernels,
    }  # fmt: skip
