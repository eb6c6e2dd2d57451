"""Floor 3, cost. Vectors of objectives in; the exact set of non-dominated ones, its knee and its hypervolume out.

Every objective is minimised. A vector dominates another where it is nowhere larger and somewhere smaller, so equal
vectors never dominate one another.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
Indices = NDArray[np.intp]

# Vectors that are compared with the front in one go.
_BLOCK = 256
# Below this many vectors, dropping the plainly dominated first costs more than it saves.
_WORTH_PRUNING = 2_000


def front(values: Values, *, distinct: bool = False) -> Indices:
    """Indices of the non-dominated rows of ``values[n, k]``, ascending.

    Of rows that are equal in every objective all are kept; with ``distinct`` the first of them alone. The set is
    exact: vectors are compared as they are, without a tolerance. Raises ValueError for NaN and infinities.

    Rows are sorted lexicographically, so that a row can only be dominated by an earlier one (Kung, Luccio and
    Preparata, "On finding the maxima of a set of vectors", 1975). Two objectives need one sweep with the running
    minimum of the second; more are compared block by block with the front so far.
    """
    values = _checked(values)
    if not len(values):
        return np.empty(0, dtype=np.intp)
    alive = _pruned(values)
    # The last key is the primary one; the sort is stable, so the first of equal rows has the least index.
    order = alive[np.lexsort(values[alive].T[::-1])]
    ordered = values[order]
    new = np.ones(len(ordered), dtype=bool)
    new[1:] = (ordered[1:] != ordered[:-1]).any(axis=1)
    kept = np.flatnonzero(new)[_sorted_front(ordered[new])]
    if distinct:
        return np.sort(order[kept])
    group = np.cumsum(new) - 1
    return np.sort(order[np.isin(group, group[kept])])


def knee(values: Values) -> int:
    """Index of the best compromise among the rows of a front.

    Each objective is scaled to [0, 1] over the front; the knee is the row with the least Euclidean distance from the
    point that is best in every objective (the ideal point), the first of equals. Whoever wants ratios to count
    rather than differences gives logarithms. Raises ValueError for an empty front, NaN and infinities.
    """
    values = _checked(values)
    if not len(values):
        msg = "an empty front has no knee"
        raise ValueError(msg)
    low = values.min(axis=0)
    width = values.max(axis=0) - low
    scaled = (values - low) / np.where(width > 0, width, 1.0)
    return int(np.argmin((scaled**2).sum(axis=1)))


def hypervolume(values: Values, reference: NDArray[np.float64]) -> float:
    """Volume that the rows of ``values[n, k]`` dominate, up to the point ``reference[k]``.

    Rows that are not better than the reference in every objective add nothing. By slicing objectives (While, Hingston,
    Barone and Huband, "A faster algorithm for calculating hypervolume", 2006). Raises ValueError for NaN, infinities.
    """
    values = _checked(values)
    limit = np.asarray(reference, dtype=np.float64)
    inside = values[(values < limit).all(axis=1)]
    return _volume(inside[front(inside)], limit) if len(inside) else 0.0


def _checked(values: Any) -> Values:
    array = np.asarray(values, dtype=np.float64)
    if array.ndim != 2 or not array.shape[1]:
        msg = f"objectives have to be a table of points by objectives, not of shape {array.shape}"
        raise ValueError(msg)
    if not np.isfinite(array).all():
        msg = "an objective is not a finite number; leave such points out first"
        raise ValueError(msg)
    return array


def _pruned(values: Values) -> Indices:
    """Indices of the rows that none of a few good rows dominates: most of a large set goes in linear time."""
    alive = np.arange(len(values), dtype=np.intp)
    if len(values) < _WORTH_PRUNING:
        return alive
    low = values.min(axis=0)
    width = values.max(axis=0) - low
    scaled = (values - low) / np.where(width > 0, width, 1.0)
    count = values.shape[1]
    weights = [np.ones(count), *(np.ones(count) + 9 * np.eye(count)), *(np.full(count, 0.01) + np.eye(count))]
    for weight in weights:
        best = values[alive[np.argmin(scaled[alive] @ weight)]]
        rows = values[alive]
        alive = alive[~((rows >= best).all(axis=1) & (rows > best).any(axis=1))]
    return alive


def _sorted_front(rows: Values) -> Indices:
    """Positions of the non-dominated among distinct rows in lexicographic order."""
    if rows.shape[1] == 1:
        return np.zeros(1, dtype=np.intp)
    if rows.shape[1] == 2:
        second = rows[:, 1]
        best = np.minimum.accumulate(second)
        return np.flatnonzero(np.concatenate(([True], second[1:] < best[:-1])))
    kept: list[Indices] = []
    found = np.empty((0, rows.shape[1]))
    for start in range(0, len(rows), _BLOCK):
        block = rows[start : start + _BLOCK]
        # The first objective of a later row is never smaller: only the others need comparing.
        places = np.flatnonzero(~_dominated(block[:, 1:], found[:, 1:]))
        block = block[places]
        inside = _weakly(block[:, 1:], block[:, 1:])
        # Rows are distinct and in order, so a weakly better earlier one dominates.
        good = ~np.triu(inside, 1).any(axis=0)
        kept.append(start + places[good])
        found = np.concatenate((found, block[good]))
    return np.concatenate(kept)


def _weakly(ones: Values, others: Values) -> NDArray[np.bool_]:
    """``[i, j]``: whether ``ones[i]`` is nowhere larger than ``others[j]``."""
    result = np.ones((len(ones), len(others)), dtype=bool)
    for column in range(ones.shape[1]):
        result &= ones[:, column, None] <= others[None, :, column]
    return result


def _dominated(rows: Values, found: Values) -> NDArray[np.bool_]:
    result = np.zeros(len(rows), dtype=bool)
    for start in range(0, len(found), 4096):
        result |= _weakly(found[start : start + 4096], rows).any(axis=0)
    return result


def _volume(rows: Values, limit: NDArray[np.float64]) -> float:
    if rows.shape[1] == 1:
        return float(limit[0] - rows[:, 0].min())
    order = np.argsort(rows[:, -1], kind="stable")
    rows = rows[order]
    depths = np.diff(np.append(rows[:, -1], limit[-1]))
    if rows.shape[1] == 2:
        return float(((limit[0] - np.minimum.accumulate(rows[:, 0])) * depths).sum())
    total = 0.0
    slab = rows[:0, :-1]
    for place, depth in enumerate(depths):
        slab = np.concatenate((slab, rows[place : place + 1, :-1]))
        slab = slab[front(slab, distinct=True)]
        if depth > 0:
            total += float(depth) * _volume(slab, limit[:-1])
    return total
