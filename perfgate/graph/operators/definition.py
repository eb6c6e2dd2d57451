"""Floor 3, graph. What a definition of an operator is, and how its formulas see a call.

In: a trace and one of its calls. Out: :class:`Operands`, which formulas read by argument name.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfgate.graph.layout import size
from perfgate.records.graph import Call, Trace, Value

Shape = tuple[int, ...]

# Kinds of operators. Only the first four have matmul-like FLOP.
MATMUL = "matmul"
CONVOLUTION = "convolution"
ATTENTION = "attention"
RNN = "rnn"
POINTWISE = "pointwise"
NORMALIZATION = "normalization"
SOFTMAX = "softmax"
POOLING = "pooling"
REDUCTION = "reduction"
EMBEDDING = "embedding"
GATHER = "gather"
SCATTER = "scatter"
COPY = "copy"
FILL = "fill"  # written without reading: zeros, arange
CAST = "cast"
RANDOM = "random"
SORT = "sort"
SYNC = "sync"  # the host waits for a value (`.item()`)
TRANSFER = "transfer"  # between devices
OTHER = "other"
CUSTOM = "custom"  # an operator that perfgate does not know


def words(text: str) -> tuple[str, ...]:
    """Names, written one after another."""
    return tuple(text.split())


class Operands:
    """One call's tensors and arguments by name."""

    def __init__(self, trace: Trace, call: Call) -> None:
        self.trace = trace
        self.call = call

    def value(self, name: str, index: int = 0) -> Value | None:
        """The tensor given as argument ``name`` (number ``index`` of a list); None where there is none."""
        found = self.call.operands.get(name, ())
        if index >= len(found) or found[index] < 0:
            return None
        return self.trace.values[found[index]]

    def values(self, name: str) -> tuple[Value, ...]:
        """All tensors of a list argument that are there."""
        return tuple(self.trace.values[index] for index in self.call.operands.get(name, ()) if index >= 0)

    def shape(self, name: str, index: int = 0) -> Shape:
        """Sizes of a tensor that has to be there. Raises KeyError, or ValueError where a size is not known."""
        return _known(self.value(name, index), name)

    def out(self, index: int = 0) -> Shape:
        """Sizes of output ``index``. Raises KeyError where it is absent, ValueError where a size is not known."""
        outputs = self.call.outputs
        there = index < len(outputs) and outputs[index] >= 0
        return _known(self.trace.values[outputs[index]] if there else None, f"out{index}")

    def attribute(self, name: str, default: Any = None) -> Any:
        """An argument that is no tensor."""
        return self.call.attributes.get(name, default)

    def numel(self, name: str, index: int = 0) -> int:
        """Logical elements of a tensor, expanded dimensions in full. Raises as :meth:`shape`."""
        value = self.value(name, index)
        if value is not None and value.logical is not None:
            return value.logical
        return math.prod(_known(value, name))

    def numel_out(self, index: int = 0) -> int:
        """Elements of output ``index``. Raises as :meth:`out`."""
        return math.prod(self.out(index))

    def bytes_in(self, name: str) -> int:
        """Bytes of an argument in memory; 0 where it is absent."""
        return sum(size(value) for value in self.values(name))

    def bytes_out(self, index: int = 0) -> int:
        """Bytes of output ``index``; 0 where it is absent."""
        outputs = self.call.outputs
        if index >= len(outputs) or outputs[index] < 0:
            return 0
        return size(self.trace.values[outputs[index]])

    def rows(self, name: str, count: int) -> int:
        """Bytes of ``count`` elements of argument ``name``, the same one twice if it is looked up twice."""
        value = self.value(name)
        return 0 if value is None else (count * value.bits + 7) // 8


def _known(value: Value | None, name: str) -> Shape:
    if value is None:
        raise KeyError(name)
    if any(extent < 0 for extent in value.shape):
        msg = f"the sizes of {name!r} depend on data"
        raise ValueError(msg)
    return value.shape


# FLOP (2 x MAC) of one call. A KeyError, IndexError, TypeError or ValueError means that it cannot be told.
Formula = Callable[[Operands], int]
# Bytes (read, written) of one call where "all inputs read, all outputs written" is wrong.
Movement = Callable[[Operands], tuple[int, int]]
# Bytes of single arguments (by name; ``out0`` for an output) where only these are not moved whole.
Parts = Callable[[Operands], dict[str, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What is known of one operator.

    Attributes:
        kind: See the constants above; ``kind_of`` tells it for one call where that depends on the call.
        flop: None: no matmul-like work.
        movement: Bytes of the whole call; None: the plain rule, with ``reads`` and ``writes``.
        reads: Bytes read of arguments that are not read whole; 0: not looked at.
        writes: Bytes written of arguments and outputs that are not written whole, also of arguments that the call
            changes though its schema does not say so; 0: not written.
        note: A sentence on how exact this call's count is, or empty.
    """

    kind: str
    flop: Formula | None = None
    movement: Movement | None = None
    reads: Parts | None = None
    writes: Parts | None = None
    kind_of: Callable[[Operands], str] | None = None
    note: Callable[[Operands], str] | None = None
