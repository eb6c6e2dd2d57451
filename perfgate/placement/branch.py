"""Floor 3, placement. The best assignment by branch and bound, proven, where targets work side by side.

In: a compiled problem, latency side by side or memory with such a latency. Out: the best assignment below a value, or
that there is none. Units are placed in the order of their first nodes; a beginning whose :class:`Prefix` or memory says
that it cannot become better is not followed; nothing is, where a single path says so. For small problems: the number of
beginnings grows exponentially.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from perfgate.placement import evaluate
from perfgate.placement.backbone import backbone
from perfgate.placement.compiled import Compiled
from perfgate.placement.network import GaveUp
from perfgate.placement.prefix import Prefix
from perfgate.placement.symmetry import Equals
from perfgate.records.placement import LATENCY, MEMORY

# Beyond, there is no hope, and one call inside another for each unit.
MOST_UNITS = 300


def best(compiled: Compiled, below: float, over: Callable[[], bool]) -> tuple[int, ...] | None:
    """Targets of units with the least objective among all that are below ``below``, or None: there are none.

    Raises:
        GaveUp: ``over`` says that time is up, or there are too many units.
    """
    if compiled.problem.objective == LATENCY and backbone(compiled) >= below:
        return None
    if len(compiled.units) > MOST_UNITS:
        raise GaveUp
    search = _Search(compiled, below, over)
    search.place(0, 0)
    return search.found


class _Search:
    """Depth first; ``found``: the best so far, its objective is ``_below``."""

    def __init__(self, compiled: Compiled, below: float, over: Callable[[], bool]) -> None:
        self.found: tuple[int, ...] | None = None
        self._below = below
        self._over = over
        self._compiled = compiled
        self._memory = compiled.problem.objective == MEMORY
        limit = compiled.problem.latency_s if self._memory else None
        self._latency_s = math.inf if limit is None else limit * (1 + evaluate.ROUNDING)
        self._prefix = Prefix(compiled)
        self._equals = Equals(compiled)
        self._targets = [0] * len(compiled.units)
        self._nodes = [0] * len(compiled.unit_of)
        self._held = [0.0] * compiled.device_count
        self._limits = [limit * (1 + evaluate.ROUNDING) for limit in compiled.limits]
        self._average = sum(compiled.memory) / max(1, compiled.device_count)

    def place(self, unit: int, used: int) -> None:
        """``unit`` and those after it, the first choices first."""
        if self._over():
            raise GaveUp
        compiled = self._compiled
        if unit == len(compiled.units):
            self._finish()
            return
        choices = []
        for target in self._equals.fresh(compiled.allowed[unit], used):
            self._put(unit, target)
            device = compiled.device_of[target]
            if self._held[device] + compiled.memory[unit] <= self._limits[device]:
                choices.append((self._bound(unit, device), target))
        for bound, target in sorted(choices):
            if bound < self._below:
                device = compiled.device_of[target]
                before = self._held[device]
                self._put(unit, target)
                self._held[device] += compiled.memory[unit]
                self.place(unit + 1, self._equals.use(used, target))
                self._held[device] = before

    def _put(self, unit: int, target: int) -> None:
        self._targets[unit] = target
        for node in self._compiled.units[unit]:
            self._nodes[node] = target

    def _bound(self, unit: int, device: int) -> float:
        """The objective cannot become less with ``unit`` on ``device``, where it was just put."""
        units = self._compiled.units
        count = units[unit + 1][0] if unit + 1 < len(units) else len(self._nodes)
        latency = self._prefix.least(self._nodes, count)
        if latency > self._latency_s or math.isinf(latency):
            return math.inf
        if not self._memory:
            return latency * _DOWN
        fullest = max(*self._held, self._held[device] + self._compiled.memory[unit])
        return max(fullest, self._average) * _DOWN

    def _finish(self) -> None:
        value = evaluate.value(self._compiled.problem, self._nodes)
        if value < self._below:
            self._below = value
            self.found = tuple(self._targets)


# The same seconds in another order may add up to a little more.
_DOWN = 1 - 1e-12
