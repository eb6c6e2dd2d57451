"""Floor 3, gate. Probes of both sides in; one row for each metric that is compared exactly out.

A metric counts as exact only if every probing process of a side found the same value, over at least two
of them; else nothing can be said, and N/A is never green. The same holds where one side alone has operators that
nobody could count, or the sides were traced in different ways.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.gate import operators
from perfgate.gate.limits import CUDA_PEAK_GRAIN_BYTES, Limit, Rules, definition, kind_of
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.metrics import EXACT, METRICS
from perfgate.records.report import (
    IMPROVEMENT,
    INCONCLUSIVE,
    INVALID,
    MISSING,
    NEW,
    PASS,
    REGRESSION,
    SHOWN,
    MetricResult,
)
from perfgate.units import percent, quantity

MIN_PROBES = 2
FROM_ZERO = "base is 0, so the direction decides"
# "At or past the limit" must not hang on the last bit of a division.
_ROUNDING = 1e-9


@dataclass(frozen=True, slots=True, kw_only=True)
class Reading:
    """One side's value of an exact metric (None: not had) and, if it cannot be used, why not."""

    value: float | None
    problem: str = ""
    invalid: bool = False


def exact_rows(evidence: WorkloadEvidence, rules: Rules) -> tuple[MetricResult, ...]:
    """A row for every exact metric that a probe of either side has, in the registry's order, unknown ones last."""
    found = {name for side in (evidence.base, evidence.head) for probe in side.probes for name in probe.exact}
    wanted = {name for name in found if kind_of(name, evidence.workload) == EXACT}
    ordered = [name for name in METRICS if name in wanted] + sorted(wanted - METRICS.keys())
    return tuple(_row(name, evidence, rules) for name in ordered)


def compare(base: float, head: float, relative: float, *, larger_is_better: bool = False, slack: float = 0.0) -> str:
    """Verdict on two exact values: ``regression`` at or past ``relative``, ``improvement`` mirrored, else ``pass``.

    ``slack`` is an absolute change, in the metric's unit, that counts as none. From a base of 0 any other
    value is past every limit, and equal values always pass.
    """
    change = base - head if larger_is_better else head - base
    allowed = max(relative * abs(base) * (1 - _ROUNDING), slack)
    if change == 0 or abs(change) < allowed:
        return PASS
    return REGRESSION if change > 0 else IMPROVEMENT


def ratio_of(base: float, head: float) -> float | None:
    """head / base; None where base is 0 or the quotient is not finite."""
    if base == 0:
        return None
    ratio = head / base
    return ratio if math.isfinite(ratio) else None


def read(side: SideEvidence, name: str) -> Reading:
    """What the probes of one side agree on."""
    values = [probe.exact[name] for probe in side.probes if name in probe.exact]
    if any(not math.isfinite(value) for value in values):
        return Reading(value=None, problem="is not a finite number", invalid=True)
    if not values:
        return Reading(value=None)
    if len(values) < len(side.probes) or len(set(values)) > 1:
        return Reading(value=values[0], problem="differs from process to process")
    if len(values) < MIN_PROBES:
        return Reading(value=values[0], problem="was read by one process only")
    return Reading(value=values[0])


def _row(name: str, evidence: WorkloadEvidence, rules: Rules) -> MetricResult:
    limit = rules.limit(evidence.workload.model, name)
    base, head = read(evidence.base, name), read(evidence.head, name)
    verdict, note = _verdict(name, evidence, limit, base, head)
    ratio = None if base.value is None or head.value is None else ratio_of(base.value, head.value)
    return MetricResult(
        metric=name,
        kind=EXACT,
        unit=definition(name).unit,
        base=base.value,
        head=head.value,
        ratio=ratio,
        ci_low=None,
        ci_high=None,
        limit=limit.relative,
        verdict=verdict if limit.gated else SHOWN,
        pairs=0,
        gated=limit.gated,
        enforced=limit.enforced,
        ceiling=limit.ceiling,
        note=note,
    )


def _verdict(name: str, evidence: WorkloadEvidence, limit: Limit, base: Reading, head: Reading) -> tuple[str, str]:
    for side, reading in (("base", base), ("head", head)):
        if reading.problem:
            return INVALID if reading.invalid else INCONCLUSIVE, f"{side}'s value {reading.problem}"
    if head.value is None:
        if any(line.split(":")[0] == name for probe in evidence.head.probes for line in probe.not_counted):
            return INCONCLUSIVE, "could not be counted on head"
        return MISSING, "base has this value and head does not"
    if limit.ceiling is not None and head.value > limit.ceiling:
        before = " (base was past it too)" if base.value is not None and base.value > limit.ceiling else ""
        return REGRESSION, f"past the ceiling of {quantity(limit.ceiling, definition(name).unit)}{before}"
    if base.value is None:
        return NEW, "base does not have this value"
    if limit.relative is None:
        return PASS, ""
    slack = CUDA_PEAK_GRAIN_BYTES if name == "peak_memory" else 0.0
    better = definition(name).larger_is_better
    verdict = compare(base.value, head.value, limit.relative, larger_is_better=better, slack=slack)
    if doubt := operators.doubt(name, evidence, verdict, equal=base.value == head.value):
        return INCONCLUSIVE, doubt
    if base.value == 0 and head.value != 0:
        return verdict, FROM_ZERO
    if verdict == PASS and base.value != head.value:
        return verdict, f"changed by {percent(head.value / base.value - 1, sign=True)}, within the limit"
    return verdict, ""
