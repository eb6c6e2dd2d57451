"""Floor 3, graph. FLOP of an einsum that was not taken apart into products, of torch and of ONNX.

In: the equation and the sizes of its operands. Out: FLOP of contracting them from left to right, two at a time, which
is what torch does without a path optimiser. No better order is searched for: the equation alone gives the figure.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.graph.operators.definition import MATMUL, Definition, Operands, Shape
from perfgate.graph.operators.onnx_fit import agree
from perfgate.graph.operators.onnx_sizes import shape


def flop(equation: str, shapes: Sequence[Shape]) -> int:
    """2 FLOP for every combination of the indices of two operands, where something is summed over.

    Indices that neither a later operand nor the result needs are summed away as soon as they can be. Raises
    ValueError where equation and shapes do not fit.
    """
    terms, result, sizes = _labels(equation, shapes)
    total = 0
    held = terms[0]
    for position, term in enumerate(terms[1:], start=1):
        needed = result.union(*terms[position + 1 :])
        both = held | term
        held = both & needed
        if held != both:
            total += 2 * math.prod(sizes[label] for label in both)
    return total


def _labels(equation: str, shapes: Sequence[Shape]) -> tuple[list[set[str]], set[str], dict[str, int]]:
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(shapes):
        msg = f"the equation {equation!r} does not fit {len(shapes)} tensors"
        raise ValueError(msg)
    rows = [_spell(text, len(given)) for text, given in zip(texts, shapes, strict=True)]
    sizes: dict[str, int] = {}
    for row, given in zip(rows, shapes, strict=True):
        if len(row) != len(given):
            msg = f"the equation {equation!r} does not fit a tensor of {len(given)} dimensions"
            raise ValueError(msg)
        for label, extent in zip(row, given, strict=True):
            # A size of 1 stretches over the others.
            known = sizes.get(label, 1)
            if 1 not in {known, extent}:
                agree(known, extent, f"the index {label!r}")
            sizes[label] = extent if known == 1 else known
    flat = [label for row in rows for label in row]
    if arrow:
        widest = max((sum(label.isdigit() for label in row) for row in rows), default=0)
        result = set(_spell(right, widest + len(right.replace("...", ""))))
    else:
        result = {label for label in flat if label.isdigit() or flat.count(label) == 1}
    return [set(row) for row in rows], result, sizes


def _spell(text: str, rank: int) -> list[str]:
    """Index names of one term; what an ellipsis stands for is numbered from the right: ``1``, ``0``."""
    before, dots, after = text.partition("...")
    hidden = rank - len(before) - len(after) if dots else 0
    return [*before, *(str(number) for number in reversed(range(max(0, hidden)))), *after]


def _torch(operands: Operands) -> int:
    return flop(str(operands.attribute("equation", "")), [value.shape for value in operands.values("tensors")])


def _onnx(operands: Operands) -> int:
    found: list[Shape] = []
    while (name := f"in{len(found)}") in operands.call.operands:
        found.append(shape(operands, name))
    return flop(str(operands.attribute("equation", "")), found)


TORCH: dict[str, Definition] = {"aten::einsum": Definition(kind=MATMUL, flop=_torch)}
ONNX: dict[str, Definition] = {"ai.onnx::Einsum": Definition(kind=MATMUL, flop=_onnx)}
