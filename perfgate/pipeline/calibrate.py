"""A/A: one revision against itself, to know what this runner can see at all."""

from __future__ import annotations

from dataclasses import dataclass, replace

from perfgate.errors import MeasuringError
from perfgate.pipeline.measure import measure, start
from perfgate.pipeline.request import MeasureRequest, Ports
from perfgate.records.evidence import Measurements, RunError
from perfgate.stats import pairs as pair_statistics
from perfgate.stats.calibration import Resolution, resolution

PAIRS = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibrated:
    """One noisy metric of one workload. ``tolerance`` is its limit; ``enough``: the limit is one it can see."""

    workload: str
    metric: str
    resolution: Resolution
    tolerance: float | None
    enough: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Calibration:
    """All metrics; ``measurements`` hold the raw pairs, and the fault that kept the run from an answer, if any."""

    rows: tuple[Calibrated, ...]
    measurements: Measurements

    @property
    def enough(self) -> bool:
        """Whether every gated metric can be gated at its limit."""
        return all(row.enough for row in self.rows)


def calibrate(request: MeasureRequest, ports: Ports, *, pairs: int = PAIRS) -> Calibration:
    """Measure ``request.head`` against itself with exactly ``pairs`` pairs, never stopping early.

    What kept it from measuring is in ``Calibration.measurements.error``, also that no workload could be measured.
    """
    draft = start(request)
    same = replace(request, base=None, fixed_pairs=pairs)
    measurements = measure(draft, same, ports)
    if measurements.error is not None:
        return Calibration(rows=(), measurements=measurements)
    plan = measurements.plan
    rows = []
    for evidence in measurements.workloads:
        for metric in pair_statistics.noisy_metrics(evidence.pairs):
            ratios = pair_statistics.log_ratios(evidence.pairs, metric)
            rounds = [pair.round for pair in evidence.pairs if not pair.void]
            if len(ratios) < 2 or plan is None:
                continue
            found = resolution(ratios, rounds, alpha=plan.alpha)
            limit = draft.tolerances.get((evidence.workload.key, metric))
            enough = limit is None or found.mde <= limit
            rows.append(
                Calibrated(
                    workload=evidence.workload.key, metric=metric, resolution=found, tolerance=limit, enough=enough
                )
            )
    if not rows:
        reasons = [side.failure.message for w in measurements.workloads for side in (w.base, w.head) if side.failure]
        msg = f"no workload could be measured: {reasons[0] if reasons else 'the configuration names no model'}"
        error = RunError(exit_code=MeasuringError.exit_code, message=msg)
        measurements = replace(measurements, error=error)
    return Calibration(rows=tuple(rows), measurements=measurements)
