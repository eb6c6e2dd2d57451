"""Floor 3, graph. Bytes that one call moves (eager), and the least that a whole step has to move (min).

In: a trace and the definitions of its operators. Out: :class:`Moved` for each call; bytes.

A kernel reads each distinct part of memory among its inputs once and writes its outputs. In place: read and written.
What a definition says of single arguments goes before that rule.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfgate.graph.layout import Region, region, size, union_bytes
from perfgate.graph.operators.definition import Definition, Operands, Parts, words
from perfgate.records.graph import BUFFER, CONSTANT, INTERMEDIATE, Trace

# Arguments that a call without "_" at the end of its name changes and reads: statistics that it keeps.
_KEPT = frozenset(
    words("running_mean running_var running_min running_max scale zero_point noise growth_tracker found_inf qaccum")
)
_WRITTEN_ONLY = re.compile(r"out\d*|output|result|grad_(input|weight|bias)")
# Counters and tables of positions: what a kernel made for this model alone would have built in.
_ADDRESSES = frozenset({"int64"})


@dataclass(frozen=True, slots=True)
class Moved:
    """Bytes of one call by index of value. A value that is looked at only for its sizes is in neither."""

    reads: dict[int, int] = field(default_factory=dict)
    writes: dict[int, int] = field(default_factory=dict)

    @property
    def read(self) -> int:
        """Bytes read."""
        return sum(self.reads.values())

    @property
    def written(self) -> int:
        """Bytes written."""
        return sum(self.writes.values())


class Memory:
    """Sizes and places of a trace's values, worked out once."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.sizes = [size(value) for value in trace.values]
        self.regions = [region(value) for value in trace.values]

    def moved(self, operands: Operands, definition: Definition | None) -> Moved:
        """What one call moves."""
        moved = self._plain(operands, definition)
        if definition is not None and definition.movement is not None:
            try:
                read, written = definition.movement(operands)
            except (KeyError, IndexError, TypeError, ValueError):
                return moved
            return Moved(_spread(moved.reads, read), _spread(moved.writes, written))
        return moved

    def _plain(self, operands: Operands, definition: Definition | None) -> Moved:
        reads_said = _said(definition.reads if definition else None, operands)
        writes_said = _said(definition.writes if definition else None, operands)
        call = operands.call
        changed = set(call.writes)
        reads: dict[int, int] = {}
        writes: dict[int, int] = {}
        for name, indices in call.operands.items():
            for index in indices:
                if index < 0:
                    continue
                written = index in changed or name in writes_said
                if written:
                    amount = writes_said.get(name, self.sizes[index])
                    if amount or name not in writes_said:
                        writes[index] = max(amount, writes.get(index, 0))
                if name in reads_said:
                    if reads_said[name]:
                        reads[index] = max(reads_said[name], reads.get(index, 0))
                elif not (written and _only_written(call.op, name)):
                    reads[index] = self.sizes[index]
        # Written already, or handed on as it came.
        storages = {self.trace.values[index].storage for index in changed}
        same = {index for indices in call.operands.values() for index in indices}
        for place, index in enumerate(call.outputs):
            if index >= 0 and index not in same and self.trace.values[index].storage not in storages:
                amount = writes_said.get(f"out{place}", self.sizes[index])
                if amount or f"out{place}" not in writes_said:
                    writes[index] = amount
        return Moved(self._distinct(reads), self._distinct(writes))

    def _distinct(self, amounts: dict[int, int]) -> dict[int, int]:
        """The same elements seen twice (a matrix and its transpose) move once."""
        if len(amounts) < 2:
            return amounts
        seen: dict[tuple[object, ...], int] = {}
        kept: dict[int, int] = {}
        for index, amount in amounts.items():
            first = seen.setdefault(self.regions[index].key, index)
            kept[first] = max(amount, kept.get(first, 0))
        return kept

    def least(self, calls: Sequence[Moved], repeats: Sequence[int]) -> int:
        """Bytes of one kernel that does the whole step.

        It reads once what existed before the step and was used, and writes once what outlives the step. Positions
        and counters kept in the model (int64 buffers) cost nothing.
        """
        before: dict[int, list[Region]] = defaultdict(list)
        after: dict[int, list[Region]] = defaultdict(list)
        read: dict[int, int] = defaultdict(int)
        written: dict[int, int] = defaultdict(int)
        for moved, repeat in zip(calls, repeats, strict=True):
            for index, amount in moved.reads.items():
                read[self.regions[index].storage] += amount * repeat
                if self.outside(index):
                    before[self.regions[index].storage].append(self.regions[index])
            for index, amount in moved.writes.items():
                written[self.regions[index].storage] += amount * repeat
                if self.outside(index):
                    after[self.regions[index].storage].append(self.regions[index])
        for index in self.kept():
            after[self.regions[index].storage].append(self.regions[index])
        return _capped(before, read) + _capped(after, written)

    def outside(self, index: int) -> bool:
        """Whether a value existed before the step, as more than a table of positions."""
        value = self.trace.values[index]
        if value.role == INTERMEDIATE:
            return False
        return not (value.role in {BUFFER, CONSTANT} and value.dtype in _ADDRESSES)

    def kept(self) -> Iterable[int]:
        """Values that outlive the step because they were made for that."""
        return (index for index in dict.fromkeys((*self.trace.results, *self.trace.lasting)) if index >= 0)


def _capped(regions: dict[int, list[Region]], moved: dict[int, int]) -> int:
    return sum(min(union_bytes(parts), moved[storage]) for storage, parts in regions.items())


def _said(parts: Parts | None, operands: Operands) -> dict[str, int]:
    if parts is None:
        return {}
    try:
        return parts(operands)
    except (KeyError, IndexError, TypeError, ValueError):
        return {}


def _only_written(op: str, name: str) -> bool:
    """Whether an argument that a call changes is an output by its place: ``out=`` and its kin."""
    if _WRITTEN_ONLY.fullmatch(name):
        return True
    return op.startswith("aten::") and not op.endswith("_") and name not in _KEPT


def _spread(amounts: dict[int, int], total: int) -> dict[int, int]:
    """Parts that come to ``total``; what differs from the plain rule is put down to the largest parts."""
    left = total - sum(amounts.values())
    result = dict(amounts)
    for index in sorted(amounts, key=lambda index: -amounts[index]):
        new = max(0, result[index] + left)
        left -= new - result[index]
        result[index] = new
        if not left:
            break
    return {index: amount for index, amount in result.items() if amount}
