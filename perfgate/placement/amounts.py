"""Floor 3, placement. What an assignment adds up to, where every objective and limit is a sum or the largest of sums.

In: a compiled problem whose latency is in turn, or whose loads count. Out: which sums ("amounts") are kept, what each
unit adds to them, and which of them are the objective. Seconds and bytes, columns of numpy arrays.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perfgate.placement.compiled import Compiled
from perfgate.placement.evaluate import ROUNDING
from perfgate.records.placement import LATENCY, MEMORY, THROUGHPUT

Array = NDArray[np.float64]


class Amounts:
    """The sums of a problem.

    Throughput: seconds of each device. Latency: all seconds together. Memory: all seconds where there is a limit on
    them, and the bytes of each device. Bytes of a device besides where it has a limit that can be broken.

    Attributes:
        count: Number of amounts.
        limits: Of each amount, inf: none. ``scored``: those that the objective is the largest of.
    """

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        problem = compiled.problem
        devices = range(compiled.device_count)
        self._time: list[int] = []
        limits: list[float] = []
        if problem.objective == THROUGHPUT:
            self._time = [compiled.device_of[target] for target in range(compiled.target_count)]
            limits = [math.inf] * compiled.device_count
        elif problem.objective == LATENCY or problem.latency_s is not None:
            self._time = [0] * compiled.target_count
            limits = [math.inf if problem.objective == LATENCY else float(problem.latency_s or 0.0)]
        timed = len(limits)
        whole = sum(compiled.memory)
        self._held: dict[int, int] = {}
        for device in devices:
            if problem.objective == MEMORY or compiled.limits[device] < whole:
                self._held[device] = len(limits)
                limits.append(compiled.limits[device])
        self.count = len(limits)
        self.limits = np.array(limits) * (1 + ROUNDING)
        self.scored = sorted(self._held.values()) if problem.objective == MEMORY else list(range(timed))

    def of_unit(self, unit: int, target: int) -> Array:
        """What ``unit`` adds on ``target`` by itself, without what crosses borders."""
        added = np.zeros(self.count)
        if self._time:
            added[self._time[target]] += self._compiled.seconds[unit][target]
        held = self._held.get(self._compiled.device_of[target])
        if held is not None:
            added[held] += self._compiled.memory[unit]
        return added

    def seconds(self, added: Array, target: int, seconds: float) -> None:
        """``seconds`` of work of ``target`` go to ``added``."""
        if self._time:
            added[self._time[target]] += seconds

    def score(self, rows: Array) -> Array:
        """The objective of each row, n x count -> n."""
        if not self.scored:
            return np.zeros(len(rows))
        return np.asarray(rows[:, self.scored].max(axis=1))

    def within(self, rows: Array) -> NDArray[np.bool_]:
        """Which rows keep the limits."""
        return np.asarray((rows <= self.limits).all(axis=1))
