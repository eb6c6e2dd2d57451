"""Floor 3, cost. Why a configuration is as fast as it is, in words.

In: its time on one device, its form, how much of the step is sending; or a chosen one. Out: a text without a full stop.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate import units
from perfgate.hardware.short_names import short
from perfgate.records.cost import COMPUTE_BOUND, LAUNCH_BOUND, LINK_BOUND, MEASURED, MEMORY_BOUND, Point, StepTime


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """``time`` on one device; ``kernels`` of one step; ``used`` of ``count`` devices in ``form``.

    ``step_ns`` of the whole form at the median, ``link_ns`` of it sending.
    """

    time: StepTime
    kernels: int
    form: str
    used: int
    count: int
    step_ns: float
    link_ns: float


def bound(facts: Facts) -> str:
    """What limits a step: the link where more than half of it is sending, else what limits each device."""
    return LINK_BOUND if facts.link_ns > facts.step_ns / 2 else facts.time.bound


def why(facts: Facts) -> str:
    """``memory bound at I = 19 < 206 FLOP/B``, ``launch bound: 161 kernels, 4.40 µs each``, with idle devices."""
    idle = facts.count - facts.used
    rest = f", {idle} of {facts.count} devices idle" if idle else ""
    return f"{_bound_text(facts)}{rest}"


def unconfirmed(point: Point) -> str:
    """What to know of a choice under a limit that rests on its time; empty: the time was measured."""
    if point.source == MEASURED:
        return ""
    return (
        f"the time on {short(point.offer.platform)} is modelled, not measured: confirm the choice by a measurement "
        "before relying on the limit"
    )


def _bound_text(facts: Facts) -> str:
    time = facts.time
    if bound(facts) == LINK_BOUND:
        return f"link bound: {units.duration(facts.link_ns)} of {units.duration(facts.step_ns)} is sending"
    roof = f"I = {_number(time.intensity)} {'<' if time.intensity < time.ridge else '>'} {_number(time.ridge)} FLOP/B"
    on = f", {units.percent(facts.link_ns / facts.step_ns)} sending" if facts.link_ns > 0 else ""
    if time.bound == LAUNCH_BOUND:
        many = f"{units.quantity(facts.kernels, 'count')} kernel{'' if facts.kernels == 1 else 's'}"
        each = units.duration(time.ns / facts.kernels) if facts.kernels else "n/a"
        return f"launch bound: {many}, {each} each{on}"
    if time.bound == MEMORY_BOUND:
        most = "" if time.intensity < time.ridge else " in most kernels, although"
        return f"memory bound{most or ' at'} {roof}{on}"
    if time.bound == COMPUTE_BOUND:
        most = "" if time.intensity >= time.ridge else " in most kernels, although"
        return f"compute bound{most or ' at'} {roof}{on}"
    return f"{time.bound} bound at {roof}{on}"


def _number(value: float) -> str:
    """Two digits, or whole numbers: intensities are no better known."""
    return f"{value:.0f}" if value >= 10 else f"{value:.2g}"
