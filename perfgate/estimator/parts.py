"""Floor 3, estimator. One target's regressors, setting by setting, and the residuals that relatives are asked for.

In: columns and values of examples. Out: :class:`Parts`; with questions' columns, ln of the estimates.

Settings are fitted from the most measured to the least. From the second on, what relatives on the settings before say
is taken off first, so that coefficients say how machines differ and not which models happened to run where.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import anchors, core, intervals, transfer
from perfgate.estimator.anchors import Found, Places
from perfgate.estimator.core import PhysicalRegressor
from perfgate.estimator.transfer import Setting

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

SPREAD = 0.7
# Spread of one class's coefficient in one setting around what all settings have in common.
_OWN_SPREAD = 0.4
# Rows from which and up to which coefficients are fitted again (`_refine`): fewer say too little, more need it less.
_REFINED = (150, 2000)
# Measurements from which a setting has residual trees of its own.
_TREES = 150


@dataclass(frozen=True, slots=True, kw_only=True)
class Data:
    """n examples of one target: ``x`` (n, k), ``units`` (k,), ``y`` (n,), ``setting`` (n,) numbers of ``settings``."""

    x: Floats
    units: tuple[str, ...]
    y: Floats
    places: Places
    setting: Whole
    settings: tuple[Setting, ...]

    def take(self, rows: Whole) -> Data:
        """Some of the examples; settings keep their numbers."""
        return Data(
            x=self.x[rows],
            units=self.units,
            y=self.y[rows],
            places=self.places.take(rows),
            setting=self.setting[rows],
            settings=self.settings,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """``general`` (k,): coefficients that all settings share; of each setting that was measured its number, regressor,
    ``factors`` (k,) on the general ones and count; ``residual`` (n,): ln of measured over linear core.
    """

    general: Floats
    numbers: tuple[int, ...]
    regressors: tuple[PhysicalRegressor, ...]
    factors: tuple[Floats, ...]
    counts: tuple[int, ...]
    residual: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """Of n questions: ``linear`` (the core's estimate), ``trees`` (ln of the boosted factor), what relatives say."""

    linear: Floats
    trees: Floats
    found: Found

    def log(self, scale: float) -> Floats:
        """ln of the estimates: relatives and trees explain the same residual, so they are averaged.

        The less relatives leave open, the more they count.
        """
        part = scale * self.found.variance
        result: Floats = np.log(self.linear) + (1 - part) * self.found.mean + part * self.trees
        return result

    def doubts(self) -> Floats:
        """(n, 4), see ``intervals.doubts``."""
        found = self.found
        return intervals.doubts(found.variance, found.distance, found.scatter, found.mean - self.trees)


def fit(data: Data, *, trees: bool, seed: int) -> Parts:
    """Learn from all of ``data``."""
    present, counts = np.unique(data.setting, return_counts=True)
    compact = np.searchsorted(present, data.setting)
    general = transfer.general(data.x, data.y, data.units, compact, spread=SPREAD)
    order = sorted(range(len(present)), key=lambda number: (-counts[number], data.settings[present[number]].key))
    residual = np.zeros(len(data.y))
    done = np.zeros(0, np.intp)
    regressors, factors = [], []
    for turn, number in enumerate(order):
        rows = np.flatnonzero(compact == number)
        y = data.y[rows]
        if turn:
            others = anchors.interpolate(data.places.take(done), residual[done], data.places.take(rows))
            y = y * np.exp(-others.mean)
        x = data.x[rows]
        factor = transfer.scales(x, y, data.units, general)
        alone = len(order) == 1
        regressor = PhysicalRegressor(
            units=data.units,
            spread=SPREAD if alone else _OWN_SPREAD,
            prior=None if alone else tuple(_positive(general) * factor),
            residual=core.ALWAYS if trees and len(rows) >= _TREES else core.NEVER,
            random_state=seed,
            fit_intercept=False,
        )
        regressor.fit(x, y, groups=data.places.group[rows])
        if _REFINED[0] <= len(rows) <= _REFINED[1]:
            _refine(regressor, x, y, data.places.take(rows))
        residual[rows] = np.log(data.y[rows] / regressor.linear(x))
        done = np.concatenate([done, rows])
        regressors.append(regressor)
        factors.append(factor)
    return Parts(
        general=general,
        numbers=tuple(int(present[number]) for number in order),
        regressors=tuple(regressors),
        factors=tuple(factors),
        counts=tuple(int(counts[number]) for number in order),
        residual=residual,
    )


def _refine(regressor: PhysicalRegressor, x: Floats, y: Floats, places: Places) -> None:
    """The core's coefficients once more, with what relatives have in common taken off.

    Ratios between relatives are what anchors need, and a family that is slower than its structure says would bend them.
    The trees stay: they explain what is common.
    """
    residual = np.log(y / regressor.linear(x))
    common = anchors.interpolate(places, residual, places, without_self=True).mean
    again = PhysicalRegressor(
        units=regressor.units,
        spread=_OWN_SPREAD,
        prior=tuple(_positive(regressor.coef_)),
        residual=core.NEVER,
        fit_intercept=False,
    )
    regressor.coef_ = again.fit(x, y * np.exp(-common)).coef_


def linear(parts: Parts, x: Floats, setting: Sequence[Setting], settings: Sequence[Setting]) -> tuple[Floats, Floats]:
    """The core's estimates and the trees' correction (ln), each (n,); ``settings``: those that numbers stand for."""
    known = [settings[number] for number in parts.numbers]
    keys = {one.key: place for place, one in enumerate(known)}
    estimate, correction = np.zeros(len(x)), np.zeros(len(x))
    asked: dict[str, list[int]] = {}
    for row, one in enumerate(setting):
        asked.setdefault(one.key, []).append(row)
    for key, rows in asked.items():
        place = keys.get(key)
        if place is not None:
            estimate[rows] = parts.regressors[place].linear(x[rows])
            correction[rows] = parts.regressors[place].correction(x[rows])
        else:
            coefficients = parts.general * transfer.unseen(setting[rows[0]], known, parts.factors, parts.counts)
            estimate[rows] = np.maximum(x[rows] @ coefficients, np.finfo(np.float64).tiny)
    return estimate, correction


def coefficients(parts: Parts, setting: Setting, settings: Sequence[Setting]) -> Floats:
    """The core's coefficients (k,) in a setting, measured or not."""
    known = [settings[number] for number in parts.numbers]
    for one, regressor in zip(known, parts.regressors, strict=True):
        if one.key == setting.key:
            return np.asarray(regressor.coef_, np.float64)
    return parts.general * transfer.unseen(setting, known, parts.factors, parts.counts)


def _positive(values: Floats) -> Floats:
    """A class that general coefficients of 0 were found for may still cost something in one setting."""
    there = values[values > 0]
    return np.maximum(values, 1e-3 * float(np.median(there))) if there.size else np.ones_like(values)
