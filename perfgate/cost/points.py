"""Floor 3, cost. A row of the candidates with its cheapest offer as a record for people.

In: candidates and row numbers. Out: :class:`Point`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfgate.cost import explain, ways
from perfgate.cost.candidates import Candidates
from perfgate.cost.shapes import Column
from perfgate.cost.tables import SOURCES
from perfgate.records.cost import FORMS, Point
from perfgate.records.hardware import Offer


def usd_per_item(candidates: Candidates) -> Column:
    """Dollars an item of every row at its cheapest offer; NaN where there is no time."""
    rows = candidates.rows
    return np.asarray(candidates.shapes.cheapest[rows.shape] / 3600 / rows.items)


@dataclass(frozen=True, slots=True)
class Points:
    """Makes points. ``tail``: the asked percentile of the step time over its median."""

    candidates: Candidates
    tail: float

    def point(self, row: int, *, knee: bool = False, tie: int = 0, offer: Offer | None = None) -> Point:
        """The record of a row that has a time. ``offer``: another one of its shape than the cheapest."""
        rows, shapes = self.candidates.rows, self.candidates.shapes
        shape, way = int(rows.shape[row]), self.candidates.ways[int(rows.way[row])]
        offer, time = offer or shapes.offer(shape), self.candidates.time(row)
        if time is None:
            msg = f"row {row} has no time"
            raise ValueError(msg)
        items_per_s = float(rows.items[row])
        usd = offer.usd_per_hour / 3600 / items_per_s
        facts = explain.Facts(
            time=time,
            kernels=ways.kernel_calls(way),
            form=FORMS[rows.form[row]],
            used=int(rows.devices[row]),
            count=offer.count,
            step_ns=float(rows.ns[row]),
            link_ns=float(rows.link[row]),
        )
        free, energy = float(shapes.free[shape]), float(rows.energy[row])
        return Point(
            offer=offer,
            devices=facts.used,
            batch=way.batch,
            dtype=way.dtype,
            compile=way.compile,
            form=facts.form,
            step_ns=float(rows.ns[row]) * self.tail,
            low_ns=float(rows.low[row]) * self.tail,
            high_ns=float(rows.high[row]) * self.tail,
            source=SOURCES[rows.source[row]],
            memory_bytes=int(rows.memory[row]),
            free_bytes=None if math.isnan(free) else int(free),
            utilisation=float(rows.utilisation[row]),
            items_per_s=items_per_s,
            usd_per_1k_steps=1e3 * usd * way.items,
            usd_per_1m_items=1e6 * usd,
            bound=explain.bound(facts),
            why=explain.why(facts),
            energy_j_per_item=None if math.isnan(energy) else energy,
            knee=knee,
            tie=tie,
        )
