"""Floor 2, stats. Pairs of one workload in; whether head is certainly *less stable* than base out.

Noise that head makes itself would otherwise buy it an "inconclusive". Two places are looked at:

* inside a process: ln(spread of head / spread of base) of each pair, a one-sample t bound over pairs. Spread is
  the interquartile range over the median, so that a single outlier does not count and a slower head is no finding;
* between processes: the pair medians themselves. Base and head of a pair share the moment, so their variances
  are compared by the correlation of difference and sum (Pitman 1939, Morgan 1939), on ranks because
  pair medians have tails: var(head) > var(base) exactly when corr(head - base, head + base) > 0.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import stdtr

from perfgate.records.evidence import Pair, SideSamples
from perfgate.stats.pairs import side_values, valid_pairs
from perfgate.stats.sequential import one_sided_lower

# A spread that is certainly larger but not this many times larger is not worth a line.
WORTH_SAYING = 1.5
_MIN_SAMPLES = 4
_MIN_PAIRS = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class LessStable:
    """``where``: ``within`` or ``between`` processes; ``ratio``: head's spread over base's (None: base has none)."""

    where: str
    ratio: float | None


def less_stable(pairs: Sequence[Pair], *, alpha: float = 0.01) -> LessStable | None:
    """The finding that head's step times spread certainly more than base's, or None.

    Each of the two tests is one-sided at ``alpha`` / 2; fewer than 5 valid pairs find nothing. A finding needs a
    spread at least ``WORTH_SAYING`` times base's.
    """
    counted = valid_pairs(pairs)
    if len(counted) < _MIN_PAIRS:
        return None
    return _within(counted, alpha / 2) or _between(counted, alpha / 2)


def relative_spread(side: SideSamples) -> float | None:
    """Interquartile range over the median of one process's samples; None for fewer than 4 samples."""
    samples = [sample for block in side.blocks for sample in block.samples_ns]
    if len(samples) < _MIN_SAMPLES:
        return None
    low, middle, high = statistics.quantiles(samples, n=4, method="inclusive")
    return (high - low) / middle if middle > 0 else None


def _within(pairs: tuple[Pair, ...], alpha: float) -> LessStable | None:
    logs = []
    for pair in pairs:
        base, head = relative_spread(pair.base), relative_spread(pair.head)
        if not base or not head:
            # Ties at the clock's resolution: no ratio, so nothing certain can be said here.
            return None
        logs.append(math.log(head / base))
    ratio = math.exp(min(statistics.fmean(logs), 700.0))
    lower = one_sided_lower(logs, alpha)
    certain = lower is not None and lower > 0
    return LessStable(where="within", ratio=ratio) if certain and ratio >= WORTH_SAYING else None


def _between(pairs: tuple[Pair, ...], alpha: float) -> LessStable | None:
    base, head = (np.asarray(side) for side in side_values(pairs, "latency"))
    if not len(base) or not len(head) or min(base.min(), head.min()) <= 0:
        return None
    base, head = np.log(base), np.log(head)
    base_sd, head_sd = float(base.std(ddof=1)), float(head.std(ddof=1))
    if head_sd < WORTH_SAYING * base_sd or head_sd == 0:
        return None
    correlation = _rank_correlation(head - base, head + base)
    degrees = len(base) - 2
    if correlation <= 0:
        return None
    if correlation < 1:
        statistic = correlation * math.sqrt(degrees / (1 - correlation**2))
        chance = float(stdtr(degrees, -statistic))
    else:
        chance = 1 / math.factorial(len(base))
    ratio = head_sd / base_sd if base_sd else None
    return LessStable(where="between", ratio=ratio) if chance < alpha else None


def _rank_correlation(a: np.ndarray, b: np.ndarray) -> float:
    """Spearman's rank correlation; equal values share their mean rank. 0 where one side has no spread."""
    x, y = _ranks(a), _ranks(b)
    scale = float(x.std() * y.std())
    return float(((x - x.mean()) * (y - y.mean())).mean()) / scale if scale else 0.0


def _ranks(values: np.ndarray) -> np.ndarray:
    _, place, counts = np.unique(values, return_inverse=True, return_counts=True)
    ends = np.cumsum(counts)
    mean_rank: np.ndarray = (ends - (counts - 1) / 2)[place]
    return mean_rank
