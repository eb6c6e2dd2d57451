"""Floor 3, graph. Bytes that ONNX operators move where "all inputs read, all outputs written" is wrong.

In: :class:`Operands`. Out: (bytes read, bytes written) of one call.
"""

from __future__ import annotations

from perfgate.graph.operators.definition import Movement, Operands
from perfgate.graph.operators.onnx_sizes import bytes_of, bytes_out, elements
from perfgate.records.graph import Value


def nothing(operands: Operands) -> tuple[int, int]:  # noqa: ARG001 - the signature of movements
    """Only the shape is asked for, or the contents stay where they are."""
    return 0, 0


def written_only(operands: Operands) -> tuple[int, int]:
    """Values come from attributes, a shape or a generator."""
    return 0, bytes_out(operands)


def part_read(*tables: str) -> Movement:
    """Of the operands ``tables`` as much is read as is written; all others (indices) are read whole."""

    def movement(operands: Operands) -> tuple[int, int]:
        written = bytes_out(operands)
        others = bytes_of(operands, *(name for name in operands.call.operands if name not in tables))
        return written + others, written

    return movement


def rows_unpacked(operands: Operands) -> tuple[int, int]:
    """Rows of a quantised table ``data``: as many elements as the output has, at the table's own bits."""
    return _rows(operands, operands.value("data")) + bytes_of(operands, "indices"), bytes_out(operands)


def embeddings(operands: Operands) -> tuple[int, int]:
    """``EmbedLayerNormalization``: a row of each table for every token; all else (indices, mask, gains) whole."""
    words = ("word_embedding", "position_embedding", "segment_embedding")
    tables = [name for name in operands.call.operands if name.removesuffix("_quant") in words]
    rows = sum(_rows(operands, operands.value(name)) for name in tables)
    others = bytes_of(operands, *(name for name in operands.call.operands if name not in tables))
    return rows + others, bytes_out(operands)


def _rows(operands: Operands, table: Value | None) -> int:
    """Bytes of as many elements of ``table`` as the first output has; 0 where sizes are not known."""
    index = operands.call.outputs[0] if operands.call.outputs else -1
    if table is None or index < 0:
        return 0
    return (elements(operands.trace.values[index]) * table.bits + 7) // 8
