"""Floor 3, placement. Assignments that a search starts from.

In: a compiled problem. Out: every target alone (always candidates), and divisions of orders into segments, which for
graphs like chains are near the best already.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from perfgate.placement import orders, segments
from perfgate.placement.compiled import Compiled
from perfgate.placement.states import state
from perfgate.records.placement import MEMORY, Single

SINGLE, SEGMENTS = "single target", "segments of an order"
# Powers of the weights of edges of spectral orders.
POWERS = (0.5, 0.75, 1.0, 0.25)


def singles(compiled: Compiled) -> list[tuple[Single, list[int]]]:
    """Every target alone, the default first; what it does not take goes to the default, or to the quickest one."""
    found = []
    names = [target.name for target in compiled.problem.targets]
    first = [compiled.default, *(target for target in range(len(names)) if target != compiled.default)]
    for target in first:
        assignment = []
        moved = 0
        for unit, allowed in enumerate(compiled.allowed):
            if target in allowed:
                assignment.append(target)
                continue
            row = compiled.seconds[unit]
            other = compiled.default if compiled.default in allowed else min(allowed, key=row.__getitem__)
            assignment.append(other)
            moved += len(compiled.units[unit])
        value = state(compiled, assignment).measure()[1]
        fits = value < math.inf
        reason = "" if fits else _reason(compiled, assignment)
        found.append(
            (Single(target=names[target], value=value if fits else None, moved=moved, reason=reason), assignment)
        )
    return found


def lines(compiled: Compiled, draw: random.Random) -> Iterator[list[int]]:
    """Orders of units: spectral ones, depth-first ones, and each as the nearest order of execution."""
    for power in POWERS:
        order = orders.spectral(compiled, power)
        if order is not None:
            yield order
            yield orders.executable(compiled, order)
    yield orders.executable(compiled, orders.as_listed(compiled))
    for _ in range(2):
        order = orders.executed(compiled, draw)
        yield order
        yield orders.executable(compiled, order)


def other_line(compiled: Compiled, draw: random.Random) -> list[int]:
    """One more order, at random: spectral with other weights, as it is or as the nearest order of execution."""
    order = orders.spectral(compiled, draw.choice(POWERS), draw) or orders.executed(compiled, draw)
    return order if draw.random() < 0.5 else orders.executable(compiled, order)


class Divisions:
    """Assignments by the best division of orders; classes of targets are found once."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        self._classes = segments.alike(compiled)

    def of(self, order: list[int]) -> list[int] | None:
        """Targets of units, or None: there is none, or memory is what is made least, which no order says much of."""
        if self._compiled.problem.objective == MEMORY:
            return None
        return segments.divided(self._compiled, order, self._classes)


def _reason(compiled: Compiled, assignment: list[int]) -> str:
    from perfgate.placement.evaluate import why  # its words are those of the definition

    return why(compiled.problem, compiled.of_units(assignment))
