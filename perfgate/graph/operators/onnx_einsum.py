"""Floor 3, graph. FLOP (2 x MAC) of an ONNX Einsum.

In: the equation and the operands' sizes. Out: the cost of the naive single contraction. No operand order is
searched for, since the file says none: the figure depends on the file alone.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import Operands, Shape
from perfgate.graph.operators.onnx_fit import agree
from perfgate.graph.operators.onnx_sizes import shape


def einsum(operands: Operands) -> int:
    """``n`` operands cost ``n`` FLOP for each combination of all indices: n - 1 multiplications and one addition.

    For two operands that is 2 x MAC. Nothing is summed where every index stays: pointwise, 0 FLOP; a single
    operand is a transposition, a diagonal or a sum: 0 FLOP.
    """
    shapes = _shapes(operands)
    inputs, output = _terms(str(operands.attribute("equation", "")), shapes)
    sizes: dict[str, int] = {}
    for term, sizes_of in zip(inputs, shapes, strict=True):
        if len(term) != len(sizes_of):
            msg = f"the equation gives {len(term)} indices to a tensor of {len(sizes_of)} dimensions"
            raise ValueError(msg)
        for index, size in zip(term, sizes_of, strict=True):
            # A size of 1 stretches over the others.
            known = sizes.get(index, 1)
            if 1 not in {known, size}:
                agree(known, size, f"the index {index!r}")
            sizes[index] = max(sizes.get(index, 1), size)
    if len(inputs) < 2 or set(output) == set(sizes):
        return 0
    return len(inputs) * math.prod(sizes.values())


def _shapes(operands: Operands) -> list[Shape]:
    found: list[Shape] = []
    while (name := f"in{len(found)}") in operands.call.operands:
        found.append(shape(operands, name))
    return found


def _terms(equation: str, shapes: list[Shape]) -> tuple[list[list[str]], list[str]]:
    """Index names of every input and of the output; the dimensions of an ellipsis are ``.0``, ``.1`` from the right."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    texts = left.split(",")
    if len(texts) != len(shapes):
        msg = f"the equation {equation!r} has {len(texts)} terms for {len(shapes)} tensors"
        raise ValueError(msg)
    inputs = [
        _indices(text, len(sizes) - len(text.replace("...", ""))) for text, sizes in zip(texts, shapes, strict=True)
    ]
    if arrow:
        widest = max((sum(index[0] == "." for index in term) for term in inputs), default=0)
        return inputs, _indices(right, widest)
    flat = [index for term in inputs for index in term]
    return inputs, sorted(index for index in set(flat) if index[0] == "." or flat.count(index) == 1)


def _indices(text: str, hidden: int) -> list[str]:
    before, dots, after = text.partition("...")
    middle = [f".{position}" for position in reversed(range(max(hidden, 0)))] if dots else []
    return [*before, *middle, *after]
