"""Floor 3, graph. Which operators share a kernel when chains are fused, and the bytes that then move.

In: calls with their kinds, what each moves, and the flow between them. Out: :class:`Fused`.

A pointwise operator, a cast, a normalisation, a softmax, a reduction or a dropout joins the kernel of the latest of the
operators that it reads from. Since a kernel only ever reads from kernels that began before it, kernels can be run in
the order of their beginnings. A composite attention call of several operators is one flash kernel.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field

from perfgate.graph.flow import OUTSIDE, Flow
from perfgate.graph.layout import numel
from perfgate.graph.operators.definition import (
    CAST,
    CONVOLUTION,
    COPY,
    EMBEDDING,
    FILL,
    GATHER,
    MATMUL,
    NORMALIZATION,
    POINTWISE,
    POOLING,
    RANDOM,
    REDUCTION,
    SOFTMAX,
)
from perfgate.graph.traffic import Memory, Moved
from perfgate.records.graph import BACKWARD, FORWARD

_JOINS = frozenset({POINTWISE, CAST, NORMALIZATION, SOFTMAX, REDUCTION, RANDOM})
_CAN_BE_JOINED = _JOINS | {MATMUL, CONVOLUTION, POOLING, EMBEDDING, GATHER, COPY, FILL}
_FLASHABLE = _JOINS | {MATMUL, COPY, FILL, GATHER}
# Composite calls that are one kernel, and those that have such a call inside.
_FLASH = ("scaled_dot_product_attention", "flex_attention")
_AROUND = "multi_head_attention_forward"
_BYTES_OF_LOGSUMEXP = 4


@dataclass(frozen=True, slots=True)
class Fused:
    """``kernel[c]``: number of the call whose kernel call ``c`` shares. ``bytes``: traffic of all kernels.

    ``moved``: that of each kernel, by the number of the call that it began with, all repetitions together.
    """

    kernel: tuple[int, ...]
    bytes: int
    moved: Mapping[int, KernelMoved] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class KernelMoved:
    """Bytes of one kernel; ``steady``: part of both that does not grow with the batch. ``flash``: fused attention."""

    read: int
    written: int
    steady: int = 0
    flash: bool = False


@dataclass(slots=True)
class _Flash:
    """One composite attention call in one phase: ``members`` ascending, ``queries`` rows of all items and heads."""

    members: tuple[int, ...]
    phase: str
    queries: int = 0
    partner: _Flash | None = None


@dataclass(slots=True)
class _Kernel:
    reads: dict[tuple[object, ...], int] = field(default_factory=dict)
    written: int = 0
    steady_reads: set[tuple[object, ...]] = field(default_factory=set)
    steady_written: int = 0


def fuse(
    memory: Memory,
    kinds: Sequence[str],
    calls: Sequence[Moved],
    flow: Flow,
    steady: Sequence[AbstractSet[int]] = (),
) -> Fused:
    """The kernels of a step, and their traffic.

    ``steady``: for each call the values whose bytes do not grow with the batch; empty: none.
    """
    fixed = steady or [frozenset[int]()] * len(calls)
    flashes = _flashes(memory, kinds)
    inside = {member: flash for flash in flashes for member in flash.members}
    kernel = _kernels(memory, kinds, flow, inside)
    kernels: dict[int, _Kernel] = defaultdict(_Kernel)
    for number, moved in enumerate(calls):
        own = kernels[kernel[number]]
        repeat = memory.trace.calls[number].repeat
        hidden = _hidden(inside.get(number))
        for index, amount in moved.reads.items():
            producers = flow.producers[number].get(index, ())
            if producers and all(_within(producer, kernel, kernel[number], hidden) for producer in producers):
                continue
            key = (memory.regions[index].key, producers)
            own.reads[key] = max(own.reads.get(key, 0), amount * repeat)
            if index in fixed[number]:
                own.steady_reads.add(key)
        for index, amount in moved.writes.items():
            if _wanted(number, index, kernel, flow, hidden, memory):
                own.written += amount * repeat
                own.steady_written += amount * repeat * (index in fixed[number])
    for flash in flashes:
        _complete(flash, kernels, memory, calls)
    begun = {flash.members[0] for flash in flashes}
    moved_by = {number: _moved(one, flash=number in begun) for number, one in kernels.items()}
    return Fused(kernel, sum(one.read + one.written for one in moved_by.values()), moved_by)


def _moved(kernel: _Kernel, *, flash: bool) -> KernelMoved:
    steady = sum(kernel.reads[key] for key in kernel.steady_reads) + kernel.steady_written
    return KernelMoved(sum(kernel.reads.values()), kernel.written, steady, flash)


def _within(producer: int, kernel: Sequence[int], own: int, hidden: frozenset[int]) -> bool:
    return producer != OUTSIDE and (kernel[producer] == own or producer in hidden)


def _kernels(memory: Memory, kinds: Sequence[str], flow: Flow, inside: dict[int, _Flash]) -> tuple[int, ...]:
    kernel: list[int] = []
    for number, call in enumerate(memory.trace.calls):
        flash = inside.get(number)
        if flash is not None:
            kernel.append(flash.members[0])
            continue
        kernel.append(number)
        if kinds[number] not in _JOINS:
            continue
        producers = flow.sources(number)
        if not producers:
            continue
        latest = max(kernel[producer] for producer in producers)
        first = memory.trace.calls[latest]
        joinable = latest not in inside and kinds[latest] in _CAN_BE_JOINED
        if joinable and first.phase == call.phase and first.repeat == call.repeat:
            kernel[number] = latest
    return tuple(kernel)


def _wanted(number: int, index: int, kernel: Sequence[int], flow: Flow, hidden: frozenset[int], memory: Memory) -> bool:
    """Whether something outside of the kernel needs what a call wrote."""
    if (number, index) in flow.last:
        return True
    where = memory.regions[index]
    return any(
        kernel[reader] != kernel[number] and reader not in hidden and memory.regions[read].overlaps(where)
        for reader, read in flow.readers[number]
    )


def _hidden(flash: _Flash | None) -> frozenset[int]:
    """Calls of the other pass of the same attention: a flash kernel hands over no matrix of scores."""
    return frozenset(flash.partner.members) if flash is not None and flash.partner is not None else frozenset()


def _complete(flash: _Flash, kernels: dict[int, _Kernel], memory: Memory, calls: Sequence[Moved]) -> None:
    """What a flash kernel moves besides: forward it writes the logarithm of each row's sum of exponentials.

    Backward it reads these, the output, and queries, keys and values again, since no scores were kept.
    """
    own = kernels[flash.members[0]]
    rows = flash.queries * _BYTES_OF_LOGSUMEXP
    if flash.phase == FORWARD:
        own.written += rows
        return
    if flash.partner is None:
        return
    for key, amount in kernels[flash.partner.members[0]].reads.items():
        own.reads.setdefault(key, amount)
    products = [member for member in flash.partner.members if calls[member].writes]
    output = sum(calls[products[-1]].writes.values()) if products else 0
    own.reads["statistics", memory.trace.calls[flash.members[0]].group] = rows + output


def _flashes(memory: Memory, kinds: Sequence[str]) -> list[_Flash]:
    """Composite attention calls of several operators, in both phases."""
    groups: dict[tuple[str, str], list[int]] = defaultdict(list)
    for number, call in enumerate(memory.trace.calls):
        if call.group and call.repeat == 1 and call.phase in {FORWARD, BACKWARD}:
            groups[call.group, call.phase].append(number)
    found: dict[tuple[str, str], _Flash] = {}
    for (group, phase), numbers in groups.items():
        innermost = group.rpartition("/")[2]
        members = tuple(numbers)
        if innermost.startswith(_AROUND):
            members = _core(numbers, kinds, products=1 if phase == FORWARD else 2)
        elif not innermost.startswith(_FLASH):
            continue
        whole = len(members) > 1 and _FLASHABLE.issuperset(kinds[number] for number in members)
        # Only what no foreign call comes between can run as one.
        if whole and members[-1] - members[0] == len(members) - 1:
            found[group, phase] = _Flash(members, phase, _queries(members, kinds, memory))
    for (group, phase), flash in found.items():
        flash.partner = found.get((group, BACKWARD if phase == FORWARD else FORWARD))
    return list(found.values())


def _core(numbers: list[int], kinds: Sequence[str], *, products: int) -> tuple[int, ...]:
    """What is attention in a multi-head attention call: from the products before its one softmax to those after it."""
    centres = [place for place, number in enumerate(numbers) if kinds[number] == SOFTMAX]
    if len(centres) != 1:
        return ()
    before = [place for place in range(centres[0]) if kinds[numbers[place]] == MATMUL][-products:]
    after = [place for place in range(centres[0], len(numbers)) if kinds[numbers[place]] == MATMUL][:products]
    if len(before) != products or len(after) != products:
        return ()
    return tuple(numbers[before[0] : after[-1] + 1])


def _queries(members: tuple[int, ...], kinds: Sequence[str], memory: Memory) -> int:
    for number in members:
        outputs = memory.trace.calls[number].outputs
        if kinds[number] == SOFTMAX and outputs and outputs[0] >= 0:
            return numel(memory.trace.values[outputs[0]].shape[:-1])
    return 0
