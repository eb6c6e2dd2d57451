"""Dollars beside milliseconds: measured and counted steps, prices and requirements in; ``CostReport`` out.

Pure, as judging is: the publish stage makes it anew, and only there private prices enter.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from perfgate.config import prices as price_files
from perfgate.cost import compare, ways
from perfgate.cost.runner import Runner, runner
from perfgate.cost.times import Anchor, RooflineTimes
from perfgate.errors import UsageError
from perfgate.hardware import offers
from perfgate.pipeline import cost_claims as claims
from perfgate.records.cost import CostPolicy, CostReport, Device, Prices, RooflineSummary, Way, WorkloadCost
from perfgate.records.evidence import Measurements, SideEvidence, WorkloadEvidence
from perfgate.records.hardware import CPU, GPU, Market, MeasuredRoofline, Platform
from perfgate.records.policy import Policy
from perfgate.records.workload import Workload
from perfgate.roofline import machine
from perfgate.roofline.probes import possible
from perfgate.roofline.step import Z90
from perfgate.roofline.summary import summary
from perfgate.stats.pairs import side_values
from perfgate.stats.sequential import one_sided_lower

CPU_DEVICE = "cpu"
# What wrong prices, requirements and counts end in.
_FAULTS = (UsageError, ValueError, ArithmeticError)
_REASON = 300
# Of each direction in which two sides' times are said to differ.
_ALPHA = 0.0005

_Sides = tuple[tuple[float, ...], tuple[float, ...]]


def costs(measurements: Measurements, policy: Policy, private: Prices | None = None) -> CostReport | None:
    """What the workloads cost; None where that is switched off or nothing was to be measured.

    A fault in prices, requirements or counts is a warning in the report and never hides a verdict: rows in US dollars
    rest on measured times and the runner's price alone, which is known without looking for platforms.
    """
    asked = _asked(measurements, policy, private)
    if asked is None:
        return None
    found = []
    for number, evidence in enumerate(_judged(measurements)):
        late = "" if number < claims.MOST_WORKLOADS else f"there are more than {claims.MOST_WORKLOADS} workloads"
        found.append(_workload(evidence, asked, asked.fault or late))
    price, market = asked.price, asked.market
    return CostReport(
        workloads=tuple(found),
        runner_usd_per_hour=price.usd_per_hour,
        runner_price=price.text,
        runner_assumed=price.assumed,
        runner_price_date=asked.price_date,
        tables=market.tables,
        excluded=market.excluded,
        warnings=tuple(dict.fromkeys((*price.warnings, *market.warnings))),
    )


def runner_price(measurements: Measurements, policy: Policy, private: Prices | None = None) -> tuple[float, str] | None:
    """US dollars an hour of the runner and the day of that price, as in :func:`costs`, without looking for platforms.

    None where nobody knows it, or :func:`costs` says nothing.
    """
    asked = _asked(measurements, policy, private)
    if asked is None or asked.price.usd_per_hour is None:
        return None
    return asked.price.usd_per_hour, asked.price_date


def market_of(prices: Prices, started_at: str) -> Market:
    """All offers as of the day of a run (ISO 8601), so that a report made again later is the same.

    Raises UsageError where an own price or a factor makes no sense.
    """
    today, warning = claims.day(started_at)
    market = offers.market(prices, today=today)
    return replace(market, warnings=(warning, *market.warnings)) if warning else market


@dataclass(frozen=True, slots=True)
class _Asked:
    """What all workloads have in common.

    ``fault``: why there are no offers. ``price`` of the runner, ``price_date``: its day. ``machines``: device -> what
    the catalogue knows it as.
    """

    rules: CostPolicy
    market: Market
    fault: str
    price: Runner
    price_date: str
    machines: Mapping[str, Device | None]
    rooflines: tuple[MeasuredRoofline, ...]


def _judged(measurements: Measurements) -> list[WorkloadEvidence]:
    return [evidence for evidence in measurements.workloads if not evidence.informative]


def _asked(measurements: Measurements, policy: Policy, private: Prices | None) -> _Asked | None:
    rules, run = policy.cost, measurements.run
    # A machine with an accelerator holds the processor too, and is paid for as a whole.
    devices = list(dict.fromkeys(evidence.workload.device for evidence in _judged(measurements)))
    if not rules.enabled or not devices:
        return None
    market, fault = _market(price_files.merged(rules.prices, private or Prices()), run.started_at)
    hardware = measurements.environment.hardware
    chief = next((device for device in devices if device != CPU_DEVICE), CPU_DEVICE)
    price = runner(hardware, chief, rules.runner, market)
    machines = {device: runner(hardware, device, "", market).device for device in devices}
    machines[chief] = price.device
    return _Asked(
        rules=rules,
        market=market,
        fault=fault,
        price=price,
        price_date="" if price.usd_per_hour is None else price.date or run.started_at[:10],
        machines=machines,
        rooflines=tuple(filter(possible, measurements.rooflines)),
    )


def _market(prices: Prices, started_at: str) -> tuple[Market, str]:
    """The offers, and why there are none where prices are wrong."""
    try:
        return market_of(prices, started_at), ""
    except _FAULTS as error:
        return Market(offers=()), str(error)


def _workload(evidence: WorkloadEvidence, asked: _Asked, why: str) -> WorkloadCost:
    """One workload's costs; ``why`` no platform is looked for, and what it costs on the runner is all there is."""
    workload = evidence.workload
    own = asked.rules.models.get(workload.model)
    question = compare.Question(
        model=workload.model,
        key=workload.key,
        market=asked.market,
        runner_usd_per_hour=asked.price.usd_per_hour,
        requirements=asked.rules.of(workload.model),
        volume=None if own is None else own.volume,
    )
    sides = _measured(evidence, question.requirements.percentile)
    if not why:
        try:
            found = [_side(workload, side, asked) for side in sides]
            return compare.compare(question, *found)
        except _FAULTS as error:
            why = str(error)
    return compare.compare(question, *(_priced(workload, side, why) for side in sides))


