"""Floor 3, placement. In: a problem and a target for each node. Out: pieces that one thread runs, in order.

A piece is a run of nodes on one target, which a library is handed as one sub-graph. The order is the one that both the
objective "latency in turn" and a deployed plan use.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence

from perfgate.records.placement import Problem


def cut(problem: Problem, targets: Sequence[int]) -> tuple[tuple[int, ...], ...]:
    """The pieces, as indices of nodes in order of execution; two pieces next to one another differ in their target.

    A list schedule that stays where it is: of the nodes whose sources are done, the one of the present target with the
    smallest index is next; where the present target has none, the one with the smallest index of all, and its target
    becomes the present one. Each node is in one piece, after all of its sources. Not the order with the fewest pieces,
    which is hard to find, yet the same one each time.

    ``targets``: index of a target for each node. Support, limits and groups are not looked at.
    """
    readers = readers_of(problem)
    waiting = [len(set(node.sources)) for node in problem.nodes]
    ready: dict[int, list[int]] = {}
    for index, count in enumerate(waiting):
        if not count:
            heapq.heappush(ready.setdefault(targets[index], []), index)
    pieces: list[tuple[int, ...]] = []
    while any(ready.values()):
        present = min((heap[0], target) for target, heap in ready.items() if heap)[1]
        piece: list[int] = []
        while ready[present]:
            piece.append(heapq.heappop(ready[present]))
            for reader in readers[piece[-1]]:
                waiting[reader] -= 1
                if not waiting[reader]:
                    heapq.heappush(ready.setdefault(targets[reader], []), reader)
        pieces.append(tuple(piece))
    return tuple(pieces)


def readers_of(problem: Problem) -> tuple[tuple[int, ...], ...]:
    """For each node the nodes that read its output, by index; each once."""
    readers: list[list[int]] = [[] for _ in problem.nodes]
    for index, node in enumerate(problem.nodes):
        for source in sorted(set(node.sources)):
            readers[source].append(index)
    return tuple(tuple(those) for those in readers)
