"""Floor 3, estimator. Learning the times of single kernels, by class and setting.

In: examples of one kernel each. Out: :class:`Kernels`, and which classes of it are told better by another estimator.

Of each class and setting, non-negative coefficients on relative error. Measured times are longer than a kernel needs
where a device throttles, hardly ever shorter: rows far slower than what the others say count little. Settings share
coefficients at the machines' full rates; how far a machine is from its peak in products follows, over machines, its
FLOP per byte (power runs out where arithmetic was added without bandwidth), and that is what carries over to a machine
that nobody measured.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import nnls

from perfgate.estimator import intervals
from perfgate.estimator.intervals import Quantiles
from perfgate.estimator.kernel_columns import FLOP, columns, units
from perfgate.estimator.kernels import Kernels, Learned, Shared, Sizes, balance, by_class, factor, pool
from perfgate.estimator.transfer import Setting
from perfgate.records.estimate import Example

Floats = NDArray[np.float64]

# Kernels of a class that a setting needs to be learned, and those that one fit looks at.
LEAST, MOST = 40, 1500
# Relative error from which a row counts less (Huber), and the slowness from which it hardly does, with its decay. On a
# single machine products, which draw most power, throttle first.
_HUBER, _SLOW, _SLOW_PRODUCT, _DECAY = 0.1, 0.2, 0.15, 0.05
_ITERATIONS, _ROUNDS = 15, 3
# Rows of each setting that the shared coefficients look at.
_SHARED = 300
# Weight of the shared coefficients, in rows' relative errors: 0.1 of error against 0.7 of their own spread.
_PRIOR = 0.1 / 0.7
# A coefficient that the prior has at 0 may still explain this share of the median row.
_LEAST_SHARE = 0.02
# Penalty of the slope over machines, and machines from which on it is believed.
_RIDGE, _FEW = 0.1, 3
_FOLDS = 5
# Errors by size: ranges, the quantile of |error| that stands for one, and the least.
_BINS, _LARGE, _LEAST_SCALE = 8, 0.7, 0.03
_LEAST_NS = 1e-6


@dataclass(frozen=True, slots=True)
class _Rows:
    """Kernels of one class in one pool. ``first``: key of the setting -> its first row and the next one's."""

    x: Floats
    y: Floats
    unit: NDArray[np.intp]
    first: dict[str, tuple[int, int]]
    settings: tuple[Setting, ...]

    def of(self, setting: Setting) -> NDArray[np.intp]:
        """The rows of a setting."""
        return np.arange(*self.first[setting.key])


def fit(
    examples: Sequence[Example], settings: Sequence[Setting], calls: Floats, y: Floats, *, seed: int
) -> Kernels | None:
    """Learn from those of the examples that are one kernel; None where no class has enough of them.

    ``settings``, ``calls`` (n, classes) and ``y`` (n,) ns: of each example.
    """
    every = _sorted(examples, settings, calls, y, seed)
    own: dict[str, dict[str, Learned]] = {name: {} for name, _ in every}
    shared: dict[str, dict[str, Shared]] = {name: {} for name, _ in every}
    for common in sorted({place for _, place in every}):
        mine = {name: rows for (name, place), rows in every.items() if place == common}
        general = {name: _general(rows, rows.settings) for name, rows in mine.items()}
        wrong = _elsewhere(mine)
        trend = _trend(mine, general)
        for name, rows in mine.items():
            shared[name][common] = Shared(
                coefficients=tuple(map(float, general[name].coefficients)),
                slope=trend.slope,
                centre=trend.centre,
                quantiles=wrong[name],
            )
            for setting in rows.settings:
                scale = np.exp(general[name].scales[setting.key])
                own[name][setting.key] = _learned(rows, setting, general[name].coefficients * scale[rows.unit])
    return Kernels(own=own, shared=shared) if every else None


def worthwhile(
    known: Kernels,
    examples: Sequence[Example],
    settings: Sequence[Setting],
    calls: Floats,
    rows: NDArray[np.intp],
    error: Floats,
) -> Kernels | None:
    """Without what another estimator tells better: ``error`` (m,), its ln(true / estimate) of held-out ``rows``."""
    others: dict[tuple[str, str], list[float]] = {}
    for name, numbers in by_class([examples[row] for row in rows], calls[rows]).items():
        for number in numbers:
            others.setdefault((name, settings[rows[number]].key), []).append(abs(float(error[number])))
    own = {
        name: {
            key: one
            for key, one in mine.items()
            if (name, key) not in others or one.error < float(np.median(others[name, key]))
        }
        for name, mine in known.own.items()
    }
    kept = {name for name, mine in own.items() if mine}
    if not kept:
        return None
    return Kernels(
        own={name: mine for name, mine in own.items() if name in kept},
        shared={name: one for name, one in known.shared.items() if name in kept},
    )


