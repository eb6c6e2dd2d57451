"""The decision rule written a second time: slowly, in plain Python, from docs/method.md, without perfgate's code.

Student's t comes from the finite trigonometric series for whole degrees of freedom (Abramowitz and Stegun,
26.7.3 and 26.7.4), its quantiles from bisection.
"""

from __future__ import annotations

import functools
import math
from fractions import Fraction


def t_two_sided(t: float, df: int) -> float:
    """P(|T| <= t)."""
    theta = math.atan(t / math.sqrt(df))
    cos, sin = math.cos(theta), math.sin(theta)
    if df == 1:
        return 2 * theta / math.pi
    total, term = 0.0, 1.0
    if df % 2:
        term = cos
        for k in range(1, (df - 1) // 2 + 1):
            total += term
            term *= cos * cos * (2 * k) / (2 * k + 1)
        return 2 / math.pi * (theta + sin * total)
    for k in range(1, df // 2 + 1):
        total += term
        term *= cos * cos * (2 * k - 1) / (2 * k)
    return sin * total


@functools.cache
def t_quantile(level: float, df: int) -> float:
    low, high = 0.0, 1.0
    while 0.5 + t_two_sided(high, df) / 2 < level:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if 0.5 + t_two_sided(middle, df) / 2 < level:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def spending(looks: tuple[int, ...], alpha: float) -> list[tuple[int, float]]:
    """(pairs, alpha of this look); 0 where a regression may not be said."""
    weights = [Fraction(k + 2) for k in range(len(looks))]
    for skipped in range(len(looks)):
        rest = weights[skipped:]
        shares = [float(weight / sum(rest)) * alpha for weight in rest]
        if all(0.5**n <= share for n, share in zip(looks[skipped:], shares, strict=True)):
            return list(zip(looks, [0.0] * skipped + shares, strict=True))
    n = looks[-1]
    while 0.5**n > alpha:
        n += 1
    return [*((look, 0.0) for look in looks), (n, alpha)]


def decide(x: list[float], tolerance: float, alpha: float, looks: tuple[int, ...], final: bool) -> tuple[str, int]:
    """(state, pairs used)."""
    plan = spending(looks, alpha)
    limit = math.log(1 + tolerance)
    tries = [(n, a, False) for n, a in plan if n <= len(x)]
    if final:
        tries = [(n, a, n == len(x)) for n, a, _ in tries]
        if len(x) not in [n for n, _ in plan] and len(x) < plan[-1][0]:
            following = next(a for n, a in plan if n > len(x))
            tries.append((len(x), following, True))
    for n, a, is_last in tries:
        if n < 3:
            continue
        mean = math.fsum(x[:n]) / n
        error = math.sqrt(math.fsum((v - mean) ** 2 for v in x[:n]) / (n - 1) / n)
        may = a > 0 and 0.5**n <= a
        if may and mean - t_quantile(1 - a, n - 1) * error > 0 and mean >= limit:
            return "regression", n
        if may and mean + t_quantile(1 - a, n - 1) * error < 0 and mean <= -limit:
            return "improvement", n
        top = mean + t_quantile(0.95, n - 1) * error
        if top < limit:
            promising = top < 0 and mean <= -limit
            later = any(b > 0 and m > n for m, b in plan)
            if not (promising and later and a == 0 and not is_last):
                return "pass", n
    if final or len(x) >= plan[-1][0]:
        return "inconclusive", min(len(x), plan[-1][0])
    return "continue", len(x)
