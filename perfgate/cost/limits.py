"""Floor 3, cost. Requirements as bounds on columns of the candidates.

In: rows of candidates, requirements. Out: :class:`Limit` for each requirement that is set, and what breaks it in words.
What rests on a time is held against the unfavourable end of its interval: among many candidates the one that just fits
by its estimate is likelier than not one whose estimate flatters it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate import units
from perfgate.cost.candidates import Candidates
from perfgate.cost.shapes import Column
from perfgate.records.cost import HOURS_PER_MONTH, Missed, Requirements

Flags = NDArray[np.bool_]

STEP_TIME = "step time"
MEMORY = "memory"
THROUGHPUT = "throughput"
DEADLINE = "deadline"
UTILISATION = "utilisation"
USD_PER_HOUR = "price an hour"
USD_PER_MONTH = "price a month"
# Below this one decimal of a per cent says nothing.
_SMALL = 0.01


@dataclass(frozen=True, slots=True)
class Limit:
    """A bound on a column of the rows (``value``, at the unfavourable end; ``likely`` at the estimate).

    ``bound`` is one number or one a row; ``upper``: the value may not be above it, else not below. ``unit`` as in
    ``units.quantity``; ``label`` is how a value is called (``p99``).
    """

    name: str
    label: str
    value: Column
    likely: Column
    bound: Column
    unit: str
    upper: bool = True

    @property
    def broken(self) -> Flags:
        """Rows that do not meet it; where the value is not known it is not met."""
        return ~(self.value <= self.bound) if self.upper else ~(self.value >= self.bound)

    @property
    def violation(self) -> Column:
        """Relative: 0 where it is met, 0.23 for 12.3 ms where 10 ms are allowed; infinite where nothing is known."""
        with np.errstate(divide="ignore", invalid="ignore"):
            ratio = self.value / self.bound if self.upper else self.bound / self.value
        return np.where(np.isnan(ratio), np.inf, np.maximum(0.0, ratio - 1))

    def missed(self, row: int) -> Missed:
        """What a row breaks, with both ends of what is compared: ``p99 up to 12.3 ms (estimate 9.80 ms) > 10.0 ms``."""
        value, likely, bound = float(self.value[row]), float(self.likely[row]), float(self.bound[row])
        sign = ">" if self.upper else "<"
        shown, limit = self._text(value), self._text(bound)
        if not math.isclose(value, likely, rel_tol=1e-9):
            worst = "up to" if self.upper else "down to"
            shown = f"{worst} {shown} (estimate {self._text(likely)})"
        # Where three digits hide the difference.
        by = f", by {100 * abs(value / bound - 1):.2g} %" if self._text(value) == limit else ""
        text = f"{self.label} {shown} {sign} {limit}{by}"
        return Missed(constraint=self.name, value=value, limit=bound, text=text)

    def reason(self) -> str:
        """Why configurations that break it are left out: ``step time above 10.0 ms``."""
        if self.name == MEMORY:
            return "needs more memory than a device has free"
        first = float(self.bound[0]) if len(self.bound) else 0.0
        return f"{self.label} {'above' if self.upper else 'below'} {self._text(first)}"

    def _text(self, value: float) -> str:
        if self.unit == "ratio" and 0 < value < _SMALL:
            return f"{units.significant(100 * value, 2)} %"
        return units.wall_clock(value) if self.unit == "s" and value >= 1 else units.quantity(value, self.unit)


def missed(limits: Sequence[Limit], row: int | None) -> tuple[Missed, ...]:
    """All that a row breaks; None: nothing, for there is no such row."""
    return () if row is None else tuple(limit.missed(row) for limit in limits if limit.broken[row])


def limits(candidates: Candidates, requirements: Requirements, tail: float) -> list[Limit]:
    """Everything but money, in the order in which it is checked.

    ``tail``: the asked percentile of the step time over its median.
    """
    rows = candidates.rows
    free = candidates.shapes.free[rows.shape]
    # An unknown size is no limit here: it is dealt with where nothing is known.
    found = [Limit(MEMORY, MEMORY, rows.memory, rows.memory, np.where(np.isnan(free), np.inf, free), "byte")]

    def add(name: str, value: Column, likely: Column, bound: float | None, unit: str, *, label: str = "") -> None:
        if bound is not None:
            upper = name not in {THROUGHPUT, UTILISATION}
            found.append(Limit(name, label or name, value, likely, np.full(len(rows), bound), unit, upper))

    percentile = "" if requirements.percentile == 0.5 else f"p{100 * requirements.percentile:g}"
    add(STEP_TIME, rows.high * tail, rows.ns * tail, requirements.max_step_ns, "ns", label=percentile)
    add(THROUGHPUT, rows.slow_items, rows.items, requirements.min_throughput, "item/s")
    job = requirements.job_items or 0.0
    add(DEADLINE, job / rows.slow_items, job / rows.items, requirements.deadline_s, "s", label="time of the job")
    add(UTILISATION, rows.slow_utilisation, rows.utilisation, requirements.min_utilisation, "ratio")
    return found


def money_limits(
    price: Column, slow_items: Column, items: Column, requirements: Requirements, items_per_month: float | None
) -> list[Limit]:
    """Bounds on money at ``price`` an hour, of whole machines that do so many items a second.

    ``items_per_month``: the declared volume; None: a month's price is that of the machine for all its hours.
    """
    found = []
    if requirements.max_usd_per_hour is not None:
        bound = np.full(len(price), requirements.max_usd_per_hour)
        found.append(Limit(USD_PER_HOUR, USD_PER_HOUR, price, price, bound, "usd"))
    if requirements.max_usd_per_month is not None:
        bound = np.full(len(price), requirements.max_usd_per_month)
        worst, likely = _monthly(price, slow_items, items_per_month), _monthly(price, items, items_per_month)
        found.append(Limit(USD_PER_MONTH, USD_PER_MONTH, worst, likely, bound, "usd"))
    return found


def _monthly(price: Column, items: Column, items_per_month: float | None) -> Column:
    if items_per_month is None:
        return price * HOURS_PER_MONTH
    return np.asarray(price / 3600 / items * items_per_month)