def _sorted(
    examples: Sequence[Example], settings: Sequence[Setting], calls: Floats, y: Floats, seed: int
) -> dict[tuple[str, str], _Rows]:
    """By class and pool; settings with few rows are left out, of those with very many a random part is looked at."""
    found: dict[tuple[str, str], _Rows] = {}
    for name, numbers in by_class(examples, calls).items():
        by_setting: dict[str, list[int]] = {}
        for number in numbers:
            by_setting.setdefault(settings[number].key, []).append(number)
        pools: dict[str, list[list[int]]] = {}
        for key in sorted(by_setting):
            if len(by_setting[key]) < LEAST:
                continue
            mine = np.random.default_rng(seed).permutation(by_setting[key])[:MOST].tolist()
            pools.setdefault(pool(settings[mine[0]]), []).append(mine)
        for common, parts in pools.items():
            order = [number for part in parts for number in part]
            chosen = [examples[number] for number in order]
            ends = np.cumsum([len(part) for part in parts]).tolist()
            found[name, common] = _Rows(
                columns(name, [one.kernels[0] for one in chosen], chosen),
                y[order],
                units(name),
                {settings[part[0]].key: (end - len(part), end) for part, end in zip(parts, ends, strict=True)},
                tuple(settings[part[0]] for part in parts),
            )
    return found


@dataclass(frozen=True, slots=True)
class _General:
    """What settings have in common (k,), and of each, by key, ln of its scales of FLOP, bytes and calls (3,), mean 0.

    ``share``: of the time of all rows that FLOP take.
    """

    coefficients: Floats
    scales: dict[str, Floats]
    share: float


def _general(rows: _Rows, settings: Sequence[Setting]) -> _General:
    member = np.eye(3)[rows.unit]
    parts = {one.key: rows.of(one)[:_SHARED] for one in settings}
    y = np.concatenate([rows.y[mine] for mine in parts.values()])
    scales = {key: np.zeros(3) for key in parts}
    x, coefficients = rows.x, np.zeros(len(rows.unit))
    for _ in range(_ROUNDS if len(parts) > 1 else 1):
        x = np.vstack([rows.x[mine] * np.exp(scales[key])[rows.unit] for key, mine in parts.items()])
        coefficients = solve(x, y)
        if len(parts) == 1:
            break
        for key, mine in parts.items():
            sums = (rows.x[mine] * coefficients) @ member
            scales[key] = np.log(np.maximum(solve(sums, rows.y[mine], np.ones(3)), _LEAST_SCALE))
        mean = np.mean(list(scales.values()), axis=0)
        scales = {key: one - mean for key, one in scales.items()}
        coefficients = coefficients * np.exp(mean)[rows.unit]
    share = float(np.median((x * coefficients)[:, rows.unit == FLOP].sum(axis=1) / np.maximum(x @ coefficients, 1e-9)))
    return _General(coefficients, scales, share)


@dataclass(frozen=True, slots=True)
class _Trend:
    """Of ln(scale of FLOP) over ln(FLOP/s over bytes/s) of machines."""

    slope: float
    centre: float


def _trend(every: dict[str, _Rows], general: dict[str, _General]) -> _Trend:
    """One for all classes: how fast a machine computes does not depend on what. A class counts by its share of FLOP."""
    total, slope = 0.0, 0.0
    seen: dict[float, float] = {}
    for name, found in general.items():
        pairs = [
            (place, found.scales[one.key][FLOP])
            for one in every[name].settings
            if one.key in found.scales and (place := balance(one)) is not None
        ]
        seen.update(pairs)
        if len(pairs) >= _FEW and found.share > 0:
            where, scale = np.array(pairs).T
            away = where - where.mean()
            slope += found.share * float((away * (scale - scale.mean())).sum() / ((away**2).sum() + _RIDGE))
            total += found.share
    return _Trend(slope / total if total else 0.0, float(np.mean(list(seen))) if seen else 0.0)


