"""Traces written down by hand, for tests of counting."""

from __future__ import annotations

from functools import cache
from typing import Any

import pytest

from perfgate.graph.build import build
from perfgate.graph.operators import table
from perfgate.graph.operators.definition import Operands
from perfgate.graph.work import Work, work
from perfgate.records.graph import INTERMEDIATE, META, Call, Graph, Operator, Trace, Value

BITS = {"float32": 32, "float16": 16, "bfloat16": 16, "int64": 64, "int32": 32, "int8": 8, "uint8": 8, "bool": 8,
        "complex64": 64, "float8_e4m3fn": 8, "float64": 64, "quint8": 8, "qint8": 8}  # fmt: skip


class Book:
    """Values and calls in order; ``call`` takes operands as indices (or lists of them) and attributes by name."""

    def __init__(self) -> None:
        self.values: list[Value] = []
        self.calls: list[Call] = []

    def value(self, *shape: int, dtype: str = "float32", role: str = INTERMEDIATE, **more: Any) -> int:
        storage = more.pop("storage", len(self.values))
        bits = more.pop("bits", BITS[dtype])
        self.values.append(Value(shape=shape, dtype=dtype, role=role, storage=storage, bits=bits, **more))
        return len(self.values) - 1

    def call(
        self, op: str, operands: dict[str, Any], outputs: tuple[int, ...] | int = (), *, writes=(), **more: Any
    ) -> int:
        """``more``: fields of :class:`Call`, all else is an attribute of the operator."""
        fields = {name: more.pop(name) for name in ("module", "phase", "group", "repeat", "overload") if name in more}
        found = {name: (given,) if isinstance(given, int) else tuple(given) for name, given in operands.items()}
        self.calls.append(
            Call(
                op=op,
                operands=found,
                attributes=more.pop("attributes", more),
                outputs=(outputs,) if isinstance(outputs, int) else outputs,
                writes=tuple(writes),
                **fields,
            )
        )
        return len(self.calls) - 1

    def trace(self, results: tuple[int, ...] = (), lasting: tuple[int, ...] = (), **more: Any) -> Trace:
        return Trace(
            source=META, values=tuple(self.values), calls=tuple(self.calls), results=results, lasting=lasting, **more
        )

    def graph(self, results: tuple[int, ...] = (), lasting: tuple[int, ...] = ()) -> Graph:
        return build(self.trace(results, lasting))


@cache
def _arguments() -> dict[str, set[str]]:
    """Argument names of every operator of the torch that is installed, over all its overloads."""
    torch = pytest.importorskip("torch")
    pytest.importorskip("torchvision")
    found: dict[str, set[str]] = {}
    for schema in torch._C._jit_get_all_schemas():
        found.setdefault(schema.name, set()).update(argument.name for argument in schema.arguments)
    return found


def worked(op: str, shapes: dict[str, Any], *outs: tuple[int, ...], dtype: str = "float32", **attributes: Any) -> Work:
    """Kind and FLOP of one call, from the shapes of its operands (a list of shapes for a list argument).

    Names of operands have to be those of torch's own schema; attributes that it does not have are left away.
    """
    known = _arguments().get(op, {*shapes, *attributes})
    assert known >= {*shapes}
    attributes = {name: value for name, value in attributes.items() if name in known}
    book = Book()
    operands = {
        name: [book.value(*one, dtype=dtype) for one in given]
        if isinstance(given, list)
        else book.value(*given, dtype=dtype)
        for name, given in shapes.items()
        if given is not None
    }
    book.call(op, operands, tuple(book.value(*out, dtype=dtype) for out in outs), attributes=attributes)
    trace = book.trace()
    return work(Operands(trace, trace.calls[0]), table.lookup(op), {})


def flop(op: str, shapes: dict[str, Any], *outs: tuple[int, ...], **attributes: Any) -> int | None:
    """FLOP of one call; see :func:`worked`."""
    return worked(op, shapes, *outs, **attributes).flop


def named(graph: Graph, name: str) -> Operator:
    """The operator of that name."""
    return next(operator for operator in graph.operators if operator.name == name)


def ops(graph: Graph, op: str) -> list[Operator]:
    """All operators ``aten::op``."""
    return [operator for operator in graph.operators if operator.op == f"aten::{op}"]
