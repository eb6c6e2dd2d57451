"""Floor 3, gate. One workload's evidence and judged rows in; causes in words out, most important first.

Nothing here is a verdict. The order: what failed, what the pull request changed around the model, which operators
changed, clocks, what was counted, money, what came out, then how the measurement and the counting went.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable, Sequence

from perfgate.gate import operators
from perfgate.gate.exact import FROM_ZERO
from perfgate.gate.limits import definition
from perfgate.records.evidence import Changes, Pair, SideEvidence, WorkloadEvidence
from perfgate.records.metrics import EXACT
from perfgate.records.protocol import Digest
from perfgate.records.report import INCONCLUSIVE, INVALID, MISSING, PASS, REGRESSION, MetricResult
from perfgate.stats.pairs import valid_pairs
from perfgate.stats.spread import less_stable
from perfgate.units import duration, percent, quantity, significant

_CLOCK_DIFFERENCE = 0.02
_FIRST_STEP_CHANGE = 0.25
# Below this share the host, which launches the kernels, sets the pace and not the device.
_LAUNCH_BOUND = 0.8
_COUNTED = ("flop", "traffic", "params", "weight_bytes", "operators")
_SAME = "unchanged"

# How sentences on the environment begin: the line below the verdict names them first.
ENVIRONMENT = ("the pull request changes the environment", "versions: ")

# How a latency row says that the two sides cannot be compared because they did not do the same.
DIFFERENT_WORK = "does different work"


def of_workload(
    evidence: WorkloadEvidence, rows: tuple[MetricResult, ...], changes: Changes, money: tuple[str, ...] = ()
) -> tuple[str, ...]:
    """Sentences without a full stop, each once; ``money``: what :mod:`perfgate.gate.money` found."""
    both = evidence.base.status == "ok" and evidence.head.status == "ok"
    told_last = (FROM_ZERO, "")
    found = [row.note for row in rows if row.verdict in (MISSING, INVALID, REGRESSION) and row.note not in told_last]
    found += _environment(evidence, changes)
    if both:
        found += _operators(evidence, rows)
    found += money
    if both:
        found += _digests(evidence)
        found += [_labelled(row) for row in rows if row.verdict == PASS and row.note.endswith("within the limit")]
        found += [_labelled(row) for row in rows if row.gated and row.note == FROM_ZERO]
        found += _stability(evidence)
        found += _first_step(rows)
    found += [_labelled(row) for row in rows if row.gated and row.verdict == INCONCLUSIVE]
    found += _measuring(evidence)
    return tuple(dict.fromkeys(found))


def software_differences(evidence: WorkloadEvidence) -> tuple[str, ...]:
    """``torch 2.4.0 → 2.5.0`` for each version that differs between the sides; () where a side's is unknown."""
    base, head = evidence.base.software, evidence.head.software
    return () if base is None or head is None else _differences(base.versions, head.versions)


def items(evidence: WorkloadEvidence, side: str) -> set[int]:
    """The numbers of items per step that probes and valid pairs of ``side`` (``base`` or ``head``) reported."""
    facts: SideEvidence = getattr(evidence, side)
    found = {probe.items for probe in facts.probes}
    return found | {getattr(pair, side).items for pair in valid_pairs(evidence.pairs)}


def relative_difference(base: Digest, head: Digest) -> float | None:
    """Largest |difference| over the compared values, as a share of base's largest magnitude.

    None where they cannot be compared: other layout, another number of values, or none at all. Values that are
    NaN or infinite on both sides are left out; on one side only, the difference is infinite.
    """
    if base.layout != head.layout or len(base.values) != len(head.values) or not base.values:
        return None
    pairs = list(zip(base.values, head.values, strict=True))
    if any((b is None) != (h is None) for b, h in pairs):
        return math.inf
    numbers = [(b, h) for b, h in pairs if b is not None and h is not None]
    worst = max((abs(h - b) for b, h in numbers), default=0.0)
    if worst == 0:
        return 0.0
    scale = max(abs(b) for b, _ in numbers)
    return worst / scale if scale else math.inf


def _labelled(row: MetricResult) -> str:
    return f"{definition(row.metric).label}: {row.note}"


def _differences(base: dict[str, str], head: dict[str, str]) -> tuple[str, ...]:
    names = sorted(base.keys() | head.keys())
    return tuple(
        f"{name} {base.get(name, 'none')} → {head.get(name, 'none')}"
        for name in names
        if base.get(name) != head.get(name)
    )


def _environment(evidence: WorkloadEvidence, changes: Changes) -> list[str]:
    found = []
    if changes.environment:
        found.append(f"{ENVIRONMENT[0]}: {', '.join(changes.environment)}")
        if versions := software_differences(evidence):
            found.append(f"{ENVIRONMENT[1]}{', '.join(versions)}")
    base, head = evidence.base.software, evidence.head.software
    if base is not None and head is not None:
        if flags := _differences(base.flags, head.flags):
            found.append(f"library settings differ: {', '.join(flags)}")
        if base.threads != head.threads:
            found.append(f"threads differ: {base.threads} on base, {head.threads} on head")
    return found


