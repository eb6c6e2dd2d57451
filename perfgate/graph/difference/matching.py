"""Floor 3, graph. Which operator of base is which operator of head.

In: two graphs. Out: pairs of indices; what is in none was removed or added.

From sure to less sure: the same place in the whole graph, the same name, the same order, the same neighbours, the
same module; first among operators with equal signatures, then among those that only do the same kind of work.
Each step is linear or n log n, so that two graphs of thousands of operators that share nothing are no problem.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Hashable, Iterable, Sequence
from itertools import pairwise

from perfgate.graph.difference.alignment import Pair, align, increasing
from perfgate.graph.difference.modulemap import ModuleMap
from perfgate.graph.difference.opnames import base_name
from perfgate.graph.difference.tensors import parse
from perfgate.records.graph import Graph, Operator


class Matching:
    """Pairs found so far. ``to_head[i]``: index on head of base's operator ``i``, or -1; ``to_base`` alike."""

    def __init__(self, base: Sequence[Operator], head: Sequence[Operator]) -> None:
        self.base = base
        self.head = head
        self.to_head = [-1] * len(base)
        self.to_base = [-1] * len(head)

    def add(self, i: int, j: int) -> bool:
        """Pairs two operators unless one of them has its partner already."""
        if self.to_head[i] >= 0 or self.to_base[j] >= 0:
            return False
        self.to_head[i] = j
        self.to_base[j] = i
        return True

    def pairs(self) -> list[Pair]:
        """All pairs, ascending on base."""
        return [(i, j) for i, j in enumerate(self.to_head) if j >= 0]

    def removed(self) -> list[int]:
        """Operators of base without partner."""
        return [i for i, j in enumerate(self.to_head) if j < 0]

    def added(self) -> list[int]:
        """Operators of head without partner."""
        return [j for j, i in enumerate(self.to_base) if i < 0]

    def gaps(self) -> list[tuple[list[int], list[int]]]:
        """Unmatched operators of both sides between pairs that keep the order."""
        found: list[tuple[list[int], list[int]]] = []
        edges = [(-1, -1), *increasing(self.pairs()), (len(self.base), len(self.head))]
        for (i, j), (k, m) in pairwise(edges):
            rows = [row for row in range(i + 1, k) if self.to_head[row] < 0]
            columns = [column for column in range(j + 1, m) if self.to_base[column] < 0]
            found.append((rows, columns))
        return found

    def modules(self) -> ModuleMap:
        """Modules of both sides as the pairs have them."""
        return ModuleMap((self.base[i].module, self.head[j].module) for i, j in self.pairs())


def match(base: Graph, head: Graph) -> Matching:
    """Pairs operators of two graphs. A pair with equal keys (see :func:`keys`) is the same operator, else changed."""
    found = Matching(base.operators, head.operators)
    exact = _both(found, key)
    _context(found, exact)
    _by_order(found, exact)
    _by_neighbours(found, exact)
    _by_module(found, exact)
    # Sizes before names: what moved up in a list of layers has another layer's old name.
    for level in (_both(found, _sizes), _both(found, _work)):
        _by_name(found, level)
        _by_order(found, level)
        _by_module(found, level)
    return found


def key(operator: Operator) -> Hashable:
    """What an operator is, without its name: equal keys are the same operator."""
    if operator.signature:
        # Operands that share memory are no part of a signature, but of what is read.
        work = operator.flop, operator.read_bytes, operator.written_bytes
        return operator.signature, operator.phase, operator.repeat, work
    attributes = tuple(sorted(operator.attributes.items()))
    return operator.op, operator.phase, operator.repeat, operator.inputs, operator.outputs, attributes


def _sizes(operator: Operator) -> Hashable:
    shapes = tuple(parse(text).shape for text in (*operator.inputs, *operator.outputs))
    return base_name(operator.op), operator.phase, shapes


def _work(operator: Operator) -> Hashable:
    return base_name(operator.op), operator.phase


Keys = tuple[list[int], list[int]]


def _both(found: Matching, key_of: Callable[[Operator], Hashable]) -> Keys:
    """Numbers that are equal for equal keys, of all operators of both sides."""
    numbers: dict[Hashable, int] = {}
    rows = [numbers.setdefault(key_of(operator), len(numbers)) for operator in found.base]
    columns = [numbers.setdefault(key_of(operator), len(numbers)) for operator in found.head]
    return rows, columns


def _context(found: Matching, keys: Keys) -> None:
    """Pairs operators with the same ancestry and the same posterity, then those with one of the two."""
    numbers: dict[Hashable, int] = {}
    up = _upwards(found.base, keys[0], numbers), _upwards(found.head, keys[1], numbers)
    down = _downwards(found.base, keys[0], numbers), _downwards(found.head, keys[1], numbers)
    # With the ancestry of all that comes after it, so that a constant's operators know where they end up.
    whole = _downwards(found.base, up[0], numbers), _downwards(found.head, up[1], numbers)
    _by_name(found, whole)
    _by_class(found, whole)
    # What was put in among equal ones could be any of them: names tell before half of the context does.
    for half in (up, down, keys):
        _by_name(found, half)
    for half in (up, down):
        _by_class(found, half)


