"""Floor 3, gate. Judged rows and acceptances in; rows with what was accepted on purpose named as such out.

An acceptance covers one metric's relative limit up to its bound. It covers no ceiling, no failure, no
vanished workload and no different work: those have no bound that they could stay within.
"""

from __future__ import annotations

from dataclasses import replace

from perfgate.gate.limits import definition
from perfgate.records.policy import Acceptance, Policy
from perfgate.records.report import ACCEPTED, REGRESSION, MetricResult
from perfgate.records.workload import Workload
from perfgate.units import percent, share


def target_of(workload: Workload, metric_name: str) -> str:
    """``MODEL/MODE/METRIC``, as it is written in an acceptance."""
    return f"{workload.model}/{workload.mode}/{metric_name}"


def apply(
    rows: tuple[MetricResult, ...], workload: Workload, accepted: tuple[Acceptance, ...], policy: Policy
) -> tuple[MetricResult, ...]:
    """The rows, with ``accepted`` in place of ``regression`` while head stays within bound + tolerance."""
    return tuple(_apply(row, target_of(workload, row.metric), accepted, policy) for row in rows)


def _apply(row: MetricResult, target: str, accepted: tuple[Acceptance, ...], policy: Policy) -> MetricResult:
    matching = [item for item in accepted if item.target == target]
    past_ceiling = row.ceiling is not None and row.head is not None and row.head > row.ceiling
    if row.verdict != REGRESSION or row.ratio is None or past_ceiling or not matching or row.limit is None:
        return row
    best = max(matching, key=lambda item: item.bound)
    worse = 1 - row.ratio if definition(row.metric).larger_is_better else row.ratio - 1
    told = f"accepted up to {share(best.bound)} by {best.by}: {best.reason}"
    if worse <= best.bound + max(policy.tolerance, row.limit):
        return replace(row, verdict=ACCEPTED, note=told)
    return replace(row, note=f"{told}; now {percent(worse, sign=True)}, past that bound")
