"""Floor 3, report. ``PlacementReport`` in; where operators belong, as text, out.

All texts are raw (not escaped).
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate import units
from perfgate.records.placement import MEMORY, THROUGHPUT, PlacementPlan, Single, WorkloadPlacement
from perfgate.records.report import Report
from perfgate.report import filters
from perfgate.report.rows import unbroken

_NS = 1e9
# Operators of one target that a line names.
_NAMED = 2
_WHAT = {THROUGHPUT: "largest load of a device", MEMORY: "memory"}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlacementRow:
    """One workload. ``change`` is the plan against the best single target."""

    model: str
    workload: str
    placement: str
    predicted: str
    measured: str
    single: str
    change: str
    note: str


def line(report: Report) -> str:
    """What stands behind "Placement."; empty unless a recommendation is another than before."""
    if report.placement is None:
        return ""
    moved = [one for one in report.placement.workloads if one.changed and one.plan is not None]
    if not moved:
        return ""
    several = len(report.placement.workloads) > 1
    first, *others = moved
    text = _sentence(first, f"{first.model}: " if several else "")
    if others:
        text += f" {len(others)} more recommendation{'s' if len(others) > 1 else ''} changed."
    return text


def rows(report: Report) -> list[PlacementRow]:
    """All workloads whose placement was looked at, in the order of the run; those that changed first."""
    if report.placement is None:
        return []
    varying = filters.varying_parts(report)
    labels = {model.key: filters.workload_label(model, varying) for model in report.models}
    found = sorted(report.placement.workloads, key=lambda one: not one.changed)
    return [_row(one, unbroken(labels.get(one.key, one.key))) for one in found]


def words(plan: PlacementPlan) -> str:
    """``embedding on cpu, rest on cuda:0``: which operators run elsewhere than most of them."""
    nodes: dict[str, list[str]] = {}
    for piece in plan.pieces:
        nodes.setdefault(piece.target, []).extend(piece.nodes)
    if not nodes:
        return "nothing"
    if len(nodes) == 1:
        return f"all on {next(iter(nodes))}"
    # The one with the most operators is the rest; of equals the first.
    rest = max(nodes, key=lambda name: len(nodes[name]))
    parts = [f"{_names(found)} on {target}" for target, found in nodes.items() if target != rest]
    return f"{', '.join(parts)}, rest on {rest}"


def _names(found: list[str]) -> str:
    more = len(found) - _NAMED
    named = ", ".join(found[:_NAMED])
    return f"{named} and {more} more" if more > 0 else named


def _sentence(one: WorkloadPlacement, prefix: str) -> str:
    plan = one.plan
    if plan is None:
        return ""
    if not plan.recommended:
        return f"{prefix}No mixed placement pays any more: all on {plan.best_single} is as good as any."
    measured = f", {_time(plan.measured_s)} measured" if plan.measured_s is not None else ""
    against = f" (all on {plan.best_single}: {_time(plan.single_s)})" if plan.single_s is not None else ""
    return f"{prefix}Best found: {words(plan)}{measured}{against}."


def _row(one: WorkloadPlacement, label: str) -> PlacementRow:
    plan = one.plan
    if plan is None:
        return PlacementRow(
            model=one.model, workload=label, placement="", predicted="", measured="",
            single=_best(one.singles), change="", note=one.reason or "not searched",
        )  # fmt: skip
    notes = [one.reason] if one.reason else []
    if one.reused:
        notes.append("the graph is that of an earlier search")
    if not plan.recommended:
        alone = {piece.target for piece in plan.pieces} == {plan.best_single}
        notes.append(
            "no mixed placement was found to be better"
            if alone
            else "not recommended: not certainly better than the best single target"
        )
    elif gap := _gap(plan, one.bound_s):
        notes.append(gap)
    if plan.objective in _WHAT:
        notes.append(f"made least: {_WHAT[plan.objective]}")
    return PlacementRow(
        model=one.model,
        workload=label,
        placement=words(plan),
        predicted=_cell(plan.predicted_s),
        measured=_measured(plan),
        single=f"{plan.best_single} {_cell(plan.single_s)}".strip(),
        change=""
        if plan.faster is None
        else " to ".join(unbroken(units.percent(end, sign=True)) for end in plan.faster),
        note="; ".join(notes),
    )


def _gap(plan: PlacementPlan, bound_s: float | None) -> str:
    """By how much any placement could still be faster at most, by the cost model."""
    if bound_s is None or not plan.predicted_s or plan.objective == MEMORY:
        return ""
    left = max(0.0, 1 - bound_s / plan.predicted_s)
    return f"no placement is more than {units.percent(left)} faster by the cost model" if left else "proven best"


def _measured(plan: PlacementPlan) -> str:
    """The median with its 95 % interval."""
    between = "" if plan.low_s is None or plan.high_s is None else f" ({_cell(plan.low_s)} to {_cell(plan.high_s)})"
    return f"{_cell(plan.measured_s)}{between}"


def _best(singles: tuple[Single, ...]) -> str:
    known = [one for one in singles if one.value is not None]
    best = min(known, key=lambda one: one.value or 0.0, default=None)
    return "" if best is None else f"{best.target} {_cell(best.value)}"


def _cell(seconds: float | None) -> str:
    """A time that a narrow column does not break."""
    return unbroken(_time(seconds))


def _time(seconds: float | None) -> str:
    return "" if seconds is None else units.duration(seconds * _NS)