def _upwards(side: Sequence[Operator], own: Sequence[int], numbers: dict[Hashable, int]) -> list[int]:
    labels: list[int] = []
    for number, operator in enumerate(side):
        sources = sorted(labels[source] for source in operator.sources if 0 <= source < number)
        labels.append(numbers.setdefault(("up", own[number], *sources), len(numbers)))
    return labels


def _downwards(side: Sequence[Operator], own: Sequence[int], numbers: dict[Hashable, int]) -> list[int]:
    readers: list[list[int]] = [[] for _ in side]
    labels = [0] * len(side)
    for number in range(len(side) - 1, -1, -1):
        labels[number] = numbers.setdefault(("down", own[number], *sorted(readers[number])), len(numbers))
        for source in side[number].sources:
            if 0 <= source < number:
                readers[source].append(labels[number])
    return labels


def _by_class(found: Matching, keys: Keys) -> None:
    """Pairs classes of equally many unmatched operators on both sides: by name, the rest in order."""
    rows, columns = keys
    left: dict[int, list[int]] = defaultdict(list)
    right: dict[int, list[int]] = defaultdict(list)
    for i, label in enumerate(rows):
        if found.to_head[i] < 0:
            left[label].append(i)
    for j, label in enumerate(columns):
        if found.to_base[j] < 0:
            right[label].append(j)
    for label, mine in left.items():
        others = right.get(label, [])
        if len(mine) == len(others):
            _in_order(found, mine, others)


def _in_order(found: Matching, mine: Iterable[int], others: Iterable[int]) -> None:
    names = {found.head[j].name: j for j in others}
    for i in mine:
        j = names.get(found.base[i].name)
        if j is not None:
            found.add(i, j)
    rest = [j for j in others if found.to_base[j] < 0]
    for i, j in zip((i for i in mine if found.to_head[i] < 0), rest, strict=False):
        found.add(i, j)


def _by_name(found: Matching, keys: Keys) -> None:
    rows, columns = keys
    names = {operator.name: j for j, operator in enumerate(found.head) if found.to_base[j] < 0}
    for i, operator in enumerate(found.base):
        j = names.get(operator.name)
        if found.to_head[i] < 0 and j is not None and rows[i] == columns[j]:
            found.add(i, j)


def _by_order(found: Matching, keys: Keys) -> None:
    rows, columns = keys
    for mine, others in found.gaps():
        if mine and others:
            for i, j in align([rows[i] for i in mine], [columns[j] for j in others]):
                found.add(mine[i], others[j])


def _by_neighbours(found: Matching, keys: Keys) -> None:
    """Pairs what reads from, or is read by, operators that are pairs already; spreads from pair to pair."""
    rows, columns = keys
    near_base, near_head = _neighbours(found.base), _neighbours(found.head)
    waiting = found.pairs()
    while waiting:
        i, j = waiting.pop()
        for mine, others in zip(near_base[i], near_head[j], strict=True):
            free: dict[int, list[int]] = defaultdict(list)
            for other in others:
                if found.to_base[other] < 0:
                    free[columns[other]].append(other)
            for one in mine if free else ():
                if found.to_head[one] < 0 and free.get(rows[one]):
                    other = free[rows[one]].pop(0)
                    found.add(one, other)
                    waiting.append((one, other))


def _neighbours(side: Sequence[Operator]) -> list[tuple[list[int], list[int]]]:
    """For each operator: those that it reads from and those that read from it."""
    found: list[tuple[list[int], list[int]]] = [([], []) for _ in side]
    for number, operator in enumerate(side):
        for source in operator.sources:
            if 0 <= source < number:
                found[number][0].append(source)
                found[source][1].append(number)
    return found


def _by_module(found: Matching, keys: Keys) -> None:
    """Pairs what is left in modules that belong together: the same one, or one inside of the other (moved code)."""
    rows, columns = keys
    modules = found.modules()
    for lifted in (0, 1):
        left: dict[tuple[str, int], list[int]] = defaultdict(list)
        right: dict[tuple[str, int], list[int]] = defaultdict(list)
        for i in found.removed():
            left[(_lift(found.base[i].module, lifted), rows[i])].append(i)
        for j in found.added():
            module = found.head[j].module
            place = modules.base(module)
            right[(_lift(module if place is None else place, lifted), columns[j])].append(j)
        for place_and_key, mine in left.items():
            others = right.get(place_and_key, [])
            # In the container alone equal numbers are asked for: else any of several might be meant.
            if others and (not lifted or len(mine) == len(others)):
                for i, j in zip(mine, others, strict=False):
                    found.add(i, j)


def _lift(module: str, levels: int) -> str:
    for _ in range(levels):
        module = module.rpartition(".")[0]
    return module
