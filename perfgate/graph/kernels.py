"""Floor 3, graph. The kernels of a step as groups of equal ones: what a roofline is applied to.

In: calls with their work, what each moves, and how chains fuse. Out: the two lists of :class:`KernelGroup` of a
:class:`Totals`; sums over either are exactly those of the step.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace

from perfgate.graph.fusion import Fused
from perfgate.graph.layout import elements
from perfgate.graph.operators.definition import (
    ATTENTION,
    CAST,
    CONVOLUTION,
    COPY,
    EMBEDDING,
    GATHER,
    MATMUL,
    RNN,
    SCATTER,
)
from perfgate.graph.traffic import Memory, Moved
from perfgate.graph.work import Work
from perfgate.records.graph import BACKWARD, BUFFER, OPTIMIZER, PARAMETER, Call, KernelGroup, Value

# Groups in one list; what is beyond is averaged. Times by the roofline then change by at most half a percent.
MOST = 200
# Of these, groups that stay as they are, those with the most bytes; the rest is averaged with what is like it.
_KEPT = 100

_PRODUCTS = frozenset({MATMUL, CONVOLUTION, ATTENTION, RNN})
# What they read of a table grows with the number of items.
_ROWS = frozenset({EMBEDDING, GATHER, SCATTER})
_SMALL_INTEGERS = frozenset({"int8", "uint8", "qint8", "quint8"})
_FLOATING = ("float", "bfloat", "complex")
# The call that devices have one kernel for, and an operator that only its plain form has.
_ATTENTION_CALL = "scaled_dot_product_attention"
_SAFE_SOFTMAX = "aten::_safe_softmax"
_REAL = {"complex32": "float16", "complex64": "float32", "complex128": "float64"}

# Kind, dtype, phase, F, bytes, bytes written, bytes of weights.
_Key = tuple[str, str, str, int, int, int, int]
# With how often it happens, and the number of the call that it began with.
_Kernel = tuple[_Key, int, int]


@dataclass(frozen=True, slots=True)
class Step:
    """A counted step. ``names``, ``works`` and ``moves`` belong to its calls in order."""

    memory: Memory
    names: Sequence[str]
    works: Sequence[Work]
    moves: Sequence[Moved]

    @property
    def calls(self) -> Sequence[Call]:
        """The calls, in order."""
        return self.memory.trace.calls


def eager(step: Step, steady: Sequence[AbstractSet[int]], kernels: Fused) -> tuple[KernelGroup, ...]:
    """Each operator a kernel of its own, as torch runs them without a compiler. What nobody can count has F 0.

    Sums are F and the eager traffic, but for attention: a trace has ``scaled_dot_product_attention`` in plain
    products and M counts these, while every device has one kernel for it, which is what a time follows from.
    """
    one_kernel = _run_as_one(step, kernels)
    return _gathered(step.names, (*_alone(step, steady, kernels, one_kernel), *_joined(step, kernels, one_kernel)))


def fused(step: Step, kernels: Fused) -> tuple[KernelGroup, ...]:
    """Chains joined: each kernel with the F of all its members and the bytes that ``fusion`` found.

    These are its bytes as they are, so their sum may lie a little outside of ``Traffic.fused``, which is held
    between min and eager. A kernel of fused attention is one of attention, whatever operator it began with.
    """
    return _gathered(step.names, _joined(step, kernels, kernels.moved.keys()))


def steady(memory: Memory, works: Sequence[Work], moves: Sequence[Moved]) -> list[AbstractSet[int]]:
    """For each call the values that it reads or writes whose bytes do not grow with the batch.

    Parameters and buffers (not the rows that a lookup takes from them), what is made of nothing else, as a
    parameter's cast is, their gradients with what these are cast from, and all that an optimizer moves.
    """
    sizes = [elements(value) for value in memory.trace.values]
    storages = _from_weights(memory, works, moves, sizes) | _gradients(memory, works, moves, sizes)
    own = {index for index, value in enumerate(memory.trace.values) if _lasting(value) or value.storage in storages}
    found: list[AbstractSet[int]] = []
    for call, work, moved in zip(memory.trace.calls, works, moves, strict=True):
        reads, writes = moved.reads.keys(), moved.writes.keys()
        if call.phase == OPTIMIZER:
            found.append(reads | writes)
        elif work.kind in _ROWS:
            found.append((own & writes) - reads if call.phase == BACKWARD else frozenset())
        else:
            found.append((own & reads) | (own & writes))
    return found


def _from_weights(memory: Memory, works: Sequence[Work], moves: Sequence[Moved], sizes: Sequence[int]) -> set[int]:
    """Storages that are written from parameters and buffers alone, and are no larger than these."""
    values = memory.trace.values
    found: set[int] = set()
    for work, moved in zip(works, moves, strict=True):
        if not moved.reads or work.kind in _ROWS:
            continue
        if all(_lasting(values[index]) or values[index].storage in found for index in moved.reads):
            largest = max(sizes[index] for index in moved.reads)
            made = [index for index in moved.writes if not _lasting(values[index])]
            found.update(values[index].storage for index in made if sizes[index] <= largest)
        elif found:
            found.difference_update([values[index].storage for index in moved.writes])
    return found


def _lasting(value: Value) -> bool:
    return value.role in {PARAMETER, BUFFER}


def _gradients(memory: Memory, works: Sequence[Work], moves: Sequence[Moved], sizes: Sequence[int]) -> set[int]:
    """Storages of the parameters' gradients: of a parameter's size, made in the backward pass, and of use after it."""
    trace = memory.trace
    wanted_sizes = {sizes[index] for index, value in enumerate(trace.values) if value.role == PARAMETER}
    wanted = {trace.values[index].storage for index in trace.lasting if index >= 0}
    for call, moved in zip(trace.calls, moves, strict=True):
        if call.phase == OPTIMIZER:
            wanted.update(trace.values[index].storage for index in moved.reads)
    found: set[int] = set()
    for call, work, moved in zip(reversed(trace.calls), reversed(works), reversed(moves), strict=True):
        if call.phase != BACKWARD:
            continue
        made = [index for index in moved.writes if not _lasting(trace.values[index])]
        here = {trace.values[index].storage for index in made if sizes[index] in wanted_sizes} & wanted
        found |= here
        if here and work.kind in {CAST, COPY}:
            # What a gradient is cast from is one as well.
            wanted.update(trace.values[index].storage for index in moved.reads)
    return found


def _run_as_one(step: Step, kernels: Fused) -> AbstractSet[int]:
    """Kernels of fused attention that need no compiler: those of calls of torch's own attention function."""
    groups = {call.group for call in step.calls if call.op == _SAFE_SOFTMAX}
    flashes = ((number, step.calls[number].group) for number, moved in kernels.moved.items() if moved.flash)
    return {
        number for number, group in flashes if group in groups or group.rpartition("/")[2].startswith(_ATTENTION_CALL)
    }


