"""Cross-validation by groups on measured examples, and the figures that come of it.

In: examples with their times, and which fold each belongs to. Out: an estimate for each, made by a model that never saw
its fold; :class:`Figures` of errors and of intervals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from perfgate.estimator import fit
from perfgate.records.estimate import STEP_TIME, Estimate, Example

HEADER = ("n", "MdAPE", "MAPE", "<= 10 %", "<= 20 %", "p90", "covered", "by group", "high/low")
# Enough for any fit here; how fast fits are is measured by `speed`.
_TIME_LIMIT_S = 120.0

# What 90 % intervals have to cover: by row at least and at most, and at least where every group counts alike.
COVERED, COVERED_BY_GROUP = (0.87, 0.94), 0.87
# Median ratio of high over low at most, on GPUs.
WIDTH = 1.4

# What may be compared: examples to learn from, questions -> estimates.
Method = Callable[[Sequence[Example], Sequence[Example]], Sequence[Estimate]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Errors over true values, and intervals; shares but for ``n`` and ``width`` (median of high over low).

    ``covered_by_group``: every group counts alike.
    """

    n: int
    median: float
    mean: float
    within_10: float
    within_20: float
    p90: float
    covered: float
    covered_by_group: float
    width: float

    def cells(self) -> tuple[str, ...]:
        """As :data:`HEADER` has them."""
        return (
            str(self.n),
            f"{self.median:.1%}",
            f"{self.mean:.1%}",
            f"{self.within_10:.0%}",
            f"{self.within_20:.1%}",
            f"{self.p90:.0%}",
            f"{self.covered:.1%}",
            f"{self.covered_by_group:.1%}",
            f"{self.width:.2f}",
        )


def fitted(train: Sequence[Example], asked: Sequence[Example]) -> Sequence[Estimate]:
    """perfgate's estimator."""
    return fit.fit(train, targets=(STEP_TIME,), time_limit_s=_TIME_LIMIT_S).estimates(unknown(asked), STEP_TIME)


def folds(groups: Sequence[str], number: int, *, seed: int = 0) -> list[int]:
    """The fold of each example: groups in a fixed random order, dealt out in turn."""
    names = sorted(set(groups))
    order = np.random.default_rng(seed).permutation(len(names))
    place = {names[name]: turn % number for turn, name in enumerate(order)}
    return [place[group] for group in groups]


def cross_validated(examples: Sequence[Example], fold: Sequence[int | str], method: Method = fitted) -> list[Estimate]:
    """One estimate for each example, in their order."""
    found: dict[int, Estimate] = {}
    for one in sorted(set(fold), key=str):
        inside = [number for number, own in enumerate(fold) if own == one]
        train = [example for example, own in zip(examples, fold, strict=True) if own != one]
        found.update(zip(inside, method(train, [examples[number] for number in inside]), strict=True))
    return [found[number] for number in range(len(examples))]


def unknown(examples: Iterable[Example]) -> list[Example]:
    """The same steps as questions: nothing measured."""
    return [replace(one, targets={}, resources={}) for one in examples]


def time_of(example: Example) -> float:
    """Measured, ns."""
    return example.targets[STEP_TIME]


def errors(examples: Sequence[Example], estimates: Sequence[Estimate]) -> list[float]:
    """|estimate / measured - 1| of each."""
    return [abs(found.value / time_of(one) - 1) for one, found in zip(examples, estimates, strict=True)]


def figures(examples: Sequence[Example], estimates: Sequence[Estimate]) -> Figures:
    """Of at least one example."""
    wrong = np.array(errors(examples, estimates))
    inside = [found.low <= time_of(one) <= found.high for one, found in zip(examples, estimates, strict=True)]
    by_group: dict[str, list[bool]] = {}
    for one, hit in zip(examples, inside, strict=True):
        by_group.setdefault(one.group, []).append(hit)
    return Figures(
        n=len(examples),
        median=float(np.median(wrong)),
        mean=float(wrong.mean()),
        within_10=float((wrong <= 0.1).mean()),
        within_20=float((wrong <= 0.2).mean()),
        p90=float(np.quantile(wrong, 0.9)),
        covered=float(np.mean(inside)),
        covered_by_group=float(np.mean([np.mean(hits) for hits in by_group.values()])),
        width=float(np.median([found.high / max(found.low, 1e-9) for found in estimates])),
    )


def missed(rows: Mapping[str, Figures], limits: Mapping[str, tuple[float, float]]) -> list[str]:
    """Rows whose median or mean is above its limit, one sentence each."""
    return [
        f"{name}: {rows[name].median:.1%} / {rows[name].mean:.1%} is above {median:.1%} / {mean:.1%}"
        for name, (median, mean) in limits.items()
        if name in rows and (rows[name].median > median or rows[name].mean > mean)
    ]


def uncovered(rows: Mapping[str, Figures], names: Iterable[str], *, width: float = math.inf) -> list[str]:
    """Which of the named rows have intervals that cover too little or too much, or that are wider than ``width``."""
    found = []
    least, most = COVERED
    for name in names:
        if name not in rows:
            continue
        one = rows[name]
        if not least <= one.covered <= most:
            found.append(f"{name}: intervals cover {one.covered:.1%}, not {least:.0%} to {most:.0%}")
        if one.covered_by_group < COVERED_BY_GROUP:
            found.append(f"{name}: by group intervals cover {one.covered_by_group:.1%}, below {COVERED_BY_GROUP:.0%}")
        if one.width > width:
            found.append(f"{name}: intervals are {one.width:.2f} wide, above {width:.2f}")
    return found


def middle(draws: Sequence[Figures]) -> Figures:
    """The draw whose median error is the middle one, with what all draws cover and how wide they are on average.

    What the intervals of one draw cover is chance: they rest on a few errors.
    """
    chosen = sorted(draws, key=lambda one: one.median)[(len(draws) - 1) // 2]
    return replace(
        chosen,
        covered=float(np.mean([one.covered for one in draws])),
        covered_by_group=float(np.mean([one.covered_by_group for one in draws])),
        width=float(np.median([one.width for one in draws])),
    )
