"""Floor 3, cost. How far the errors of two predicted times go together.

In: intervals of times. Out: spreads (standard deviation of the logarithm), and that of the ratio of two times.

What a roofline gets wrong of a model (its eager overhead, a slow kernel) it gets wrong on related devices alike, so the
ratio of two times is known better than either. With equal spreads s and correlation r it has s * sqrt(2 (1 - r)).
The correlations below come from published whole-model times (timm's benchmark tables, torch 2.1 to 2.4), where one
scale per pair of devices was fitted: between two GPUs (RTX 3090 and 4090, 4090 and 5090) ratios scatter about half as
much as the times of either around a model of structure alone, r = 0.87; 0.75 leaves room for the pair's own scale,
which is not known beforehand. Between two CPUs (i9-10940X and i7-12700H) ratios scatter as much as the times do:
there 0.5 keeps an anchored time exactly as uncertain as the roofline's own.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from perfgate.records.cost import StepTime
from perfgate.records.hardware import CPU, GPU
from perfgate.roofline.step import Z90

# Correlation of the errors of one way on two platforms of a kind; between kinds, and for kinds without data, none.
_ACROSS_PLATFORMS = {GPU: 0.75, CPU: 0.5}
# Of two ways to run one model on one device (another batch, compile or dtype; a split over devices): times of the
# next image size follow the ratio of models within a fifth to a half of a model's own scatter.
ACROSS_WAYS = 0.9


def across_platforms(kind: str, other: str) -> float:
    """Correlation of errors between two different platforms of these kinds."""
    return _ACROSS_PLATFORMS.get(kind, 0.0) if kind == other else 0.0


def spread(time: StepTime) -> float:
    """Standard deviation of the logarithm of a time, of its interval of 90 %."""
    return max(0.0, math.log(time.high_ns / time.low_ns)) / (2 * Z90)


def spreads(low: NDArray[np.float64], high: NDArray[np.float64]) -> NDArray[np.float64]:
    """The same of whole columns."""
    return np.asarray(np.maximum(0.0, np.log(high / low)) / (2 * Z90))


def of_ratio(
    one: NDArray[np.float64] | float, other: NDArray[np.float64] | float, correlation: NDArray[np.float64] | float
) -> NDArray[np.float64]:
    """Standard deviation of the logarithm of the ratio of two times with these spreads."""
    variance = np.square(one) + np.square(other) - 2 * np.asarray(correlation) * one * other
    # Rounding must not make it negative where errors are equal and fully correlated.
    return np.asarray(np.sqrt(np.maximum(0.0, variance)))


def widened(time: StepTime, sigma: float) -> tuple[float, float]:
    """The interval of 90 % around ``time.ns`` with another standard deviation of the logarithm."""
    factor = math.exp(Z90 * sigma)
    return time.ns / factor, time.ns * factor
