"""How good choices are: how often right, and what the others cost more.

A choice is right where it is the truly cheapest platform that truly meets the limit. Regret is its true cost over that
of the best, minus 1. A choice that truly breaks the limit has been paid for nothing, and the best is paid for
after it: its regret is its cost over the best's. Where nothing is said to meet a limit that something meets, the
nearest miss is taken for the choice, which is wrong even if it is the best.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.cost.cases import Case
from benchmarks.cost.choosers import Choice


@dataclass(frozen=True, slots=True, kw_only=True)
class Score:
    """Shares of all cases, and the mean regret as a share."""

    cases: int
    right: float
    right_or_tied: float
    regret: float
    broken: float
    refused: float


def pooled(found: Sequence[Score]) -> Score:
    """Of all their decisions together, each counted once; at least one."""
    total = sum(one.cases for one in found)

    def mean(share: Callable[[Score], float]) -> float:
        return sum(one.cases * share(one) for one in found) / total

    return Score(
        cases=total,
        right=mean(lambda one: one.right),
        right_or_tied=mean(lambda one: one.right_or_tied),
        regret=mean(lambda one: one.regret),
        broken=mean(lambda one: one.broken),
        refused=mean(lambda one: one.refused),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class _Judged:
    right: bool
    tied: bool
    regret: float
    broken: bool
    refused: bool


def score(cases: Sequence[Case], choices: Sequence[Choice]) -> Score:
    """Of one chooser over all cases; at least one case."""
    found = [_judge(case, choice) for case, choice in zip(cases, choices, strict=True)]
    return Score(
        cases=len(found),
        right=statistics.fmean(one.right for one in found),
        right_or_tied=statistics.fmean(one.right or one.tied for one in found),
        regret=statistics.fmean(one.regret for one in found),
        broken=statistics.fmean(one.broken for one in found),
        refused=statistics.fmean(one.refused for one in found),
    )


def _judge(case: Case, choice: Choice) -> _Judged:
    best = case.best
    assert best is not None
    refused = not choice.feasible or choice.platform is None
    if choice.platform is None:
        return _Judged(right=False, tied=False, regret=1.0, broken=False, refused=True)
    ratio = case.truths[choice.platform].usd_per_item / case.truths[best].usd_per_item
    broken = not case.feasible(choice.platform)
    return _Judged(
        right=choice.platform == best and not refused,
        tied=best in choice.ties,
        regret=ratio if broken else ratio - 1,
        broken=broken,
        refused=refused,
    )
