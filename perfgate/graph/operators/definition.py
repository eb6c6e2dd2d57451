"""Floor 3, graph. What a definition of an operator is, and how its formulas see a call.

In: a trace and one of its calls. Out: :class:`Operands`, which formulas read by argument name.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

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
CAST = "cast"
RANDOM = "random"
SORT = "sort"
SYNC = "sync"  # the host waits for a value (`.item()`)
TRANSFER = "transfer"  # between devices
OTHER = "other"
CUSTOM = "custom"  # an operator that perfgate does not know


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
        """Sizes of a tensor that has to be there. Raises KeyError."""
        found = self.value(name, index)
        if found is None:
            raise KeyError(name)
        return found.shape

    def out(self, index: int = 0) -> Shape:
        """Sizes of output ``index``. Raises KeyError where it is absent."""
        if index >= len(self.call.outputs) or self.call.outputs[index] < 0:
            name = f"out{index}"
            raise KeyError(name)
        return self.trace.values[self.call.outputs[index]].shape

    def attribute(self, name: str, default: Any = None) -> Any:
        """An argument that is no tensor."""
        return self.call.attributes.get(name, default)


# FLOP (2 x MAC) of one call. A KeyError, IndexError, TypeError or ValueError means that it cannot be told.
Formula = Callable[[Operands], int]
# Bytes (read, written) of one call where "all inputs read, all outputs written" is wrong.
Movement = Callable[[Operands], tuple[int, int]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Definition:
    """What is known of one operator. ``flop`` None: no matmul-like work; ``movement`` None: the plain rule."""

    kind: str
    flop: Formula | None = None
    movement: Movement | None = None