def _clocks(evidence: WorkloadEvidence) -> list[str]:
    sides = {}
    throttled: set[str] = set()
    for side in ("base", "head"):
        blocks = [block for pair in valid_pairs(evidence.pairs) for block in getattr(pair, side).blocks]
        clocks = [block.sm_clock_mhz for block in blocks if block.sm_clock_mhz]
        sides[side] = statistics.median(clocks) if clocks else None
        throttled |= {reason for block in blocks for reason in block.throttle}
    base, head = sides["base"], sides["head"]
    found = []
    if base and head and abs(head / base - 1) > _CLOCK_DIFFERENCE:
        found.append(f"SM clock {base:.0f} MHz on base, {head:.0f} MHz on head: part of the time is the clock's")
    if throttled:
        found.append(f"the GPU limited its clock while measuring: {', '.join(sorted(throttled))}")
    return found


def _operators(evidence: WorkloadEvidence, rows: tuple[MetricResult, ...]) -> list[str]:
    """What changed in the graph, the clocks and the counts, the likeliest cause first."""
    totals = (evidence.base.totals, evidence.head.totals)
    leading = operators.lead(evidence.difference, *totals)
    breaks = operators.graph_breaks(evidence)
    red = {row.metric for row in rows if row.gated and row.verdict == REGRESSION}
    causes = [breaks, leading] if red == {"graph_breaks"} else [leading, breaks]
    told = {"graph_breaks"} if breaks else set()
    if operators.decomposed(evidence.difference, *totals):
        told |= {"flop", "operators"}
    if operators.traced_differently(*totals):
        told |= {"traffic", "operators"}
    found = [*filter(None, causes), *_clocks(evidence)]
    counts = [row for row in rows if row.kind == EXACT and row.metric not in told]
    equal = evidence.difference is not None and evidence.difference.equal
    found += [_counts_in_short(counts, graph_is_equal=equal)] if leading else _counts(counts, graph_is_equal=equal)
    return [*found, *operators.sentences(evidence.difference)]


def _counts(rows: list[MetricResult], *, graph_is_equal: bool) -> list[str]:
    """What was counted: the changes first, then in one sentence what stayed as it was."""
    found = []
    for row in _moved(rows):
        change = f" ({change})" if (change := _change(row)) else ""
        found.append(f"{definition(row.metric).label} {_values(row)}{change}")
    return [*found, *_unmoved(rows, graph_is_equal=graph_is_equal)]


def _counts_in_short(rows: list[MetricResult], *, graph_is_equal: bool) -> str:
    """The same in one sentence, for after one that names the operators: the table has the values."""
    moved = [f"{definition(row.metric).label} {_change(row) or _values(row)}" for row in _moved(rows)]
    return "; ".join([*([", ".join(moved)] if moved else []), *_unmoved(rows, graph_is_equal=graph_is_equal)])


def _values(row: MetricResult) -> str:
    return f"{quantity(row.base, row.unit)} → {quantity(row.head, row.unit)}"


def _change(row: MetricResult) -> str:
    """``+4.6 %``; the step itself where that would read as none; empty from a base of 0."""
    if row.ratio is None or row.base is None or row.head is None:
        return ""
    share, step = percent(row.ratio - 1, sign=True), row.head - row.base
    return share if share != percent(0.0) else f"{'+' if step > 0 else '−'}{quantity(abs(step), row.unit)}"


def _moved(rows: list[MetricResult]) -> list[MetricResult]:
    return [row for row in _comparable(rows) if row.base != row.head]


def _unmoved(rows: list[MetricResult], *, graph_is_equal: bool) -> list[str]:
    """One sentence on what is as it was, or none. An equal graph has as many operators and moves as many bytes."""
    said_by_graph = ("traffic", "operators") if graph_is_equal else ()
    same = [
        definition(row.metric).label
        for row in _comparable(rows)
        if row.base == row.head and row.metric in _COUNTED and row.metric not in said_by_graph
    ]
    if graph_is_equal:
        same.append("graph of operators" if not same else "graph")
    if not same:
        return []
    singular = same in (["F"], ["M eager"]) or (graph_is_equal and len(same) == 1)
    return [f"{_listed(same)} {'is' if singular else 'are'} {_SAME}"]


def _comparable(rows: list[MetricResult]) -> list[MetricResult]:
    """Rows whose two values may be set against each other: had on both sides, and not in doubt."""
    return [
        row
        for row in rows
        if None not in (row.base, row.head) and row.verdict != INCONCLUSIVE and "process" not in row.note
    ]


