"""Step times from the estimator where it has data, else from whatever else can time a way: one seam, two sources.

The estimator answers for platforms that it has measurements of, in the way's mode, dtype and compile setting;
everything else, and whatever it finds unlike what it learned from, is the roofline's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace

from perfgate.cost import ways
from perfgate.cost.times import Times
from perfgate.estimator.model import Model
from perfgate.pipeline.examples import of_platform
from perfgate.records.cost import ESTIMATED, Device, StepTime, Way
from perfgate.records.estimate import STEP_TIME, Example
from perfgate.records.hardware import CPU


class EstimatedTimes:
    """``model`` before ``other``; what it is used for has source ``estimated``."""

    def __init__(self, model: Model, other: Times) -> None:
        self._model = model
        self._other = other
        fitted = model.fitted.get(STEP_TIME)
        self._seen = None if fitted is None else fitted.seen

    def __call__(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        """One time for each device; None where neither source has one."""
        found = list(self._other(way, devices))
        places = [place for place, device in enumerate(devices) if found[place] and self._knows(way, device)]
        if not places:
            return found
        questions = [self._question(way, devices[place]) for place in places]
        for place, estimate in zip(places, self._model.estimates(questions, STEP_TIME), strict=True):
            modelled = found[place]
            numbers = (estimate.low, estimate.value, estimate.high)
            if modelled is None or estimate.novel or not all(0 < number < math.inf for number in numbers):
                continue
            found[place] = replace(
                modelled, ns=estimate.value, low_ns=estimate.low, high_ns=estimate.high, source=ESTIMATED
            )
        return found

    def _knows(self, way: Way, device: Device) -> bool:
        seen = self._seen
        return (
            seen is not None
            and device.share == 1
            and device.platform.name in seen.machines
            and (way.mode in seen.modes and way.dtype in seen.dtypes and way.compile in seen.compiles)
        )

    def _question(self, way: Way, device: Device) -> Example:
        seen = self._seen
        on_cpu = device.platform.kind == CPU
        return Example(
            model="",
            group="",
            mode=way.mode,
            dtype=way.dtype,
            compile=way.compile,
            batch=way.batch,
            items=way.items,
            machine=of_platform(device.platform),
            kernels=ways.kernels(way),
            # The whole socket, which is as many threads as it has cores.
            threads=(device.platform.cores or 0) if on_cpu else 0,
            # One that was measured: what will run there is not known.
            software=seen.software[-1] if seen is not None and seen.software else "",
            weight_bytes=way.totals.weight_bytes,
            peak_activation_bytes=way.totals.peak_activation_bytes,
        )
