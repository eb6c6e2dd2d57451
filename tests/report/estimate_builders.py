"""Estimates from short descriptions, and the form of a report that has some."""

from __future__ import annotations

from typing import Any

from perfgate.records.estimate import (
    FITTED,
    PEAK_MEMORY,
    STEP_TIME,
    Accuracy,
    DeviceEstimate,
    Estimate,
    EstimatorReport,
    SideEstimate,
    WorkloadEstimate,
)
from perfgate.records.evidence import Measurements
from perfgate.records.report import REGRESSION, ModelResult, Report
from tests.report.builders import measurements, model, report, usual

SURPRISE = "measured 15.0 ms is above the interval of 11.9 ms to 14.6 ms"
UNSEEN = "no run on H100 SXM was recorded"


def estimate(value: float = 13.2e6, **fields: Any) -> Estimate:
    """A step time in ns, within 10 % on either side unless given."""
    values: dict[str, Any] = {
        "target": STEP_TIME,
        "value": value,
        "low": value * 0.9,
        "high": value * 1.1,
        "coverage": 0.9,
        "source": FITTED,
    }
    return Estimate(**{**values, **fields})


def device(
    platform: str = "l4", step_ns: float = 9e6, memory: float | None = None, *, fits: bool | None = None, **fields: Any
) -> DeviceEstimate:
    """One step on ``platform``; ``memory`` in bytes, ``fields`` are those of its step time."""
    needed = None if memory is None else estimate(memory, target=PEAK_MEMORY)
    return DeviceEstimate(platform=platform, step_time=estimate(step_ns, **fields), memory=needed, fits=fits)


def side_estimate(
    step_ns: float | None = 13.2e6, measured_ns: float | None = 13.92e6, *devices: DeviceEstimate, surprise: str = ""
) -> SideEstimate:
    """A side on this runner, and on ``devices``; ``step_ns`` None: nothing is said of the runner."""
    runner = None if step_ns is None else estimate(step_ns)
    return SideEstimate(runner=runner, measured_ns=measured_ns, devices=devices, surprise=surprise)


def workload_estimate(entry: ModelResult, base: SideEstimate | None, head: SideEstimate | None) -> WorkloadEstimate:
    """What is estimated of a workload of the report."""
    return WorkloadEstimate(model=entry.model, key=entry.key, base=base, head=head)


def accuracy(target: str = STEP_TIME, **fields: Any) -> Accuracy:
    """Of 240 records of 9 groups that were held out, unless given."""
    values: dict[str, Any] = {
        "n": 240,
        "groups": 9,
        "median_ape": 0.083,
        "mean_ape": 0.121,
        "within_10": 0.58,
        "within_20": 0.84,
        "coverage": 0.91,
        "width": 1.6,
    }
    return Accuracy(target=target, **{**values, **fields})


def estimator_report(*workloads: WorkloadEstimate, **fields: Any) -> EstimatorReport:
    """An estimator that is used, fitted in 3.4 s."""
    values: dict[str, Any] = {
        "used": True,
        "examples": 1_240,
        "groups": 23,
        "seconds": 3.4,
        "accuracy": (accuracy(), accuracy(PEAK_MEMORY, median_ape=0.021)),
    }
    return EstimatorReport(workloads=workloads, **{**values, **fields})


def estimated() -> tuple[Report, Measurements]:
    """Two workloads: one slower than its structure explains, also asked of two devices; one as it was."""
    slower, same = model("resnet50", *usual(0.079, REGRESSION)), model("vit", *usual(), mode="infer", batch=1)
    l4, h100 = device("l4", 18e6, 6 * 2**30, fits=True), device("h100-sxm", 4.4e6, novel=(UNSEEN,))
    found = estimator_report(
        workload_estimate(same, side_estimate(4.2e6, 4.31e6), side_estimate(4.2e6, 4.31e6)),
        workload_estimate(
            slower,
            side_estimate(13.2e6, 13.92e6, l4, h100),
            side_estimate(13.2e6, 15.02e6, device("l4", 19e6, 25 * 2**30, fits=False), h100, surprise=SURPRISE),
        ),
        notes=("energy was recorded of 3 runs only: not estimated",),
    )
    judged = report(same, slower, estimator=found)
    return judged, measurements(judged)
