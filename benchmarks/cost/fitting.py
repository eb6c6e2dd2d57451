"""Fits constants of one class of machines to measured steps, by relative error.

In: observed steps on platforms of the class, constants to start from, and which of them may vary. Out: :class:`Fitted`.
Minimised is the sum over observations of rho(ln(modelled / measured)), rho growing linearly for outliers, plus a pull
of each constant's logarithm towards its start, so that what the data do not tell stays where it was. Each platform and
kind of observation weighs the same, however many rows it has.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import least_squares

from benchmarks.cost.observations import Observed, by_platform
from perfgate.hardware import catalogue
from perfgate.records.cost import Device
from perfgate.records.hardware import MeasuredRoofline, Platform
from perfgate.roofline import machine as roofs
from perfgate.roofline import step
from perfgate.roofline.calibration import KINDS, Calibration
from perfgate.roofline.step import Terms

Floats = NDArray[np.float64]

# Residuals beyond this (a quarter) count as outliers.
_OUTLIER = 0.25
# Keys of a constant: "launch_ns", "reach_flop.float32", "byte_efficiency.softmax".
_BY_KIND = frozenset({"flop_efficiency", "byte_efficiency", "half_ns"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Varied:
    """One constant of a fit: how strongly its logarithm is pulled to its start, and between which values it lies."""

    key: str
    pull: float = 1.0
    low: float = 0.02
    high: float = 3.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Fitted:
    """``residuals``: ln(modelled / measured) of each observation, in order. ``n``: how many there are."""

    calibration: Calibration
    residuals: Floats
    n: int


@dataclass(frozen=True, slots=True)
class _Block:
    """All observations of one platform: their kernels behind one another, ``owner`` says whose each is."""

    device: Device
    probe: MeasuredRoofline | None
    places: NDArray[np.intp]
    owner: NDArray[np.intp]
    terms: Terms


def as_published(platform: Platform) -> Platform:
    """The platform by its published rates alone."""
    return replace(platform, measured_flop_per_s={}, measured_bandwidth_bytes_per_s=None)


class Model:
    """Modelled times of many observed steps, quickly for other and other constants.

    ``probes``: platform -> what a probe measured there, which then takes the place of published rates. ``published``:
    published peaks count even where the catalogue has a measurement, so that what is reached of a peak can be fitted.
    """

    def __init__(
        self,
        observed: Sequence[Observed],
        probes: Mapping[str, MeasuredRoofline] | None = None,
        *,
        published: bool = False,
    ) -> None:
        self.seconds = np.array([one.seconds for one in observed])
        self._blocks = []
        place = {id(one): number for number, one in enumerate(observed)}
        for name, rows in by_platform(observed):
            platform = catalogue.find(name)
            if published:
                platform = as_published(platform)
            device = Device(platform=platform)
            probe = (probes or {}).get(name)
            machine = roofs.of(device, probe)
            kernels = [kernel for one in rows for kernel in one.kernels]
            owner = np.repeat(np.arange(len(rows)), [len(one.kernels) for one in rows])
            places = np.array([place[id(one)] for one in rows])
            self._blocks.append(_Block(device, probe, places, owner, step.terms(kernels, [machine])))

    def __call__(self, calibration: Calibration) -> Floats:
        """Seconds of each step with these constants."""
        found = np.empty_like(self.seconds)
        for block in self._blocks:
            machine = roofs.with_calibration(block.device, calibration, block.probe)
            given = step.constants(block.terms, [machine])
            each = step.kernel_ns(block.terms, given).work[:, 0] + given.launch_ns[0]
            found[block.places] = np.bincount(block.owner, block.terms.calls * each, len(block.places)) / 1e9
        return found

    def residuals(self, calibration: Calibration) -> Floats:
        """ln(modelled / measured)."""
        return np.asarray(np.log(self(calibration) / self.seconds))


def fit(
    observed: Sequence[Observed], start: Calibration, varied: Sequence[Varied], *, overheads: bool = False
) -> Fitted:
    """Constants of the class of ``start``; with ``overheads`` each platform has a further time for every observation.

    That is for operators that were timed one at a time: what the timing of a single launch takes is no constant of a
    step of many, so it is fitted and thrown away.
    """
    model = Model(observed, published=True)
    platforms = sorted({one.platform for one in observed})
    extra = np.array([platforms.index(one.platform) for one in observed])
    weights = _weights(observed)
    first = np.log([value(start, each.key) for each in varied])
    pulls = np.array([each.pull for each in varied])
    low = np.log([each.low for each in varied])
    high = np.log([each.high for each in varied])
    own = len(varied)

    def modelled(x: Floats) -> Floats:
        found = model(changed(start, {each.key: math.exp(v) for each, v in zip(varied, x[:own], strict=True)}))
        return found + np.exp(x[own:])[extra] if overheads else found

    def target(x: Floats) -> Floats:
        misses = weights * _tamed(np.log(modelled(x) / model.seconds))
        return np.concatenate([misses, pulls * (x[:own] - first)])

    n = len(platforms) if overheads else 0
    x0 = np.concatenate([np.clip(first, low + 1e-6, high - 1e-6), np.full(n, math.log(2e-5))])
    bounds = (np.concatenate([low, np.full(n, math.log(1e-7))]), np.concatenate([high, np.full(n, math.log(3e-4))]))
    found = least_squares(target, x0, bounds=bounds, x_scale=0.1, max_nfev=60)
    constants = changed(start, {each.key: math.exp(v) for each, v in zip(varied, found.x[:own], strict=True)})
    residuals = np.asarray(np.log(modelled(found.x) / model.seconds))
    return Fitted(calibration=constants, residuals=residuals, n=len(observed))


def _tamed(residuals: Floats) -> Floats:
    """Square root of rho: residuals up to ``_OUTLIER`` as they are, beyond it growing as a square root."""
    scaled = residuals / _OUTLIER
    return np.asarray(np.sign(scaled) * np.sqrt(2 * (np.sqrt(1 + scaled * scaled) - 1)) * _OUTLIER)


def _weights(observed: Sequence[Observed]) -> Floats:
    """Per observation, so that each platform and kind of operator comes to as much as 200 rows of the pull's scale."""
    cells = [(one.platform, one.group if one.source == "operators" else one.source) for one in observed]
    size = Counter(cells)
    return np.array([math.sqrt(200 / size[cell]) for cell in cells]) / _OUTLIER


