"""Floor 3, graph. One hash of what a step computes, whatever its parts are called.

In: a trace. Out: 64 hexadecimal digits, equal for equal graphs and only for those.

The trace becomes a graph of *states*: what a storage holds after its last writer (single assignment, so that
writes in place keep their order and reads between them see the right contents). Calls are then put in a canonical
order and written down with edges as ordinal numbers; the hash of that text is the fingerprint. The text tells the
graph completely, so two different graphs never agree. The canonical order comes from labels that see the whole
ancestry and the whole posterity of a call (Weisfeiler-Lehman refinement on a directed acyclic graph), so the order of
independent calls does not matter, save between calls that only a full test of isomorphism could tell apart.
"""

from __future__ import annotations

import hashlib
import heapq
import json
from collections import Counter
from dataclasses import dataclass, field

from perfgate.records.graph import Call, Trace, Value

# A call that reads more unnumbered outside tensors than this (a fused optimizer) is not ranked anew by each of them.
_MAX_OUTSIDE = 64


def fingerprint(trace: Trace) -> str:
    """Hash of operators, attributes, shapes, dtypes, layouts, edges and results; not of names or contents.

    Linear in the number of operands but for sorting. The same text in every process and on every machine.
    """
    states = _States(trace)
    labels = _labels(states)
    return _written(states, _canonical(states, labels))


@dataclass(slots=True)
class _State:
    """Contents of one storage between two writes. ``producer`` -1: there before the step."""

    producer: int
    slot: bytes
    readers: list[tuple[int, bytes]] = field(default_factory=list)
    results: list[bytes] = field(default_factory=list)


class _States:
    """The trace as calls that read and make states.

    ``static[c]``: what a call is without its edges. ``reads[c]``: (slot with layout, state) sorted by slot.
    ``made[c]``: states that it makes.
    """

    def __init__(self, trace: Trace) -> None:
        self._values = trace.values
        self._layouts = [_layout(value) for value in trace.values]
        self._current: dict[int, int] = {}
        self.states: list[_State] = []
        self.static: list[bytes] = []
        self.reads: list[list[tuple[bytes, int]]] = []
        self.made: list[list[int]] = []
        for number, call in enumerate(trace.calls):
            self._add(number, call)
        self.results: list[tuple[bytes, int]] = []
        for position, index in enumerate(trace.results):
            place = b"%d;" % position
            if index < 0:
                self.results.append((place, -1))
                continue
            state = self._state(index)
            self.states[state].results.append(place + self._layouts[index])
            self.results.append((place + self._layouts[index], state))

    def _add(self, number: int, call: Call) -> None:
        absent, slots = self._read(number, call)
        made: list[int] = []
        ranks: dict[int, int] = {}
        places: list[bytes] = []
        for index in call.writes:
            written = b"write " + slots.get(index, self._layouts[index])
            rank = ranks.setdefault(self._values[index].storage, len(made))
            places.append(b"%d %s" % (rank, written))
            if rank == len(made):
                made.append(self._make(index, number, written))
        for position, index in enumerate(call.outputs):
            if index < 0:
                places.append(b"out[%d] absent" % position)
                continue
            given = b"out[%d] " % position + self._layouts[index]
            rank = ranks.setdefault(self._values[index].storage, len(made))
            places.append(b"%d %s" % (rank, given))
            if rank == len(made):
                # An operator that hands a tensor on has still made it what later readers see.
                made.append(self._make(index, number, given))
        self.static.append(_static(call, absent, places))
        self.made.append(made)

    def _read(self, number: int, call: Call) -> tuple[list[str], dict[int, bytes]]:
        absent: list[str] = []
        slots: dict[int, bytes] = {}
        reads: list[tuple[bytes, int]] = []
        for name in sorted(call.operands):
            for position, index in enumerate(call.operands[name]):
                place = f"{name}[{position}]"
                if index < 0:
                    absent.append(place)
                    continue
                slot = place.encode("utf-8", "surrogatepass") + b" " + self._layouts[index]
                slots.setdefault(index, slot)
                state = self._state(index)
                self.states[state].readers.append((number, slot))
                reads.append((slot, state))
        self.reads.append(reads)
        return absent, slots

    def _state(self, index: int) -> int:
        value = self._values[index]
        found = self._current.get(value.storage)
        return self._make(index, -1, value.role.encode()) if found is None else found

    def _make(self, index: int, producer: int, slot: bytes) -> int:
        self.states.append(_State(producer, slot))
        self._current[self._values[index].storage] = len(self.states) - 1
        return len(self.states) - 1


def _static(call: Call, absent: list[str], places: list[bytes]) -> bytes:
    attributes = json.dumps(call.attributes, sort_keys=True, separators=(",", ":"), default=str)
    # Numbers of composite calls only count them: the kind is what tells a fused attention from its parts.
    composite = call.group.rpartition("#")[0] or call.group
    head = (call.op, call.overload, call.phase, composite, str(call.repeat), attributes, *absent)
    return _hash(*(part.encode("utf-8", "surrogatepass") for part in head), *places)