@dataclass(frozen=True, slots=True)
class _Measured:
    """What is known of one side.

    ``middle`` ns is its own time; other platforms are told from ``step_ns``, times of single processes in ns. ``peak``
    in bytes, 0: none. ``tail``: step time at the asked percentile over its median.
    """

    facts: SideEvidence
    middle: float | None
    step_ns: Sequence[float]
    peak: float
    tail: float | None


def _measured(evidence: WorkloadEvidence, percentile: float) -> list[_Measured]:
    """Base and head. Times that nobody can tell apart are one time: noise must not move a recommendation."""
    facts = (evidence.base, evidence.head)
    peaks = [max(values, default=0.0) for values in side_values(evidence.pairs, "peak_memory")]
    own = side_values(evidence.pairs, "latency")
    name = {0.9: "latency_p90", 0.99: "latency_p99"}.get(percentile)
    tails = _over(side_values(evidence.pairs, name), own) if name else ((), ())
    times, ends = _pooled(*own), _pooled(*tails)
    return [
        _Measured(side, _geometric_mean(ns), step_ns, peak, _geometric_mean(end))
        for side, ns, step_ns, peak, end in zip(facts, own, times, peaks, ends, strict=True)
    ]


def _over(ends: _Sides, middles: _Sides) -> _Sides:
    """Ratios of both sides; () for a side that lacks one of both."""
    base, head = (
        tuple(end / middle for end, middle in zip(side_ends, side_middles, strict=True))
        if side_ends and side_middles and min(side_middles) > 0
        else ()
        for side_ends, side_middles in zip(ends, middles, strict=True)
    )
    return base, head


