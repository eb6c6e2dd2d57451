"""Floor 2, stats. Log ratios of pairs in; a group-sequential decision with its interval out.

The rule, in full in ``docs/method.md``: at fixed pair counts (*looks*) a comparison may end. One limit tau
serves both sides of the question: regression = certainly worse **and** the estimate at or past tau;
pass = past tau is ruled out. A false regression can only come from looks that spend part of alpha, and
what they spend sums to alpha, so the union bound holds whatever the dependence between looks.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from scipy.special import stdtrit

from perfgate.records.report import IMPROVEMENT, INCONCLUSIVE, PASS, REGRESSION

CONTINUE = "continue"

# Fewer pairs than this decide nothing: one has no spread, two that agree by luck have almost none.
MIN_PAIRS = 3
_PASS_LEVEL = 0.95
_POWER = 0.80


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A pair count ``n`` at which deciding is tried; ``alpha`` is what a regression may spend there (0: none)."""

    n: int
    alpha: float
    may_regress: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """The state after ``n`` pairs, and the numbers behind it; None where a number does not exist or is not finite.

    ``state``: ``continue``, ``regression``, ``pass``, ``improvement``, ``inconclusive``. ``mean`` and ``sd`` are of
    the log ratios, or of the cluster means where clusters were given; ``units`` counts what was averaged.
    ``ratio``, ``ci_low``, ``ci_high`` (95 %, two-sided), ``upper`` (95 %, one-sided) are head / base; ``mde`` is a
    share: the change that ``n`` pairs find with 80 % power at ``alpha``. ``certain_slower``/``certain_faster``: the
    mean differs from 0 at the comparison's whole alpha, whatever the limit says. ``alpha`` is what the last
    look could spend (0: it could not say regression).
    """

    state: str
    n: int
    units: int
    mean: float | None
    sd: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    upper: float | None
    mde: float | None
    certain_slower: bool
    certain_faster: bool
    alpha: float


