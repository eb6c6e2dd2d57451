"""Floor 3, graph. A trace in, counted operators out; pure.

In: :class:`Trace`, and formulas that the user wrote for custom operators. Out: :class:`Graph`. F comes from ``work``,
bytes from ``traffic`` and ``fusion``, groups of kernels from ``kernels``, edges from ``flow``, names from ``naming``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet

from perfgate.graph import kernels, naming
from perfgate.graph.fingerprint import fingerprint
from perfgate.graph.flow import Flow, follow
from perfgate.graph.fusion import Fused, fuse
from perfgate.graph.layout import describe
from perfgate.graph.operators import table
from perfgate.graph.operators.definition import Operands
from perfgate.graph.traffic import Memory, Moved
from perfgate.graph.work import Work, parse, work
from perfgate.records.graph import (
    BUFFER,
    INPUT,
    PARAMETER,
    Graph,
    NotCounted,
    Operator,
    Share,
    Totals,
    Trace,
    Traffic,
    Value,
)

_NAMED = frozenset({PARAMETER, BUFFER, INPUT})


def build(trace: Trace, formulas: Mapping[str, str] | None = None) -> Graph:
    """Count a trace. ``formulas``: operator -> FLOP of one call as text of :mod:`perfgate.expressions`.

    Raises ValueError where a formula is none; one that does not fit a call is a reason in ``not_counted``.
    """
    parsed = parse(formulas or {})
    memory = Memory(trace)
    works: list[Work] = []
    moves: list[Moved] = []
    for call in trace.calls:
        operands = Operands(trace, call)
        definition = table.lookup(call.op)
        works.append(work(operands, definition, parsed))
        moves.append(memory.moved(operands, definition))
    flow = follow(memory, moves)
    steady = kernels.steady(memory, works, moves)
    fused = fuse(memory, [one.kind for one in works], moves, flow, steady)
    names = naming.names(trace.calls)
    operators = _operators(trace, names, works, moves, flow, fused)
    step = kernels.Step(memory, names, works, moves)
    return Graph(totals=_totals(trace, operators, step, fused, steady), operators=operators)


def _operators(
    trace: Trace,
    names: Sequence[str],
    works: Sequence[Work],
    moves: Sequence[Moved],
    flow: Flow,
    fused: Fused,
) -> tuple[Operator, ...]:
    texts = [describe(value) for value in trace.values]
    layouts = [_layout(value, text) for value, text in zip(trace.values, texts, strict=True)]
    origins = [value.name if value.role in _NAMED else "" for value in trace.values]
    found = []
    for number, call in enumerate(trace.calls):
        inputs = [index for indices in call.operands.values() for index in indices if index >= 0]
        found.append(
            Operator(
                name=names[number],
                op=call.op,
                kind=works[number].kind,
                module=call.module,
                phase=call.phase,
                inputs=tuple(texts[index] for index in inputs),
                outputs=tuple(texts[index] for index in call.outputs if index >= 0),
                flop=works[number].flop,
                read_bytes=moves[number].read,
                written_bytes=moves[number].written,
                sources=flow.sources(number),
                signature=naming.signature(call, layouts),
                fused=fused.kernel[number],
                repeat=call.repeat,
                attributes=naming.attributes(call),
                origins=tuple(origins[index] for index in inputs),
                module_class=call.module_class,
                group=call.group,
            )
        )
    return tuple(found)


def _layout(value: Value, text: str) -> str:
    """What a signature tells of a value: strides where they are not those of a contiguous tensor."""
    packed = "" if value.logical is None else f" logical {value.logical}"
    strides = f" {value.strides}" if " " in text else ""
    return f"{text}{strides}{packed} {value.bits} {value.device}"


def _totals(
    trace: Trace,
    operators: Sequence[Operator],
    step: kernels.Step,
    fused: Fused,
    steady: Sequence[AbstractSet[int]],
) -> Totals:
    works, moves = step.works, step.moves
    repeats = [call.repeat for call in trace.calls]
    eager = sum((one.read + one.written) * repeat for one, repeat in zip(moves, repeats, strict=True))
    least = step.memory.least(moves, repeats)
    alone = kernels.eager(step, steady, fused)
    return Totals(
        source=trace.source,
        flop=sum((operator.flop or 0) * operator.repeat for operator in operators),
        params=trace.parameters,
        weight_bytes=trace.weight_bytes,
        traffic=Traffic(eager=eager, fused=min(max(fused.bytes, least), eager), min=least),
        kernels=sum(repeats),
        fingerprint=fingerprint(trace),
        peak_activation_bytes=trace.peak_bytes,
        not_counted=_not_counted(operators, works),
        kinds=_kinds(operators),
        batch=trace.batch,
        software=trace.software,
        notes=tuple(dict.fromkeys((*trace.notes, *trace.untraced, *(one.note for one in works if one.note)))),
        eager_kernels=alone,
        # Fusion that would move more than no fusion is none.
        fused_kernels=kernels.fused(step, fused) if fused.bytes <= eager else alone,
    )


def _not_counted(operators: Sequence[Operator], works: Sequence[Work]) -> tuple[NotCounted, ...]:
    """One entry for each operator, in order of appearance, with the first place and its reason."""
    first: dict[str, tuple[str, str]] = {}
    calls: dict[str, int] = {}
    for operator, one in zip(operators, works, strict=True):
        if operator.flop is None:
            first.setdefault(operator.op, (operator.name, one.reason))
            calls[operator.op] = calls.get(operator.op, 0) + operator.repeat
    return tuple(NotCounted(op=op, calls=calls[op], first=name, reason=reason) for op, (name, reason) in first.items())


def _kinds(operators: Sequence[Operator]) -> dict[str, Share]:
    """Shares of the kinds, the most traffic first."""
    sums: dict[str, list[int]] = {}
    for operator in operators:
        one = sums.setdefault(operator.kind, [0, 0, 0])
        one[0] += operator.repeat
        one[1] += (operator.flop or 0) * operator.repeat
        one[2] += (operator.read_bytes + operator.written_bytes) * operator.repeat
    order = sorted(sums, key=lambda kind: (-sums[kind][2], kind))
    return {kind: Share(calls=sums[kind][0], flop=sums[kind][1], bytes=sums[kind][2]) for kind in order}
