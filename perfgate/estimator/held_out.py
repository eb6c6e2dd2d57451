"""Floor 3, estimator. Errors of what was not learned from: groups held out, and single steps whose relatives are there.

In: data and folds. Out: :class:`HeldOut`, which accuracy and intervals follow from.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import anchors, columns, intervals, parts
from perfgate.estimator.anchors import Found
from perfgate.estimator.core import folds
from perfgate.estimator.parts import Answer, Data, Parts

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

# Rows whose errors are looked at, and rows that each fold learns from at most.
_HELD, _LEARNED = 1500, 6000
_FEWER = 600
# Where a fold learns from more than this, so many rows of it are looked at with one relative.
_PAIRED_REST, _PAIRED = 2500, 70
_FOLDS = 4
# Weights of the trees beside relatives that are tried, and what of the median error they have to take away.
_SCALES = (0.5, 0.8)
_WORTHWHILE = 0.02
# From this much variance left on an answer does not rest on relatives.
ANCHORED = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class HeldOut:
    """Of m rows: ``error`` = ln(true / estimate), ``doubt`` (m, 4) as of ``intervals.doubts``, ``fold``; ``scale``:
    weight of the trees.
    """

    rows: Whole
    error: Floats
    doubt: Floats
    fold: Whole
    scale: float

    def every(self, n: int) -> Floats:
        """Errors of n rows, nan where there is none."""
        found = np.full(n, np.nan)
        found[self.rows] = self.error
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class _Fold:
    """What was learned without ``asked`` rows, from ``rest``, and what it says of them."""

    rest: Whole
    asked: Whole
    found: Parts
    answer: Answer


def cross_validate(data: Data, fold: Whole, *, trees: bool, seed: int) -> tuple[HeldOut, HeldOut]:
    """Errors where the whole group was not there, and where one random step of it was.

    With a single group, each row is a group of its own.
    """
    n = len(data.y)
    if fold.max(initial=0) == 0:
        fold = np.arange(n) % min(5, n)
    rng = np.random.default_rng(seed)
    most = _HELD if n <= 2 * _HELD else _FEWER
    rows = np.arange(n) if n <= most else np.sort(rng.choice(n, most, replace=False))
    folds_: list[_Fold] = []
    for one in np.unique(fold[rows]):
        rest = np.flatnonzero(fold != one)
        if len(rest) > _LEARNED:
            rest = np.sort(rng.choice(rest, _LEARNED, replace=False))
        asked = rows[fold[rows] == one]
        learned = data.take(rest)
        found = parts.fit(learned, trees=trees, seed=seed)
        given = answer(found, learned, data.take(asked))
        folds_.append(_Fold(rest=rest, asked=asked, found=found, answer=given))
    order = np.concatenate([each.asked for each in folds_])
    truth = np.log(data.y[order])
    errors = {scale: truth - np.concatenate([each.answer.log(scale) for each in folds_]) for scale in (0.0, *_SCALES)}
    size = {scale: float(np.median(np.abs(error))) for scale, error in errors.items()}
    best = min(_SCALES, key=lambda scale: size[scale])
    scale = best if trees and size[best] < (1 - _WORTHWHILE) * size[0.0] else 0.0
    everything = np.full(n, np.nan)
    everything[order] = np.abs(errors[scale])
    places = data.places.take(order)
    around = anchors.interpolate(places, errors[scale], places, without_group=True, errors=everything[order])
    doubt = np.concatenate([each.answer.doubts() for each in folds_])
    doubt[:, intervals.SCATTER] = np.log(around.scatter)
    far = HeldOut(rows=order, error=errors[scale], doubt=doubt, fold=fold[order], scale=scale)
    return far, _joined([_with_one(data, each, everything, scale, rng) for each in folds_], fold, scale)


def _with_one(
    data: Data, fold: _Fold, errors: Floats, scale: float, rng: np.random.Generator
) -> tuple[Whole, Floats, Floats]:
    """Rows of a fold that have relatives in their setting; errors and doubts once a random one of these is known."""
    asked = data.take(fold.asked)
    numbers = np.unique(np.stack([asked.places.group, asked.setting]), axis=1, return_inverse=True)[1].ravel()
    order = rng.permutation(len(numbers))
    order = order[np.argsort(numbers[order], kind="stable")]
    # Each one's relative is the next in a random order, the first one's the last.
    following = np.empty(len(order), np.intp)
    for same in np.split(order, np.flatnonzero(np.diff(numbers[order])) + 1):
        following[same] = np.roll(same, -1)
    own = np.log(data.y[fold.asked] / fold.answer.linear)
    kept = np.flatnonzero(following != np.arange(len(order)))
    if len(fold.rest) > _PAIRED_REST:
        kept = np.sort(rng.choice(kept, min(len(kept), _PAIRED), replace=False))
    found = anchors.interpolate(
        columns.joined(asked.places, data.places.take(fold.rest)),
        np.concatenate([own, fold.found.residual]),
        asked.places.take(kept),
        without_group=True,
        but=following[kept],
        errors=np.concatenate([errors[fold.asked], errors[fold.rest]]),
    )
    given = Answer(linear=fold.answer.linear[kept], trees=fold.answer.trees[kept], found=found)
    return fold.asked[kept], np.log(data.y[fold.asked[kept]]) - given.log(scale), given.doubts()


def _joined(each: list[tuple[Whole, Floats, Floats]], fold: Whole, scale: float) -> HeldOut:
    rows, error, doubt = (np.concatenate(some) for some in zip(*each, strict=True))
    return HeldOut(rows=rows, error=error, doubt=doubt, fold=fold[rows], scale=scale)


def leave_one_out(data: Data, whole: Parts, held: HeldOut) -> HeldOut:
    """Errors of single rows whose relatives are there; only rows that have such relatives."""
    order = np.argsort(held.rows)
    rows = held.rows[order]
    places = data.places.take(rows)
    errors = np.abs(held.error)[order]
    found = anchors.interpolate(places, whole.residual[rows], places, without_self=True, errors=errors)
    estimate, trees = parts.linear(
        whole, data.x[rows], [data.settings[number] for number in data.setting[rows]], data.settings
    )
    given = Answer(linear=estimate, trees=trees, found=found)
    error = np.log(data.y[rows]) - given.log(held.scale)
    # A relative on another machine leaves other errors (`across`).
    here = places.setting[np.maximum(found.nearest, 0)] == places.setting
    close = (found.variance < ANCHORED) & here & (found.nearest >= 0)
    # Half of them, so that those with a single relative count: they are the harder ones.
    close[1::2] = False
    return HeldOut(
        rows=rows[close],
        error=error[close],
        doubt=given.doubts()[close],
        fold=held.fold[order][close],
        scale=held.scale,
    )


def together(every: list[HeldOut]) -> HeldOut:
    """All rows of some, which may come again."""
    return HeldOut(
        rows=np.concatenate([one.rows for one in every]),
        error=np.concatenate([one.error for one in every]),
        doubt=np.concatenate([one.doubt for one in every]),
        fold=np.concatenate([one.fold for one in every]),
        scale=every[0].scale,
    )


def across(data: Data, *, seed: int) -> HeldOut:
    """Errors of steps whose relatives ran on other settings alone, as on hardware with few measurements; no doubts.

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
    return HeldOut(
        rows=order, error=error, doubt=np.zeros((len(order), 0)), fold=np.zeros(len(order), np.intp), scale=0.0
    )


def answer(found: Parts, learned: Data, asked: Data) -> Answer:
    """What ``found`` says of rows that it did not learn from."""
    relatives: Found = anchors.interpolate(learned.places, found.residual, asked.places)
    estimate, trees = parts.linear(found, asked.x, [asked.settings[number] for number in asked.setting], asked.settings)
    return Answer(linear=estimate, trees=trees, found=relatives)
