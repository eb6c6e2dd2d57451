"""Floor 3, gate. Both sides' totals and the operator difference in; sentences on them out, without a full stop.

Which operators changed was put into words where both graphs were at hand (``Difference.sentences``); here is decided
what may be said of them, what leads, and where counts say nothing. Plain text: whoever renders escapes it.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable

from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.graph import META, ONNX, REAL, Difference, NotCounted, OperatorChange, Totals
from perfgate.records.report import IMPROVEMENT, PASS, REGRESSION

SENTENCES = 3
GRAPH_BREAKS = "graph breaks"

_LONGEST = 320
_LISTED = 3
_SOURCES = {META: "on tensors without contents", REAL: "on real tensors", ONNX: "from an ONNX file"}
# What depends on the way of tracing: a kernel that only exists on a device has other traffic than its parts.
_SOURCE_DEPENDENT = ("traffic", "operators")
_DTYPE = re.compile(r"([a-z]+[a-z0-9_]*)\[")
_LINE = re.compile(r":\d+")


def clipped(text: str, limit: int = _LONGEST) -> str:
    """``text`` with its middle left out where it is too long: names begin a sentence, figures end it."""
    if len(text) <= limit:
        return text
    tail = limit // 3
    return f"{text[: limit - tail - 3].rstrip()} … {text[-tail:].lstrip()}"


def sentences(difference: Difference | None) -> tuple[str, ...]:
    """The first sentences on what changed in the graph; () where nothing did, or it is not known."""
    if difference is None or not difference.changes:
        return ()
    found = (clipped(text.strip().rstrip(".")) for text in difference.sentences[:SENTENCES])
    return tuple(text for text in found if text)


def lead(difference: Difference | None, base: Totals | None, head: Totals | None) -> str:
    """The sentence that explains a change best; empty where none can be relied on."""
    if new_decomposition := decomposed(difference, base, head):
        return new_decomposition
    if traced_differently(base, head):
        return ""
    return next(iter(sentences(difference)), "")


def decomposed(difference: Difference | None, base: Totals | None, head: Totals | None) -> str:
    """Says that other kernels come from another version and not from the model; empty where that does not hold.

    Formulas of F are perfgate's own, so a new version alone leaves F as it was; another dtype is nobody's
    decomposition.
    """
    if base is None or head is None or not base.software or base.software == head.software:
        return ""
    if base.flop != head.flop or base.fingerprint == head.fingerprint:
        return ""
    if difference is None or any(_other_dtype(change) for change in difference.changes):
        return ""
    said = f"decompositions changed with {_versions(base.software, head.software)}"
    if base.kernels == head.kernels:
        return f"{said}, F is equal"
    return f"{said}: {base.kernels} → {head.kernels} operator calls, F is equal"


def traced_differently(base: Totals | None, head: Totals | None) -> str:
    """How the two sides were traced if not in the same way; else empty."""
    if base is None or head is None or base.source == head.source:
        return ""
    ways = [_SOURCES.get(side.source, clipped(side.source, 60)) for side in (base, head)]
    return f"base was traced {ways[0]} and head {ways[1]}"


def graph_breaks(evidence: WorkloadEvidence) -> str:
    """``graph breaks 0 → 1: model.py:31: call of print()``; empty where their number is the same or not known."""
    counts = [_count(side, "graph_breaks") for side in (evidence.base, evidence.head)]
    base, head = counts
    if base is None or head is None or base == head:
        return ""
    more, fewer = (evidence.head, evidence.base) if head > base else (evidence.base, evidence.head)
    places = _only_in(_breaks(more), _breaks(fewer))
    said = f"{GRAPH_BREAKS} {base:.0f} → {head:.0f}"
    if not places:
        return said
    rest = f" and {len(places) - _LISTED} more" if len(places) > _LISTED else ""
    gone = "" if head > base else "gone: "
    return f"{said}: {gone}{'; '.join(clipped(place) for place in places[:_LISTED])}{rest}"


def doubt(metric: str, evidence: WorkloadEvidence, verdict: str, *, equal: bool) -> str:
    """Why the counts of the two sides do not support ``verdict``; empty where they do.

    An operator without a formula on one side only makes that side's F a lower bound: a verdict that would hold for
    any larger value stands, the others do not.
    """
    base, head = evidence.base.totals, evidence.head.totals
    if base is None or head is None:
        return ""
    if metric in _SOURCE_DEPENDENT and not equal and (ways := traced_differently(base, head)):
        return f"{ways}, so the two counts cannot be compared"
    if metric != "flop":
        return ""
    for name, less, more, unharmed in (("head", head, base, REGRESSION), ("base", base, head, IMPROVEMENT)):
        lacking = _more_calls(less, more)
        if lacking and verdict in {PASS, REGRESSION, IMPROVEMENT} - {unharmed}:
            other = "head" if name == "base" else "base"
            return f"{name}'s F lacks {_listed(lacking)}, which {other} does not have{_because(lacking[0])}"
    return ""


def limits_of_counting(evidence: WorkloadEvidence) -> list[str]:
    """What the counts of a workload do not hold, and what limits the comparison of its operators."""
    base, head = evidence.base.totals, evidence.head.totals
    found = []
    if ways := traced_differently(base, head):
        found.append(f"{ways}: operators may differ for that reason alone")
    both = [item for totals in (base, head) if totals is not None for item in totals.not_counted]
    names = list(dict.fromkeys(item.op for item in both))
    found += [_not_counted(name, base, head) for name in names[:_LISTED]]
    if len(names) > _LISTED:
        found.append(f"F lacks {len(names) - _LISTED} more operators; report.html lists them")
    notes = () if evidence.difference is None else evidence.difference.notes
    return [*found, *(clipped(note) for note in notes)]


def _not_counted(op: str, base: Totals | None, head: Totals | None) -> str:
    sides = {name: _of_op(totals, op) for name, totals in (("base", base), ("head", head))}
    there = {name: item for name, item in sides.items() if item is not None}
    item = there.get("head") or there["base"]
    calls = {found.calls for found in there.values()}
    if len(there) == 2 and len(calls) == 1:
        where = f"{item.calls} calls" if item.calls != 1 else "1 call"
    else:
        where = ", ".join(f"{found.calls} on {name}" for name, found in there.items())
    first = f", first at {clipped(item.first, 120)}" if item.first else ""
    return f"F lacks {clipped(op, 120)} ({where}{first}){_because(item)}"


def _because(item: NotCounted) -> str:
    return f": {clipped(item.reason)}" if item.reason else ""


def _of_op(totals: Totals | None, op: str) -> NotCounted | None:
    return None if totals is None else next((item for item in totals.not_counted if item.op == op), None)


def _more_calls(of: Totals, than: Totals) -> list[NotCounted]:
    known = {item.op: item.calls for item in than.not_counted}
    return [item for item in of.not_counted if item.calls > known.get(item.op, 0)]


def _listed(items: list[NotCounted]) -> str:
    shown = ", ".join(f"{clipped(item.op, 120)} ({item.calls})" for item in items[:_LISTED])
    return f"{shown} and {len(items) - _LISTED} more" if len(items) > _LISTED else shown


def _versions(base: str, head: str) -> str:
    """``torch 2.13.0 → 2.14.1``: what both have in front is said once."""
    base, head = clipped(base, 60), clipped(head, 60)
    name, _, version = head.rpartition(" ")
    return f"{base} → {version if name and base.startswith(f'{name} ') else head}"


def _other_dtype(change: OperatorChange) -> bool:
    """Whether an operator in the same place has other dtypes now."""
    return change.what == "changed" and set(_DTYPE.findall(change.base)) != set(_DTYPE.findall(change.head))


def _count(side: SideEvidence, metric: str) -> float | None:
    return next((probe.exact[metric] for probe in side.probes if metric in probe.exact), None)


def _breaks(side: SideEvidence) -> tuple[str, ...]:
    return side.probes[0].breaks if side.probes else ()


def _only_in(these: Iterable[str], those: Iterable[str]) -> list[str]:
    """Which of ``these`` have no counterpart; line numbers do not count, since every edit moves them."""
    known = Counter(_LINE.sub(":", text) for text in those)
    found = []
    for text in these:
        key = _LINE.sub(":", text)
        if known[key]:
            known[key] -= 1
        else:
            found.append(text)
    return found
