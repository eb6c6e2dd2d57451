"""Floor 2, stats. Log ratios of an A/A run in; what a runner can resolve out."""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.stats.sequential import decide

INDEPENDENT_SHARE = 0.10


@dataclass(frozen=True, slots=True, kw_only=True)
class Resolution:
    """What ``pairs`` pairs of equal code showed.

    ``sd``: standard deviation of the pair log ratio (0.02 is about 2 %). ``mde``: smallest slow-down that as many
    pairs find with 80 % power at ``alpha`` (a share). ``bias``: mean ratio - 1, which should be near 0; ``biased``: it
    is certainly not 0 at the two-sided 1 % level. ``round_share``: share of the variance between rounds
    (parents), None where every pair had its own round.
    """

    pairs: int
    sd: float
    mde: float
    bias: float
    biased: bool
    round_share: float | None


def resolution(ratios: Sequence[float], rounds: Sequence[int], *, alpha: float) -> Resolution:
    """Resolution of one metric from at least three log ratios. Raises ValueError for fewer, or no finite answer."""
    if len(ratios) < 3:
        msg = f"{len(ratios)} pairs show no spread; at least 3 are needed"
        raise ValueError(msg)
    # The tolerance plays no part in what is read off here.
    found = decide(ratios, tolerance=1.0, alpha=alpha, looks=(len(ratios),), final=True)
    sure = decide(ratios, tolerance=1.0, alpha=0.005, looks=(len(ratios),), final=True)
    if found.sd is None or found.mde is None or found.ratio is None:
        msg = "the spread of the pairs is beyond all numbers; the runner is not usable as it is"
        raise ValueError(msg)
    return Resolution(
        pairs=len(ratios),
        sd=found.sd,
        mde=found.mde,
        bias=found.ratio - 1,
        biased=sure.certain_slower or sure.certain_faster,
        round_share=round_share(ratios, rounds),
    )


def round_share(ratios: Sequence[float], rounds: Sequence[int]) -> float | None:
    """Between-round share of the variance by one-way analysis of variance (method of moments), 0 to 1.

    None unless at least two rounds hold at least two pairs each on average. Unequal rounds enter with the
    usual effective size n0 = (N - sum n_i^2 / N) / (k - 1).
    """
    groups: dict[int, list[float]] = {}
    for ratio, number in zip(ratios, rounds, strict=True):
        groups.setdefault(number, []).append(ratio)
    total, count = len(ratios), len(groups)
    if count < 2 or total < 2 * count:
        return None
    grand = statistics.fmean(ratios)
    means = {number: statistics.fmean(group) for number, group in groups.items()}
    between = sum(len(group) * (means[number] - grand) ** 2 for number, group in groups.items()) / (count - 1)
    within = sum((x - means[number]) ** 2 for number, group in groups.items() for x in group) / (total - count)
    size = (total - sum(len(group) ** 2 for group in groups.values()) / total) / (count - 1)
    component = max(0.0, (between - within) / size)
    return component / (component + within) if component + within > 0 else 0.0
