"""Floor 3, placement. The best assignment by dynamic programming, proven, where objective and limits are sums.

In: a compiled problem, latency in turn, throughput, or memory. Out: the best assignment below a value, or that there is
none. One label is what a beginning adds up to; of two that reach the same state of the network one that is nowhere
better is dropped, and so is one that :mod:`perfgate.placement.prices` says cannot end below the best known (label
setting for shortest paths with resources). With one amount that is a plain shortest path. With several (a memory limit,
loads of devices) a state keeps all labels of which none is better than another everywhere; those may become many.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from perfgate.placement.amounts import Amounts, Array
from perfgate.placement.compiled import Compiled
from perfgate.placement.network import Flags, GaveUp, Indices, Layer, build, targets
from perfgate.placement.prices import Priced, price

# Labels are kept to read the answer back from; so many take about 50 MB.
MOST_LABELS = 3_000_000
# Labels of a state, of first searches that look for good answers only.
BEAMS = (20, 200)
# A sum in another order may be larger by this share; an answer must be better by it.
ROUNDING = 1e-9


def best(compiled: Compiled, below: float, over: Callable[[], bool]) -> tuple[int, ...] | None:
    """Targets of units with the least objective among all that are below ``below``, or None: there are none.

    Up to a share of 1e-9. ``over``: time is up; asked often.

    Raises:
        GaveUp: Time is up or there are too many states or labels.
    """
    amounts = Amounts(compiled)
    layers = build(compiled, amounts, over)
    priced = price(layers, amounts, below, over)
    search = _Search(layers, amounts, priced, over)
    if priced.bound < search.value * (1 - ROUNDING):
        search.exhaust()
    return None if search.steps is None else targets(layers, search.steps)


def lower(compiled: Compiled, over: Callable[[], bool]) -> tuple[float, bool]:
    """A lower bound of the objective, and whether it is the optimum (inf: nothing is feasible), which came in time.

    Otherwise it is one by prices, or 0 where there are too many states.
    """
    amounts = Amounts(compiled)
    if over():
        return 0.0, False
    try:
        layers = build(compiled, amounts, over)
    except GaveUp:
        return 0.0, False
    priced = price(layers, amounts, math.inf, over)
    found = max(0.0, priced.bound)
    search = _Search(layers, amounts, priced, over)
    try:
        proven = found >= search.value * (1 - ROUNDING) or search.exhaust()
    except GaveUp:
        proven = False
    return (max(found, search.value) if proven else found) * (1 - 2 * ROUNDING), proven


@dataclass(slots=True)
class _Labels:
    """Of all states of one layer, ordered by state: rows of amounts, state, the label before, and the step from it."""

    rows: Array
    state: Indices
    before: Indices = field(default_factory=lambda: np.zeros(1, dtype=np.int64))
    step: Indices = field(default_factory=lambda: np.zeros(1, dtype=np.int64))


class _Search:
    """``steps``: of the best path found, with ``value``."""

    def __init__(self, layers: Sequence[Layer], amounts: Amounts, priced: Priced, over: Callable[[], bool]) -> None:
        self._layers = layers
        self._amounts = amounts
        self._priced = priced
        self._over = over
        self.value = priced.value
        self.steps = priced.steps

    def exhaust(self) -> bool:
        """Until nothing better is left. Few labels first: what they find makes all labels fewer."""
        return any(self.run(most) for most in (*BEAMS, MOST_LABELS))

    def run(self, most: int) -> bool:
        """With at most ``most`` labels in each state, the most promising; True: no label was left out for that."""
        labels = _Labels(np.zeros((1, self._amounts.count)), np.zeros(1, dtype=np.int64))
        history = []
        kept = 0
        whole = True
        for layer, ahead in zip(self._layers, self._priced.ahead[1:], strict=True):
            labels, all_kept = self._spread(layer, labels, ahead, most)
            whole = whole and all_kept
            kept += len(labels.state)
            if kept > MOST_LABELS:
                raise GaveUp
            if not len(labels.state):
                return whole
            history.append((labels.before, labels.step))
        scores = self._amounts.score(labels.rows)
        label = int(scores.argmin())
        self.value = float(scores[label])
        steps = []
        for before, step in reversed(history):
            steps.append(int(step[label]))
            label = int(before[label])
        self.steps = steps[::-1]
        return whole

    def _spread(self, layer: Layer, labels: _Labels, ahead: Array, most: int) -> tuple[_Labels, bool]:
        """The labels of a layer go on to the next, without those that break a limit or cannot become better."""
        counts = np.bincount(labels.state, minlength=layer.states)
        firsts = np.concatenate([[0], np.cumsum(counts)])
        reached: dict[int, list[tuple[Array, Indices, int]]] = {}
        for step, (leaves, reaches) in enumerate(zip(layer.leaves.tolist(), layer.reaches.tolist(), strict=True)):
            if counts[leaves]:
                rows = labels.rows[firsts[leaves] : firsts[leaves + 1]] + layer.added[step]
                alive = np.flatnonzero(self._alive(rows, float(ahead[reaches])))
                if len(alive):
                    reached.setdefault(reaches, []).append((rows[alive], alive + firsts[leaves], step))
        found: list[tuple[Array, Indices, Indices, Indices]] = []
        whole = True
        for state, parts in sorted(reached.items()):
            if self._over():
                raise GaveUp
            rows = np.concatenate([each for each, _, _ in parts])
            kept = undominated(rows)
            if len(kept) > most:
                kept = kept[np.argsort(rows[kept] @ self._priced.weights, kind="stable")[:most]]
                whole = False
            before = np.concatenate([each for _, each, _ in parts])[kept]
            steps = np.concatenate([np.full(len(each), step) for _, each, step in parts])[kept]
            found.append((rows[kept], np.full(len(kept), state), before, steps))
        if not found:
            none = np.zeros(0, dtype=np.int64)
            return _Labels(np.zeros((0, self._amounts.count)), none, none, none), whole
        return _Labels(*(np.concatenate(each) for each in zip(*found, strict=True))), whole

    def _alive(self, rows: Array, ahead: float) -> Flags:
        """Which rows keep the limits and may end below the best known."""
        within = self._amounts.within(rows)
        if math.isinf(self.value):
            return within
        limit = self.value * (1 - ROUNDING)
        least = (rows @ self._priced.weights + (ahead - self._priced.given_back)) * (1 - ROUNDING)
        return np.asarray(within & (least < limit) & (self._amounts.score(rows) < limit))


def undominated(rows: Array) -> Indices:
    """Indices of rows, such that each row is nowhere smaller than one of them (n x count; small is better)."""
    if len(rows) == 1 or rows.shape[1] == 0:
        return np.zeros(1, dtype=np.int64)
    if rows.shape[1] == 1:
        return np.array([rows[:, 0].argmin()])
    if rows.shape[1] == 2:
        order = np.lexsort((rows[:, 1], rows[:, 0]))
        second = rows[order, 1]
        least = np.minimum.accumulate(second)
        return np.asarray(order[np.concatenate([[True], second[1:] < least[:-1]])])
    order = np.lexsort((*rows.T, rows.sum(axis=1)))
    left = rows[order]
    kept: list[np.int64] = []
    while len(order):
        kept.append(order[0])
        alive = (left < left[0]).any(axis=1)
        order, left = order[alive], left[alive]
    return np.array(kept)
