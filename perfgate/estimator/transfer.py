"""Floor 3, estimator. Settings (a machine, its threads, a dtype, eager or compiled) and what one tells of another.

In: examples by setting, in columns of seconds at the machine's full rates. Out: coefficients for each setting, and for
one that nobody measured.

All settings share one set of coefficients, "how much slower than the machine's rates is this class of kernels". A
setting with measurements has four scales on it (FLOP, bytes, calls, step), shrunk to one, and where it has many, its
own coefficients, shrunk to these. With no measurement the rates alone carry over; with k, a ridge-shrunk correction.
Where the same steps ran on another machine, the scales are fitted on what is left when that machine's residuals are
taken off: a model that is slower than its structure says is so there and here.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import features, nonnegative
from perfgate.records.estimate import Example

Floats = NDArray[np.float64]

# Prior standard deviation of a setting's scale of FLOP, bytes, ... beside its one scale.
_SCALES = 0.3
# Measurements that pull a setting's scale as much as the rates do.
_PULL = 0.5
_UNITS = (features.FLOP, features.BYTES, features.CALLS, features.STEP)


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """What steps have in common that ran under the same conditions. ``rates``: FLOP/s in its dtype, bytes/s."""

    machine: str
    kind: str
    threads: int
    dtype: str
    compiled: bool
    rates: tuple[float, float]

    @property
    def key(self) -> str:
        """Text that tells settings apart; rates do not."""
        return f"{self.machine} {self.threads} {self.dtype} {'compiled' if self.compiled else 'eager'}"


def of(example: Example) -> Setting:
    """The setting of an example."""
    machine = example.machine
    rate = machine.flop_per_s.get(example.dtype.removeprefix("amp-"), 0.0)
    return Setting(
        machine=machine.name,
        kind=machine.kind,
        threads=example.threads,
        dtype=example.dtype,
        compiled=example.compile != "eager",
        rates=(rate, machine.bandwidth_bytes_per_s),
    )


def general(x: Floats, y: Floats, units: tuple[str, ...], setting: NDArray[np.intp], *, spread: float) -> Floats:
    """The coefficients (k,) that all settings share. ``setting`` (n,): the number of each row's.

    Settings whose rates are off by a factor would tear classes apart, so each is first set to the common level.
    """
    found = nonnegative.solve(x, y, nonnegative.shared(x, y, units), spread=spread)
    if setting.max(initial=0) == 0:
        return found
    for _ in range(2):
        error = np.log(y / np.maximum(x @ found, 1e-300))
        level = np.zeros(len(y))
        for one in range(int(setting.max()) + 1):
            rows = setting == one
            level[rows] = np.median(error[rows]) * rows.sum() / (rows.sum() + _PULL)
        level -= np.median(level)
        even = y * np.exp(-level)
        found = nonnegative.solve(x, even, nonnegative.shared(x, even, units), spread=spread)
    return found


def scales(x: Floats, y: Floats, units: tuple[str, ...], coefficients: Floats) -> Floats:
    """Factors (k,), equal within a unit, that fit ``coefficients`` to a setting's rows; 1 without rows."""
    if not len(y) or not set(units) & set(_UNITS):
        # Bytes of memory are bytes everywhere.
        return np.ones(len(units))
    error = np.log(y / np.maximum(x @ coefficients, 1e-300))
    level = float(np.exp(np.median(error) * len(y) / (len(y) + _PULL)))
    member = np.array([[unit == name for name in _UNITS] for unit in units], np.float64)
    sums = (x * coefficients) @ member * level
    found = nonnegative.solve(sums, y, np.ones(len(_UNITS)), spread=_SCALES, iterations=4)
    result: Floats = level * (member @ found)
    return result


def unseen(asked: Setting, known: Sequence[Setting], factors: Sequence[Floats], counts: Sequence[int]) -> Floats:
    """Factors (k,) on the general coefficients for a setting without a measurement.

    Those of the nearest setting of the same machine, with FLOP slower by the ratio of threads and bytes by its root
    where the rates do not say it; else the mean (of logarithms, by measurements) over machines of the same kind, and
    1 where there is none of that kind.
    """
    same = [number for number, one in enumerate(known) if one.machine == asked.machine]
    if same:
        nearest = min(same, key=lambda number: (_distance(asked, known[number]), -counts[number], number))
        found = factors[nearest].copy()
        there = known[nearest]
        if asked.threads and there.threads and asked.rates == there.rates:
            found *= (there.threads / asked.threads) ** 0.75
        return found
    alike = [number for number, one in enumerate(known) if one.kind == asked.kind]
    closest = [number for number in alike if known[number].compiled == asked.compiled] or alike
    if not closest:
        return np.ones(len(factors[0]) if factors else 0)
    weight = np.sqrt(np.array([counts[number] for number in closest], np.float64))
    logs = np.log(np.maximum(np.stack([factors[number] for number in closest]), 1e-6))
    result: Floats = np.exp((weight[:, None] * logs).sum(axis=0) / weight.sum())
    return result


def _distance(a: Setting, b: Setting) -> float:
    threads = abs(np.log((a.threads or 1) / (b.threads or 1)))
    return 4.0 * (a.dtype != b.dtype) + 2.0 * (a.compiled != b.compiled) + float(threads)
