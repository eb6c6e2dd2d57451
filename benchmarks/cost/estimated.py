"""The estimator's times for the ranking check: learned from other families of models, asked as the optimiser asks it.

In: the public data. Out: times for a case. For timm the estimator learns the families of the fitting half on all three
devices; for NeuSight, single operators and the whole models of all other names.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from benchmarks.cost import observations
from benchmarks.cost.cases import Case
from benchmarks.cost.observations import Observed
from benchmarks.estimator import end_to_end, measured, operators
from perfgate.cost.times import RooflineTimes, Times
from perfgate.estimator import fit
from perfgate.estimator.model import Model
from perfgate.pipeline.times import EstimatedTimes
from perfgate.records.cost import Device, StepTime, Way
from perfgate.records.estimate import STEP_TIME, Example

# Rows of each kind of operator and device, as in ``benchmarks.estimator.end_to_end``.
_OPERATOR_ROWS = 100


class Remembered:
    """``times``, worked out once for each counted step and device: markets differ in prices alone."""

    def __init__(self, times: Times) -> None:
        self._times = times
        # The totals are kept, so that no other object can get their id.
        self._found: dict[tuple[int, str, str, str, str, float], tuple[object, StepTime | None]] = {}

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        keys = [
            (id(way.totals), way.mode, way.dtype, way.compile, device.platform.name, device.share) for device in devices
        ]
        new = [place for place, key in enumerate(keys) if key not in self._found]
        if new:
            found = self._times(way, [devices[place] for place in new])
            self._found |= {keys[place]: (way.totals, time) for place, time in zip(new, found, strict=True)}
        return [self._found[key][1] for key in keys]


def timm(data: Path) -> Callable[[Case], Times]:
    """One estimator for all cases, which are of the other half of the families."""
    tables = (measured.GPU_3090, measured.GPU_4090, measured.CPU_I9)
    known = [one for table in tables for one in measured.timm(data, table) if observations.for_fitting(one.group)]
    times = _times(known)
    return lambda _: times


def neusight(data: Path, labels: Sequence[Observed]) -> Callable[[Case], Times]:
    """For each name of a model an estimator that has not seen it."""
    single = operators.examples(observations.operators(data, "ops_train", most=_OPERATOR_ROWS))
    whole = end_to_end.examples(labels)
    found = {
        group: _times([*single, *(one for one in whole if one.group != group)])
        for group in sorted({one.group for one in whole})
    }
    return lambda case: found[case.group]


def _times(known: Sequence[Example]) -> Times:
    model: Model = fit.fit(known, targets=(STEP_TIME,))
    return Remembered(EstimatedTimes(model, RooflineTimes()))
