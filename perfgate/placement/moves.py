"""Floor 3, placement. Neighbours of an assignment, drawn at random.

In: a compiled problem, orders of its units, a source of random numbers. Out: :meth:`Moves.propose`: units with the
target each goes to. Kinds of move:

* one unit; mostly to the target of a unit that it is joined to;
* a cluster (:mod:`clusters`) or a connected region of one target, to a target next to it;
* a run: neighbours in an order on one target, to the target before it, behind it or any other. At the end of a part
  that moves its border, and over all of it that merges two parts;
* two units, or a unit and a region, exchanged between two targets;
* all that two targets have, exchanged, or all of one handed to the other.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

from perfgate.placement.compiled import Compiled

Changes = list[tuple[int, int]]

ONE, CLUSTER, REGION, RUN, BORDER, SWAP, EXCHANGE = (
    "one unit",
    "cluster",
    "region",
    "run",
    "border",
    "swap",
    "exchange of targets",
)
# How often each kind is drawn.
WEIGHTS = {ONE: 30, CLUSTER: 25, REGION: 8, RUN: 8, BORDER: 14, SWAP: 14, EXCHANGE: 1}
# How often a target is that of a joined unit, rather than any.
NEAR = 0.8
# A region or a run grows on with this probability after each unit.
GROWING = 0.85


class Moves:
    """See the module. ``targets`` are always those of a state's units."""

    def __init__(
        self,
        compiled: Compiled,
        draw: random.Random,
        orders: Sequence[Sequence[int]],
        clusters: Sequence[tuple[int, ...]],
    ) -> None:
        self._allowed = [frozenset(allowed) for allowed in compiled.allowed]
        self._free = [unit for unit, allowed in enumerate(compiled.allowed) if len(allowed) > 1]
        self._random = draw.random
        self._targets = compiled.target_count
        self._joined = _joined(compiled)
        self._orders = orders
        self._clusters = clusters
        kinds: dict[str, Callable[[list[int]], Changes]] = {
            ONE: self._one,
            CLUSTER: self._cluster if clusters else self._one,
            REGION: self._region,
            RUN: self._run,
            BORDER: self._border,
            SWAP: self._swap,
            EXCHANGE: self._exchange,
        }
        self._kinds = [(name, kinds[name]) for name, weight in WEIGHTS.items() for _ in range(weight)]

    @property
    def any(self) -> bool:
        """Some unit has a choice."""
        return bool(self._free)

    def propose(self, targets: list[int]) -> tuple[str, Changes]:
        """A kind of move, and what it changes; empty where the draw has none."""
        name, kind = self._kinds[int(self._random() * len(self._kinds))]
        return name, kind(targets)

    def _one(self, targets: list[int]) -> Changes:
        unit = self._any()
        return self._to([unit], self._towards(unit, targets), targets)

    def _cluster(self, targets: list[int]) -> Changes:
        cluster = self._clusters[int(self._random() * len(self._clusters))]
        source = targets[cluster[int(self._random() * len(cluster))]]
        mine = [unit for unit in cluster if targets[unit] == source]
        return self._to(mine, self._towards(mine[int(self._random() * len(mine))], targets), targets)

    def _region(self, targets: list[int]) -> Changes:
        mine = self._grown(self._any(), targets)
        return self._to(mine, self._towards(mine[int(self._random() * len(mine))], targets), targets)

    def _run(self, targets: list[int]) -> Changes:
        """From any place on, as long as the target is the same."""
        order = self._orders[int(self._random() * len(self._orders))]
        at = int(self._random() * len(order))
        source = targets[order[at]]
        mine = []
        while at < len(order) and targets[order[at]] == source:
            mine.append(order[at])
            at += 1
            if self._random() > GROWING:
                break
        if at < len(order) and targets[order[at]] != source and self._random() < NEAR:
            return self._to(mine, targets[order[at]], targets)
        return self._to(mine, self._towards(mine[-1], targets), targets)

    def _border(self, targets: list[int]) -> Changes:
        """The next border behind a place is moved, forwards or backwards, now and then over the whole part."""
        order = self._orders[int(self._random() * len(self._orders))]
        last = len(order) - 1
        at = int(self._random() * len(order))
        while at < last and targets[order[at]] == targets[order[at + 1]]:
            at += 1
        if at >= last:
            return []
        forwards = self._random() < 0.5
        source, target = targets[order[at + forwards]], targets[order[at + (not forwards)]]
        step, at = (1, at + 1) if forwards else (-1, at)
        whole = self._random() < 1 - GROWING
        mine = []
        while 0 <= at <= last and targets[order[at]] == source:
            mine.append(order[at])
            at += step
            if not whole and self._random() > GROWING:
                break
        return self._to(mine, target, targets)

    def _swap(self, targets: list[int]) -> Changes:
        one = self._any()
        other = self._any()
        if targets[one] == targets[other]:
            return []
        forth = [one] if self._random() < 0.5 else self._grown(one, targets)
        back = [other] if self._random() < 0.5 else self._grown(other, targets)
        source, target = targets[one], targets[other]
        return self._to(forth, target, targets) + self._to(back, source, targets)

    def _exchange(self, targets: list[int]) -> Changes:
        one, other = (int(self._random() * self._targets) for _ in range(2))
        if one == other:
            return []
        changes = self._to([unit for unit in self._free if targets[unit] == one], other, targets)
        if self._random() < 0.5:
            changes += self._to([unit for unit in self._free if targets[unit] == other], one, targets)
        return changes

    def _any(self) -> int:
        return self._free[int(self._random() * len(self._free))]

    def _towards(self, unit: int, targets: list[int]) -> int:
        """Target of a joined unit, or any."""
        joined = self._joined[unit]
        if joined and self._random() < NEAR:
            target = targets[joined[int(self._random() * len(joined))]]
            if target != targets[unit]:
                return target
        return int(self._random() * self._targets)

    def _grown(self, unit: int, targets: list[int]) -> list[int]:
        """A connected region of one target around ``unit``."""
        source = targets[unit]
        mine, seen = [unit], {unit}
        for each in mine:
            for other in self._joined[each]:
                if other not in seen and targets[other] == source:
                    seen.add(other)
                    if self._random() > GROWING:
                        return mine
                    mine.append(other)
        return mine

    def _to(self, units: list[int], target: int, targets: list[int]) -> Changes:
        allowed = self._allowed
        return [(unit, target) for unit in units if targets[unit] != target and target in allowed[unit]]


def _joined(compiled: Compiled) -> list[tuple[int, ...]]:
    """Units joined by any value, those that cost nothing included."""
    found: list[set[int]] = [set() for _ in compiled.units]
    for source, readers in enumerate(compiled.edges):
        for reader in readers:
            one, other = compiled.unit_of[source], compiled.unit_of[reader]
            if one != other:
                found[one].add(other)
                found[other].add(one)
    return [tuple(sorted(units)) for units in found]
