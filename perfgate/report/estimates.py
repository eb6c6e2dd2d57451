"""Floor 3, report. ``EstimatorReport`` in; what the estimator says, against what was measured, as text out.

All texts are raw (not escaped).
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate import units
from perfgate.hardware import short_names
from perfgate.records import estimate
from perfgate.records.estimate import Accuracy, Estimate, SideEstimate, WorkloadEstimate
from perfgate.records.report import Report
from perfgate.report import filters
from perfgate.report.costs import Line
from perfgate.report.rows import both, unbroken

_LABELS = {
    estimate.STEP_TIME: "step time",
    estimate.PEAK_MEMORY: "peak memory",
    estimate.ENERGY: "energy",
    estimate.UTILISATION: "utilisation",
}
THIS_RUNNER = "this runner"
# Devices that the user lists may be the whole catalogue.
_DEVICES = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimateRow:
    """One workload on one device; ``base → head`` where they differ. ``measured`` empty: it was not run there."""

    model: str
    workload: str
    device: str
    predicted: str
    interval: str
    measured: str
    memory: str
    note: str


def rows(report: Report) -> list[EstimateRow]:
    """This runner first, then the devices that the user lists, workload by workload; the worst workload first."""
    found = report.estimator
    if found is None or not found.used:
        return []
    varying = filters.varying_parts(report)
    models = {model.key: model for model in report.models if not model.informative}
    listed = [entry for entry in found.workloads if entry.key in models]
    listed.sort(key=lambda entry: filters.severity(models[entry.key].verdict))
    return [row for entry in listed for row in _rows(entry, filters.workload_label(models[entry.key], varying))]


def facts(report: Report) -> list[Line]:
    """What it was fitted on and how good it is on groups that it did not see; or why nothing is said."""
    found = report.estimator
    if found is None:
        return []
    if not found.used:
        return [Line(label="Estimator", text=f"not used: {found.reason}")] if found.reason else []
    examples = f"{units.quantity(found.examples, 'count')} records of {units.quantity(found.groups, 'count')} groups"
    return [
        Line(label="Estimator", text=f"fitted again on {examples} in {units.duration(found.seconds * 1e9)}"),
        *(Line(label=f"Accuracy, {_LABELS.get(one.target, one.target)}", text=accuracy(one)) for one in found.accuracy),
        *(Line(label="Remark", text=note) for note in found.notes),
    ]


def accuracy(one: Accuracy) -> str:
    """One line on held-out groups."""
    return (
        f"median error {units.percent(one.median_ape)}, mean {units.percent(one.mean_ape)}, "
        f"{units.percent(one.within_20)} within 20 % ({one.n} held-out records of {one.groups} groups); "
        f"intervals hold {units.percent(one.coverage)}"
    )


def _rows(entry: WorkloadEstimate, label: str) -> list[EstimateRow]:
    sides = [side for side in (entry.base, entry.head) if side is not None]
    found = []
    if any(side.runner for side in sides):
        found.append(_row(entry.model, label, THIS_RUNNER, sides, [side.runner for side in sides]))
    platforms = list(dict.fromkeys(device.platform for side in sides for device in side.devices))
    for platform in platforms[:_DEVICES]:
        here = [next((one for one in side.devices if one.platform == platform), None) for side in sides]
        times = [None if one is None else one.step_time for one in here]
        last = next((one for one in reversed(here) if one is not None), None)
        memory = ""
        if last is not None and last.memory is not None:
            fits = {True: ", fits", False: ", does not fit", None: ""}[last.fits]
            memory = f"{units.size(last.memory.value)}{fits}"
        found.append(_row(entry.model, label, short_names.short(platform), sides, times, memory=memory, measured=False))
    return found


def _row(
    model: str,
    label: str,
    device: str,
    sides: list[SideEstimate],
    times: list[Estimate | None],
    *,
    memory: str = "",
    measured: bool = True,
) -> EstimateRow:
    known = [time for time in times if time is not None]
    last = known[-1] if known else None
    ran = [units.duration(side.measured_ns) for side in sides if side.measured_ns is not None] if measured else []
    notes = list(last.novel) if last else []
    if measured and sides and sides[-1].surprise:
        notes.insert(0, sides[-1].surprise)
    return EstimateRow(
        model=model,
        workload=unbroken(label),
        device=device,
        predicted=both([units.duration(time.value) for time in known]),
        interval="" if last is None else f"{units.duration(last.low)} to {units.duration(last.high)}",
        measured=both(ran),
        memory=memory,
        note="; ".join(notes),
    )
