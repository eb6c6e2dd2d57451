"""Floor 3, graph. From the walk's records to the trace.

In: a :class:`Recorder` and the graph's outputs. Out: :class:`Trace`: roles settled, values that nobody uses left out,
elements and bytes of the weights, the largest sum of live tensors.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict

from perfgate.graph.layout import size
from perfgate.graph.onnx.elements import bits, number
from perfgate.graph.onnx.known import Known
from perfgate.graph.onnx.recording import Recorder, Storage, settled_role
from perfgate.records.graph import INTERMEDIATE, ONNX, PARAMETER, Call, Trace, Value

_WEIGHTS = "weights are those of the file: exporters fold and copy them, so compare them with other ONNX files only"
_SHOWN = 3


def finish(recorder: Recorder, outputs: list[Known], *, batch: int, software: str, notes: list[str]) -> Trace:
    """The trace of everything that was recorded."""
    results = [index for known in outputs if (index := recorder.index(known)) >= 0]
    values, calls, results = _compact(recorder, results)
    lasting = tuple(dict.fromkeys(index for index in results if values[index].role == INTERMEDIATE))
    elements, stored = _weights(recorder.storages)
    return Trace(
        source=ONNX,
        values=tuple(values),
        calls=tuple(calls),
        parameters=elements,
        weight_bytes=stored,
        results=tuple(results),
        lasting=lasting,
        peak_bytes=None if recorder.open else _peak(values, calls, results),
        batch=batch,
        software=software,
        notes=(*notes, *dict.fromkeys(recorder.notes), *_open(recorder), *([_WEIGHTS] if elements else [])),
    )


def _open(recorder: Recorder) -> list[str]:
    if not recorder.open:
        return []
    first = "; ".join(recorder.open[:_SHOWN])
    more = f"; and {len(recorder.open) - _SHOWN} more" if len(recorder.open) > _SHOWN else ""
    return [f"sizes that cannot be told before the model runs count as 1 ({first}{more})"]


def _compact(recorder: Recorder, results: list[int]) -> tuple[list[Value], list[Call], list[int]]:
    """Values in order of first use, numbered anew, and their storages too."""
    new: dict[int, int] = {}
    storages: dict[int, int] = {}
    values: list[Value] = []

    def moved(index: int) -> int:
        if index < 0:
            return -1
        if index not in new:
            new[index] = len(values)
            old = recorder.values[index]
            storage = recorder.storages[old.storage]
            storage.recorded = True
            place = storages.setdefault(old.storage, len(storages))
            value = dataclasses.replace(old, storage=place, role=settled_role(storage))
            if storage.bits:
                value = dataclasses.replace(value, bits=storage.bits, logical=storage.logical)
            values.append(value)
        return new[index]

    calls = [
        dataclasses.replace(
            call,
            operands={name: tuple(map(moved, given)) for name, given in call.operands.items()},
            outputs=tuple(map(moved, call.outputs)),
        )
        for call in recorder.calls
    ]
    return values, calls, [moved(index) for index in results]


def _weights(storages: list[Storage]) -> tuple[int, int]:
    """Elements of all weights, used or not, and bytes of these and of the constants that operators read."""
    elements = stored = 0
    for storage in storages:
        if storage.role != PARAMETER:
            continue
        is_weight = settled_role(storage) == PARAMETER
        count = storage.logical if storage.bits else storage.elements
        width = storage.bits or bits(number(storage.dtype) or 0)
        if is_weight:
            elements += count
        if is_weight or (storage.recorded and storage.elements > 1):
            stored += (count * width + 7) // 8
    return elements, stored


def _peak(values: list[Value], calls: list[Call], results: list[int]) -> int:
    """Largest sum of bytes of tensors made in the step: each lives from its first writer to its last reader."""
    sizes: dict[int, int] = defaultdict(int)
    for value in values:
        if value.role == INTERMEDIATE:
            sizes[value.storage] = max(sizes[value.storage], size(value))
    born: dict[int, int] = {}
    dies: dict[int, int] = {}
    for position, call in enumerate(calls):
        for index in (*(index for given in call.operands.values() for index in given), *call.outputs):
            storage = values[index].storage if index >= 0 else -1
            if storage in sizes:
                born.setdefault(storage, position)
                dies[storage] = position
    for index in results:
        dies[values[index].storage] = len(calls)
    change = [0] * (len(calls) + 2)
    for storage, start in born.items():
        change[start] += sizes[storage]
        change[dies[storage] + 1] -= sizes[storage]
    alive = peak = 0
    for step in change:
        alive += step
        peak = max(peak, alive)
    return peak
