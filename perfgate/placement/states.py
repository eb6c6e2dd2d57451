"""Floor 3, placement. What the search knows of an objective: an assignment that can be changed, and how good it is.

In: a compiled problem, a target for each unit. Out: :func:`state`, the objective with incremental evaluation.
Each gives the numbers of :mod:`perfgate.placement.evaluate`; the tests hold them against it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol

from perfgate.placement.compiled import Compiled
from perfgate.placement.loads import ROUNDING, Loads
from perfgate.placement.runs import Runs
from perfgate.placement.side_by_side import SideBySide
from perfgate.records.placement import IN_TURN, MEMORY, THROUGHPUT

# Energies are shares of a typical value. What breaks a limit is worth this much of it, times how far it is beyond.
PENALTY = 2.0
# A limit broken by a little must not be worth it either.
LEAST_PENALTY = 0.01
# Loads of devices count by this power: close to the largest of them, yet the others are felt.
POWER = 16
# Total load beside the largest one: what crosses borders is room on every device.
SHARE_OF_TOTAL = 0.05


class State(Protocol):
    """An assignment under one objective. ``targets``: of units."""

    targets: list[int]

    def move(self, unit: int, target: int) -> None:
        """``unit`` goes to ``target``, which must take it."""

    def reset(self, targets: Sequence[int]) -> None:
        """Another assignment; also takes away what many additions have rounded."""

    def measure(self) -> tuple[float, float]:
        """Energy, and the objective's value.

        Energy is what annealing makes small: about the value over the state's scale, with penalties for broken limits.
        The value is inf where a limit is broken; support is not looked at, moves keep it.
        """


def state(compiled: Compiled, targets: Sequence[int], scale: float = 0.0) -> State:
    """The objective of ``compiled.problem`` at ``targets``.

    ``scale``: a typical value, for energies; 0: that of ``targets``.
    """
    problem = compiled.problem
    if problem.objective == THROUGHPUT:
        return Throughput(compiled, targets, scale)
    if problem.objective == MEMORY:
        return Memory(compiled, targets, scale)
    return _latency(compiled, targets, scale)


def _latency(compiled: Compiled, targets: Sequence[int], scale: float) -> Latency:
    return InTurn(compiled, targets, scale) if compiled.problem.order == IN_TURN else Apart(compiled, targets, scale)


class _OnLoads:
    """What all states share: loads, and the pieces' fixed times where there are any."""

    by_target = False

    def __init__(self, compiled: Compiled, targets: Sequence[int], scale: float) -> None:
        self.compiled = compiled
        self.loads = Loads(compiled, targets, by_target=self.by_target)
        self.targets = self.loads.targets
        self.move = self.loads.move
        self.limited = compiled.limited
        self.runs = Runs(compiled) if any(target.piece_s for target in compiled.problem.targets) else None
        self.scale = scale or self.typical() or 1.0

    def reset(self, targets: Sequence[int]) -> None:
        """See :class:`State`."""
        self.loads.reset(targets)

    def typical(self) -> float:
        """A value to measure energies by."""
        raise NotImplementedError

    def penalty(self) -> float:
        """For memory beyond the limits."""
        beyond = self.loads.beyond() if self.limited else 0.0
        return LEAST_PENALTY + PENALTY * beyond if beyond else 0.0

    def busy(self) -> list[float]:
        """Seconds of each device, pieces included."""
        if self.runs is None:
            return self.loads.load
        return [load + fixed for load, fixed in zip(self.loads.load, self.runs.fixed(self.targets), strict=True)]


class Throughput(_OnLoads):
    """The largest load of a device. Energy: a norm of all loads, so that a move below the largest is felt too."""

    def typical(self) -> float:
        """The largest load."""
        return max(self.busy(), default=0.0)

    def measure(self) -> tuple[float, float]:
        """See :class:`State`."""
        busy, penalty = self.busy(), self.penalty()
        largest = max(busy)
        value = math.inf if penalty else largest
        if largest <= 0:
            return penalty, value
        total = sum([(load / largest) ** POWER for load in busy])
        share = SHARE_OF_TOTAL * sum(busy) / len(busy)
        return (largest * total ** (1 / POWER) + share) / self.scale + penalty, value


class Latency(_OnLoads):
    """A latency, by whichever order."""

    def seconds(self) -> float:
        """Of one request; inf where targets wait for one another in a circle."""
        raise NotImplementedError

    def typical(self) -> float:
        """The latency itself, if there is one."""
        seconds = self.seconds()
        return seconds if seconds < math.inf else sum(self.loads.load)

    def measure(self) -> tuple[float, float]:
        """See :class:`State`."""
        seconds, penalty = self.seconds(), self.penalty()
        return seconds / self.scale + penalty, math.inf if penalty else seconds


class InTurn(Latency):
    """One host thread: the sum of all loads."""

    def seconds(self) -> float:
        """See :class:`Latency`."""
        return sum(self.busy())


class Apart(Latency):
    """Targets that work side by side: the end of the last part."""

    by_target = True

    def __init__(self, compiled: Compiled, targets: Sequence[int], scale: float) -> None:
        self.schedule = SideBySide(compiled)
        super().__init__(compiled, targets, scale)

    def seconds(self) -> float:
        """See :class:`Latency`."""
        return self.schedule.seconds(self.targets, self.loads.load)


class Memory:
    """The most bytes of a device, with a limit on latency (a state of its own, whose loads this one reads)."""

    def __init__(self, compiled: Compiled, targets: Sequence[int], scale: float) -> None:
        self.latency = _latency(compiled, targets, scale=1.0)
        self.targets = self.latency.targets
        self.move = self.latency.move
        self.reset = self.latency.reset
        limit = compiled.problem.latency_s
        self.limit = math.inf if limit is None else limit
        # A circle of targets is infeasible with or without a limit.
        self.timed = limit is not None or compiled.problem.order != IN_TURN
        self.scale = scale or max(self.latency.loads.held, default=0.0) or 1.0

    def measure(self) -> tuple[float, float]:
        """See :class:`State`."""
        held = self.latency.loads.held
        largest = max(held)
        total = sum([(each / largest) ** POWER for each in held]) if largest > 0 else 0.0
        penalty = self.latency.penalty() + self._late()
        return largest * total ** (1 / POWER) / self.scale + penalty, math.inf if penalty else largest

    def _late(self) -> float:
        """Penalty for latency beyond the limit."""
        if not self.timed:
            return 0.0
        seconds = self.latency.seconds()
        if seconds == math.inf:
            return math.inf
        if seconds <= self.limit * (1 + ROUNDING):
            return 0.0
        return LEAST_PENALTY + PENALTY * ((seconds - self.limit) / self.limit if self.limit else 1.0 + seconds)
