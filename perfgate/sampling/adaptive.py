"""Floor 3, sampling. The next condition: where the estimator is least sure, or what is least like all that ran.

In: a pool of candidates, what ran, the pace, and perhaps the estimator's uncertainty. Out: the candidate to run.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
from numpy.typing import NDArray

from perfgate.records.sampling import Condition
from perfgate.sampling.pace import Pace, describe

# How unsure the estimator is of each condition: the logarithm of high over low, or anything that grows with it.
Uncertainty = Callable[[Sequence[Condition]], Sequence[float]]

# Decades that count as far apart, and how far conditions of two families, modes or dtypes are from one another.
_DECADES = 4.0
_APART = 0.5
# Stands for an interval without end.
_NO_IDEA = 1e6
# Twice as sure for four times as long is no gain: errors fall with the root of the number of records. Distance says
# less about what is learned, and large networks are what is far apart from small ones.
_UNSURE_POWER = 0.5
_DISTANCE_POWER = 0.25
# Of very many conditions that ran, the last ones; earlier ones fill space anyway.
_REMEMBERED = 2_000


def choose(
    pool: Sequence[Condition],
    run: Sequence[Condition],
    pace: Pace,
    *,
    uncertainty: Uncertainty | None = None,
) -> Condition:
    """The first of :func:`ranked`. Raises ValueError where the pool is empty."""
    if not pool:
        msg = "there is no candidate to choose from"
        raise ValueError(msg)
    return ranked(pool, run, pace, uncertainty=uncertainty)[0]


def ranked(
    pool: Sequence[Condition],
    run: Sequence[Condition],
    pace: Pace,
    *,
    uncertainty: Uncertainty | None = None,
) -> list[Condition]:
    """The candidates, those that promise most for their time first.

    With ``uncertainty``: the largest u / sqrt(seconds). Without, or where it is 0 or not a number for all: the largest
    distance to the nearest condition that was run (maximin) / seconds^(1/4); the first of the pool where none was.
    """
    if not pool:
        return []
    worth, power = _known(pool, uncertainty), _UNSURE_POWER
    if worth is None:
        worth, power = distances(pool, run), _DISTANCE_POWER
    seconds = np.array([max(pace.seconds(one), 0.05) for one in pool])
    return [pool[number] for number in np.argsort(-worth / seconds**power, kind="stable")]


def distances(pool: Sequence[Condition], run: Sequence[Condition]) -> NDArray[np.float64]:
    """Of each candidate, the distance to the nearest condition that was run; 1 for all where none was."""
    if not run:
        return np.ones(len(pool))
    remembered = run[-_REMEMBERED:]
    there, here = np.array([_place(one) for one in remembered]), np.array([_place(one) for one in pool])
    squares = ((here[:, None, :] - there[None, :, :]) ** 2).sum(axis=2)
    kinds, others = np.array([_kinds(one) for one in pool]), np.array([_kinds(one) for one in remembered])
    squares += _APART**2 * (kinds[:, None, :] != others[None, :, :]).sum(axis=2)
    nearest: NDArray[np.float64] = np.sqrt(squares.min(axis=1))
    return nearest


def _known(pool: Sequence[Condition], uncertainty: Uncertainty | None) -> NDArray[np.float64] | None:
    if uncertainty is None:
        return None
    values = np.asarray(uncertainty(pool), dtype=np.float64)
    if values.shape != (len(pool),):
        msg = f"uncertainty gave {values.size} values for {len(pool)} conditions"
        raise ValueError(msg)
    values = np.nan_to_num(np.maximum(values, 0.0), nan=0.0, posinf=_NO_IDEA)
    return values if values.max() > 0 else None


def _place(condition: Condition) -> list[float]:
    """Where a condition lies, by what it does: logarithms of F, results, weights, kernels, batch and threads."""
    made = describe(condition)
    figures = (
        made.flop,
        made.made,
        made.weights,
        float(made.kernels),
        float(condition.batch),
        float(condition.threads),
    )
    return [float(np.log10(max(figure, 1.0))) / _DECADES for figure in figures]


def _kinds(condition: Condition) -> list[str]:
    """What has no order."""
    one = condition
    return [one.network.family, one.mode, one.dtype, one.device, one.compile, one.optimizer]
