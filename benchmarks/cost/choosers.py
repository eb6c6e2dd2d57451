"""Who chooses a machine: perfgate's optimiser with several sources of times, and the rules of thumb next to it.

In: a :class:`Case`. Out: the platform that is called cheapest, or None where nothing is said to meet the limit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.cost.cases import Case
from benchmarks.cost.fitting import as_published
from perfgate.cost import ways
from perfgate.cost.optimise import optimise
from perfgate.cost.times import Anchor, RooflineTimes, Times
from perfgate.hardware import catalogue
from perfgate.records.cost import ROOFLINE, SINGLE, Device, Requirements, StepTime, Way
from perfgate.records.hardware import Platform
from perfgate.roofline import machine as roofs
from perfgate.roofline import step
from perfgate.roofline.calibration import Calibration

NS = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Choice:
    """``platform``: called cheapest, or the nearest miss where ``feasible`` is False. ``ties``: as good as it."""

    platform: str | None
    feasible: bool = True
    ties: tuple[str, ...] = ()


Chooser = Callable[[Case], Choice]


class Only:
    """``times`` for the pairs of way and platform whose truth is known; nothing else can be chosen."""

    def __init__(self, times: Times, case: Case) -> None:
        self._times = times
        self._case = case

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        found = self._times(way, devices)
        return [time if self._known(way, device) else None for time, device in zip(found, devices, strict=True)]

    def _known(self, way: Way, device: Device) -> bool:
        truth = self._case.truths.get(device.platform.name)
        return truth is not None and (truth.way.batch, truth.way.dtype) == (way.batch, way.dtype)


class Central:
    """``times`` without their intervals: a limit is then met by the central value."""

    def __init__(self, times: Times) -> None:
        self._times = times

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        found = self._times(way, devices)
        return [None if time is None else replace(time, low_ns=time.ns, high_ns=time.ns) for time in found]


class ClassTimes:
    """The calibrated roofline with other constants than the shipped ones, by platform; others have the shipped.

    On a platform with constants of its own published measurements do not count either: they are of that device.
    """

    def __init__(self, constants: Mapping[str, Calibration]) -> None:
        self._constants = constants

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        return step.times(ways.kernels(way), [self._machine(device) for device in devices], way.dtype)

    def _machine(self, device: Device) -> roofs.Machine:
        own = self._constants.get(device.platform.name)
        if own is None:
            return roofs.calibrated(device)
        return roofs.with_calibration(replace(device, platform=as_published(device.platform)), own)


class PeakTimes:
    """The plain roofline under published peaks, kernel by kernel: sum of max(F/pi, M/beta)."""

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        machines = [roofs.of(replace(device, platform=as_published(device.platform))) for device in devices]
        return step.times(ways.kernels(way), machines, way.dtype)


class PerFlopTimes:
    """All of the peak rate of the products' dtype, and nothing else."""

    def __call__(self, way: Way, devices: Sequence[Device]) -> Sequence[StepTime | None]:
        return [self._one(way, device) for device in devices]

    def _one(self, way: Way, device: Device) -> StepTime | None:
        dtype = way.dtype.removeprefix("amp-")
        peak = device.platform.peak_flop_per_s.get(dtype)
        if peak is None:
            return None
        ns = way.totals.flop / (peak * device.share) * NS
        return StepTime(
            ns=ns, low_ns=ns, high_ns=ns, source=ROOFLINE, bound="compute", intensity=0.0, ridge=0.0, flop_per_s=peak
        )


def by_times(make: Callable[[Case], Times], platforms: Mapping[str, Platform] | None = None) -> Chooser:
    """The optimiser with these times."""

    def choose(case: Case) -> Choice:
        requirements = Requirements(
            max_step_ns=case.limit_s * NS if case.limit_s is not None and not case.per_item else None,
            min_throughput=1 / case.limit_s if case.limit_s is not None and case.per_item else None,
            devices=tuple(case.truths),
            counts=(1,),
            forms=(SINGLE,),
            terms=tuple({offer.terms for offer in case.market.offers}),
            memory_headroom=0.0,
        )
        answer = optimise(case.ways, case.market, requirements, Only(make(case), case), platforms=platforms)
        if answer.cheapest is not None:
            ties = tuple(point.offer.platform for point in answer.tied)
            return Choice(platform=answer.cheapest.offer.platform, ties=ties)
        nearest = answer.nearest
        return Choice(platform=None if nearest is None else nearest.offer.platform, feasible=False)

    return choose


def central(make: Callable[[Case], Times]) -> Callable[[Case], Times]:
    """The same times, a limit being met by the central value."""
    return lambda case: Central(make(case))


def by_price(case: Case) -> Choice:
    """The cheapest machine an hour, whatever it does."""
    return Choice(platform=min(case.market.offers, key=lambda each: (each.usd_per_hour, each.platform)).platform)


def anchored(source: str) -> Callable[[Case], Times]:
    """The calibrated roofline where the model was timed on ``source``, if it was."""

    def make(case: Case) -> Times:
        truth = case.truths.get(source)
        if truth is None:
            return RooflineTimes()
        ns = truth.step_s * NS
        # A benchmark's median: known to about 2 %.
        anchor = Anchor(
            way=truth.way,
            device=Device(platform=catalogue.platforms()[source]),
            ns=ns,
            low_ns=ns * 0.98,
            high_ns=ns * 1.02,
        )
        return RooflineTimes(anchors=[anchor])

    return make
