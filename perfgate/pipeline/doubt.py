"""Where the time estimator is least sure: what ``perfgate sample`` runs next."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from perfgate.errors import UsageError
from perfgate.pipeline.examples import example
from perfgate.pipeline.sample_record import disturbed
from perfgate.records.baseline import BaselineRecord
from perfgate.records.estimate import STEP_TIME, Estimate, Example

# Learning anew after each record would take longer than the record did: so many more of them, or this share.
_FEWEST_NEW = 10
_NEW_SHARE = 0.1
# Below so many examples intervals say nothing.
_FEWEST = 20
_FIT_LIMIT_S = 10.0


class Fitted(Protocol):
    """What has learned from examples; ``estimator.fit.Model``."""

    def estimates(self, examples: Sequence[Example], target: str) -> Sequence[Estimate]:
        """One estimate for each example, with its interval."""
        ...


class Doubt:
    """Callable as ``pipeline.sample.Doubt``: learns from the records, and from more of them as they come."""

    def __init__(self, fit: Callable[[Sequence[Example]], Fitted]) -> None:
        self._fit = fit
        self._model: Fitted | None = None
        self._learned = 0

    def __call__(self, known: Sequence[BaselineRecord], asked: Sequence[BaselineRecord]) -> list[float]:
        """Of each record without times the logarithm of high over low; 0 for all while too little is known.

        Records whose times say little about the machine teach nothing.
        """
        quiet = [record for record in known if not disturbed(record)]
        if len(quiet) < _FEWEST:
            return [0.0] * len(asked)
        new = len(quiet) - self._learned
        if self._model is None or new >= max(_FEWEST_NEW, _NEW_SHARE * self._learned):
            examples = [one for one in map(example, quiet) if one is not None]
            try:
                self._model = self._fit(examples)
            except UsageError:
                # Nothing that it could learn from yet.
                return [0.0] * len(asked)
            self._learned = len(quiet)
        questions = [_question(record) for record in asked]
        put = [one for one in questions if one is not None]
        widths = iter(_width(one) for one in self._model.estimates(put, STEP_TIME))
        return [0.0 if one is None else next(widths) for one in questions]


def of_estimator(seed: int = 0) -> Doubt:
    """Doubt about step times, by the estimator that the gate uses."""
    # Imports scikit-learn.
    from perfgate.estimator.fit import fit

    return Doubt(lambda examples: fit(examples, targets=(STEP_TIME,), seed=seed, time_limit_s=_FIT_LIMIT_S))


def _question(record: BaselineRecord) -> Example | None:
    """The example of a record that has no times; None where it has no kernels either."""
    # Any step time makes it an example, and no target a question.
    timed = replace(record, metrics={"latency": 1.0}, units={"latency": "ns"})
    found = example(timed)
    return None if found is None else replace(found, targets={})


def _width(estimate: Estimate) -> float:
    if not 0 < estimate.low <= estimate.high:
        return math.inf
    return math.log(estimate.high / estimate.low)
