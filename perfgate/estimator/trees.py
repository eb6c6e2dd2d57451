"""Floor 3, estimator. Randomised regression trees as plain numbers: fitted by scikit-learn, kept and asked here.

In: columns and values. Out: :class:`Trees`, which JSON can hold: an estimator that came out of a file must not depend
on another program's private formats (no pickle).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.ensemble import ExtraTreesRegressor

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

# Rows that one fit looks at: more add time and, averaged over so many trees, next to nothing.
MOST_ROWS = 2500
NUMBER = 100
_LEAF = 2
_COLUMNS = 0.6


@dataclass(frozen=True, slots=True, kw_only=True)
class Trees:
    """All nodes of all trees one after another; the answer is the mean of the leaves' values.

    ``roots``: the trees' first nodes. Of each node ``column`` (-1: a leaf), ``threshold`` (up to it goes left),
    ``left``, ``right`` and ``value``.
    """

    roots: Whole
    column: Whole
    threshold: Floats
    left: Whole
    right: Whole
    value: Floats

    def predict(self, x: Floats) -> Floats:
        """(n,) for ``x`` (n, k)."""
        # scikit-learn compares single-precision columns with its thresholds.
        seen = x.astype(np.float32).astype(np.float64)
        at = np.repeat(self.roots[None], len(x), axis=0)
        rows = np.arange(len(x))[:, None]
        while True:
            column = self.column[at]
            inner = column >= 0
            if not inner.any():
                break
            below = seen[rows, np.maximum(column, 0)] <= self.threshold[at]
            at = np.where(inner, np.where(below, self.left[at], self.right[at]), at)
        found: Floats = self.value[at].mean(axis=1)
        return found


def fit(x: Floats, y: Floats, *, seed: int) -> Trees:
    """Trees for ``y`` (n,); the same for the same ``seed``."""
    if len(y) > MOST_ROWS:
        chosen = np.random.default_rng(seed).choice(len(y), MOST_ROWS, replace=False)
        x, y = x[chosen], y[chosen]
    forest = ExtraTreesRegressor(NUMBER, min_samples_leaf=_LEAF, max_features=_COLUMNS, random_state=seed)
    forest.fit(x, y)
    every = [one.tree_ for one in forest.estimators_]
    starts = np.cumsum([0, *(tree.node_count for tree in every)])[:-1].astype(np.int64)
    shift = np.repeat(starts, [tree.node_count for tree in every])
    leaf = np.concatenate([tree.children_left for tree in every]) < 0
    return Trees(
        roots=starts,
        column=np.where(leaf, -1, np.concatenate([tree.feature for tree in every])).astype(np.int64),
        threshold=np.where(leaf, 0.0, np.concatenate([tree.threshold for tree in every])),
        left=np.where(leaf, -1, np.concatenate([tree.children_left for tree in every]) + shift).astype(np.int64),
        right=np.where(leaf, -1, np.concatenate([tree.children_right for tree in every]) + shift).astype(np.int64),
        value=np.concatenate([tree.value[:, 0, 0] for tree in every]).astype(np.float64),
    )
