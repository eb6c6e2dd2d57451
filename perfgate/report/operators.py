"""Floor 3, report. ``Difference`` of the workloads in; lines of the table "Operators behind the change" out.

All texts are raw (not escaped): every name comes from the pull request.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import zip_longest

from perfgate import units
from perfgate.records.graph import FORWARD, Difference, OperatorChange
from perfgate.records.report import Report
from perfgate.report import filters
from perfgate.report.rows import unbroken

# Claims of a measuring job are read too: no change of a step lasts longer, and no share is believed past this.
_LONGEST_NS = 1e15
_LARGEST_SHARE = 10.0
# As many as a comparison keeps; an uploaded file may hold any number.
_MOST = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class OperatorLine:
    """One finding. ``name`` may be a pattern, ``count`` says for how many operators (empty for one).

    ``what``: ``convolution changed: bfloat16 → float32``, without the operator where the name ends in it already.
    ``base``, ``head``: the operator's inputs and outputs. ``flop``, ``bytes``, ``calls``, ``time``: head minus base in
    one step, with a sign; a dash where nothing changed or nothing is known. ``position``: the workload's place in the
    report.
    """

    position: int
    model: str
    workload: str
    name: str
    count: str
    what: str
    base: str
    head: str
    flop: str
    bytes: str
    calls: str
    time: str


def workload_lines(report: Report) -> tuple[tuple[OperatorLine, ...], ...]:
    """The findings of every workload, in the report's order and each most important first; () where there are none."""
    varying = filters.varying_parts(report)
    found = []
    for position, model in enumerate(report.models):
        changes = () if model.difference is None else model.difference.changes[:_MOST]
        label = unbroken(filters.workload_label(model, varying))
        found.append(tuple(_line(change, position, model.model, label) for change in changes))
    return tuple(found)


def worst_first(report: Report) -> list[OperatorLine]:
    """All findings: the first of every workload before the second of any, the worst workload first.

    A second, informative look at a workload is left out: its findings are those of the first.
    """
    models = report.models
    judged = [found for found in workload_lines(report) if found and not models[found[0].position].informative]
    lines = sorted(judged, key=lambda found: filters.severity(models[found[0].position].verdict))
    return [line for together in zip_longest(*lines) for line in together if line is not None]


def by_workload(lines: Iterable[OperatorLine]) -> list[OperatorLine]:
    """``lines`` with those of a workload together, the workloads in the order of their first line."""
    groups: dict[int, list[OperatorLine]] = {}
    for line in lines:
        groups.setdefault(line.position, []).append(line)
    return [line for group in groups.values() for line in group]


def caption(difference: Difference, listed: Sequence[OperatorLine]) -> str:
    """What the table of one workload shows, and what all of its findings come to."""
    sums = (
        ("F", _step(difference.flop, units.decimal(abs(difference.flop), "FLOP"))),
        ("M", _step(difference.bytes, units.size(abs(difference.bytes)))),
        ("calls", _step(difference.kernels, units.quantity(abs(difference.kernels), "count"))),
    )
    moved = ", ".join(f"{name} {text}" for name, text in sums if text != filters.NOTHING)
    parts = ["Head minus base in one step, most important first", f"all together: {moved}" if moved else ""]
    left_out = difference.more + len(difference.changes) - len(listed)
    if left_out > 0:
        parts.append(f"{left_out} lesser finding{'' if left_out == 1 else 's'} left out")
    return "; ".join(part for part in parts if part)


def _line(change: OperatorChange, position: int, model: str, label: str) -> OperatorLine:
    return OperatorLine(
        position=position,
        model=model,
        workload=label,
        name=change.name or "the model itself",
        count=unbroken(f"{change.count} operators") if change.count != 1 else "",
        what=_what(change),
        base=change.base,
        head=change.head,
        flop=unbroken(_step(change.flop, units.decimal(abs(change.flop), "FLOP"))),
        bytes=unbroken(_step(change.bytes, units.size(abs(change.bytes)))),
        calls=_step(change.calls, units.quantity(abs(change.calls), "count")),
        time=_time(change),
    )


def _what(change: OperatorChange) -> str:
    # Without the namespace, which is the same for nearly all of them.
    op = change.op.rsplit("::", 1)[-1] or change.kind
    phase = "" if change.phase in (FORWARD, "") or change.phase in op else f", {change.phase}"
    named = change.name.rsplit("/", 1)[-1].partition("#")[0] == op
    said = f"{change.what}{phase}" if named else f"{op} {change.what}{phase}"
    how = "; ".join(change.how)
    return f"{said}: {how}" if how else said


def _step(value: float, text: str) -> str:
    return f"{'+' if value > 0 else '−'}{text}" if value else filters.NOTHING


def _time(change: OperatorChange) -> str:
    """``+1.02 ms (93 %)``: the share is that of the whole change of the step."""
    ns, share = change.time_ns, change.share
    if ns is None or not math.isfinite(ns) or abs(ns) > _LONGEST_NS:
        return filters.NOTHING
    text = unbroken(_step(ns, units.duration(abs(ns))))
    if share is None or not math.isfinite(share) or abs(share) > _LARGEST_SHARE:
        return text
    return f"{text} ({unbroken(f'{100 * share:.0f} %')})"
