"""Floor 3, placement. Units are placed one after another: what the next step is, and what each choice adds.

In: a compiled problem. Out: states and steps between them, for dynamic programming. A :class:`State` holds only what
later steps depend on, so that different beginnings with the same state can be compared by what they add up to.

Without fixed times of pieces the order of placing is free, and is chosen so that few placed units have neighbours that
are not. With them a state also follows the order of execution (:func:`perfgate.placement.pieces.cut`): the next unit is
that of the first node that could run and is on no target yet; between two steps nodes run until there is such a node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from perfgate.placement.amounts import Amounts, Array
from perfgate.placement.compiled import Compiled, Crossing
from perfgate.placement.symmetry import Equals
from perfgate.records.placement import MEMORY


class State(NamedTuple):
    """Attributes:
    placed: Bits of the units that have a target.
    open: Units whose target still matters, with it.
    received: Values that more units may receive, with bits of the targets that have received it.
    used: Bits of the targets in use, where equal targets are told apart by it.
    done, present: Bits of the nodes that have run, and the target of the last one; 0 and -1 where pieces cost nothing.
    """

    placed: int = 0
    open: tuple[tuple[int, int], ...] = ()
    received: tuple[tuple[int, int], ...] = ()
    used: int = 0
    done: int = 0
    present: int = -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """``unit`` goes to ``target``; ``added`` to the amounts, and the state after it."""

    unit: int
    target: int
    added: Array
    state: State


class Steps:
    """Steps of a problem whose objective is sums (:class:`Amounts`)."""

    def __init__(self, compiled: Compiled, amounts: Amounts) -> None:
        self._compiled = compiled
        self._amounts = amounts
        self._equals = Equals(compiled)
        problem = compiled.problem
        timed = problem.objective != MEMORY or problem.latency_s is not None
        self._ordered = timed and any(target.piece_s for target in problem.targets)
        self._order = [] if self._ordered else narrow_order(compiled)
        self._sources = [sum(1 << source for source in set(node.sources)) for node in problem.nodes]
        self._ready_after: dict[int, list[int]] = {}

    def start(self) -> State:
        """Nothing is placed."""
        return State()

    def after(self, state: State) -> Iterator[Step]:
        """What may follow ``state``: the next unit on each target that takes it."""
        unit = self._next(state)
        for target in self._equals.fresh(self._compiled.allowed[unit], state.used):
            yield self._step(state, unit, target)

    def _next(self, state: State) -> int:
        if not self._ordered:
            return self._order[state.placed.bit_count()]
        unit_of = self._compiled.unit_of
        return next(unit_of[node] for node in self._ready(state.done) if not state.placed >> unit_of[node] & 1)

    def _step(self, state: State, unit: int, target: int) -> Step:
        added = self._amounts.of_unit(unit, target)
        places = {**dict(state.open), unit: target}
        received = dict(state.received)
        for index in self._compiled.read[unit]:
            crossing = self._compiled.crossings[index]
            if crossing.unit in places:
                self._cross(crossing, index, places[crossing.unit], target, received, added)
        for index in self._compiled.made[unit]:
            crossing = self._compiled.crossings[index]
            for reader in crossing.readers:
                if state.placed >> reader & 1:
                    self._cross(crossing, index, target, places[reader], received, added)
        placed = state.placed | 1 << unit
        done, present = state.done, state.present
        if self._ordered:
            done, present = self._run(done, present, placed, places, added)
        after = State(
            placed=placed,
            open=tuple(sorted(item for item in places.items() if self._open(item[0], placed, done))),
            received=tuple(sorted(item for item in received.items() if self._waited_for(item[0], placed))),
            used=self._equals.use(state.used, target),
            done=done,
            present=present,
        )
        return Step(unit=unit, target=target, added=added, state=after)

    def _cross(
        self, crossing: Crossing, index: int, source: int, target: int, received: dict[int, int], added: Array
    ) -> None:
        """The value of ``crossing`` is received by ``target`` unless it has been, and sent at the dearest so far."""
        before = received.get(index, 0)
        if source == target or before >> target & 1:
            return
        received[index] = before | 1 << target
        self._amounts.seconds(added, target, crossing.receive[source][target])
        dearest = max((s for each, s in enumerate(crossing.send[source]) if before >> each & 1), default=0.0)
        self._amounts.seconds(added, source, max(0.0, crossing.send[source][target] - dearest))

    def _run(self, done: int, present: int, placed: int, places: dict[int, int], added: Array) -> tuple[int, int]:
        """Nodes run until one could whose unit has no target."""
        unit_of, targets = self._compiled.unit_of, self._compiled.problem.targets
        while ready := self._ready(done):
            if any(not placed >> unit_of[node] & 1 for node in ready):
                break
            node = next((node for node in ready if places[unit_of[node]] == present), ready[0])
            if places[unit_of[node]] != present:
                present = places[unit_of[node]]
                self._amounts.seconds(added, present, targets[present].piece_s)
            done |= 1 << node
        return done, present

    def _ready(self, done: int) -> list[int]:
        """Nodes that have not run and whose sources have, by index."""
        found = self._ready_after.get(done)
        if found is None:
            waiting = (node for node in range(len(self._sources)) if not done >> node & 1)
            found = [node for node in waiting if self._sources[node] & done == self._sources[node]]
            self._ready_after[done] = found
        return found

    def _open(self, unit: int, placed: int, done: int) -> bool:
        """A later step looks at the target of ``unit``."""
        compiled = self._compiled
        if self._ordered and any(not done >> node & 1 for node in compiled.units[unit]):
            return True
        if any(self._waited_for(index, placed) for index in compiled.made[unit]):
            return True
        return any(not placed >> compiled.crossings[index].unit & 1 for index in compiled.read[unit])

    def _waited_for(self, index: int, placed: int) -> bool:
        return any(not placed >> reader & 1 for reader in self._compiled.crossings[index].readers)


def narrow_order(compiled: Compiled) -> list[int]:
    """Units in an order in which few of those that came have neighbours that have not, greedily from the first."""
    near = compiled.neighbours
    left = [len(each) for each in near]
    order: list[int] = []
    came: set[int] = set()
    edge: set[int] = set()
    for first in range(len(near)):
        if first in came:
            continue
        edge.add(first)
        while edge:
            # A neighbour that would become inner is one fewer in the open.
            unit = min(edge, key=lambda each: (_opened(each, near[each], left, came), each))
            edge.discard(unit)
            came.add(unit)
            order.append(unit)
            for other in near[unit]:
                left[other] -= 1
                if other not in came:
                    edge.add(other)
    return order


def _opened(unit: int, near: dict[int, float], left: list[int], came: set[int]) -> int:
    """How many more units are open once ``unit`` has come; ``left``: neighbours of each that have not come."""
    closed = sum(1 for other in near if other in came and left[other] == 1)
    return (1 if left[unit] else 0) - closed
