"""Floor 3, placement. The search for a placement: a problem in, :class:`Placement` out. Pure but for its clock.

1. Every target alone: candidates, and the winners of ties.
2. Divisions of orders of the units into segments, by dynamic programming (:mod:`segments`).
3. Rounds of annealing with descent (:mod:`annealing`) from the best starts, from the best assignment so far, and from
   elsewhere, with moves at all scales (:mod:`moves`). After some rounds without a better assignment the search ends.

The same seed and ``max_evaluations`` give the same answer where the time limit does not cut it short.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Sequence

from perfgate.placement import evaluate
from perfgate.placement.annealing import Journal, anneal, descend
from perfgate.placement.checked import check_assignment
from perfgate.placement.clusters import clusters
from perfgate.placement.compiled import Compiled, compiled
from perfgate.placement.moves import Moves
from perfgate.placement.starts import SEGMENTS, SINGLE, Divisions, lines, other_line, singles
from perfgate.placement.states import State, state
from perfgate.records.placement import Improvement, Placement, Problem, Single

TIME_LIMIT_S = 10.0
# Evaluations of a round, for each unit and target it may have.
ROUND = 400
LONGEST_ROUND = 2_000_000
# At least so many rounds, if time allows: the longest round is this share of what is left.
LEAST_ROUNDS = 6
# Rounds without a better assignment after which the search ends.
PATIENCE = 6
# Temperatures by turns, as shares of the value: around the best, some way off, and from afar.
HOT = (0.004, 0.02, 0.1)
COLD = 0.0002
# Rounds draw from this many of the best starts.
ELITE = 6
# Which of four rounds starts from an order of its own, as long as there are not too many.
OTHER, MOST_LINES = 3, 40

START = "start"
NO_BETTER = "no better neighbour"


def search(
    problem: Problem,
    *,
    seed: int = 0,
    time_limit_s: float = TIME_LIMIT_S,
    max_evaluations: int | None = None,
    start: Sequence[int] | None = None,
    bound: float | None = None,
    progress: Callable[[Improvement], None] | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Placement:
    """The best placement found.

    Args:
        problem: What is placed.
        seed: Of all random numbers.
        time_limit_s: By ``clock``; an answer comes soon after it in any case.
        max_evaluations: Assignments that are measured at most; None: any number.
        start: A target for each node (an older plan), tried first of all mixed ones.
        bound: No assignment is better than this; reaching it ends the search. None: unknown.
        progress: Called with each improvement.
        clock: Seconds.

    Raises:
        UsageError: The problem or ``start`` makes no sense; the message names the node, target or border.
    """
    read = compiled(problem)
    journal = Journal(
        time_limit_s=time_limit_s, max_evaluations=max_evaluations, bound=bound, clock=clock, progress=progress
    )
    alone = singles(read)
    for single, assignment in alone:
        journal.evaluations += 1
        journal.offer(math.inf if single.value is None else single.value, assignment, SINGLE)
    if start is not None:
        check_assignment(problem, start)
        _offer_start(read, start, journal)
    _Search(read, journal, seed, [assignment for _, assignment in alone]).run()
    return _placement(read, journal, alone, seed, bound)


class _Search:
    def __init__(self, read: Compiled, journal: Journal, seed: int, alone: list[list[int]]) -> None:
        self._read = read
        self._journal = journal
        self._draw = random.Random(seed)  # noqa: S311 - no secret
        self._alone = alone
        self._starts: list[tuple[float, list[int]]] = []
        self._lines: list[list[int]] = []
        self._divisions = Divisions(read)

    def run(self) -> None:
        read, journal = self._read, self._journal
        if not any(len(allowed) > 1 for allowed in read.allowed):
            journal.stopped = journal.stopped or "optimal"
            return
        found = state(read, journal.targets or self._alone[0])
        self._divide(found)
        length = min(ROUND * sum(map(len, read.allowed)), LONGEST_ROUND)
        idle = turn = 0
        while not journal.over():
            before = journal.best
            self._round(found, turn, length)
            idle = 0 if journal.best < before else idle + 1
            turn += 1
            if idle >= PATIENCE and not journal.stopped:
                journal.stopped = NO_BETTER

    def _divide(self, found: State) -> None:
        """Starts from divisions of orders, and lines for runs."""
        for order in lines(self._read, self._draw):
            if self._lines and self._journal.over():
                break
            self._divided(found, order)
        for targets in self._alone:
            found.reset(targets)
            self._starts.append((found.measure()[0], targets))
        self._starts.sort(key=lambda one: one[0])

    def _divided(self, found: State, order: list[int]) -> list[int] | None:
        self._lines.append(order)
        targets = self._divisions.of(order)
        if targets is not None:
            found.reset(targets)
            energy, value = found.measure()
            self._journal.evaluations += 1
            self._journal.offer(value, targets, SEGMENTS)
            self._starts.append((energy, targets))
        return targets

    def _round(self, found: State, turn: int, length: int) -> None:
        journal, draw = self._journal, self._draw
        hot = HOT[turn % len(HOT)]
        found.reset(self._first(found, turn))
        moves = Moves(self._read, draw, self._lines, clusters(self._read, draw))
        share = 1 / max(1, LEAST_ROUNDS - turn)
        anneal(found, moves, journal, draw, hot=hot, cold=COLD, length=length, share=share)
        if journal.over():
            return
        found.reset(journal.targets or found.targets.copy())
        descend(found, self._read, journal)

    def _first(self, found: State, turn: int) -> list[int]:
        """What a round starts from: the best so far; by turns with it, good starts and divisions of other orders."""
        if turn % 2 == 0 and self._journal.targets:
            return self._journal.targets
        if turn % 4 == OTHER and len(self._lines) < MOST_LINES:
            targets = self._divided(found, other_line(self._read, self._draw))
            if targets is not None:
                return targets
        elite = self._starts[:ELITE]
        return elite[turn // 2 % len(elite)][1]


def _offer_start(read: Compiled, start: Sequence[int], journal: Journal) -> None:
    targets = read.of_nodes(start)
    if read.allows(targets):
        journal.evaluations += 1
        journal.offer(state(read, targets).measure()[1], targets, START)


def _placement(
    read: Compiled, journal: Journal, alone: list[tuple[Single, list[int]]], seed: int, bound: float | None
) -> Placement:
    """The best by the definition: sums that were kept up to date may keep a limit by a rounding that is not kept."""
    found = [journal.targets] if journal.targets else []
    found += [assignment for _, assignment in sorted(alone, key=_by_value)]
    values = ((evaluate.value(read.problem, nodes), nodes) for nodes in map(read.of_units, found))
    value, nodes = next((each for each in values if each[0] < math.inf), (math.inf, read.of_units(alone[0][1])))
    feasible = value < math.inf
    optimal = feasible and journal.stopped == "optimal"
    return Placement(
        targets=nodes,
        value=value,
        bound=value if optimal else (bound or 0.0),
        optimal=optimal,
        feasible=feasible,
        problem="" if feasible else evaluate.why(read.problem, nodes),
        singles=tuple(single for single, _ in alone),
        stopped=journal.stopped,
        evaluations=journal.evaluations,
        elapsed_s=journal.elapsed_s,
        seed=seed,
        history=tuple(journal.history),
    )


def _by_value(one: tuple[Single, list[int]]) -> float:
    return math.inf if one[0].value is None else one[0].value
