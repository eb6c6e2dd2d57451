"""What stands below every search for hardware: how much was considered, what was left out, and whose prices."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.console import Console
from rich.text import Text

from perfgate.cli.text import plain

if TYPE_CHECKING:
    from perfgate.records.allocation import Allocation
    from perfgate.records.cost import Answer

# Reasons for leaving something out that are printed.
_SHOWN = 6


def say(console: Console, text: str, style: str = "") -> None:
    """Names come from the model and the user's configuration: brackets in them are no markup."""
    console.print(Text(plain(text)), highlight=False, style=style)


def remarks(console: Console, answer: Answer | Allocation) -> None:
    """The lines below a table."""
    from perfgate.report import costs

    say(console, f"{answer.feasible:,} of {answer.candidates:,} configurations are feasible".replace(",", "\u202f"))
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
        offers = f"{sum(table.offers for table in answer.tables):,}".replace(",", "\u202f")
        say(console, f"Prices: {offers} offers from lists of {dates[0]} to {dates[-1]}", style="dim")
