"""Floor 3, placement. In: a compiled problem, side by side. Out: the least latency along single paths.

What lies on one path of the graph runs in sequence, so no latency is less than that of the path, placed as well as it
can be. On a path a whole target has one unbroken stretch: if it had two, it would wait for what waits for it. For the
same reason all nodes between the first and the last node of a stretch are on that target too: their times follow one
another, and they share its memory. Which stretches there are is found exactly, by dynamic programming over the path's
positions, the targets there, and how many whole targets have had their stretch. Nodes off the path and outside the
stretches take no time and no memory here.

The bound sees what linear programs and critical paths do not: that memory for only a part of the graph on each of
several accelerators makes cuts, and that these cost transfers.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from perfgate.placement.amounts import Array
from perfgate.placement.compiled import Compiled, Crossing
from perfgate.placement.evaluate import ROUNDING
from perfgate.placement.pieces import readers_of
from perfgate.placement.symmetry import Equals

# Paths through much time, dear values, and much memory: the share of each in a node's weight.
# Nodes of a path times nodes of the graph; a longer one takes many seconds, and is left out.
MOST = 2_000_000
WEIGHTS = ((1, 0, 0), (0, 1, 0), (0, 0, 1), (1, 1, 0), (1, 0, 1), (0, 1, 1), (1, 1, 1), (1, 0.2, 0.2), (0.2, 1, 0.2))


def backbone(compiled: Compiled) -> float:
    """No latency side by side is less than this many seconds."""
    small = [path for path in paths(compiled) if len(path) * len(compiled.unit_of) <= MOST]
    return max((_Path(compiled, path).least() for path in small), default=0.0) * (1 - ROUNDING)


def paths(compiled: Compiled) -> list[list[int]]:
    """Longest paths of the graph by several weights of its nodes; each once."""
    problem = compiled.problem
    readers = readers_of(problem)
    keepers = _keepers(compiled)
    dear = {crossing.node: crossing.dear for crossing in compiled.crossings}
    times = [
        min(node.seconds[target] or 0.0 for target in compiled.allowed[unit])
        for node, unit in zip(problem.nodes, compiled.unit_of, strict=True)
    ]
    values = [dear.get(index, 0.0) for index in range(len(problem.nodes))]
    memory = [compiled.memory[unit] if keepers[unit] == index else 0.0 for index, unit in enumerate(compiled.unit_of)]
    parts = np.array([np.array(part) / (sum(part) or 1.0) for part in (times, values, memory)])
    found: list[list[int]] = []
    for weights in WEIGHTS:
        path = _longest(readers, (np.array(weights) @ parts).tolist())
        if path not in found:
            found.append(path)
    return found


def _longest(readers: Sequence[Sequence[int]], weight: Sequence[float]) -> list[int]:
    ahead = list(weight)
    for node in range(len(weight) - 1, -1, -1):
        ahead[node] += max((ahead[reader] for reader in readers[node]), default=0.0)
    path = [max(range(len(ahead)), key=ahead.__getitem__)]
    while readers[path[-1]]:
        path.append(max(readers[path[-1]], key=ahead.__getitem__))
    return path


def _keepers(compiled: Compiled) -> list[int]:
    """The node of each unit that its memory is counted at: the last that reads and is read, if there is one."""
    nodes = compiled.problem.nodes
    read = {source for node in nodes for source in node.sources}
    inner = [[node for node in members if node in read and nodes[node].sources] for members in compiled.units]
    return [(some or list(members))[-1] for some, members in zip(inner, compiled.units, strict=True)]


class _Path:
    """``nodes``, each a reader of the one before it. Position p lies between nodes p - 1 and p."""

    def __init__(self, compiled: Compiled, nodes: Sequence[int]) -> None:
        self._compiled = compiled
        self._nodes = nodes
        problem = compiled.problem
        class_of = Equals(compiled).class_of
        self._whole = [target for target in sorted(set(class_of)) if problem.targets[target].whole]
        self._free = [target for target, each in enumerate(problem.targets) if not each.whole]
        self._count = sum(target.whole for target in problem.targets)
        self._alone = {target: class_of.count(target) == 1 for target in self._whole}
        self._other = {
            target: next((each for each, of in enumerate(class_of) if of == target and each != target), target)
            for target in self._whole
        }
        crossings: dict[int, Crossing] = {crossing.node: crossing for crossing in compiled.crossings}
        self._crossings = [crossings.get(node) for node in nodes]
        self._crossings_of = crossings
        self._readers = readers_of(problem)
        units = [compiled.unit_of[node] for node in nodes]
        # Positions between two nodes of one unit.
        self._joined = [False, *(one == other for one, other in itertools.pairwise(units))]
        self._spans = {unit: (units.index(unit), len(units) - 1 - units[::-1].index(unit)) for unit in units}

    def least(self) -> float:
        """Seconds of the path, placed as well as it can be."""
        count = len(self._nodes)
        stretches = self._stretches() if self._whole else {}
        best = math.inf
        before: dict[int, Array] = {}
        for used in range(self._count + 1):
            # Seconds until position p is reached with the node before it on a target.
            now = {target: np.full(count + 1, np.inf) for target in (*self._whole, *self._free)}
            for target in self._whole if used else ():
                enter = np.array([self._enter(before, position, target, begins=used == 1) for position in range(count)])
                now[target][1:] = (enter[:, None] + stretches[target]).min(axis=0)
            for position, node in enumerate(self._nodes):
                for target in self._free:
                    seconds = self._compiled.problem.nodes[node].seconds[target]
                    if target in self._compiled.allowed[self._compiled.unit_of[node]] and seconds is not None:
                        begun = self._enter(now, position, target, begins=not used)
                        now[target][position + 1] = begun + seconds
            best = min(best, *(float(times[count]) for times in now.values()))
            before = now
        return best

    def _enter(self, times: dict[int, Array], position: int, target: int, *, begins: bool) -> float:
        """When the value before ``position`` can be on ``target``; ``begins``: nothing stands before the first node."""
        if not position:
            return 0.0 if begins else math.inf
        crossing = self._crossings[position - 1]
        best = math.inf
        for source, reached in times.items():
            if (source == target and self._alone.get(target, False)) or (source != target and self._joined[position]):
                continue
            cost = 0.0
            if crossing is not None:
                at = self._other.get(target, target) if source == target else target
                cost = crossing.send[source][at] + crossing.receive[source][at]
            best = min(best, float(reached[position]) + cost)
        return best

    def _stretches(self) -> dict[int, Array]:
        """Of each whole target [i, j]: seconds of the stretch from node i to node j; inf: it cannot be."""
        compiled = self._compiled
        first, last = self._between()
        held = np.zeros(len(compiled.unit_of))
        held[_keepers(compiled)] = compiled.memory
        memory = first.T @ (held[:, None] * last)
        found = {}
        for target in self._whole:
            taken = np.array([target in compiled.allowed[unit] for unit in compiled.unit_of])
            column = np.array([node.seconds[target] or 0.0 for node in compiled.problem.nodes])
            seconds = first.T @ (column[:, None] * last) * (1 - ROUNDING)
            seconds[first.T @ (~taken[:, None] * last) > 0] = np.inf
            seconds[memory > compiled.limits[compiled.device_of[target]] * (1 + 2 * ROUNDING)] = np.inf
            seconds[np.tril_indices(len(seconds), -1)] = np.inf
            for begin, end in self._spans.values():
                # A unit is not in two stretches: one that has its first node has its last one too.
                seconds[: begin + 1, begin:end] = np.inf
                seconds[begin + 1 : end + 1, end:] = np.inf
            # Prices are sums of differences: they may be rounded up.
            extra = self._skips(target, first, last) * (1 - ROUNDING)
            found[target] = seconds + np.maximum(0.0, extra) + compiled.problem.targets[target].piece_s
        return found

    def _skips(self, target: int, first: Array, last: Array) -> Array:
        """Of each stretch, seconds for values that come from earlier nodes of the path or are read by later ones.

        Those of the stretch's neighbours on the path are left out: what they cost depends on the other target.
        """
        count = len(self._nodes)
        steps = np.zeros((count + 1, count + 1))
        low, high = first.sum(axis=1).astype(int) - 1, count - last.sum(axis=1).astype(int)
        place = {node: position for position, node in enumerate(self._nodes)}
        for crossing in self._crossings_of.values():
            readers = self._readers[crossing.node]
            made = place.get(crossing.node)
            if made is not None:
                # Read by a node that must be in the stretch [i, j]: i up to its low, j from its high on.
                price = self._cheapest(crossing.unit, target, [row[target] for row in crossing.receive])
                inner = sorted((int(low[reader]), int(high[reader])) for reader in readers if low[reader] > made + 1)
                begin = made + 2
                for place_of, (until, _) in enumerate(inner):
                    from_end = min(end for _, end in inner[place_of:])
                    if until >= begin and from_end < count:
                        _add(steps, (begin, until + 1), (from_end, count), price)
                        begin = until + 1
            outer = max((place[reader] for reader in readers if reader in place), default=-1)
            begin, end = int(low[crossing.node]), int(high[crossing.node])
            if begin >= 0 and outer > end:
                prices = [
                    self._cheapest(self._compiled.unit_of[reader], target, crossing.send[target])
                    for reader in readers
                    if place.get(reader) == outer
                ]
                # The stretch that ends with the value's own node is its neighbour's matter.
                _add(steps, (0, begin + 1), (end + (made is not None), outer), min(prices))
        return np.asarray(steps.cumsum(axis=0).cumsum(axis=1)[:count, :count])

    def _cheapest(self, unit: int, target: int, prices: Sequence[float]) -> float:
        """The least of the prices for another target that ``unit`` may be on."""
        return min((prices[each] for each in self._compiled.allowed[unit] if each != target), default=0.0)

    def _between(self) -> tuple[Array, Array]:
        """Nodes x positions on the path, 1 or 0: the node is that one or comes after it; is that one or before it."""
        nodes = self._compiled.problem.nodes
        place = {node: position for position, node in enumerate(self._nodes)}
        after, before = (np.zeros((len(nodes), len(place)), dtype=bool) for _ in range(2))
        for node, position in place.items():
            after[node, position] = before[node, position] = True
        for node, each in enumerate(nodes):
            for source in each.sources:
                after[node] |= after[source]
        for node in range(len(nodes) - 1, -1, -1):
            for source in nodes[node].sources:
                before[source] |= before[node]
        return after.astype(float), before.astype(float)


def _add(steps: Array, rows: tuple[int, int], columns: tuple[int, int], amount: float) -> None:
    """``amount`` to a rectangle, as differences; sums along both axes make the amounts of them."""
    if rows[0] < rows[1] and columns[0] < columns[1]:
        steps[rows[0], columns[0]] += amount
        steps[rows[1], columns[0]] -= amount
        steps[rows[0], columns[1]] -= amount
        steps[rows[1], columns[1]] += amount
