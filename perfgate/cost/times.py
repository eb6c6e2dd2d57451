"""Floor 3, cost. The one seam that times come through: a way and devices in, a step time with its interval each out.

``RooflineTimes`` is the calibrated roofline, and where this runner timed the model, that time carried over by the ratio
of rooflines. Whatever else can time a way, as the estimator in ``pipeline.times``, stands behind ``Times`` too.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from perfgate.cost import residuals, ways
from perfgate.records.cost import ANCHORED, MEASURED, Device, StepTime, Way
from perfgate.records.hardware import CPU, MeasuredRoofline
from perfgate.roofline import machine as roofs
from perfgate.roofline import step

# A probe ran on as many cores as the runner has: it says nothing of a machine whose share of the CPU is another.
_SAME_SHARE = 0.1


class Times(Protocol):
    """How long a step takes at the median, on one device of each kind."""

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        """One time for each device; None: it cannot run the way, or nobody knows how fast."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Anchor:
    """A step time that was measured: ``way`` on ``device``, at the median, with its interval of 90 %."""

    way: Way
    device: Device
    ns: float
    low_ns: float
    high_ns: float


@dataclass(frozen=True, slots=True)
class _Usable:
    """An anchor with the roofline's own time of what was measured, and whether it is the very way asked for."""

    anchor: Anchor
    known: StepTime
    same_way: bool


class RooflineTimes:
    """The calibrated roofline, anchored where something was measured.

    A time measured of the very way on the very platform is that time (``measured``). Else, where the same model was
    timed in the same mode, dtype and compile setting on a platform of the same kind (GPU and GPU, CPU and CPU), with
    this or another batch:

        t = t_measured * roofline(way, device) / roofline(measured way, measured device)        (``anchored``)

    and its interval follows from the spread of the ratio (``residuals``) and that of the measurement. Of several
    anchors the one with the narrowest result counts. Everything else is the roofline's own (``roofline``).

    ``measured``: platform name -> what a probe reached on this runner. On a CPU it holds for machines with the cores
    that the probe ran on, on anything else for the whole device.
    """

    def __init__(self, measured: Mapping[str, MeasuredRoofline] | None = None, anchors: Sequence[Anchor] = ()) -> None:
        self._measured = dict(measured or {})
        self._anchors = tuple(anchors)
        self._machines: dict[tuple[str, float], roofs.Machine] = {}
        self._roofline_of_anchor: list[StepTime | None] = [
            self._rooflines(anchor.way, [anchor.device])[0] for anchor in self._anchors
        ]

    def __call__(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        """One time for each device, by the best source for it; None where a rate that the way needs is not known."""
        found = self._rooflines(way, devices)
        usable = [
            _Usable(anchor, known, same_way=anchor.way == way)
            for anchor, known in zip(self._anchors, self._roofline_of_anchor, strict=True)
            if known is not None and _alike(anchor.way, way)
        ]
        if not usable:
            return found
        return [
            None if time is None else _anchored(device, time, usable)
            for device, time in zip(devices, found, strict=True)
        ]

    def _rooflines(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        groups = ways.kernels(way)
        if not groups:
            return [None] * len(devices)
        return list(step.times(groups, [self._machine(device) for device in devices], way.dtype))

    def _machine(self, device: Device) -> roofs.Machine:
        key = (device.platform.name, device.share)
        if key not in self._machines:
            self._machines[key] = roofs.calibrated(device, self._probe(device))
        return self._machines[key]

    def _probe(self, device: Device) -> MeasuredRoofline | None:
        probe = self._measured.get(device.platform.name)
        if probe is None:
            return None
        if device.platform.kind != CPU:
            return probe if device.share == 1 else None
        cores = device.platform.cores
        if not cores or not probe.threads:
            return None
        return probe if abs(probe.threads / (cores * device.share) - 1) <= _SAME_SHARE else None


def _alike(anchor: Way, way: Way) -> bool:
    return (anchor.mode, anchor.dtype, anchor.compile) == (way.mode, way.dtype, way.compile)


def _anchored(device: Device, time: StepTime, usable: Sequence[_Usable]) -> StepTime:
    """The roofline's ``time``, replaced by the anchor whose result is the most certain; the first of equals."""
    best: StepTime | None = None
    least = math.inf
    for one in usable:
        carried, sigma = _carried(device, time, one)
        if carried is not None and sigma < least:
            best, least = carried, sigma
    return best or time


def _carried(device: Device, time: StepTime, usable: _Usable) -> tuple[StepTime | None, float]:
    """The anchor's time on ``device`` with its spread; an exact one has a spread below every other."""
    anchor, known = usable.anchor, usable.known
    here, there = device.platform, anchor.device.platform
    same_device = here.name == there.name and math.isclose(device.share, anchor.device.share, rel_tol=1e-6)
    if same_device and usable.same_way:
        exact = replace(time, ns=anchor.ns, low_ns=anchor.low_ns, high_ns=anchor.high_ns, source=MEASURED)
        return exact, -1.0
    if here.kind != there.kind:
        return None, math.inf
    own = residuals.spread(time)
    variance = math.log(anchor.high_ns / anchor.low_ns) ** 2 / (2 * step.Z90) ** 2
    if not same_device:
        correlation = residuals.across_platforms(here.kind, there.kind)
        variance += float(residuals.of_ratio(own, residuals.spread(known), correlation)) ** 2
    if not usable.same_way:
        variance += float(residuals.of_ratio(own, own, residuals.ACROSS_WAYS)) ** 2
    sigma = math.sqrt(variance)
    moved = replace(time, ns=anchor.ns * time.ns / known.ns, source=ANCHORED)
    low, high = residuals.widened(moved, sigma)
    return replace(moved, low_ns=low, high_ns=high), sigma
