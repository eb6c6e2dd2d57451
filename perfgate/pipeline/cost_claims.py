"""What of a run's evidence can be true: counts, probes and dates are claims of the job that measured.

In: parts of measurements.json that passed its schema. Out: why a part must not enter costs, or the part itself. Nothing
here decides a verdict: what is left out is named in a warning, and the runner's own price does not depend on it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence

from perfgate.hardware import offers
from perfgate.records.evidence import SideEvidence
from perfgate.records.graph import KernelGroup
from perfgate.records.workload import Workload

# Workloads of which the cheapest platform is looked for: some tens of milliseconds each, so a minute at the very most.
MOST_WORKLOADS = 300
# Groups of kernels of one step: counting joins them long before.
MOST_GROUPS = 2_000
# Far above any step (a million seconds at 1e15 a second), and far below what sums of floats lose.
MOST_WORK = 10**21
MOST_ITEMS = 10**12
_COUNTS = ("flop", "bytes", "written_bytes", "weight_bytes")
_FIRST_YEAR, _LAST_YEAR = 2000, 2100


def wrong(workload: Workload, facts: SideEvidence) -> str:
    """Why costs cannot rest on what was counted of one side; empty: they can."""
    totals = facts.totals
    if totals is None:
        return ""
    if not 1 <= workload.batch <= MOST_ITEMS:
        return "its batch is out of range"
    if not 0 < items(workload, facts) <= MOST_ITEMS:
        return "its items a step are out of range"
    if max(len(totals.eager_kernels), len(totals.fused_kernels)) > MOST_GROUPS:
        return f"it has more than {MOST_GROUPS} groups of kernels"
    sizes = (totals.flop, totals.weight_bytes, totals.peak_activation_bytes or 0)
    if not all(0 <= size <= MOST_WORK for size in sizes):
        return "its totals are out of range"
    if not all(map(_possible, (totals.eager_kernels, totals.fused_kernels))):
        return "its kernels hold numbers that are out of range"
    return ""


def items(workload: Workload, facts: SideEvidence) -> int:
    """Items of one step, as the first process counted them; else the batch."""
    return facts.probes[0].items if facts.probes else workload.batch


def _possible(groups: Sequence[KernelGroup]) -> bool:
    sums = dict.fromkeys(_COUNTS, 0)
    for group in groups:
        each = {name: getattr(group, name) for name in _COUNTS}
        if group.calls < 1 or min(each.values()) < 0:
            return False
        sums = {name: sums[name] + group.calls * value for name, value in each.items()}
    return max(sums.values()) <= MOST_WORK


def day(started_at: str) -> tuple[dt.date, str]:
    """The day of a run, of ISO 8601 text, and a warning where that is none.

    Then it is the day of the newest price list: the clock's would make the same evidence another report tomorrow.
    """
    try:
        found = dt.date.fromisoformat(started_at[:10])
    except ValueError:
        found = dt.date.min
    if _FIRST_YEAR <= found.year <= _LAST_YEAR:
        return found, ""
    newest = offers.newest_list()
    return newest, f"the day of the run is not known: prices are as of {newest}, the day of the newest list"
