"""Floor 3, placement. Units that are dear to cut apart, as clusters of all sizes: what moves together.

In: a compiled problem and a source of random numbers. Out: clusters of units, from pairs to a good part of the graph.
Heavy edges are contracted one after another, as multilevel graph partitioning coarsens; every cluster that comes about
on the way is kept, so one search moves at all levels at once and needs no uncoarsening.
"""

from __future__ import annotations

import math
import random
from heapq import heappop, heappush

from perfgate.placement.compiled import Compiled

# A cluster's work is at most this share of all: larger ones are no move but another answer.
LARGEST = 0.3
# Weights of edges are drawn from this range times their own, so that each round has other clusters.
SPREAD = (0.5, 1.5)
# Work that counts for a cluster without any, as a share of all.
LEAST_WORK = 0.01


def clusters(compiled: Compiled, draw: random.Random) -> list[tuple[int, ...]]:
    """Clusters of two units and more, in the order in which they were made: small ones first, by and large."""
    work = [min(time for time in row if time < math.inf) for row in compiled.seconds]
    total = sum(work) or 1.0
    members: dict[int, tuple[int, ...]] = {unit: (unit,) for unit in range(len(work))}
    weights = dict(enumerate(work))
    joined = {unit: dict(neighbours) for unit, neighbours in enumerate(compiled.neighbours)}
    heap: list[tuple[float, int, int]] = []

    def push(one: int, other: int, cut: float) -> None:
        size = weights[one] + weights[other] + LEAST_WORK * total
        heappush(heap, (-cut * draw.uniform(*SPREAD) / size, one, other))

    for unit, neighbours in joined.items():
        for other, cut in neighbours.items():
            if unit < other:
                push(unit, other, cut)
    found, name = [], len(work)
    while heap:
        _, one, other = heappop(heap)
        if one not in members or other not in members:
            continue
        members[name] = members.pop(one) + members.pop(other)
        weights[name] = weights.pop(one) + weights.pop(other)
        joined[name] = _merged(joined, one, other, name)
        if weights[name] <= LARGEST * total:
            found.append(members[name])
        for third, cut in joined[name].items():
            push(name, third, cut)
        name += 1
    return found


def _merged(joined: dict[int, dict[int, float]], one: int, other: int, name: int) -> dict[int, float]:
    """Neighbours of both together; theirs know the new name."""
    found: dict[int, float] = {}
    for old in (one, other):
        for third, cut in joined.pop(old).items():
            if third not in {one, other}:
                found[third] = found.get(third, 0.0) + cut
                del joined[third][old]
    for third, cut in found.items():
        joined[third][name] = cut
    return found
