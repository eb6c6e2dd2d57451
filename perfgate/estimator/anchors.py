"""Floor 3, estimator. What measured relatives say of a step: residuals of the linear core, interpolated by structure.

In: the residuals ln(measured / core) of steps that ran, and where they stand. Out: for a question the expected residual
with its remaining variance, so that the answer is a relative's time times the ratio of the core's estimates.

Simple kriging with a fixed covariance, in units of the residuals' own variance, a sum of three kinds of likeness:

    C(a, b) = (0.20 exp(-|a - b| / 0.3) + 0.72 [same group] exp(-|a - b| / 2) + 0.08 [same model] exp(-|a - b| / 4))
              * (OTHER_SETTING if settings differ)

What holds for any step that is built alike fades fast, what a family has in common hardly fades within it. The weights,
lengths and ``NOISE`` were chosen on one GPU's table with families held out, and hold on another GPU and a CPU.

A place holds square roots of the shares of calls by class, and, weakly, the logarithms of calls and of weights. None
of it changes with batch, FLOP or bytes: the correction cannot turn more work into less time.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

# (weight, length) of steps of any kind, of the same group, of the same model.
ANY, GROUP, MODEL = (0.20, 0.3), (0.72, 2.0), (0.08, 4.0)
# Of a step's residual, how much is seen again on another machine of the same kind, and of another kind.
OTHER_SETTING = 0.9
OTHER_KIND = 0.2
# Variance of measuring and of what no structure says, over that of the residuals.
NOISE = 0.02
# Relatives that are looked at.
NEIGHBOURS = 24
# What a single odd step may pull its relatives by (ln).
ODD = 0.7
# Covariance from which on a relative is of the same group, alike and on the same setting: what it took is no oddity,
# and hardly more than measuring is between it and the answer.
_VERY = 0.8
# Weights of ln calls and ln weights beside shares, whose largest distance is 1.4.
_CALLS, _WEIGHTS = 0.05, 0.03
# Questions at a time.
_CHUNK = 128
# No step is further from another than this.
FAR = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Places:
    """n steps: ``z`` (n, q), and numbers (n,) of ``group``, ``model``, ``setting`` and ``kind`` of machine; -1: new."""

    z: Floats
    group: Whole
    model: Whole
    setting: Whole
    kind: Whole

    def names(self) -> tuple[Whole, Whole, Whole, Whole]:
        """The four kinds of numbers, in the order of the fields."""
        return self.group, self.model, self.setting, self.kind

    def take(self, rows: Whole) -> Places:
        """Some of them, in that order."""
        return Places(
            z=self.z[rows],
            group=self.group[rows],
            model=self.model[rows],
            setting=self.setting[rows],
            kind=self.kind[rows],
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """Of n questions: expected residual ``mean`` (ln), ``variance`` left (1: nothing known, 0: all), and the number of
    the ``nearest`` relative (-1: none) with its covariance ``likeness``. ``scatter``: local size of held-out errors
    over that of all, 1 where none is known. ``distance``: to where the nearest step stands that counts.
    """

    mean: Floats
    variance: Floats
    nearest: Whole
    likeness: Floats
    scatter: Floats
    distance: Floats


def place(calls: Floats, weight_bytes: Floats) -> Floats:
    """Where steps stand, from ``calls`` by class (n, c) and bytes of weights (n,)."""
    total = calls.sum(axis=1, keepdims=True)
    shares = np.sqrt(calls / np.maximum(total, 1.0))
    return np.concatenate(
        [shares, _CALLS * np.log1p(total), _WEIGHTS * np.log1p(weight_bytes)[:, None]],
        axis=1,
    )


def interpolate(
    known: Places,
    residual: Floats,
    asked: Places,
    *,
    without_group: bool = False,
    without_self: bool = False,
    but: Whole | None = None,
    errors: Floats | None = None,
) -> Found:
    """What ``known`` steps with ``residual`` (m,) say of ``asked`` ones.

    ``without_group``: relatives of the same group do not count; ``without_self``: nor does the step itself, where asked
    and known are the same rows. ``but`` (n,): the number of the one relative of the group that counts all the same.
    ``errors``: (m,) absolute held-out errors of the known steps, nan where there are none.
    """
    n = len(asked.z)
    if not len(residual) or not n:
        nothing = np.zeros(n)
        return Found(
            mean=nothing,
            variance=nothing + 1,
            nearest=np.full(n, -1),
            likeness=nothing,
            scatter=nothing + 1,
            distance=nothing + FAR,
        )
    parts = []
    for start in range(0, n, _CHUNK):
        rows = np.arange(start, min(n, start + _CHUNK))
        some = asked.take(rows)
        squares = (some.z**2).sum(axis=1)[:, None] + (known.z**2).sum(axis=1)[None] - 2 * some.z @ known.z.T
        alike = _of_distances(squares, *map(_same, some.names(), known.names()))
        if without_group or without_self:
            gone = _gone(asked, known, rows, group=without_group, self=without_self, but=but)
            alike[gone] = 0
            squares[gone] = FAR**2
        parts.append(
            _solve(known, residual, alike, errors) | {"distance": np.sqrt(np.clip(squares.min(axis=1), 0, FAR**2))}
        )
    return Found(**{name: np.concatenate([part[name] for part in parts]) for name in parts[0]})


def _gone(asked: Places, known: Places, rows: Whole, *, group: bool, self: bool, but: Whole | None) -> Mask:
    """(rows, m): which of the known do not count for rows of those asked."""
    here = np.arange(len(rows))
    found = np.zeros((len(rows), len(known.z)), bool)
    if group:
        found = asked.group[rows][:, None] == known.group[None]
    if but is not None:
        found[here, but[rows]] = False
    if self:
        found[here, rows] = True
    return found


def _among(known: Places, near: Whole) -> Floats:
    """(n, m, m): covariances of the relatives of each question with one another."""
    z = known.z[near]
    sizes = (z**2).sum(axis=2)
    squares = sizes[:, :, None] + sizes[:, None] - 2 * (z @ z.transpose(0, 2, 1))
    names = [each[near] for each in known.names()]
    return _of_distances(squares, *map(_same, names, names))


def _of_distances(squares: Floats, group: Mask, model: Mask, setting: Mask, kind: Mask) -> Floats:
    """C of squared distances, and of what is the same, all of one shape."""
    # Rounding leaves 1e-16 where steps are equal, and a root would make 1e-8 of it.
    distance = np.sqrt(np.where(squares < 1e-12, 0, squares))
    elsewhere = np.where(setting, 1.0, np.where(kind, OTHER_SETTING, OTHER_KIND))
    found: Floats = ANY[0] * np.exp(-distance / ANY[1])
    for same, (weight, length) in ((group, GROUP), (model, MODEL)):
        found[same] += weight * np.exp(-distance[same] / length)
    return found * elsewhere


def _same(a: Whole, b: Whole) -> Mask:
    """(..., n, m) of (..., n) and (..., m): whether both have a number and it is the same."""
    found: Mask = (a[..., :, None] == b[..., None, :]) & (a[..., :, None] >= 0)
    return found


def _solve(known: Places, residual: Floats, alike: Floats, errors: Floats | None) -> dict[str, NDArray[np.generic]]:
    n, m = alike.shape
    most = min(NEIGHBOURS, m)
    near = np.argsort(-alike, axis=1, kind="stable")[:, :most] if m <= 4 * most else _largest(alike, most)
    k = np.take_along_axis(alike, near, axis=1)
    among = _among(known, near)
    # A relative that does not count is far from everything.
    dead = k <= 0
    among[dead] = 0
    among.transpose(0, 2, 1)[dead] = 0
    among[:, np.arange(most), np.arange(most)] = 1 + np.where(k > _VERY, NOISE / 5, NOISE)
    solved = np.linalg.solve(among, k[..., None])[..., 0]
    limit = np.where(k > _VERY, np.inf, ODD)
    mean = (solved * np.clip(residual[near], -limit, limit)).sum(axis=1)
    variance = np.clip(1 - (solved * k).sum(axis=1), 0.0, 1.0)
    best = near[np.arange(n), k.argmax(axis=1)]
    likeness = k.max(axis=1)
    return {
        "mean": mean,
        "variance": variance,
        "nearest": np.where(likeness > 0, best, -1),
        "likeness": likeness,
        "scatter": _scatter(k, near, errors),
    }


def _largest(alike: Floats, most: int) -> Whole:
    """The ``most`` largest of each row, largest first; ties by number, so that the same question has one answer."""
    found = np.argpartition(-alike, most, axis=1)[:, :most]
    found.sort(axis=1)
    order = np.argsort(-np.take_along_axis(alike, found, axis=1), axis=1, kind="stable")
    return np.take_along_axis(found, order, axis=1)


def _scatter(k: Floats, near: Whole, errors: Floats | None) -> Floats:
    """Root of the mean square of relatives' held-out errors over that of all, shrunk to 1 where relatives are few."""
    if errors is None or not np.isfinite(errors).any():
        return np.ones(len(k))
    # A robust size: one error ten times as large must not widen every interval.
    size = float(np.nanmean(np.abs(errors))) or 1.0
    ratio = np.minimum(np.abs(errors[near]) / size, 5.0)
    there = np.isfinite(ratio)
    weight = np.where(there, k, 0.0)
    local = (weight * np.where(there, ratio, 0.0) ** 2).sum(axis=1)
    base = 1.0 + 0.5  # E of the squared ratio of a normal distribution is pi / 2
    found: Floats = np.sqrt((local + base) / (weight.sum(axis=1) + 1.0) / base)
    return found
