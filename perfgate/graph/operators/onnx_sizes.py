"""Floor 3, graph. What formulas of ONNX operators ask of a call: sizes that have to be known, and bytes.

In: :class:`Operands` by the schema's formal names. Out: sizes, elements, bytes. An operand that the call has but
whose size depends on data has -1 for it in the trace; asking raises ValueError with the sentence for ``not counted``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from perfgate.graph.layout import elements, size
from perfgate.graph.operators.definition import Formula, Operands, Shape
from perfgate.records.graph import Value


def given(operands: Operands, name: str) -> bool:
    """Whether the call has this optional operand, of known size or not."""
    return name in operands.call.operands


def value(operands: Operands, name: str) -> Value:
    """The operand ``name``. Raises ValueError where it is absent or of unknown size."""
    found = operands.value(name)
    if found is None and not given(operands, name):
        msg = f"{name} is not given"
        raise ValueError(msg)
    if found is None or any(size < 0 for size in found.shape):
        msg = f"the sizes of {name!r} depend on data"
        raise ValueError(msg)
    return found


def shape(operands: Operands, name: str) -> Shape:
    """Sizes of the operand ``name``. Raises ValueError as :func:`value`."""
    return value(operands, name).shape


def first(operands: Operands, *names: str) -> Shape:
    """Sizes of the first of ``names`` that the call has: one formula for operators that name operands differently."""
    for name in names:
        if given(operands, name):
            return shape(operands, name)
    return shape(operands, names[0])


def out(operands: Operands, index: int = 0) -> Shape:
    """Sizes of an output. Raises ValueError where they are not known."""
    try:
        return operands.out(index)
    except KeyError:
        msg = "the sizes of its output depend on data"
        raise ValueError(msg) from None


def byte_size(found: Value | None) -> int:
    """Bytes of a tensor in memory; 0 where it is absent."""
    return 0 if found is None else size(found)


def bytes_of(operands: Operands, *names: str) -> int:
    """Bytes of all tensors given under ``names``."""
    return sum(byte_size(found) for name in names for found in operands.values(name))


def bytes_out(operands: Operands) -> int:
    """Bytes of all outputs."""
    return sum(byte_size(operands.trace.values[index]) for index in operands.call.outputs if index >= 0)


def length(attribute: object) -> int:
    """Entries of a list attribute, also of one too long to be kept (see ``graph.onnx.attributes``)."""
    if isinstance(attribute, (list, tuple)):
        return len(attribute)
    if isinstance(attribute, dict) and isinstance(attribute.get("length"), int):
        return int(attribute["length"])
    return 0


def bounded_by(why: Mapping[str, str]) -> Callable[[Operands], str]:
    """A note for calls that have one of the operands or attributes ``why``: what makes their count an upper bound."""

    def note(operands: Operands) -> str:
        for name, reason in why.items():
            if given(operands, name) or operands.attribute(name):
                return f"{operands.call.op} {reason} (upper bound)"
        return ""

    return note


def unknown(reason: str) -> Formula:
    """A formula for work that is matmul-like but cannot be told: always ValueError with ``reason``."""

    def formula(operands: Operands) -> int:  # noqa: ARG001 - the signature of formulas
        raise ValueError(reason)

    return formula


__all__ = [
    "bounded_by",
    "byte_size",
    "bytes_of",
    "bytes_out",
    "elements",
    "first",
    "given",
    "length",
    "out",
    "shape",
    "unknown",
    "value",
]
