"""Floor 3, estimator. Steps of one kernel: time by shape and size, learned from kernels that were measured alone.

In: what was learned, and questions. Out: of those that are one call of one kernel, time and interval.

A time is non-negative coefficients times columns that grow with batch, rows, columns and depth (``kernel_columns``), so
that it grows with them as well; beyond the largest kernel that was measured the last price goes on.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator.classes import CLASSES
from perfgate.estimator.intervals import Quantiles
from perfgate.estimator.kernel_columns import FLOP, columns, units
from perfgate.estimator.transfer import Setting
from perfgate.records.estimate import Example

Floats = NDArray[np.float64]

# What the trend over machines may come to at most (ln).
_FARTHEST = 1.2


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizes:
    """How large errors are by ln of the estimate: ``scale`` between ``edges`` (one more than edges)."""

    edges: tuple[float, ...]
    scale: tuple[float, ...]

    def of(self, estimate: Floats) -> Floats:
        """(n,) for estimates (n,)."""
        found: Floats = np.array(self.scale)[np.searchsorted(np.array(self.edges), np.log(estimate))]
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Learned:
    """One class in one setting: coefficients (k,), errors by size and the quantiles of what is left of them.

    ``error``: median of |ln(true / estimate)| of kernels that were left out at random.
    """

    coefficients: tuple[float, ...]
    error: float
    sizes: Sizes
    quantiles: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Shared:
    """One class over all settings of a ``pool`` (kind of machine, dtype, eager or compiled).

    ``slope`` of ln(scale of FLOP) on ln(FLOP/s over bytes/s), ``centre`` of the latter. ``quantiles``: of errors on
    machines left out.
    """

    coefficients: tuple[float, ...]
    slope: float
    centre: float
    quantiles: Quantiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernels:
    """``own``: class -> key of the setting -> what was learned; ``shared``: class -> pool -> the same of all."""

    own: dict[str, dict[str, Learned]]
    shared: dict[str, dict[str, Shared]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Single:
    """ns with its ends, nan where a question is none of one kernel or of a class that was not learned; each (n,)."""

    value: Floats
    low: Floats
    high: Floats


def alone(example: Example) -> bool:
    """Whether a step consists of one call of one kernel."""
    return len(example.kernels) == 1 and example.kernels[0].calls == 1


def pool(setting: Setting) -> str:
    """What settings have in common whose coefficients are shared."""
    return f"{setting.kind} {setting.dtype} {'compiled' if setting.compiled else 'eager'}"


def checked(known: Kernels) -> Kernels:
    """What came out of a file, as it is; raises ValueError where its parts do not belong together."""
    for name in (*known.own, *known.shared):
        if name not in CLASSES or name not in known.own or name not in known.shared:
            msg = f"kernels of class {name!r} are not known"
            raise ValueError(msg)
        every: list[Learned | Shared] = [*known.own[name].values(), *known.shared[name].values()]
        if any(len(one.coefficients) != len(units(name)) or min(one.coefficients) < 0 for one in every):
            msg = f"coefficients of {name} kernels do not fit"
            raise ValueError(msg)
        if any(len(one.sizes.scale) != len(one.sizes.edges) + 1 for one in known.own[name].values()):
            msg = f"errors of {name} kernels do not fit"
            raise ValueError(msg)
    return known


def answer(
    known: Kernels | None, examples: Sequence[Example], settings: Sequence[Setting], calls: Floats
) -> Single | None:
    """Times of questions; ``settings`` and ``calls`` (n, classes): of each. None where none of them is one kernel."""
    if known is None or not any(map(alone, examples)):
        return None
    value, low, high = (np.full(len(examples), np.nan) for _ in range(3))
    for name, rows in by_class(examples, calls).items():
        x = columns(name, [examples[row].kernels[0] for row in rows], [examples[row] for row in rows])
        for at, row in enumerate(rows):
            found = _answer(known, name, x[at : at + 1], settings[row])
            if found is not None:
                value[row], low[row], high[row] = found
    return Single(value=value, low=low, high=high)


def _answer(known: Kernels, name: str, x: Floats, setting: Setting) -> tuple[float, float, float] | None:
    own = known.own.get(name, {}).get(setting.key)
    if own is not None:
        value = x @ np.array(own.coefficients)
        low, high = own.quantiles.interval(value, own.sizes.of(value))
        return float(value[0]), float(low[0]), float(high[0])
    shared = known.shared.get(name, {}).get(pool(setting))
    if shared is None:
        return None
    value = x @ carried(shared, name, setting)
    low, high = shared.quantiles.interval(value, np.ones(1))
    return float(value[0]), float(low[0]), float(high[0])


def carried(shared: Shared, name: str, setting: Setting) -> Floats:
    """Coefficients (k,) in a setting that nobody measured."""
    return np.array(shared.coefficients) * factor(units(name), shared.slope, shared.centre, setting)


def factor(unit: NDArray[np.intp], slope: float, centre: float, setting: Setting) -> Floats:
    """What a machine's FLOP per byte says of its scale of FLOP (k,)."""
    found = np.ones(len(unit))
    place = balance(setting)
    if place is not None:
        found[unit == FLOP] = np.exp(np.clip(slope * (place - centre), -_FARTHEST, _FARTHEST))
    return found


def balance(setting: Setting) -> float | None:
    """ln of FLOP/s over bytes/s."""
    flop, moved = setting.rates
    return float(np.log(flop / moved)) if flop > 0 and moved > 0 else None


def by_class(examples: Sequence[Example], calls: Floats) -> dict[str, list[int]]:
    """Numbers of those that are one kernel."""
    found: dict[str, list[int]] = {}
    for row, one in enumerate(examples):
        if alone(one):
            found.setdefault(CLASSES[int(calls[row].argmax())], []).append(row)
    return found
