"""Floor 3, estimator. How good estimates are: errors of many as the few figures of an :class:`Accuracy`.

In: errors, intervals and groups, or measured examples with the answers to them. Out: :class:`Accuracy`.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import columns
from perfgate.records.estimate import Accuracy, Estimate, Example

Floats = NDArray[np.float64]


def accuracy(
    target: str, *, ape: Floats, inside: NDArray[np.bool_], width: Floats, groups: NDArray[np.str_]
) -> Accuracy:
    """Of n >= 1 rows: ``ape`` |estimate / true - 1|, whether the truth is ``inside`` its interval, high over low."""
    return Accuracy(
        target=target,
        n=len(ape),
        groups=len(np.unique(groups)),
        median_ape=float(np.median(ape)),
        mean_ape=float(ape.mean()),
        within_10=float((ape <= 0.1).mean()),
        within_20=float((ape <= 0.2).mean()),
        coverage=float(inside.mean()),
        width=float(np.median(width)),
    )


def of_answers(target: str, examples: Sequence[Example], answers: Sequence[Estimate]) -> Accuracy:
    """Of answers to n >= 1 examples, all of which measure the target."""
    truth = np.array([columns.measured(one, target) for one in examples], np.float64)
    value, low, high = np.array([(one.value, one.low, one.high) for one in answers], np.float64).T
    return accuracy(
        target,
        ape=np.abs(value / truth - 1),
        inside=(low <= truth) & (truth <= high),
        width=high / low,
        groups=np.array([one.group for one in examples]),
    )