def _pooled(base: Sequence[float], head: Sequence[float]) -> _Sides:
    """Both sides' values as they are where they certainly differ, else all of them for both."""
    both = (*base, *head)
    if not base or not head or min(both) <= 0:
        return tuple(base), tuple(head)
    ratios = [math.log(after / before) for before, after in zip(base, head, strict=True)]
    bounds = one_sided_lower(ratios, _ALPHA), one_sided_lower([-ratio for ratio in ratios], _ALPHA)
    certain = any(bound is not None and bound > 0 for bound in bounds)
    return (tuple(base), tuple(head)) if certain else (both, both)


def _side(workload: Workload, known: _Measured, asked: _Asked) -> compare.Side | None:
    """One side with its kernels, or without them where they are not known or cannot be true."""
    totals, device = known.facts.totals, asked.machines.get(workload.device)
    wrong = claims.wrong(workload, known.facts)
    if totals is None or wrong:
        return _priced(workload, known, wrong)
    way = Way(
        mode=workload.mode,
        batch=workload.batch,
        dtype=workload.dtype,
        compile=workload.compile,
        totals=totals,
        items=claims.items(workload, known.facts),
        peak_bytes=round(known.peak) if known.peak > 0 and workload.device != CPU_DEVICE else None,
    )
    measured = _probe(asked.rooflines, workload.device, known.facts)
    probes: Mapping[str, MeasuredRoofline] = {}
    if measured is not None and device is not None:
        probes = {device.platform.name: measured}
    middle = _geometric_mean(known.step_ns)
    anchors = () if device is None or middle is None else (_anchor(way, device, known.step_ns, middle),)
    return compare.Side(
        way=way,
        tail=known.tail,
        times=RooflineTimes(measured=probes, anchors=anchors),
        step_ns=known.middle,
        roofline=_summary(way, device, measured, known.middle),
    )


def _priced(workload: Workload, known: _Measured, why: str) -> compare.Side | None:
    """One side without its kernels, and ``why``; None where it was not timed either."""
    if known.middle is None:
        return None
    # A reason may quote a name of the artifact, or stand on several lines.
    said = " ".join(why.split())[:_REASON]
    items = claims.items(workload, known.facts)
    return compare.Side(way=None, times=RooflineTimes(), items=items, why=said, step_ns=known.middle)


def _probe(rooflines: Sequence[MeasuredRoofline], device: str, facts: SideEvidence) -> MeasuredRoofline | None:
    """The probe of ``device``; on a CPU only one with as many threads as the model ran with."""
    software = facts.software
    for one in rooflines:
        as_run = device != CPU_DEVICE or software is None or one.threads == software.threads
        if one.device == device and as_run:
            return one
    return None


def _summary(
    way: Way, device: Device | None, measured: MeasuredRoofline | None, step_ns: float | None
) -> RooflineSummary | None:
    if device is None and measured is not None:
        device = Device(platform=_unlisted(measured))
    if device is None:
        return None
    return summary(ways.kernels(way), machine.of(device, measured), way.dtype, measured_ns=step_ns)


def _unlisted(measured: MeasuredRoofline) -> Platform:
    """A device that the catalogue does not know, as far as its probe tells."""
    return Platform(
        name=measured.device,
        label=measured.label,
        vendor="",
        kind=CPU if measured.device == CPU_DEVICE else GPU,
        peak_flop_per_s=measured.flop_per_s,
        bandwidth_bytes_per_s=measured.bandwidth_bytes_per_s,
        memory_bytes=None,
    )


def _geometric_mean(values: Sequence[float]) -> float | None:
    if not values or min(values) <= 0:
        return None
    return math.exp(statistics.fmean(map(math.log, values)))


def _anchor(way: Way, device: Device, values: Sequence[float], middle: float) -> Anchor:
    """The measured step as an anchor; its interval is that of 90 % of single processes."""
    logs = [math.log(value) for value in values]
    spread = math.exp(Z90 * statistics.stdev(logs)) if len(logs) > 1 else 1.0
    return Anchor(way=way, device=device, ns=middle, low_ns=middle / spread, high_ns=middle * spread)
