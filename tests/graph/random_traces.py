"""Random traces for property tests, and changes that leave their graph as it is."""

from __future__ import annotations

import random
from dataclasses import replace

from hypothesis import strategies as st

from perfgate.records.graph import INPUT, META, PARAMETER, Call, Trace, Value

OPS = ("aten::add", "aten::mul", "aten::relu", "aten::mm")
SHAPES = ((4, 4), (2, 8), (16,))


@st.composite
def traces(draw, largest: int = 14) -> Trace:
    """A trace in which every call reads earlier tensors, some through views, and some write in place."""
    values: list[Value] = []
    for number in range(draw(st.integers(1, 4))):
        role, name = draw(st.sampled_from((INPUT, PARAMETER))), f"outside{number}"
        values.append(replace(_tensor(draw(st.sampled_from(SHAPES))), storage=number, role=role, name=name))
    whole = list(range(len(values)))
    calls: list[Call] = []
    for number in range(draw(st.integers(1, largest))):
        operands: dict[str, tuple[int, ...]] = {"self": (draw(_read(values, whole)),)}
        if draw(st.booleans()):
            operands["other"] = (draw(_read(values, whole)),)
        op, attributes = draw(st.sampled_from(OPS)), {"alpha": draw(st.integers(1, 2))}
        call = Call(op=op, module=f"layer{number % 3}", operands=operands, attributes=attributes)
        if draw(st.integers(0, 4)) == 0:
            calls.append(replace(call, op=f"{op}_", outputs=operands["self"], writes=operands["self"]))
            continue
        values.append(replace(_tensor(draw(st.sampled_from(SHAPES))), storage=100 + len(values)))
        calls.append(replace(call, outputs=(len(values) - 1,)))
        whole.append(len(values) - 1)
    results = draw(st.lists(st.sampled_from(whole), min_size=1, max_size=2))
    return Trace(source=META, values=tuple(values), calls=tuple(calls), results=tuple(results))


def _tensor(shape: tuple[int, ...] = SHAPES[0]) -> Value:
    return Value(shape=shape, dtype="float32", storage=0)


@st.composite
def _read(draw, values: list[Value], whole: list[int]) -> int:
    index: int = draw(st.sampled_from(whole))
    if draw(st.integers(0, 4)):
        return index
    values.append(replace(values[index], shape=(2,), strides=(1,), offset=draw(st.integers(0, 2))))
    return len(values) - 1


def relabelled(trace: Trace, seed: int) -> Trace:
    """Other names, other numbers of storages and values, another order of independent calls: the same graph."""
    chance = random.Random(seed)
    fresh = list(range(1000, 1000 + len(trace.values)))
    chance.shuffle(fresh)
    storages = dict(zip(sorted({value.storage for value in trace.values}), fresh, strict=False))
    moved = list(range(len(trace.values)))
    chance.shuffle(moved)
    place = {old: new for new, old in enumerate(moved)}
    values = [
        replace(
            trace.values[old],
            storage=storages[trace.values[old].storage],
            name=f"renamed{old}" if trace.values[old].name else "",
        )
        for old in moved
    ]

    def at(indices: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(place[index] if index >= 0 else index for index in indices)

    calls = [
        replace(
            call,
            module=f"wrapped.{call.module}",
            operands={name: at(found) for name, found in reversed(call.operands.items())},
            attributes=dict(reversed(call.attributes.items())),
            outputs=at(call.outputs),
            writes=at(call.writes),
        )
        for call in reordered(trace, chance)
    ]
    return replace(trace, values=tuple(values), calls=tuple(calls), results=at(trace.results))


def reordered(trace: Trace, chance: random.Random) -> list[Call]:
    """The calls in another order in which every call still sees what it saw."""
    storage = [value.storage for value in trace.values]
    before: list[set[int]] = []
    readers: dict[int, set[int]] = {}
    writer: dict[int, int] = {}
    for number, call in enumerate(trace.calls):
        reads = {storage[index] for found in call.operands.values() for index in found if index >= 0}
        writes = {storage[index] for index in (*call.writes, *call.outputs) if index >= 0}
        needed = {writer[key] for key in reads | writes if key in writer}
        for key in writes:
            needed |= readers.get(key, set())
        before.append(needed - {number})
        for key in reads:
            readers.setdefault(key, set()).add(number)
        for key in writes:
            writer[key] = number
            readers[key] = set()
    done: set[int] = set()
    order: list[int] = []
    while len(order) < len(trace.calls):
        ready = [number for number, needed in enumerate(before) if number not in done and needed <= done]
        number = chance.choice(ready)
        done.add(number)
        order.append(number)
    return [trace.calls[number] for number in order]