def value(calibration: Calibration, key: str) -> float:
    """A constant by its key."""
    name, _, part = key.partition(".")
    found = getattr(calibration, name)
    if not part:
        return float(found)
    if name in _BY_KIND:
        return float(found[KINDS.index(part)])
    return float(found.get(part, found["default"]))


def changed(calibration: Calibration, values: Mapping[str, float]) -> Calibration:
    """Constants with other values. ``byte_efficiency.default`` is every kind that has the value of ``other``."""
    fields: dict[str, Any] = {}
    for key, new in values.items():
        name, _, part = key.partition(".")
        known = fields.get(name, getattr(calibration, name))
        if not part:
            fields[name] = new
        elif name in _BY_KIND:
            place = KINDS.index(part)
            fields[name] = (*known[:place], new, *known[place + 1 :])
        else:
            fields[name] = {**known, part: new}
    return replace(calibration, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Of residuals: median and mean absolute percentage error, share within 20 %, and the sigma of a 90 % interval."""

    n: int
    bias: float
    median: float
    mean: float
    within_20: float
    sigma: float


def spread(residuals: Floats) -> Spread:
    """Of at least one residual."""
    error = np.abs(np.expm1(residuals))
    return Spread(
        n=len(residuals),
        bias=float(np.expm1(np.median(residuals))),
        median=float(np.median(error)),
        mean=float(np.mean(error)),
        within_20=float(np.mean(error <= 0.2)),
        sigma=float(np.quantile(np.abs(residuals), 0.9)) / step.Z90,
    )
