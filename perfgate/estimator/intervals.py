"""Floor 3, estimator. Intervals that hold what they promise: conformal, on errors of held-out groups.

In: errors ln(true / estimate) of steps that were not learned from, what each answer rested on, and groups. Out: for a
question the ends of its interval.

Two steps. How large an error to expect follows from doubts (:func:`doubts`): a regression of ln |error|. Quantiles of
error over that size are taken at several sizes, each from the rows that are most like it: what is far from all that was
measured is judged by rows that were. Half of the weight is equal for all rows and half for all groups, so that neither
a large family decides alone nor a small one is forgotten. The two ends are apart: steps are more often much slower than
their structure says than faster.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Groups = NDArray[np.generic]

COVERAGE = 0.9
# Where nothing was held out: ln, of a normal error of 15 %.
UNKNOWN = 0.25
# Groups below which errors say little and the unknown's width is mixed in.
_FEW = 10
# Quantiles over size that many tables have, and groups that weigh as much as these: of twenty errors the second largest
# is nearly chance, while their typical size is not.
_USUAL, _AS_MUCH = (-2.9, 3.4), 30
# Rows from which a setting has quantiles of its own.
_OWN_ROWS = 60
# Factor on the share that may lie outside, of both tails together, at the smallest and at the largest expected error.
# Small ones are expected of what looks well known, and are underestimated as often as that is mistaken; the largest
# are those of groups held out whole, which were learned from less than there is.
_CAUTION = (0.77, 1.32)
# How tails may share it: the interval is the shortest one.
_SPLITS = np.linspace(0.2, 0.8, 13)
# Slopes of ln |error| on the doubts that a fit begins with (other tables' typical ones), and rows that weigh as much as
# these.
_SLOPES, _RIDGE = (0.2, 1.5, 0.5, 3.0), 28.0
# Size (ln) of an error that is as good as none: measuring is no better.
_LEAST = 0.0025
# Sizes at which quantiles are taken at most, rows that each needs, and how like a size rows have to be (ln).
_KNOTS, _ROWS_OF_KNOT, _LIKE = 8, 60, 0.25
# Distance and disagreement that count at most: beyond them there are hardly any errors to learn from.
_MOST = (0.6, 0.3)
# How many doubts there are, and the column of scatter.
DOUBTS, SCATTER = 4, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """``slopes`` (1 + q,) of ln size on one and doubts; quantiles ``low``, ``high`` (k,) at ``knots`` of ln size."""

    slopes: Floats
    knots: Floats
    low: Floats
    high: Floats

    def ends(self, doubt: Floats) -> tuple[Floats, Floats]:
        """ln of both ends over the estimate, each (n,), for doubts (n, q)."""
        size = _sizes(doubt, self.slopes)
        scale = np.exp(size)
        return np.interp(size, self.knots, self.low) * scale, np.interp(size, self.knots, self.high) * scale

    def covered(self, error: Floats, doubt: Floats) -> NDArray[np.bool_]:
        """Whether each truth lies in its interval."""
        low, high = self.ends(doubt)
        return (error >= low) & (error <= high)


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Of error / scale: ``low`` <= 0 <= ``high``."""

    low: float
    high: float

    def interval(self, value: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Ends around ``value``."""
        return value * np.exp(self.low * scale), value * np.exp(self.high * scale)


def doubts(variance: Floats, distance: Floats, scatter: Floats, apart: Floats) -> Floats:
    """(n, 4): what an answer's error follows from.

    ``variance`` that relatives leave open, ``distance`` of the nearest, ``scatter`` of their held-out errors (all as
    in ``anchors.Found``), and how far ``apart`` (ln) relatives and trees are as far as both count.
    """
    return np.column_stack(
        [
            np.log(variance + 0.03),
            np.minimum(distance, _MOST[0]),
            np.log(scatter),
            np.minimum(np.abs(variance * apart), _MOST[1]),
        ]
    )


def calibrate(error: Floats, doubt: Floats, groups: Groups, coverage: float = COVERAGE) -> Calibrated:
    """From errors (n,) with doubts (n, q) of ``groups`` (n,)."""
    if not error.size:
        slopes = np.array([np.log(UNKNOWN), *[0.0] * DOUBTS])
        return Calibrated(slopes=slopes, knots=np.zeros(1), low=-np.ones(1), high=np.ones(1))
    weight = _weights(groups)
    slopes = _slopes(error, doubt, weight)
    size = _sizes(doubt, slopes)
    score = error / np.exp(size)
    many = int(np.clip(len(error) // _ROWS_OF_KNOT, 1, _KNOTS))
    knots = np.unique(np.quantile(size, np.linspace(0.03, 0.97, many) if many > 1 else [0.5]))
    number = len(np.unique(groups))
    usual = 1 / (1 + (number / _AS_MUCH) ** 2)
    found = []
    for place, knot in zip(np.linspace(0, 1, len(knots)) if len(knots) > 1 else [0.5], knots, strict=True):
        caution = float(np.interp(place, (0, 1), _CAUTION))
        like = weight if many == 1 else weight * (np.exp(-0.5 * ((size - knot) / _LIKE) ** 2) + 1e-9)
        ends = usual * np.array(_USUAL) + (1 - usual) * np.array(_tails(score, like, number, coverage, caution))
        found.append(_wider(float(ends[0]), float(ends[1]), number, UNKNOWN / float(np.exp(knot))))
    low, high = np.array(found).T
    return Calibrated(slopes=slopes, knots=knots, low=low, high=high)


def _weights(groups: Groups) -> Floats:
    _, code, size = np.unique(groups, return_inverse=True, return_counts=True)
    weight: Floats = 0.5 / len(code) + 0.5 / (len(size) * size[code])
    return weight


def _sizes(doubt: Floats, slopes: Floats) -> Floats:
    size: Floats = slopes[0] + doubt @ slopes[1:]
    return size


def _slopes(error: Floats, doubt: Floats, weight: Floats) -> Floats:
    """Ridge regression of ln |error|, shrunk to what other tables had."""
    x = np.column_stack([np.ones(len(doubt)), doubt])
    prior = np.array([0.0, *_SLOPES])
    even = weight / weight.mean()
    left = (x * even[:, None]).T @ x + np.diag([1e-9, *[_RIDGE] * doubt.shape[1]])
    right = (x * even[:, None]).T @ (np.log(np.abs(error) + _LEAST) - x @ prior)
    found: Floats = prior + np.linalg.solve(left, right)
    return found


def _tails(score: Floats, weight: Floats, number: int, coverage: float, caution: float = 1.0) -> tuple[float, float]:
    # One more group than was seen: the next one may be the worst.
    outside = caution * (1 - coverage) * number / (number + 1)
    low, high = _weighted(score, weight, outside * _SPLITS), -_weighted(-score, weight, outside * (1 - _SPLITS))
    best = int(np.argmin(high - low))
    return min(float(low[best]), 0.0), max(float(high[best]), 0.0)


def _wider(low: float, high: float, number: int, unknown: float) -> tuple[float, float]:
    part = max(0.0, 1 - number / _FEW)
    return low - part * unknown, high + part * unknown


def quantiles(error: Floats, scale: Floats, groups: Groups, coverage: float = COVERAGE) -> Quantiles:
    """The shortest that leave 1 - coverage outside, a little wider for few groups (as conformal methods do)."""
    if not error.size:
        return Quantiles(low=-UNKNOWN, high=UNKNOWN)
    number = len(np.unique(groups))
    low, high = _wider(*_tails(error / scale, _weights(groups), number, coverage), number, UNKNOWN)
    return Quantiles(low=low, high=high)


def _weighted(values: Floats, weight: Floats, shares: Floats) -> Floats:
    """The largest value below which at most each of ``shares`` (k,) of the weight lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order]) - weight[order]
    found: Floats = values[order][np.maximum(np.searchsorted(below, shares * weight.sum(), side="right") - 1, 0)]
    return found


def by_setting(error: Floats, doubt: Floats, groups: Groups, settings: NDArray[np.generic]) -> dict[int, Calibrated]:
    """One for each setting that has rows and groups enough for its own: machines are not equally predictable."""
    found = {}
    for one in np.unique(settings):
        mine = settings == one
        if mine.sum() >= _OWN_ROWS and len(np.unique(groups[mine])) >= _FEW:
            found[int(one)] = calibrate(error[mine], doubt[mine], groups[mine])
    return found