def _alone(step: Step, steady: Sequence[AbstractSet[int]], kernels: Fused, but: AbstractSet[int]) -> Iterator[_Kernel]:
    """The calls one by one, without those of the kernels ``but``."""
    values = step.memory.trace.values
    for number, call in enumerate(step.calls):
        if kernels.kernel[number] in but:
            continue
        moved, work = step.moves[number], step.works[number]
        reads, writes = moved.reads, moved.writes
        written = sum(writes.values())
        fixed = sum([reads.get(index, 0) + writes.get(index, 0) for index in steady[number]])
        dtype = _dtype(values, call, work.kind)
        key = (work.kind, dtype, call.phase, work.flop or 0, sum(reads.values()) + written, written, fixed)
        yield key, call.repeat, number


def _joined(step: Step, kernels: Fused, which: AbstractSet[int]) -> Iterator[_Kernel]:
    """The kernels ``which`` with all their members."""
    values = step.memory.trace.values
    flop: dict[int, int] = defaultdict(int)
    product: dict[int, int] = {}
    for number, kernel in enumerate(kernels.kernel):
        own = step.works[number].flop
        if own and kernel in which:
            flop[kernel] += own
            product.setdefault(kernel, number)
    narrow = _narrowest(step) if any(kernels.moved[number].flash for number in which) else {}
    for number, moved in kernels.moved.items():
        if number not in which:
            continue
        call = step.calls[number]
        # All members of a kernel happen equally often.
        repeat = call.repeat
        counted = product.get(number, number)
        kind = ATTENTION if moved.flash else step.works[number].kind
        dtype = _dtype(values, step.calls[counted], step.works[counted].kind)
        if moved.flash:
            dtype = narrow.get((call.group, call.phase), dtype)
        size, written = (moved.read + moved.written) // repeat, moved.written // repeat
        yield (kind, dtype, call.phase, flop[number], size, written, moved.steady // repeat), repeat, number


def _narrowest(step: Step) -> dict[tuple[str, str], str]:
    """Of each composite call and phase the narrowest floating-point type.

    Plain products of a trace are computed in float32 where a fused kernel takes halves as they are.
    """
    values = step.memory.trace.values
    found: dict[tuple[str, str], Value] = {}
    for call in step.calls:
        if not call.group:
            continue
        for indices in (*call.operands.values(), call.outputs):
            for value in (values[index] for index in indices if index >= 0):
                known = found.get((call.group, call.phase))
                if value.dtype.startswith(_FLOATING) and (known is None or value.bits < known.bits):
                    found[call.group, call.phase] = value
    return {key: _REAL.get(value.dtype, value.dtype) for key, value in found.items()}


def _dtype(values: Sequence[Value], call: Call, kind: str) -> str:
    """What a call computes in: its first floating-point tensor's type; ``int8`` for products of small integers."""
    first = ""
    quantises = kind in _PRODUCTS and "dynamic" in call.op.lower()
    if kind in _PRODUCTS and "fp16" in call.op:
        return "float16"
    for indices in (*call.operands.values(), call.outputs):
        for index in indices:
            if index < 0:
                continue
            name = values[index].dtype
            # Some operators quantise their activations on the way, and are given floats.
            if quantises or (not first and name in _SMALL_INTEGERS and kind in _PRODUCTS):
                return "int8"
            if name.startswith(_FLOATING):
                return _REAL.get(name, name)
            first = first or name
    return first or "float32"


def _gathered(names: Sequence[str], kernels: Iterable[_Kernel]) -> tuple[KernelGroup, ...]:
    first: dict[_Key, int] = {}
    calls: dict[_Key, int] = defaultdict(int)
    for key, repeat, number in kernels:
        first.setdefault(key, number)
        calls[key] += repeat
    groups = [_group(names[number], key, calls[key]) for key, number in first.items()]
    groups.sort(key=_order)
    width = 0.5
    kept = groups
    # Beyond 64 octaves nothing more is alike: then what is left are other kinds and dtypes.
    while len(kept) > MOST and width <= 64:
        kept = [*groups[:_KEPT], *_averaged(groups[_KEPT:], width)]
        width *= 2
    return tuple(sorted(kept, key=_order))


def _group(name: str, key: _Key, calls: int) -> KernelGroup:
    kind, dtype, phase, flop, size, written, fixed = key
    return KernelGroup(
        name=name,
        kind=kind,
        dtype=dtype,
        flop=flop,
        bytes=size,
        calls=calls,
        phase=phase,
        written_bytes=written,
        weight_bytes=fixed,
    )


def _order(group: KernelGroup) -> tuple[int, int, str]:
    return -group.bytes * group.calls, -group.flop * group.calls, group.name


def _averaged(groups: Sequence[KernelGroup], width: float) -> Iterator[KernelGroup]:
    """Groups of one kind, dtype and phase whose intensity and size are within ``width`` octaves, as one.

    Its figures are rounded down, and a second group with one call has what that leaves: sums stay exact.
    """
    buckets: dict[tuple[object, ...], list[KernelGroup]] = defaultdict(list)
    for one in groups:
        size = round(math.log2(max(1, one.bytes)) / width)
        intensity = round(math.log2(one.flop / max(1, one.bytes)) / width) if one.flop else None
        buckets[one.kind, one.dtype, one.phase, size, intensity].append(one)
    for alike in buckets.values():
        yield from alike if len(alike) < 3 else _mean(alike)


def _mean(groups: Sequence[KernelGroup]) -> Iterator[KernelGroup]:
    calls = sum(one.calls for one in groups)
    sums = {
        name: sum(getattr(one, name) * one.calls for one in groups)
        for name in ("flop", "bytes", "written_bytes", "weight_bytes")
    }
    each = {name: total // calls for name, total in sums.items()}
    rest = {name: sums[name] - (calls - 1) * each[name] for name in sums}
    if rest == each:
        yield replace(groups[0], calls=calls, **each)
        return
    yield replace(groups[0], calls=calls - 1, **each)
    yield replace(groups[-1], calls=1, **rest)