def _learned(rows: _Rows, setting: Setting, prior: Floats) -> Learned:
    """Coefficients of one setting, and errors of kernels of a size that was not learned from.

    What is asked about is hardly ever a neighbour of what was measured, so that whole ranges of size are held out.
    """
    mine = rows.of(setting)
    x, y = rows.x[mine], rows.y[mine]
    slow = _SLOW_PRODUCT if (x[:, rows.unit == FLOP] > 0).any() else _SLOW
    # Rows come in random order.
    near = np.log(y / _held(x, y, np.arange(len(y)) % _FOLDS, prior, slow))
    fold = np.argsort(np.argsort(y, kind="stable"), kind="stable") * _FOLDS // len(y)
    held = _held(x, y, fold, prior, slow)
    error = np.log(y / held)
    sizes = _sizes(np.log(held), error)
    return Learned(
        coefficients=tuple(map(float, solve(x, y, prior, slow=slow))),
        error=float(np.median(np.abs(near))),
        sizes=sizes,
        quantiles=intervals.quantiles(error, sizes.of(held), fold),
    )


def _held(x: Floats, y: Floats, fold: NDArray[np.intp], prior: Floats, slow: float) -> Floats:
    """Estimates of each fold by all others."""
    found = np.zeros(len(y))
    for one in range(_FOLDS):
        rest = fold != one
        found[~rest] = x[~rest] @ solve(x[rest], y[rest], prior, slow=slow)
    return np.maximum(found, _LEAST_NS)


def _sizes(log: Floats, error: Floats) -> Sizes:
    edges = np.quantile(log, np.linspace(0, 1, _BINS + 1)[1:-1])
    place = np.searchsorted(edges, log)
    parts = [np.abs(error[place == one]) for one in range(_BINS)]
    scale = [float(np.quantile(one, _LARGE)) if one.size else 0.0 for one in parts]
    return Sizes(edges=tuple(map(float, edges)), scale=tuple(max(one, _LEAST_SCALE) for one in scale))


def _elsewhere(every: dict[str, _Rows]) -> dict[str, Quantiles]:
    """By class, of errors on each setting by all others; every setting is a group."""
    errors: dict[str, list[Floats]] = {name: [] for name in every}
    for out in sorted({one.key for rows in every.values() for one in rows.settings}):
        others = {name: [one for one in rows.settings if one.key != out] for name, rows in every.items()}
        general = {name: _general(every[name], rest) for name, rest in others.items() if rest}
        trend = _trend(every, general)
        for name, found in general.items():
            rows = every[name]
            for setting in rows.settings:
                if setting.key == out:
                    mine = rows.of(setting)
                    c = found.coefficients * factor(rows.unit, trend.slope, trend.centre, setting)
                    errors[name].append(np.log(rows.y[mine] / np.maximum(rows.x[mine] @ c, _LEAST_NS)))
    return {name: _by_machine(found) for name, found in errors.items()}


def _by_machine(errors: list[Floats]) -> Quantiles:
    if not errors:
        return Quantiles(low=-2 * intervals.UNKNOWN, high=2 * intervals.UNKNOWN)
    tail = (1 - intervals.COVERAGE) / 2
    # Each machine by itself: none counts more because more was measured on it.
    low, high = (
        float(np.quantile(np.concatenate([_evenly(one) for one in errors]), part)) for part in (tail, 1 - tail)
    )
    return Quantiles(low=min(low, 0.0), high=max(high, 0.0))


def _evenly(errors: Floats) -> Floats:
    found: Floats = np.quantile(errors, np.linspace(0, 1, _SHARED))
    return found


def solve(x: Floats, y: Floats, prior: Floats | None = None, *, slow: float = _SLOW) -> Floats:
    """argmin over c >= 0 of sum w (x c / y - 1)^2, near ``prior`` (k,); w is small for odd rows and for slow ones."""
    rows = x / y[:, None]
    typical = np.array([float(np.median(column[column > 0])) if (column > 0).any() else 1.0 for column in rows.T])
    penalty = np.zeros(len(typical))
    centre = np.zeros(len(typical))
    if prior is not None:
        centre = prior
        penalty = (_PRIOR / np.maximum(prior, _LEAST_SHARE / typical)) ** 2
    penalty = penalty + (1e-6 * typical) ** 2
    weight = np.ones(len(y))
    found = centre
    for _ in range(_ITERATIONS):
        weighted = rows * weight[:, None]
        gram = weighted.T @ rows + np.diag(penalty)
        gram[np.diag_indices(len(penalty))] *= 1 + 1e-10
        factor = np.linalg.cholesky(gram)
        right = weighted.sum(axis=0) + penalty * centre
        found = nnls(factor.T, np.linalg.solve(factor, right), maxiter=30 * len(penalty) + 100)[0]
        error = rows @ found - 1
        weight = 1 / (1 + (error / _HUBER) ** 2)
        late = error < -slow
        weight[late] *= np.exp(2 * (error[late] + slow) / _DECAY)
    result: Floats = found
    return result
