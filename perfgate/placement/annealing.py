"""Floor 3, placement. One round of the search: annealing from a start, then descent to where no move is better.

In: a state, moves, temperatures, a budget. Out: the best assignment goes to :class:`Journal`, which also counts
evaluations and says when to stop.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable

from perfgate.placement.compiled import Compiled
from perfgate.placement.moves import Changes, Moves
from perfgate.placement.states import State
from perfgate.records.placement import Improvement

# Better by less than this share is not better: the one that was found first stays.
LEAST_GAIN = 1e-9
# Loads are made anew after this many evaluations, for their rounding.
FRESH = 1 << 15
# The clock is read, and the temperature set, once in so many evaluations.
_STEP = 32
# Pairs of units are tried against one another up to this many units.
MOST_PAIRED = 40

DESCENT = "descent"


class Journal:
    """Best assignment so far, evaluations, and limits.

    Attributes:
        best: Its value, inf: none yet that is feasible. ``targets``: of units.
        evaluations: Assignments that were measured. ``history``: improvements.
        stopped: Why the search has to end, or empty.
    """

    def __init__(
        self,
        *,
        time_limit_s: float,
        max_evaluations: int | None,
        bound: float | None,
        clock: Callable[[], float] = time.monotonic,
        progress: Callable[[Improvement], None] | None = None,
    ) -> None:
        self._clock = clock
        self._begun = clock()
        self._limit = time_limit_s
        self.most = max_evaluations
        self._bound = -math.inf if bound is None else bound
        self._progress = progress
        self.best = math.inf
        self.targets: list[int] = []
        self.evaluations = 0
        self.history: list[Improvement] = []
        self.stopped = ""

    @property
    def elapsed_s(self) -> float:
        """Since the search began."""
        return self._clock() - self._begun

    @property
    def left(self) -> float:
        """Share of the time that is left; of the evaluations where their number is limited."""
        if self.most is not None:
            return 1 - self.evaluations / self.most
        return 1 - self.elapsed_s / self._limit if self._limit > 0 else 0.0

    def offer(self, value: float, targets: list[int], move: str) -> bool:
        """Keeps what is better."""
        if not value < self.best - LEAST_GAIN * abs(self.best if self.best < math.inf else 0.0):
            return False
        self.best = value
        self.targets = list(targets)
        self.history.append(Improvement(at_s=self.elapsed_s, evaluations=self.evaluations, value=value, move=move))
        if self._progress is not None:
            self._progress(self.history[-1])
        if value <= self._bound * (1 + LEAST_GAIN):
            self.stopped = "optimal"
        return True

    @property
    def full(self) -> bool:
        """No more evaluations, or the bound is reached; the clock is not read."""
        return bool(self.stopped) or (self.most is not None and self.evaluations >= self.most)

    def over(self) -> bool:
        """A limit is reached, or the bound."""
        if not self.stopped:
            if self.most is not None and self.evaluations >= self.most:
                self.stopped = "evaluations"
            elif self.elapsed_s >= self._limit:
                self.stopped = "time"
        return bool(self.stopped)


def anneal(
    state: State,
    moves: Moves,
    journal: Journal,
    draw: random.Random,
    *,
    hot: float,
    cold: float,
    length: int,
    share: float = 1.0,
) -> None:
    """``length`` evaluations from temperature ``hot`` to ``cold`` (shares of the state's scale).

    ``share``: of what is left of the whole search; the round is cold by then even where ``length`` is not reached.
    """
    energy, value = state.measure()
    begun, left = journal.evaluations, journal.left or LEAST_GAIN
    end = begun + length if journal.most is None else min(begun + length, journal.most)
    temperature = hot
    steps = 0
    while moves.any and journal.evaluations < end:
        steps += 1
        if steps % _STEP == 1:
            if journal.over():
                return
            done = max((journal.evaluations - begun) / length, (left - journal.left) / (left * share))
            if done >= 1:
                return
            temperature = hot * (cold / hot) ** done
        name, changes = moves.propose(state.targets)
        if not changes:
            continue
        undo = apply(state, changes)
        journal.evaluations += 1
        if not journal.evaluations % FRESH:
            state.reset(state.targets.copy())
        after, value = state.measure()
        rise = after - energy
        if rise <= 0 or energy == math.inf or draw.random() < math.exp(-rise / temperature):
            energy = after
            if value < journal.best:
                journal.offer(value, state.targets, name)
        else:
            apply(state, undo)


def descend(state: State, compiled: Compiled, journal: Journal) -> None:
    """Every unit to every target that takes it, and pairs of units where there are few, until none is better."""
    energy, value = state.measure()
    journal.offer(value, state.targets, DESCENT)
    better = True
    while better:
        better = False
        for place, changes in enumerate(_neighbours(state, compiled)):
            if journal.full or (place % _STEP == 0 and journal.over()):
                return
            undo = apply(state, changes)
            journal.evaluations += 1
            after, value = state.measure()
            if after < energy - LEAST_GAIN:
                energy, better = after, True
                journal.offer(value, state.targets, DESCENT)
            else:
                # A norm of loads may rise while the largest load falls.
                journal.offer(value, state.targets, DESCENT)
                apply(state, undo)


def apply(state: State, changes: Changes) -> Changes:
    """Moves; returns the changes that take it back, in their order."""
    targets = state.targets
    undo = [(unit, targets[unit]) for unit, _ in reversed(changes)]
    for unit, target in changes:
        state.move(unit, target)
    return undo


def _neighbours(state: State, compiled: Compiled) -> list[Changes]:
    found: list[Changes] = []
    free = [unit for unit, allowed in enumerate(compiled.allowed) if len(allowed) > 1]
    for unit in free:
        found += [[(unit, target)] for target in compiled.allowed[unit]]
    if len(free) <= MOST_PAIRED:
        for place, one in enumerate(free):
            for other in free[place + 1 :]:
                here, there = state.targets[one], state.targets[other]
                if here != there and there in compiled.allowed[one] and here in compiled.allowed[other]:
                    found.append([(one, there), (other, here)])
    return found