def looks_and_alphas(looks: Sequence[int], alpha: float, *, pairs_per_round: int = 1) -> tuple[Look, ...]:
    """The looks with their shares of ``alpha``; the shares sum to ``alpha`` exactly.

    Weights grow linearly (2, 3, 4, ... : 10, 15, 20, 25, 30 % of five looks), since late looks find more for
    the same alpha. A look may say regression only if 2^-n <= its share: by then no noise that is symmetric
    between the sides, however it is shaped, can put all pairs on one side more often than that. Shares go to
    the longest suffix of looks for which this holds; where even the last look alone fails, one with more
    pairs is appended. n counts rounds where ``pairs_per_round`` > 1, as pairs of one round are not independent.

    Raises ValueError unless looks increase strictly from at least 2 and 0 < alpha < 1.
    """
    if not looks or looks[0] < 2 or any(b <= a for a, b in pairwise(looks)):
        msg = f"looks must increase strictly from at least 2, not {tuple(looks)}"
        raise ValueError(msg)
    if not 0 < alpha < 1:
        msg = f"alpha must lie between 0 and 1, not {alpha}"
        raise ValueError(msg)
    counts = list(looks)
    for first in range(len(counts)):
        shares = _shares(len(counts), first, alpha)
        if all(_may_regress(n // pairs_per_round, a) for n, a in zip(counts[first:], shares, strict=True)):
            spent = [0.0] * first + shares
            break
    else:
        spent = [0.0] * len(counts) + [alpha]
        counts.append(_needed(alpha) * pairs_per_round)
    return tuple(Look(n=n, alpha=a, may_regress=a > 0) for n, a in zip(counts, spent, strict=True))


def decide(
    x: Sequence[float],
    *,
    tolerance: float,
    alpha: float,
    looks: Sequence[int],
    final: bool = False,
    clusters: Sequence[int] | None = None,
    pairs_per_round: int = 1,
) -> Decision:
    """Replay the looks over log ratios ``x`` (positive = worse) and say how the comparison stands.

    ``tolerance`` is the relative limit (0.03 = 3 %, >= 0). ``final`` True: no more pairs will come, so a count between
    two looks is one last look with the next look's alpha, and what is open then is inconclusive. ``clusters``
    gives each pair's round where rounds repeat: means of rounds take the place of pairs, with (rounds - 1)
    degrees of freedom.

    A pass stays open for the first look that may call it an improvement, if its upper bound lies below 0 and its
    mean is at or past the mirrored limit. Raises ValueError on a log ratio that is not finite.
    """
    values = np.asarray(x, dtype=float)
    if not np.isfinite(values).all():
        msg = "a log ratio is not finite; leave such a pair out or call the metric invalid"
        raise ValueError(msg)
    plan = looks_and_alphas(looks, alpha, pairs_per_round=pairs_per_round)
    limit = math.log1p(tolerance)
    tried = [look for look in plan if look.n <= len(values)]
    if final and len(tried) < len(plan) and (not tried or tried[-1].n < len(values)):
        # The budget ended between two looks: the next look's share is spent on what there is.
        tried.append(Look(n=len(values), alpha=plan[len(tried)].alpha, may_regress=plan[len(tried)].may_regress))
    last_n = tried[-1].n if tried else 0
    for look in tried:
        stop = final and look.n == last_n
        units = _units(values[: look.n], clusters)
        state = _state(units, look, limit, wait=not stop and not look.may_regress and _opens_later(plan, look))
        if state != CONTINUE:
            return _decision(state, look.n, units, alpha, look.alpha)
    over = final or len(values) >= plan[-1].n
    count = min(len(values), plan[-1].n)
    spent = tried[-1].alpha if tried else 0.0
    return _decision(INCONCLUSIVE if over else CONTINUE, count, _units(values[:count], clusters), alpha, spent)


def one_sided_lower(values: Sequence[float], alpha: float) -> float | None:
    """Lower bound of the mean at one-sided level ``alpha`` (t interval); None for fewer than ``MIN_PAIRS`` values."""
    units = np.asarray(values, dtype=float)
    if len(units) < MIN_PAIRS:
        return None
    return float(units.mean()) - _t(1 - alpha, len(units) - 1) * _standard_error(units)


def _shares(count: int, first: int, alpha: float) -> list[float]:
    weights = [k + 2 for k in range(first, count)]
    return [alpha * weight / sum(weights) for weight in weights]


def _may_regress(units: int, alpha: float) -> bool:
    return alpha > 0 and 2.0**-units <= alpha


def _needed(alpha: float) -> int:
    units = max(1, math.floor(-math.log2(alpha)))
    while not _may_regress(units, alpha):
        units += 1
    return units


def _opens_later(plan: tuple[Look, ...], look: Look) -> bool:
    return any(later.may_regress and later.n > look.n for later in plan)


def _units(values: np.ndarray, clusters: Sequence[int] | None) -> np.ndarray:
    if clusters is None:
        return values
    labels = np.asarray(clusters[: len(values)])
    if len(labels) != len(values):
        msg = f"{len(values)} log ratios need as many cluster numbers, not {len(labels)}"
        raise ValueError(msg)
    return np.array([values[labels == label].mean() for label in dict.fromkeys(labels.tolist())])


def _t(level: float, degrees: int) -> float:
    return float(stdtrit(degrees, level))


def _standard_error(units: np.ndarray) -> float:
    return float(units.std(ddof=1)) / math.sqrt(len(units))


def _state(units: np.ndarray, look: Look, limit: float, *, wait: bool) -> str:
    count = len(units)
    if count < MIN_PAIRS:
        return CONTINUE
    mean, error = float(units.mean()), _standard_error(units)
    # With no spread at all the error is 0 and each line below is the exact comparison: t itself is always finite.
    speaks = look.may_regress and _may_regress(count, look.alpha)
    sure = _t(1 - look.alpha, count - 1) * error if speaks else math.inf
    if mean >= limit and mean - sure > 0:
        return REGRESSION
    if mean <= -limit and mean + sure < 0:
        return IMPROVEMENT
    upper = mean + _t(_PASS_LEVEL, count - 1) * error
    if upper >= limit:
        return CONTINUE
    return CONTINUE if wait and mean <= -limit and upper < 0 else PASS


def _exp(value: float) -> float | None:
    # Beyond e^700 a double overflows; such a bound says nothing and has no JSON form.
    return math.exp(value) if value < 700 else None


def _decision(state: str, n: int, units: np.ndarray, alpha: float, spent: float) -> Decision:
    count = len(units)
    mean = float(units.mean()) if count else None
    sd = float(units.std(ddof=1)) if count > 1 else None
    low = high = upper = mde = None
    slower = faster = False
    if mean is not None and sd is not None:
        error = sd / math.sqrt(count)
        half = _t(0.975, count - 1) * error
        low, high = _exp(mean - half), _exp(mean + half)
        upper = _exp(mean + _t(_PASS_LEVEL, count - 1) * error)
        grown = _exp((_t(1 - alpha, count - 1) + _t(_POWER, count - 1)) * error)
        mde = None if grown is None else grown - 1
        sure = _t(1 - alpha, count - 1) * error
        slower = count >= MIN_PAIRS and mean - sure > 0
        faster = count >= MIN_PAIRS and mean + sure < 0
    return Decision(
        state=state, n=n, units=count, mean=mean, sd=sd, ratio=None if mean is None else _exp(mean),
        ci_low=low, ci_high=high, upper=upper, mde=mde, certain_slower=slower, certain_faster=faster, alpha=spent,
    )  # fmt: skip
