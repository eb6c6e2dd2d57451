"""Floor 3, placement. Units in a line, so that what is joined stands close: the search moves runs and borders in it.

In: a compiled problem. Out: permutations of its units. Depth-first orders of execution, drawn at random, and the order
of the second eigenvector of the graph's Laplacian (Fiedler), which also suits graphs whose groups join both ends of an
order of execution, as forward and backward of a layer do.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from heapq import heapify, heappop, heappush

import numpy as np

from perfgate.placement.compiled import Compiled

# An edge that costs nothing to cut still says what is near, by this share of the mean edge.
LEAST_WEIGHT = 0.05
# Eigenvectors are found densely up to so many units, and by Lanczos' method up to so many.
MOST_DENSE, MOST_UNITS = 150, 20_000
# Factors of weights where another order is asked for.
NOISE = (0.3, 1.7)


def executed(compiled: Compiled, draw: random.Random) -> list[int]:
    """Depth first from the results to what they read: a node stands right after what only it reads.

    A unit stands where its first node does.
    """
    nodes = compiled.problem.nodes
    done = [False] * len(nodes)
    order: list[int] = []
    last = [index for index, readers in enumerate(compiled.edges) if not readers]
    draw.shuffle(last)
    for result in last:
        stack = [(result, False)]
        while stack:
            index, ready = stack.pop()
            if ready:
                order.append(index)
            elif not done[index]:
                done[index] = True
                stack.append((index, True))
                sources = [source for source in set(nodes[index].sources) if not done[source]]
                sources.sort()
                draw.shuffle(sources)
                stack.extend((source, False) for source in sources)
    return list(dict.fromkeys(compiled.unit_of[index] for index in order))


def as_listed(compiled: Compiled) -> list[int]:
    """The problem's own order, by first nodes."""
    return list(range(len(compiled.units)))


def executable(compiled: Compiled, order: Sequence[int]) -> list[int]:
    """The order of execution that keeps closest to ``order``: of the units that are ready, the first in it is next.

    Segments of such an order never wait for one another in a circle, unless units do that by themselves; of those that
    do, the first in ``order`` goes before its time.
    """
    place = [0] * len(order)
    for index, unit in enumerate(order):
        place[unit] = index
    readers: list[set[int]] = [set() for _ in order]
    for source, nodes in enumerate(compiled.edges):
        maker = compiled.unit_of[source]
        readers[maker].update(compiled.unit_of[node] for node in nodes)
    waiting = [0] * len(order)
    for maker, units in enumerate(readers):
        units.discard(maker)
        for unit in units:
            waiting[unit] += 1
    heap = [place[unit] for unit, count in enumerate(waiting) if not count]
    heapify(heap)
    found: dict[int, None] = {}
    stuck = iter(order)
    while len(found) < len(order):
        unit = order[heappop(heap)] if heap else next(one for one in stuck if one not in found)
        if unit in found:
            continue
        found[unit] = None
        for reader in readers[unit]:
            waiting[reader] -= 1
            if not waiting[reader]:
                heappush(heap, place[reader])
    return list(found)


def spectral(compiled: Compiled, power: float = 0.5, draw: random.Random | None = None) -> list[int] | None:
    """By the Fiedler vector of the graph of units; None where there are too many of them, or fewer than three.

    Weights of edges are what cutting them costs, to ``power``: below 1, heavy and light edges come closer, so that one
    heavy edge is not all that the vector sees. ``draw``: weights are multiplied by random numbers, for another order.
    """
    count = len(compiled.units)
    if not 3 <= count <= MOST_UNITS:
        return None
    edges: dict[tuple[int, int], float] = {}
    for source, readers in enumerate(compiled.edges):
        for reader in readers:
            one, other = compiled.unit_of[source], compiled.unit_of[reader]
            if one != other:
                pair = min(one, other), max(one, other)
                edges[pair] = compiled.neighbours[one].get(other, 0.0)
    if not edges:
        return None
    pairs = sorted(edges)
    cuts = np.array([edges[pair] for pair in pairs])
    mean = float(cuts[cuts > 0].mean()) if (cuts > 0).any() else 1.0
    weights = (cuts / mean) ** power + LEAST_WEIGHT
    if draw is not None:
        weights *= np.random.default_rng(draw.getrandbits(32)).uniform(*NOISE, size=len(weights))
    vector = _fiedler(np.array(pairs), weights, count)
    if vector is None:
        return None
    order = [int(unit) for unit in np.argsort(np.round(vector, 12), kind="stable")]
    # An eigenvector has no sign: the end where execution begins comes first.
    half = count // 2
    return order if sum(order[:half]) <= sum(order[half : 2 * half]) else order[::-1]


def _fiedler(pairs: np.ndarray, weights: np.ndarray, count: int) -> np.ndarray | None:
    """Eigenvector of the second smallest eigenvalue of the Laplacian; None: not found."""
    from scipy.sparse import coo_array, diags_array

    both = (np.concatenate([weights, weights]), np.concatenate([pairs, pairs[:, ::-1]]).T)
    adjacency = coo_array(both, shape=(count, count)).tocsc()
    laplacian = diags_array(adjacency.sum(axis=0)) - adjacency
    found: np.ndarray
    if count <= MOST_DENSE:
        found = np.linalg.eigh(laplacian.toarray())[1][:, 1]
        return found
    from scipy.sparse.linalg import eigsh

    # Shifted below 0, where the Laplacian, which is singular, can be factored.
    start = np.random.default_rng(0).uniform(size=count)
    try:
        values, vectors = eigsh(laplacian.tocsc(), k=2, sigma=-1e-4 * float(weights.mean()), which="LM", v0=start)
    except RuntimeError:  # no convergence, or no factors
        return None
    found = vectors[:, int(np.argmax(values))]
    return found
