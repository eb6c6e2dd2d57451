"""Floor 3, graph. What a pull request did to a model: base's graph against head's, most important finding first.

In: two graphs, and the profiles of both sides where there are any. Out: ``records.graph.Difference``.

Map: ``matching`` pairs operators, ``edits`` says what was done place by place, ``causes`` tells causes from what
follows, ``attribution`` gives times, ``grouping`` makes findings, ``wording`` sentences.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate import units
from perfgate.graph.difference.attribution import PYTHON, Drift, Measured, Times, attribute
from perfgate.graph.difference.causes import roots
from perfgate.graph.difference.edits import Edit, find
from perfgate.graph.difference.grouping import Cause, Finding, group, with_shares
from perfgate.graph.difference.matching import Matching, match
from perfgate.graph.difference.opnames import short
from perfgate.graph.difference.patterns import listed
from perfgate.graph.difference.repeats import tell
from perfgate.graph.difference.rewiring import connected, rewired
from perfgate.graph.difference.tensors import ARROW
from perfgate.graph.difference.wording import sentences
from perfgate.records.graph import Difference, Graph, OperatorChange, Profile

SLOWER = "slower"
FASTER = "faster"

# Findings that are kept; the others are only counted.
_KEPT = 50


def compare(
    base: Graph,
    head: Graph,
    *,
    base_profile: Profile | None = None,
    head_profile: Profile | None = None,
    base_step_ns: float | None = None,
    ratio: float | None = None,
    ratio_spread: float = 0.0,
) -> Difference:
    """Compares two graphs; pure moves and renames give an empty difference.

    ``base_step_ns``: base's step as it was measured without profiling; ``ratio``: head's step over base's, None where
    that was not measured; ``ratio_spread``: standard error of its logarithm, so that nothing is said to explain a
    change of the step that may be none. Takes under 2 s for two graphs of 5 000 operators.
    """
    found = match(base, head)
    same = bool(base.totals.fingerprint) and base.totals.fingerprint == head.totals.fingerprint
    edits = [] if same else _edits(found)
    times = None
    if base_profile is not None and head_profile is not None:
        measured = Measured(step_ns=base_step_ns, ratio=ratio, spread=ratio_spread)
        times = attribute(found, edits, base_profile, head_profile, measured)
    causes = group(found, edits, roots(found, edits), times)
    drifts = [] if times is None else _drifts(found, times)
    whole = None if times is None else times.whole
    step = base_step_ns if times is None else times.step
    ordered = _ordered(with_shares([*causes, *drifts], times), whole, step)
    told = sentences(ordered, whole)
    notes = _notes(base, head, same=same)
    if not same and not edits and base.totals.fingerprint and head.totals.fingerprint:
        notes = (*notes, connected(found))
        told = told or notes[-1:]
    changes = [finding.change for cause in ordered for finding in cause.findings]
    return Difference(
        equal=same or (not edits and not (base.totals.fingerprint and head.totals.fingerprint)),
        changes=tuple(changes[:_KEPT]),
        more=max(0, len(changes) - _KEPT),
        flop=head.totals.flop - base.totals.flop,
        bytes=head.totals.traffic.eager - base.totals.traffic.eager,
        kernels=head.totals.kernels - base.totals.kernels,
        notes=notes,
        sentences=told,
    )


def _edits(found: Matching) -> list[Edit]:
    edits = find(found)
    tell(found, edits)
    # Only where no operator differs is it worth a word that one of them reads from elsewhere.
    return edits or rewired(found)


def _drifts(found: Matching, times: Times) -> list[Cause]:
    """Unchanged operators that take another time, equal ones together."""
    together: dict[tuple[str, str, str], list[Drift]] = {}
    for drift in times.drifts:
        # Where a side does not have the place at all, nothing got slower or faster there.
        what = drift.only or (SLOWER if drift.head_ns > drift.base_ns else FASTER)
        together.setdefault((what, drift.op, drift.phase), []).append(drift)
    causes = []
    for (what, op, phase), same in together.items():
        before, after = sum(drift.base_ns for drift in same), sum(drift.head_ns for drift in same)
        first = found.head[same[0].operators[0]] if same[0].operators else None
        change = OperatorChange(
            what=what,
            name=listed([_place(found, drift) for drift in same]),
            op=first.op if first else op,
            kind=first.kind if first else PYTHON if op == PYTHON else "other",
            count=sum(max(1, len(drift.operators)) for drift in same),
            phase=phase,
            how=(f"{units.duration(before)}{ARROW}{units.duration(after)}",) if what in (SLOWER, FASTER) else (),
            time_ns=after - before,
        )
        causes.append(Cause(findings=(Finding(change=change, weight=(after - before) / times.step),)))
    return causes


def _place(found: Matching, drift: Drift) -> str:
    if len(drift.operators) == 1:
        return found.head[drift.operators[0]].name
    return f"{drift.module}/{short(drift.op)}"


def _ordered(causes: Sequence[Cause], whole: float | None, step: float | None) -> list[Cause]:
    """What explains the change of the step first: by time, or by an estimate where there is none."""

    def rank(cause: Cause) -> tuple[bool, float]:
        if not step or cause.time_ns is None:
            return False, -abs(cause.weight)
        if cause.certain:
            # What goes against the whole change does not explain it, however large it is.
            return whole is not None and cause.time_ns * whole < 0, -abs(cause.time_ns / step)
        # A time lost in noise is worth what the estimate says of it, within that noise.
        return False, -abs(_within(cause.weight, cause.noise / step))

    return sorted(causes, key=rank)


def _within(value: float, limit: float) -> float:
    return math.copysign(min(abs(value), limit), value)


def _notes(base: Graph, head: Graph, *, same: bool) -> tuple[str, ...]:
    notes = []
    one, other = base.totals, head.totals
    if one.source != other.source:
        notes.append(
            f"base was traced from {one.source}, head from {other.source}: operators may differ for that alone"
        )
    if one.software != other.software and not same:
        told = f"{one.software or 'unknown'}{ARROW}{other.software or 'unknown'}"
        notes.append(f"operators may be made of others with {told}")
    return tuple(notes)
