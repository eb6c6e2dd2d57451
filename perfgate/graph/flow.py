"""Floor 3, graph. Which calls wrote what a call reads.

In: what each call moves, and where values lie in memory. Out: :class:`Flow`. Storages are followed, so views see
through and writes in place keep their order.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.graph.layout import Region
from perfgate.graph.traffic import Memory, Moved

OUTSIDE = -1


@dataclass(frozen=True, slots=True)
class Flow:
    """What calls hand to one another.

    Attributes:
        producers: For each call, by value that it reads: the calls that last wrote it, and ``OUTSIDE`` where what
            was there before the step is read as well.
        after: For each call, those that wrote to what it changes in part without reading it.
        readers: For each call, pairs (call, value read) that read what it wrote, in order.
        last: Pairs (call, value written) that outlive the step.
    """

    producers: tuple[dict[int, tuple[int, ...]], ...]
    after: tuple[frozenset[int], ...]
    readers: tuple[tuple[tuple[int, int], ...], ...]
    last: frozenset[tuple[int, int]]

    def sources(self, call: int) -> tuple[int, ...]:
        """Calls that a call needs to have run: whose outputs it reads or adds its part to, ascending."""
        read = {producer for found in self.producers[call].values() for producer in found}
        return tuple(sorted((read | self.after[call]) - {OUTSIDE}))


@dataclass(frozen=True, slots=True)
class _Write:
    call: int
    value: int
    region: Region
    whole: bool


def follow(memory: Memory, calls: Sequence[Moved]) -> Flow:
    """The flow of a trace's calls, in order."""
    current: dict[int, list[_Write]] = defaultdict(list)
    producers: list[dict[int, tuple[int, ...]]] = []
    after: list[frozenset[int]] = []
    readers: list[list[tuple[int, int]]] = [[] for _ in calls]
    for number, moved in enumerate(calls):
        found: dict[int, tuple[int, ...]] = {}
        for index in moved.reads:
            seen = memory.regions[index]
            writers = [write for write in current.get(seen.storage, ()) if write.region.overlaps(seen)]
            found[index] = tuple(dict.fromkeys(write.call for write in writers))
            for producer in found[index]:
                readers[producer].append((number, index))
            if memory.outside(index) and not any(write.whole and write.region.covers(seen) for write in writers):
                found[index] = (*found[index], OUTSIDE)
        producers.append(found)
        earlier: set[int] = set()
        for index, amount in moved.writes.items():
            where = memory.regions[index]
            new = _Write(number, index, where, amount == where.bytes)
            held = current[where.storage]
            if held and new.whole:
                held[:] = [old for old in held if not where.covers(old.region)]
            elif index not in moved.reads:
                earlier.update(old.call for old in held if old.region.overlaps(where))
            held.append(new)
        after.append(frozenset(earlier))
    return Flow(tuple(producers), tuple(after), tuple(tuple(pairs) for pairs in readers), _last(memory, current))


def _last(memory: Memory, current: dict[int, list[_Write]]) -> frozenset[tuple[int, int]]:
    """(call, value written) of all writes that are still there and are wanted after the step."""
    wanted: dict[int, list[Region]] = defaultdict(list)
    for index in memory.kept():
        wanted[memory.regions[index].storage].append(memory.regions[index])
    found = set()
    for storage, writes in current.items():
        for write in writes:
            outside = memory.outside(write.value)
            if outside or any(write.region.overlaps(region) for region in wanted[storage]):
                found.add((write.call, write.value))
    return frozenset(found)