def _layout(value: Value) -> bytes:
    """Dtype, sizes and place in the storage. Strides that no element is reached by are all the same."""
    strides = value.strides or _contiguous(value.shape)
    hollow = 0 in value.shape
    seen = tuple(0 if hollow or size == 1 else stride for size, stride in zip(value.shape, strides, strict=False))
    text = f"{value.dtype} {value.shape} {seen} {value.offset} {value.bits} {value.logical} {value.device}"
    return text.encode("utf-8", "surrogatepass")


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= max(size, 1)
    return tuple(reversed(strides))


def _hash(*parts: bytes) -> bytes:
    digest = hashlib.blake2b(digest_size=16)
    for part in parts:
        # Lengths keep "ab" + "c" from being "a" + "bc".
        digest.update(b"%d:" % len(part))
        digest.update(part)
    return digest.digest()


def _labels(states: _States) -> list[bytes]:
    """One label a call: equal for calls that stand alike in the graph, by ancestry and by posterity."""
    count = len(states.static)
    outside = [state.slot for state in states.states]
    up = _ancestry(states, outside)
    down: list[bytes] = [b""] * count
    for number in range(count - 1, -1, -1):
        parts = [states.static[number]]
        for made in states.made[number]:
            state = states.states[made]
            used = sorted(_hash(down[reader], slot) for reader, slot in state.readers)
            parts += (state.slot, *used, *sorted(state.results), b"/")
        down[number] = _hash(*parts)
    # A tensor from outside is known by who reads it: that is what tells tied weights from untied ones.
    for index, state in enumerate(states.states):
        if state.producer < 0:
            used = sorted(_hash(up[reader], down[reader], slot) for reader, slot in state.readers)
            outside[index] = _hash(state.slot, *used, *sorted(state.results))
    up = _ancestry(states, outside)
    return [_hash(up[number], down[number]) for number in range(count)]


def _ancestry(states: _States, outside: list[bytes]) -> list[bytes]:
    up: list[bytes] = []
    for number, static in enumerate(states.static):
        parts = [static]
        for slot, index in states.reads[number]:
            state = states.states[index]
            parts += (slot, outside[index]) if state.producer < 0 else (slot, up[state.producer], state.slot)
        up.append(_hash(*parts))
    return up


class _Order:
    """Topological order by label, then by the numbers of what a call reads; the order of execution breaks ties."""

    def __init__(self, states: _States, labels: list[bytes]) -> None:
        self._states = states
        self._labels = labels
        self._common = Counter(labels)
        self._place: dict[int, int] = {}
        self._outside: dict[int, int] = {}
        self._heap: list[tuple[bytes, tuple[int, ...], int]] = []
        sources = [
            {state.producer for _, index in reads if (state := states.states[index]).producer >= 0}
            for reads in states.reads
        ]
        self._waiting = [len(found) for found in sources]
        self._followers: list[list[int]] = [[] for _ in labels]
        for number, found in enumerate(sources):
            for source in found:
                self._followers[source].append(number)

    def calls(self) -> list[int]:
        for number, waiting in enumerate(self._waiting):
            if not waiting:
                self._push(number)
        order: list[int] = []
        while self._heap:
            _, _, number = heapq.heappop(self._heap)
            if number in self._place:
                continue
            self._place[number] = len(order)
            order.append(number)
            self._number_outside(number)
            for follower in self._followers[number]:
                self._waiting[follower] -= 1
                if not self._waiting[follower]:
                    self._push(follower)
        return order

    def _push(self, number: int) -> None:
        heapq.heappush(self._heap, (self._labels[number], self._numbers(number), number))

    def _numbers(self, number: int) -> tuple[int, ...]:
        if self._common[self._labels[number]] == 1:
            return ()
        unknown = len(self._states.states)
        found: list[int] = []
        for _, index in self._states.reads[number]:
            producer = self._states.states[index].producer
            found.append(self._place[producer] if producer >= 0 else self._outside.get(index, unknown))
        return tuple(found)

    def _number_outside(self, number: int) -> None:
        fresh = []
        for _, index in self._states.reads[number]:
            if self._states.states[index].producer < 0 and index not in self._outside:
                self._outside[index] = len(self._outside)
                fresh.append(index)
        if len(fresh) > _MAX_OUTSIDE:
            return
        for index in fresh:
            # Calls like this one that share the tensor now come before those that do not.
            for reader, _ in self._states.states[index].readers:
                ready = not self._waiting[reader] and reader not in self._place
                if ready and self._common[self._labels[reader]] > 1:
                    self._push(reader)


def _canonical(states: _States, labels: list[bytes]) -> list[int]:
    return _Order(states, labels).calls()


def _written(states: _States, order: list[int]) -> str:
    """SHA-256 of the graph with calls in ``order`` and edges as numbers."""
    digest = hashlib.sha256()
    numbers: dict[int, bytes] = {}
    outside = 0

    def number(index: int) -> bytes:
        nonlocal outside
        if index not in numbers:
            numbers[index] = b"outside %d %s" % (outside, states.states[index].slot)
            outside += 1
        return numbers[index]

    for place, call in enumerate(order):
        digest.update(b"call %d %s\n" % (place, states.static[call]))
        for slot, index in states.reads[call]:
            digest.update(b"%s < %s\n" % (slot, number(index)))
        for rank, index in enumerate(states.made[call]):
            numbers[index] = b"made %d.%d" % (place, rank)
    for slot, index in states.results:
        digest.update(b"result %s < %s\n" % (slot, b"none" if index < 0 else number(index)))
    return digest.hexdigest()
