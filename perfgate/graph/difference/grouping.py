"""Floor 3, graph. Edits into findings: equal ones under one pattern, causes before what follows from them.

In: edits with their causes, and times. Out: :class:`Cause` s, most important first: a finding and those behind it.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass, replace

from perfgate.graph.difference.attribution import Times
from perfgate.graph.difference.causes import RECOMPUTED, clusters
from perfgate.graph.difference.edits import ADDED, CHANGED, REMOVED, Edit
from perfgate.graph.difference.labels import label
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.patterns import ANY, listed, pattern
from perfgate.graph.difference.repeats import ONCE_MORE
from perfgate.graph.difference.rewiring import REWIRED
from perfgate.graph.difference.tensors import ARROW
from perfgate.graph.difference.weighing import estimate, main, moved, worked
from perfgate.records.graph import FORWARD, Operator, OperatorChange

_TEXTS = 4
# Lines that operators of any kind may share.
_SHARED = frozenset({RECOMPUTED, ONCE_MORE, REWIRED})
# A time is told apart from noise at this many times its spread.
_CERTAIN = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """``change`` and what ordering needs: ``noise`` of its time in ns, ``weight``: estimated part of base's step."""

    change: OperatorChange
    noise: float = 0.0
    weight: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Findings of one cause, its own first. ``following``: operators that follow from it."""

    findings: tuple[Finding, ...]
    own: int = 1

    @property
    def following(self) -> int:
        """Operators that changed because of it."""
        return sum(finding.change.count for finding in self.findings[self.own :])

    @property
    def weight(self) -> float:
        """Estimated part of base's step, head minus base."""
        return sum(finding.weight for finding in self.findings)

    @property
    def time_ns(self) -> float | None:
        """Time of all of it; None where a part of it that weighs something was not profiled."""
        known = [finding.change.time_ns for finding in self.findings]
        return sum(time for time in known if time is not None) if known[0] is not None else None

    @property
    def noise(self) -> float:
        """Spread of ``time_ns`` in ns."""
        return math.sqrt(sum(finding.noise**2 for finding in self.findings))

    @property
    def certain(self) -> bool:
        """Whether its time stands out from noise."""
        return self.time_ns is not None and abs(self.time_ns) > _CERTAIN * self.noise


def group(found: Matching, edits: Sequence[Edit], root: Sequence[int], times: Times | None) -> list[Cause]:
    """All causes in order of their first place."""
    grouping = _Grouping(found, edits, times)
    merged: dict[Hashable, list[list[int]]] = defaultdict(list)
    for cause, members in clusters(root).items():
        merged[grouping.kind(cause)].append(members)
    causes = []
    for together in merged.values():
        causes_here = [members[0] for members in together]
        rest = sorted(number for members in together for number in members[1:])
        causes.append(grouping.cause(causes_here, rest))
    return causes


class _Grouping:
    def __init__(self, found: Matching, edits: Sequence[Edit], times: Times | None) -> None:
        self._found = found
        self._edits = edits
        self._times = times
        self._whole = sum(map(estimate, found.base)) or 1.0

    def kind(self, number: int) -> Hashable:
        """What edits have in common that are one finding."""
        edit = self._edits[number]
        if edit.lines and (edit.what == CHANGED or edit.lines[0] in _SHARED):
            return edit.what, edit.phase, edit.lines
        # Casts are one finding whatever their dtypes: those of all are told.
        own = self._op(edit), edit.sizes if edit.what == CHANGED else () if edit.passing else edit.lines
        return edit.what, edit.phase, *own

    def _op(self, edit: Edit) -> str:
        return self._main(edit).op

    def _main(self, edit: Edit) -> Operator:
        here = [self._found.head[j] for j in edit.head] or [self._found.base[i] for i in edit.base]
        return main(here)

    def cause(self, own: list[int], rest: list[int]) -> Cause:
        """Findings of causes of one kind and of what follows from them."""
        kind = self.kind(own[0])
        alike = [number for number in rest if self.kind(number) == kind]
        first = self._joined(own, alike) if self._edits[own[0]].lines else None
        taken = {*own, *(alike if first else ())}
        mine = [first] if first else self._apart(own)
        behind: dict[Hashable, list[int]] = defaultdict(list)
        for number in rest:
            if number not in taken:
                behind[self._loosely(number)].append(number)
        others = [finding for numbers in behind.values() for finding in self._apart(numbers)]
        others.sort(key=_importance, reverse=True)
        return Cause(findings=(*mine, *others), own=len(mine))

    def _loosely(self, number: int) -> Hashable:
        """As :meth:`kind`, but followers are one whatever their sizes are."""
        edit = self._edits[number]
        if edit.what == CHANGED:
            return edit.what, edit.phase, edit.lines, None if edit.lines else self._op(edit)
        return edit.what, edit.phase, self._op(edit)

    def _joined(self, own: list[int], alike: list[int]) -> Finding | None:
        """One finding for a cause and what changed in the same way, where one name covers them."""
        numbers = sorted({*own, *alike})
        names = [self._edits[number].name for number in numbers]
        ops = {self._op(self._edits[number]) for number in numbers}
        name = pattern(names, inside=len(ops) > 1)
        if name == ANY or self._has_a_name(own):
            return None
        return self._finding(name, [*own, *(number for number in alike if number not in own)])

    def _has_a_name(self, own: list[int]) -> bool:
        """Whether several causes have a name among themselves, which says more than that of all that follows."""
        edits = [self._edits[number] for number in own]
        if len(own) == 1 or edits[0].lines[0] in _SHARED:
            return False
        return len({*map(self._op, edits)}) == 1 and pattern([edit.name for edit in edits]) != ANY

    def _apart(self, numbers: list[int]) -> list[Finding]:
        """One finding for each operator; names without anything in common are listed."""
        by_op: dict[Hashable, list[int]] = defaultdict(list)
        for number in numbers:
            edit = self._edits[number]
            by_op[(self._op(edit), edit.lines if edit.what == CHANGED else ())].append(number)
        return [self._finding(listed([self._edits[n].name for n in same]), same) for same in by_op.values()]

    def _finding(self, name: str, numbers: list[int]) -> Finding:
        edits = [self._edits[number] for number in numbers]
        first = edits[0]
        chief = self._main(first)
        base = [self._found.base[i] for edit in edits for i in edit.base]
        head = [self._found.head[j] for edit in edits for j in edit.head]
        known = [] if self._times is None else [self._times.edits[number] for number in numbers]
        timed = [time for time in known if time is not None]
        noise = 0.0 if self._times is None else math.hypot(*(self._times.noise[number] for number in numbers))
        change = OperatorChange(
            what=first.what,
            name=name,
            op=chief.op,
            kind=chief.kind,
            count=sum(_count(edit) for edit in edits),
            phase=first.phase,
            how=_how(edits),
            base=_texts(self._found.base, first.base),
            head=_texts(self._found.head, first.head),
            flop=_flop(head) - _flop(base),
            bytes=_bytes(head) - _bytes(base),
            calls=_calls(head) - _calls(base),
            time_ns=sum(timed) if timed else None,
        )
        weight = (sum(map(estimate, head)) - sum(map(estimate, base))) / self._whole
        return Finding(change=change, noise=noise, weight=weight)


