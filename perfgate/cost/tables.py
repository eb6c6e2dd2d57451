"""Floor 3, cost. Times of ways on devices as columns of numbers.

In: ways, devices and a ``Times``. Out: :class:`Table`, each time asked for once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.cost.parallel import Spread
from perfgate.cost.shapes import Index
from perfgate.cost.times import Times
from perfgate.errors import UsageError
from perfgate.records.cost import ANCHORED, ESTIMATED, MEASURED, ROOFLINE, Device, StepTime, Way

SOURCES = (MEASURED, ANCHORED, ESTIMATED, ROOFLINE)
# Entries of a table: ns, low, high, flop_per_s, index in SOURCES.
_FIELDS = 5


@dataclass(frozen=True, slots=True)
class Table:
    """``numbers[5, W, D]``: ns, low, high, pi, source; NaN where there is no time. ``times[W][D]``: the records."""

    numbers: NDArray[np.float64]
    times: tuple[tuple[StepTime | None, ...], ...]

    def spread(self, device: Index) -> Spread:
        """Times ``[W, len(device)]`` of these devices."""
        return Spread(self.numbers[0][:, device], self.numbers[1][:, device], self.numbers[2][:, device])

    def rate(self, device: Index) -> NDArray[np.float64]:
        """pi of one device in the way's dtype, ``[W, len(device)]``."""
        return np.asarray(self.numbers[3][:, device])

    def source(self, device: Index) -> NDArray[np.float64]:
        """Index in ``SOURCES``, ``[W, len(device)]``."""
        return np.asarray(self.numbers[4][:, device])


def table(ways: Sequence[Way | None], devices: Sequence[Device], wanted: Index, times: Times) -> Table:
    """Times of ``ways`` on the devices numbered ``wanted``; the others have none, and neither has a way that is None.

    Raises UsageError where ``times`` gives what is no time: not finite, not above 0, or outside of its own interval.
    """
    numbers = np.full((_FIELDS, len(ways), len(devices)), math.nan)
    rows: list[tuple[StepTime | None, ...]] = []
    asked = [devices[int(place)] for place in wanted]
    for number, way in enumerate(ways):
        row: list[StepTime | None] = [None] * len(devices)
        given = times(way, asked) if way is not None and asked else ()
        for place, time in zip(wanted, given, strict=False):
            if time is None:
                continue
            _check(time, devices[int(place)])
            row[int(place)] = time
            numbers[:, number, int(place)] = (
                time.ns, time.low_ns, time.high_ns, time.flop_per_s, SOURCES.index(time.source),
            )  # fmt: skip
        rows.append(tuple(row))
    return Table(numbers, tuple(rows))


def _check(time: StepTime, device: Device) -> None:
    values = (time.ns, time.low_ns, time.high_ns, time.flop_per_s)
    if all(math.isfinite(value) and value > 0 for value in values) and time.low_ns <= time.ns <= time.high_ns:
        return
    msg = (
        f"a step time of {time.ns} ns in [{time.low_ns}, {time.high_ns}] at {time.flop_per_s} FLOP/s on "
        f"{device.platform.name} is none: times are above 0 and lie in their interval"
    )
    raise UsageError(msg)
