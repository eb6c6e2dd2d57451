"""Floor 3, placement. Fixed times of pieces, as :func:`perfgate.placement.pieces.cut` cuts them, faster.

In: a compiled problem. Out: seconds of each device for starting its pieces under an assignment. The order of pieces
follows no local rule (a move may join or split pieces anywhere behind it), so it is made anew; neighbours and counts
are prepared once.
"""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heappop, heappush

from perfgate.placement.compiled import Compiled


class Runs:
    """See the module."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        nodes = compiled.problem.nodes
        self._waiting = [len(set(node.sources)) for node in nodes]
        self._first = [index for index, count in enumerate(self._waiting) if not count]
        self._readers = [tuple(sorted(readers)) for readers in compiled.edges]

    def fixed(self, targets: Sequence[int]) -> list[float]:
        """Seconds of each device for its pieces; ``targets``: of units."""
        compiled = self._compiled
        fixed = [0.0] * compiled.device_count
        for target, count in enumerate(self.counts(targets)):
            fixed[compiled.device_of[target]] += count * compiled.problem.targets[target].piece_s
        return fixed

    def counts(self, targets: Sequence[int]) -> list[int]:
        """Number of pieces of each target."""
        of_node = [targets[unit] for unit in self._compiled.unit_of]
        waiting, readers = self._waiting.copy(), self._readers
        ready: list[list[int]] = [[] for _ in range(self._compiled.target_count)]
        counts = [0] * len(ready)
        for index in self._first:
            ready[of_node[index]].append(index)
        for heap in ready:
            heapify(heap)
        while True:
            heads = [(heap[0], target) for target, heap in enumerate(ready) if heap]
            if not heads:
                return counts
            present = min(heads)[1]
            counts[present] += 1
            # Which of the ready ones goes first within a piece changes nothing: all of them are in it.
            mine = ready[present]
            while mine:
                for reader in readers[heappop(mine)]:
                    waiting[reader] -= 1
                    if not waiting[reader]:
                        heappush(ready[of_node[reader]], reader)
