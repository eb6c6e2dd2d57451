"""Floor 3, estimator. Errors of what was not learned from: groups held out, and single steps whose relatives are there.

In: data and folds. Out: :class:`HeldOut`, which accuracy and intervals follow from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import anchors, parts
from perfgate.estimator.anchors import Found
from perfgate.estimator.core import folds
from perfgate.estimator.parts import Answer, Data, Parts

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

# Rows whose errors are looked at, and rows that each fold learns from at most.
_HELD, _LEARNED = 1500, 6000
_FEWER = 600
_FOLDS = 4
# Weights of the trees beside relatives that are tried, and what of the median error they have to take away.
_SCALES = (0.5, 0.8)
_WORTHWHILE = 0.02
# Variance that no relative takes away, over that of the residuals; see `spread`.
_REST = 0.15
# From this much variance left on an answer does not rest on relatives.
ANCHORED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Of m rows: ``error`` = ln(true / estimate), its ``spread`` (a size, not a deviation), ``fold``; ``scale``: weight
    of the trees.
    """

    rows: Whole
    error: Floats
    spread: Floats
    fold: Whole
    scale: float

    def every(self, n: int) -> Floats:
        """Errors of n rows, nan where there is none."""
        found = np.full(n, np.nan)
        found[self.rows] = self.error
        return found


def cross_validate(data: Data, fold: Whole, *, trees: bool, seed: int) -> HeldOut:
    """Errors where the whole group was not there. With a single group, each row is a group of its own."""
    n = len(data.y)
    if fold.max(initial=0) == 0:
        fold = np.arange(n) % min(5, n)
    rng = np.random.default_rng(seed)
    most = _HELD if n <= 2 * _HELD else _FEWER
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    answers: list[tuple[Whole, Answer]] = []
    for one in np.unique(fold[rows]):
        rest = np.flatnonzero(fold != one)
        if len(rest) > _LEARNED:
            rest = np.sort(rng.choice(rest, _LEARNED, replace=False))
        asked = rows[fold[rows] == one]
        learned = data.take(rest)
        found = parts.fit(learned, trees=trees, seed=seed)
        answers.append((asked, answer(found, learned, data.take(asked))))
    order = np.concatenate([asked for asked, _ in answers])
    truth = np.log(data.y[order])
    errors = {scale: truth - np.concatenate([given.log(scale) for _, given in answers]) for scale in (0.0, *_SCALES)}
    size = {scale: float(np.median(np.abs(error))) for scale, error in errors.items()}
    best = min(_SCALES, key=lambda scale: size[scale])
    scale = best if trees and size[best] < (1 - _WORTHWHILE) * size[0.0] else 0.0
    error = errors[scale]
    everything = np.full(n, np.nan)
    everything[order] = np.abs(error)
    variance = np.concatenate([given.found.variance for _, given in answers])
    around = anchors.interpolate(
        data.places.take(order), error, data.places.take(order), without_group=True, errors=everything[order]
    )
    return HeldOut(rows=order, error=error, spread=spread(variance, around.scatter), fold=fold[order], scale=scale)


def leave_one_out(data: Data, whole: Parts, held: HeldOut) -> HeldOut:
    """Errors of single rows whose relatives are there; only rows that have such relatives."""
    rows = np.sort(held.rows)
    places = data.places.take(rows)
    errors = np.abs(held.every(len(data.y)))[rows]
    found = anchors.interpolate(places, whole.residual[rows], places, without_self=True, errors=errors)
    estimate, trees = parts.linear(
        whole, data.x[rows], [data.settings[number] for number in data.setting[rows]], data.settings
    )
    given = Answer(linear=estimate, trees=trees, found=found)
    error = np.log(data.y[rows]) - given.log(held.scale)
    # A relative on another machine leaves other errors (`across`).
    here = places.setting[np.maximum(found.nearest, 0)] == places.setting
    close = (found.variance < ANCHORED) & here & (found.nearest >= 0)
    order = np.argsort(held.rows)
    return HeldOut(
        rows=rows[close],
        error=error[close],
        spread=spread(found.variance, found.scatter)[close],
        fold=held.fold[order][close],
        scale=held.scale,
    )


def across(data: Data, *, seed: int) -> HeldOut:
    """Errors of steps whose relatives ran on other settings alone, as on hardware with few measurements; spread 1.

    Groups are held out of every setting but the most measured one, which says what it knows of them.
    """
    first = int(np.bincount(data.setting).argmax())
    rows = np.flatnonzero(data.setting != first)
    if len(rows) > _HELD:
        rows = np.sort(np.random.default_rng(seed).choice(rows, _HELD, replace=False))
    fold = folds(data.places.group[rows], _FOLDS) if len(rows) else rows
    kept: list[tuple[Whole, Floats]] = []
    for one in np.unique(fold):
        asked = rows[fold == one]
        rest = np.setdiff1d(np.arange(len(data.y)), asked)
        if len(rest) > _LEARNED:
            rest = np.sort(np.random.default_rng(seed).choice(rest, _LEARNED, replace=False))
        learned = data.take(rest)
        given = answer(parts.fit(learned, trees=False, seed=seed), learned, data.take(asked))
        close = given.found.variance < ANCHORED
        kept.append((asked[close], (np.log(data.y[asked]) - given.log(0.0))[close]))
    order = np.concatenate([asked for asked, _ in kept]) if kept else rows
    error = np.concatenate([each for _, each in kept]) if kept else np.zeros(0)
    return HeldOut(rows=order, error=error, spread=np.ones(len(order)), fold=np.zeros(len(order), np.intp), scale=0.0)


def answer(found: Parts, learned: Data, asked: Data) -> Answer:
    """What ``found`` says of rows that it did not learn from."""
    relatives: Found = anchors.interpolate(learned.places, found.residual, asked.places)
    estimate, trees = parts.linear(found, asked.x, [asked.settings[number] for number in asked.setting], asked.settings)
    return Answer(linear=estimate, trees=trees, found=relatives)


def spread(variance: Floats, scatter: Floats) -> Floats:
    """How large an error to expect, up to a factor: by what relatives leave open, and by how wrong they were."""
    result: Floats = np.sqrt(_REST + variance) * scatter
    return result
