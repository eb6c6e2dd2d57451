"""Dollars beside milliseconds: measured and counted steps, prices and requirements in; ``CostReport`` out.

Pure, as judging is: the publish stage makes it anew, and only there private prices enter.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Mapping, Sequence
from datetime import date

from perfgate.config import prices as price_files
from perfgate.cost import compare, ways
from perfgate.cost.runner import Runner, runner
from perfgate.cost.times import Anchor, RooflineTimes
from perfgate.errors import UsageError
from perfgate.hardware import offers
from perfgate.records.cost import CostPolicy, CostReport, Device, Prices, RooflineSummary, Way, WorkloadCost
from perfgate.records.evidence import Measurements, SideEvidence, WorkloadEvidence
from perfgate.records.hardware import CPU, GPU, Market, MeasuredRoofline, Platform
from perfgate.records.policy import Policy
from perfgate.roofline import machine
from perfgate.roofline.summary import summary
from perfgate.stats.pairs import side_values

CPU_DEVICE = "cpu"
_Z90 = 1.645


def costs(measurements: Measurements, policy: Policy, private: Prices | None = None) -> CostReport | None:
    """What the counted workloads cost; None where that is switched off or nothing was counted.

    A fault in prices or requirements is a warning in the report: it never hides a verdict.
    """
    rules = policy.cost
    counted = [evidence for evidence in measurements.workloads if not evidence.informative and _totals(evidence)]
    if not rules.enabled or not counted:
        return None
    try:
        return _report(measurements, rules, counted, price_files.merged(rules.prices, private or Prices()))
    except (UsageError, ValueError, ArithmeticError) as error:
        # Also what a hostile artifact counts must not keep the publish stage from its verdict.
        return CostReport(warnings=(f"costs could not be worked out: {error}",))


def market_of(prices: Prices, started_at: str) -> Market:
    """All offers as of the day of a run (ISO 8601), so that a report made again later is the same."""
    return offers.market(prices, today=date.fromisoformat(started_at[:10]))


def _totals(evidence: WorkloadEvidence) -> bool:
    return evidence.base.totals is not None or evidence.head.totals is not None


def _report(
    measurements: Measurements, rules: CostPolicy, counted: Sequence[WorkloadEvidence], prices: Prices
) -> CostReport:
    market = market_of(prices, measurements.run.started_at)
    hardware = measurements.environment.hardware
    # A machine with an accelerator holds the processor too, and is paid for as a whole.
    devices = list(dict.fromkeys(evidence.workload.device for evidence in counted))
    chief = next((device for device in devices if device != CPU_DEVICE), CPU_DEVICE)
    price = runner(hardware, chief, rules.runner, market)
    workloads = []
    for evidence in counted:
        device = evidence.workload.device
        here = price if device == chief else runner(hardware, device, "", market)
        workloads.append(_workload(evidence, rules, market, price, here, measurements.rooflines))
    return CostReport(
        workloads=tuple(workloads),
        runner_usd_per_hour=price.usd_per_hour,
        runner_price=price.text,
        runner_assumed=price.assumed,
        tables=market.tables,
        excluded=market.excluded,
        warnings=tuple(dict.fromkeys((*price.warnings, *market.warnings))),
    )


def _workload(
    evidence: WorkloadEvidence,
    rules: CostPolicy,
    market: Market,
    price: Runner,
    here: Runner,
    rooflines: Sequence[MeasuredRoofline],
) -> WorkloadCost:
    workload = evidence.workload
    own = rules.models.get(workload.model)
    question = compare.Question(
        model=workload.model,
        key=workload.key,
        market=market,
        runner_usd_per_hour=price.usd_per_hour,
        requirements=rules.of(workload.model),
        volume=None if own is None else own.volume,
    )
    base_ns, head_ns = side_values(evidence.pairs, "latency")
    base_peak, head_peak = side_values(evidence.pairs, "peak_memory")
    base_tail, head_tail = _tails(evidence, question.requirements.percentile)
    base = _side(evidence, evidence.base, base_ns, base_peak, base_tail, here.device, rooflines)
    head = _side(evidence, evidence.head, head_ns, head_peak, head_tail, here.device, rooflines)
    return compare.compare(question, base, head)


def _tails(evidence: WorkloadEvidence, percentile: float) -> tuple[float | None, float | None]:
    """Step time at ``percentile`` over its median, of base and head, where that percentile was measured."""
    name = {0.9: "latency_p90", 0.99: "latency_p99"}.get(percentile)
    if name is None:
        return None, None
    middles, ends = side_values(evidence.pairs, "latency"), side_values(evidence.pairs, name)
    base, head = (
        statistics.median(end / middle for end, middle in zip(side_ends, side_middles, strict=True))
        if side_ends and side_middles and min(side_middles) > 0
        else None
        for side_ends, side_middles in zip(ends, middles, strict=True)
    )
    return base, head


def _side(
    evidence: WorkloadEvidence,
    facts: SideEvidence,
    step_ns: Sequence[float],
    peaks: Sequence[float],
    tail: float | None,
    device: Device | None,
    rooflines: Sequence[MeasuredRoofline],
) -> compare.Side | None:
    if facts.totals is None:
        return None
    workload = evidence.workload
    on_accelerator = workload.device != CPU_DEVICE
    peak = round(max(peaks)) if peaks and on_accelerator else None
    way = Way(
        mode=workload.mode,
        batch=workload.batch,
        dtype=workload.dtype,
        compile=workload.compile,
        totals=facts.totals,
        items=facts.probes[0].items if facts.probes else workload.batch,
        peak_bytes=peak,
    )
    measured = _probe(rooflines, workload.device, facts)
    known: Mapping[str, MeasuredRoofline] = {}
    if measured is not None and device is not None:
        known = {device.platform.name: measured}
    middle = _geometric_mean(step_ns)
    anchors = () if device is None or middle is None else (_anchor(way, device, step_ns, middle),)
    return compare.Side(
        way=way,
        tail=tail,
        times=RooflineTimes(measured=known, anchors=anchors),
        step_ns=middle,
        roofline=_summary(way, device, measured, middle),
    )


def _probe(rooflines: Sequence[MeasuredRoofline], device: str, facts: SideEvidence) -> MeasuredRoofline | None:
    """The probe of ``device``; on a CPU only one with as many threads as the model ran with."""
    for one in rooflines:
        if one.device == device and (device != CPU_DEVICE or facts.software is None or _threads(one, facts)):
            return one
    return None


def _threads(measured: MeasuredRoofline, facts: SideEvidence) -> bool:
    return facts.software is not None and facts.software.threads == measured.threads


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
    spread = math.exp(_Z90 * statistics.stdev(logs)) if len(logs) > 1 else 1.0
    return Anchor(way=way, device=device, ns=middle, low_ns=middle / spread, high_ns=middle * spread)