def _digests(evidence: WorkloadEvidence) -> list[str]:
    base, head = evidence.base, evidence.head
    if not base.probes or not head.probes:
        return []
    found = []
    if _varies(probe.inputs for probe in (*base.probes, *head.probes)):
        inside = _varies(p.inputs for p in base.probes) or _varies(p.inputs for p in head.probes)
        found.append(
            "inputs change from process to process, so the work may too: seed them"
            if inside
            else "inputs differ between base and head, so the two sides did not do the same work"
        )
    found.append(_outputs(base, head))
    wrong = max(probe.outputs.nonfinite for probe in head.probes)
    before = max(probe.outputs.nonfinite for probe in base.probes)
    if wrong or before:
        found.append(f"outputs hold NaN or infinite values: {before} on base, {wrong} on head")
    return found


def _outputs(base: SideEvidence, head: SideEvidence) -> str:
    ours = [probe.outputs for probe in base.probes]
    theirs = [probe.outputs for probe in head.probes]
    if not _varies([*ours, *theirs]):
        return "outputs are equal"
    if ours[0].layout != theirs[0].layout:
        return f"outputs have another layout: {_layout(ours[0])} → {_layout(theirs[0])}"
    between = [relative_difference(b, h) for b in ours for h in theirs]
    if any(value is None for value in between):
        return "outputs differ, and hold no values that could be compared"
    worst = max(value for value in between if value is not None)
    inside = [
        relative_difference(a, b) or 0.0 for side in (ours, theirs) for i, a in enumerate(side) for b in side[i + 1 :]
    ]
    spread = max(inside, default=0.0)
    if _varies(theirs) and not _varies(ours):
        return f"head's outputs now change from process to process, by {_share(worst)} of their largest value"
    if _varies(ours) and worst <= spread:
        return f"outputs differ within the spread inside a side ({_share(spread)})"
    if worst == 0:
        return "outputs differ, but not in the values that are compared"
    return f"outputs differ by {_share(worst)} of their largest value"


def _share(value: float) -> str:
    if math.isinf(value):
        return "more than any share"
    return percent(value) if value >= 0.001 else f"{significant(value * 1e6)} ppm"


def _varies(digests: Iterable[Digest]) -> bool:
    return len({digest.checksum for digest in digests}) > 1


def _layout(digest: Digest) -> str:
    shown = ", ".join(digest.layout[:3])
    return f"{shown} and {len(digest.layout) - 3} more" if len(digest.layout) > 3 else shown or "nothing"


def _stability(evidence: WorkloadEvidence) -> list[str]:
    finding = less_stable(evidence.pairs)
    if finding is None:
        return []
    times = "" if finding.ratio is None else f" by a factor of {significant(finding.ratio, 2)}"
    where = "from call to call" if finding.where == "within" else "from process to process"
    return [f"head is less stable than base: its step time spreads more {where}{times}"]


def _first_step(rows: tuple[MetricResult, ...]) -> list[str]:
    row = next((row for row in rows if row.metric == "first_step"), None)
    if row is None or row.ratio is None or abs(row.ratio - 1) < _FIRST_STEP_CHANGE:
        return []
    return [f"first step {duration(row.base)} → {duration(row.head)} (never part of step time)"]


def _launch_bound(pairs: Sequence[Pair]) -> list[str]:
    """Sides whose device waits for the host: events around the calls saw it busy for a small share of the wall time."""
    found = []
    for name in ("base", "head"):
        blocks = [block for pair in pairs for block in getattr(pair, name).blocks]
        busy = [ns for block in blocks for ns in block.device_ns]
        wall = [ns for block in blocks for ns in block.samples_ns]
        if busy and wall and (share := statistics.median(busy) / statistics.median(wall)) < _LAUNCH_BOUND:
            found.append(f"{name} is launch bound: its device works for {percent(share)} of a step's wall time")
    return found


def _measuring(evidence: WorkloadEvidence) -> list[str]:
    found = []
    counted = valid_pairs(evidence.pairs)
    void = len(evidence.pairs) - len(counted)
    if void:
        why = sorted({pair.void for pair in evidence.pairs if pair.void})
        found.append(f"{void} of {len(evidence.pairs)} pairs did not count: {', '.join(why)}")
    unsettled = [side for side in ("base", "head") if any(not getattr(pair, side).settled for pair in counted)]
    if unsettled:
        found.append(f"step time was still moving after warm-up on {' and '.join(unsettled)}")
    found += _launch_bound(counted)
    for side in ("base", "head"):
        counts = items(evidence, side)
        if len(counts) > 1:
            found.append(f"items a step vary on {side}: {', '.join(map(str, sorted(counts)))}")
    found += operators.limits_of_counting(evidence)
    probes = (*evidence.base.probes, *evidence.head.probes)
    found += [f"not counted: {line}" for probe in probes for line in probe.not_counted]
    found += [note for probe in probes for note in probe.notes]
    return [*found, *evidence.notes]


def _listed(words: list[str]) -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}"
