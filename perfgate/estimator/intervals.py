"""Floor 3, estimator. Intervals that hold what they promise: conformal, on errors of held-out groups.

In: errors ln(true / estimate) of steps whose group was not learned from, the scale of each, and groups. Out: quantiles
of error / scale, which times a question's scale are the ends of its interval.

Half of the weight is equal for all rows and half for all groups, so that neither a large family decides alone nor a
small one is forgotten. The two ends are apart: steps are more often much slower than their structure says than faster.
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
# Rows below which errors say little and the unknown's width is mixed in.
_FEW = 10
# Rows from which a setting has quantiles of its own.
_OWN_ROWS = 60


@dataclass(frozen=True, slots=True, kw_only=True)
class Quantiles:
    """Of error / scale: ``low`` <= 0 <= ``high``."""

    low: float
    high: float

    def interval(self, value: Floats, scale: Floats) -> tuple[Floats, Floats]:
        """Ends around ``value``."""
        return value * np.exp(self.low * scale), value * np.exp(self.high * scale)


def quantiles(error: Floats, scale: Floats, groups: Groups, coverage: float = COVERAGE) -> Quantiles:
    """Quantiles that leave (1 - coverage) / 2 on each side, a little wider for few groups (as conformal methods do)."""
    if not error.size:
        return Quantiles(low=-UNKNOWN, high=UNKNOWN)
    score = error / scale
    _, code, size = np.unique(groups, return_inverse=True, return_counts=True)
    weight = 0.5 / len(score) + 0.5 / (len(size) * size[code])
    # One more group than was seen: the next one may be the worst.
    tail = (1 - coverage) / 2 * len(size) / (len(size) + 1)
    low, high = _weighted(score, weight, tail), -_weighted(-score, weight, tail)
    if len(size) < _FEW:
        part = 1 - len(size) / _FEW
        low, high = min(low, low - part * UNKNOWN), max(high, high + part * UNKNOWN)
    return Quantiles(low=min(low, 0.0), high=max(high, 0.0))


def _weighted(values: Floats, weight: Floats, share: float) -> float:
    """The largest value below which at most ``share`` of the weight lies."""
    order = np.argsort(values, kind="stable")
    below = np.cumsum(weight[order]) - weight[order]
    return float(values[order][np.flatnonzero(below <= share * weight.sum())[-1]])


def covered(error: Floats, scale: Floats, found: Quantiles) -> NDArray[np.bool_]:
    """Whether each truth lies in its interval."""
    score = error / scale
    return (score >= found.low) & (score <= found.high)


def by_setting(error: Floats, scale: Floats, groups: Groups, settings: NDArray[np.generic]) -> dict[int, Quantiles]:
    """Quantiles of each setting that has rows and groups enough for its own: machines are not equally predictable."""
    found = {}
    for one in np.unique(settings):
        mine = settings == one
        if mine.sum() >= _OWN_ROWS and len(np.unique(groups[mine])) >= _FEW:
            found[int(one)] = quantiles(error[mine], scale[mine], groups[mine])
    return found
