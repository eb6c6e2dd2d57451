"""Floor 3, placement. The best division of a line of units into segments, one target each, by dynamic programming.

In: a compiled problem and an order of its units. Out: a target for each unit, a start for the search: the least largest
load (throughput), or the least sum of segments' times (latency), among divisions that keep memory limits.

The time of segment [i, j) on a target is its seconds and its sends and receives. Whether a value crosses the segment's
ends is a sum of indicators of the form "i <= a and j > b", so the table of all segments is one cumulative sum over a
matrix of such corners. Targets that are alike in everything are one class with a count. Borders count by their mean
over the other targets: which targets a segment will talk to is not known in the table.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence

import numpy as np

from perfgate.placement.compiled import Compiled, Crossing
from perfgate.records.placement import IN_TURN, THROUGHPUT

# Units beyond this are divided in blocks of about equal work.
MOST_BLOCKS = 450
# Combinations of targets used up; beyond, the table is too large to be worth it.
MOST_STATES = 300


def divided(compiled: Compiled, order: Sequence[int], classes: Sequence[Sequence[int]]) -> list[int] | None:
    """Targets of units, or None: nothing keeps the limits, or there are too many unlike targets.

    ``classes``: those of :func:`alike`.
    """
    once = [_once(compiled, members[0]) for members in classes]
    sizes = [len(members) if single else 0 for members, single in zip(classes, once, strict=True)]
    states = math.prod(size + 1 for size in sizes)
    if states > MOST_STATES:
        return None
    staying = _staying(compiled)
    blocks = _blocks(compiled, [unit for unit in order if unit not in staying])
    if not blocks:
        return None
    tables = [_Table(compiled, blocks, staying, members[0]).seconds for members in classes]
    found = _best(tables, sizes, states, largest=compiled.problem.objective == THROUGHPUT)
    if found is None:
        return None
    targets = [staying.get(unit, compiled.default) for unit in range(len(order))]
    used = [0] * len(classes)
    for kind, first, last in found:
        target = classes[kind][used[kind]]
        used[kind] += once[kind]
        for place in range(first, last):
            for unit in blocks[place]:
                targets[unit] = target
    return targets if compiled.allows(targets) else None


def alike(compiled: Compiled) -> list[list[int]]:
    """Classes of targets that may be exchanged for one another without a change of any value."""
    classes: list[list[int]] = []
    for target in range(compiled.target_count):
        for members in classes:
            if _exchangeable(compiled, members[0], target):
                members.append(target)
                break
        else:
            classes.append([target])
    return classes


def _exchangeable(compiled: Compiled, one: int, other: int) -> bool:
    problem, devices = compiled.problem, compiled.device_of
    first, second = problem.targets[one], problem.targets[other]
    if (first.piece_s, first.whole, first.default) != (second.piece_s, second.whole, second.default):
        return False
    if devices.count(devices[one]) > 1 or devices.count(devices[other]) > 1:
        return False
    here, there = problem.devices[devices[one]], problem.devices[devices[other]]
    if (here.memory_bytes, here.lanes) != (there.memory_bytes, there.lanes):
        return False
    if any(row[one] != row[other] for row in compiled.seconds):
        return False
    seen: set[int] = set()
    for crossing in compiled.crossings:
        if id(crossing.send) not in seen:
            seen.add(id(crossing.send))
            if not (_symmetric(crossing.send, one, other) and _symmetric(crossing.receive, one, other)):
                return False
    return True


def _symmetric(table: list[list[float]], one: int, other: int) -> bool:
    """Exchanging both leaves the table as it is."""
    swap = {one: other, other: one}
    count = len(table)
    return table[one][other] == table[other][one] and all(
        table[at][third] == table[swap[at]][third] and table[third][at] == table[third][swap[at]]
        for at in (one, other)
        for third in range(count)
        if third not in swap
    )


def _once(compiled: Compiled, target: int) -> bool:
    """The target has one segment at most: its load, or its sub-graph, is one."""
    problem = compiled.problem
    if problem.objective == THROUGHPUT:
        return True
    return problem.order != IN_TURN and problem.targets[target].whole


def _staying(compiled: Compiled) -> dict[int, int]:
    """Units without a choice -> their target; where only loads count, they need not divide what stands around them."""
    if compiled.problem.objective != THROUGHPUT:
        return {}
    return {unit: allowed[0] for unit, allowed in enumerate(compiled.allowed) if len(allowed) == 1}


def _blocks(compiled: Compiled, order: Sequence[int]) -> list[list[int]]:
    if len(order) <= MOST_BLOCKS:
        return [[unit] for unit in order]
    work = [min(compiled.seconds[unit]) for unit in order]
    most = sum(work) / MOST_BLOCKS
    fair = math.ceil(len(order) / MOST_BLOCKS)
    blocks: list[list[int]] = [[]]
    full = 0.0
    for unit, seconds in zip(order, work, strict=True):
        if blocks[-1] and (full + seconds > 2 * most or len(blocks[-1]) >= 2 * fair):
            blocks.append([])
            full = 0.0
        blocks[-1].append(unit)
        full += seconds
    return blocks


class _Table:
    """Seconds of all segments on one target: (n + 1) x (n + 1), inf where it cannot be; 0 where i >= j."""

    def __init__(self, compiled: Compiled, blocks: list[list[int]], staying: dict[int, int], target: int) -> None:
        self._target, self._staying = target, staying
        # Of each unit: its block, -1 for one that stays.
        self._place = [-1] * len(compiled.units)
        for place, units in enumerate(blocks):
            for unit in units:
                self._place[unit] = place
        count = len(blocks)
        corners = np.zeros((count + 2, count + 2))
        for crossing in compiled.crossings:
            self._corners(corners, crossing)
        # corners[a, b]: for all i <= a and j >= b.
        table = np.cumsum(np.cumsum(corners[::-1], axis=0)[::-1], axis=1)[: count + 1, : count + 1]
        seconds = [sum(compiled.seconds[unit][target] for unit in units) for units in blocks]
        table += _between([0.0 if time == math.inf else time for time in seconds])
        mine = [unit for unit, place in staying.items() if place == target]
        table += compiled.problem.targets[target].piece_s + sum(compiled.seconds[unit][target] for unit in mine)
        table[_between([float(time == math.inf) for time in seconds]) > 0] = np.inf
        memory = _between([sum(compiled.memory[unit] for unit in units) for units in blocks])
        memory += sum(compiled.memory[unit] for unit in mine)
        table[memory > compiled.limits[compiled.device_of[target]]] = np.inf
        table[np.tril_indices(count + 1)] = 0.0
        self.seconds = np.maximum(table, 0.0)

    def _corners(self, corners: np.ndarray, crossing: Crossing) -> None:
        """What the value costs this target, by segment; units that stay are inside if they stay on it."""
        target, place = self._target, self._place
        maker = place[crossing.unit]
        readers = sorted({place[reader] for reader in crossing.readers} - {maker, -1})
        leaves = any(self._staying.get(reader, target) != target for reader in crossing.readers)
        if maker >= 0 and (readers or leaves):
            # Sent: the maker is inside, and not all readers are.
            send = _mean(crossing.send[target], target)
            corners[maker, maker + 1] += send
            if not leaves:
                corners[min(maker, readers[0]), max(maker, readers[-1]) + 1] -= send
        if readers and self._staying.get(crossing.unit) != target:
            receive = _mean([row[target] for row in crossing.receive], target)
            _received(corners, maker, readers, receive)


def _received(corners: np.ndarray, maker: int, readers: list[int], receive: float) -> None:
    """A reader is inside (as many as are, less the neighbouring pairs that are), and the maker, if in line, is not."""
    for reader in readers:
        corners[reader, reader + 1] += receive
    for one, other in itertools.pairwise(readers):
        corners[one, other + 1] -= receive
    if maker < 0:
        return
    before = max((reader for reader in readers if reader < maker), default=None)
    after = min((reader for reader in readers if reader > maker), default=None)
    if before is not None:
        corners[before, maker + 1] -= receive
    if after is not None:
        corners[maker, after + 1] -= receive
    if before is not None and after is not None:
        corners[before, after + 1] += receive


def _mean(costs: Sequence[float], own: int) -> float:
    others = [cost for target, cost in enumerate(costs) if target != own]
    return sum(others) / len(others) if others else 0.0


def _between(amounts: Sequence[float]) -> np.ndarray:
    """[i, j]: the sum of those from i to j - 1, 0 below the diagonal."""
    total = np.concatenate([[0.0], np.cumsum(amounts)])
    found: np.ndarray = np.maximum(total[None, :] - total[:, None], 0.0)
    return found


def _best(
    tables: Sequence[np.ndarray], sizes: Sequence[int], states: int, *, largest: bool
) -> list[tuple[int, int, int]] | None:
    """Segments (class, first block, block behind the last) of the best division, in order."""
    count = tables[0].shape[0] - 1
    strides = [math.prod(size + 1 for size in sizes[:kind]) for kind in range(len(sizes))]
    join = np.maximum if largest else np.add
    best = np.full((states, count + 1), np.inf)
    best[:, 0] = 0.0
    came = np.full((states, count + 1, 2), -1, dtype=np.int64)
    # Rows of states in which one more of a class may still be used, and the rows they come from.
    numbers = np.arange(states)
    after = [
        numbers if not size else numbers[numbers // stride % (size + 1) > 0]
        for size, stride in zip(sizes, strides, strict=True)
    ]
    before = [rows - (stride if size else 0) for rows, size, stride in zip(after, sizes, strides, strict=True)]
    for end in range(1, count + 1):
        for kind, table in enumerate(tables):
            reached = join(best[before[kind], :end], table[:end, end])
            first = reached.argmin(axis=1)
            value = reached[np.arange(len(first)), first]
            rows = after[kind]
            better = value < best[rows, end]
            best[rows[better], end] = value[better]
            came[rows[better], end, 0] = kind
            came[rows[better], end, 1] = first[better]
    state, end = int(best[:, count].argmin()), count
    if not np.isfinite(best[state, count]):
        return None
    found = []
    while end:
        kind, first = (int(number) for number in came[state, end])
        found.append((kind, first, end))
        state -= strides[kind] if sizes[kind] else 0
        end = first
    return found[::-1]
