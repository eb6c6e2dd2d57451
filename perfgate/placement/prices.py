"""Floor 3, placement. In: a network of steps and its amounts. Out: a lower bound for the end of any beginning.

Lagrangian relaxation. The largest of several loads is no less than their average by any weights; memory that has a
limit gets a price for what is used, and what the limit is worth is given back. With weights and prices fixed the best
path is a shortest one, and its value a lower bound of the objective; a subgradient method looks for weights and prices
where that is large (steps as Polyak's). The paths on the way are assignments: the best that keeps the limits is
an answer.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.placement.amounts import Amounts, Array
from perfgate.placement.network import Layer, path, shortest

ROUNDS = 150
# Rounds without a better bound after which steps become half as long; below which length there is no point.
PATIENCE = 8
SHORTEST = 1e-4
# What the bound may become, as a multiple, where no assignment is known; and how far ahead the aim is at least.
AIM = 1.05
LEAST_AIM = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Priced:
    """The best prices found.

    Attributes:
        weights: Of the amounts, in the objective's unit for each unit of theirs. ``given_back``: of the limits.
        ahead: Of each state of each layer, the least weighted sum to the end.
        bound: No assignment that keeps the limits is better. ``value``, ``steps``: of the best path that keeps them,
            below the value that was given, if there is one.
    """

    weights: Array
    given_back: float
    ahead: Sequence[Array]
    bound: float
    value: float
    steps: Sequence[int] | None


def price(layers: Sequence[Layer], amounts: Amounts, below: float, over: Callable[[], bool]) -> Priced:
    """Weights and prices with a large bound. ``below``: value of an assignment that is known; ``over``: time is up."""
    ascent = _Ascent(layers, amounts, below)
    for _ in range(ROUNDS):
        ascent.round()
        if ascent.done or over():
            break
    return ascent.best()


class _Ascent:
    """Weights of what is scored (adding up to 1) and prices of what is limited, moved along the last path's amounts."""

    def __init__(self, layers: Sequence[Layer], amounts: Amounts, below: float) -> None:
        self._layers = layers
        self._amounts = amounts
        self._scored = np.array(amounts.scored, dtype=np.int64)
        self._limited = np.flatnonzero(np.isfinite(amounts.limits))
        self._limits = amounts.limits[self._limited]
        self._share = np.full(len(self._scored), 1 / max(1, len(self._scored)))
        self._price = np.zeros(len(self._limited))
        self._length = 1.0
        self._stale = 0
        self._value = below
        self._steps: Sequence[int] | None = None
        self._best: Priced | None = None

    @property
    def done(self) -> bool:
        """Nothing is left to gain."""
        best = self._best
        free = len(self._scored) == 1 and not len(self._limited)
        return best is not None and (free or best.bound >= self._value * (1 - 1e-9) or self._length < SHORTEST)

    def best(self) -> Priced:
        """The largest bound, and the best assignment."""
        best = self._best
        assert best is not None, "after the first round"  # noqa: S101
        return Priced(
            weights=best.weights,
            given_back=best.given_back,
            ahead=best.ahead,
            bound=best.bound,
            value=self._value,
            steps=self._steps,
        )

    def round(self) -> None:
        """One shortest path, and the next weights."""
        weights = np.zeros(self._amounts.count)
        weights[self._scored] += self._share
        weights[self._limited] += self._price
        given_back = float(self._price @ self._limits)
        ahead = shortest(self._layers, weights)
        steps = path(self._layers, weights, ahead)
        total = np.sum([layer.added[step] for layer, step in zip(self._layers, steps, strict=True)], axis=0)
        if self._amounts.within(total[None])[0]:
            score = float(self._amounts.score(total[None])[0])
            if score < self._value:
                self._value, self._steps = score, steps
        bound = float(ahead[0][0]) - given_back
        if self._best is None or bound > self._best.bound * (1 + 1e-12):
            self._best = Priced(
                weights=weights, given_back=given_back, ahead=ahead, bound=bound, value=math.inf, steps=None
            )
            self._stale = 0
        else:
            self._stale += 1
            if self._stale > PATIENCE:
                self._length, self._stale = self._length / 2, 0
        self._move(total, bound)

    def _move(self, total: Array, bound: float) -> None:
        """In units in which every limit, and the objective, is 1."""
        aim = self._value if math.isfinite(self._value) else AIM * (self._best.bound if self._best else bound)
        unit = aim or float(self._amounts.score(total[None])[0]) or 1.0
        scale = np.where(self._limits > 0, self._limits, 1.0)
        shares = total[self._scored] / unit
        beyond = (total[self._limited] - self._limits) / scale
        norm = float(((shares - shares.mean()) ** 2).sum() + (beyond**2).sum()) if len(shares) else 0.0
        if not norm:
            self._length = 0.0
            return
        step = self._length * max(aim - bound, LEAST_AIM * unit) / unit / norm
        self._share = onto_simplex(self._share + step * shares)
        self._price = np.maximum(0.0, self._price + step * beyond * unit / scale)


def onto_simplex(point: Array) -> Array:
    """The nearest point whose coordinates are 0 or more and add up to 1 (by sorting; Held and others, 1974)."""
    if not len(point):
        return point
    ordered = np.sort(point)[::-1]
    excess = (np.cumsum(ordered) - 1) / np.arange(1, len(point) + 1)
    kept = int(np.flatnonzero(ordered > excess).max())
    return np.asarray(np.maximum(0.0, point - excess[kept]))
