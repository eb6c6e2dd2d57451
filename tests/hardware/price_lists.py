"""Price lists of a few rows."""

from __future__ import annotations

import datetime as dt

from perfgate.hardware import offers, tables
from perfgate.hardware.tables import COLUMNS, Table
from perfgate.records.cost import Prices
from perfgate.records.hardware import Market

TODAY = dt.date(2026, 11, 30)
FRESH = "2026-11-01"


def row(instance: str, **cells: str) -> str:
    """One line; what is not said is an L4 of one provider, on demand, fetched this month."""
    filled = {
        "provider": "acme",
        "region": "north",
        "instance": instance,
        "platform": "l4",
        "on_demand": "",
        "fetched_at": FRESH,
    } | cells
    return ",".join(filled.get(column, "") for column in COLUMNS)


def table(*rows: str, name: str = "list.csv") -> Table:
    """A parsed list."""
    return tables.parse("\n".join([",".join(COLUMNS), *rows]), name)


def market(*rows: str, prices: Prices | None = None) -> Market:
    """The market of these rows alone."""
    return offers.market(prices or Prices(), today=TODAY, tables=[table(*rows)])


def reasons(found: Market) -> dict[str, str]:
    """What was left out -> why."""
    return {each.what: each.reason for each in found.excluded}