def _count(edit: Edit) -> int:
    return {ADDED: len(edit.head), REMOVED: len(edit.base)}.get(edit.what, 1)


def _how(edits: Sequence[Edit]) -> tuple[str, ...]:
    """Lines that all of them have; sizes only where they are the same, for one alone both."""
    first = edits[0]
    lines = first.lines if all(edit.lines == first.lines for edit in edits) else ()
    if first.what != CHANGED and all(edit.passing for edit in edits):
        lines = tuple(dict.fromkeys(line for edit in edits for line in edit.lines if ARROW in line)) or lines
    sizes = first.sizes if all(edit.sizes == first.sizes for edit in edits) else ()
    told = (*lines, *sizes)
    if told or first.what != CHANGED:
        return told
    return (f"{first.sizes[-1]}, …",) if first.sizes else ()


def _texts(side: Sequence[Operator], indices: Sequence[int]) -> str:
    """An example: ``float32[1,3,8,8], float32[4,3,3,3] → float32[1,4,6,6]`` of one operator, names of several."""
    if not indices:
        return ""
    if len(indices) > 1:
        return label([side[index] for index in indices])
    operator = side[indices[0]]
    return f"{_short(operator.inputs)}{ARROW}{_short(operator.outputs)}"


def _short(texts: Sequence[str]) -> str:
    return ", ".join(texts[:_TEXTS]) + (", …" if len(texts) > _TEXTS else "")


def _flop(operators: Iterable[Operator]) -> int:
    return sum(map(worked, operators))


def _bytes(operators: Iterable[Operator]) -> int:
    return sum(map(moved, operators))


def _calls(operators: Iterable[Operator]) -> int:
    return sum(operator.repeat for operator in operators)


def _importance(finding: Finding) -> tuple[bool, float]:
    time = finding.change.time_ns
    forward = finding.change.phase == FORWARD
    return forward, abs(finding.weight) if time is None else abs(time)


def with_shares(causes: Sequence[Cause], times: Times | None) -> list[Cause]:
    """Each time as a part of the whole change; together they never claim more than there is to explain.

    Where all times together leave the limits of the whole change, those that go that way are scaled down. A share is
    None where it is lost in noise, goes the other way, or the whole change is not known.
    """
    if times is None:
        return list(causes)
    found = [finding.change.time_ns or 0.0 for cause in causes for finding in cause.findings]
    more, less = sum(time for time in found if time > 0), sum(time for time in found if time < 0)
    low, high = times.limits
    up = max(0.0, high - less) / more if more and more + less > high else 1.0
    down = min(0.0, low - more) / less if less and more + less < low else 1.0
    whole = times.whole

    def told(finding: Finding) -> Finding:
        time = finding.change.time_ns
        if time is None:
            return finding
        factor = up if time > 0 else down
        time, noise = time * factor, finding.noise * factor
        certain = whole is not None and time * whole > 0 and abs(time) > _CERTAIN * noise
        share = min(1.0, time / whole) if certain and whole else None
        return replace(finding, change=replace(finding.change, time_ns=time, share=share), noise=noise)

    return [replace(cause, findings=tuple(map(told, cause.findings))) for cause in causes]
