"""Floor 3, graph. Sizes of ONNX operands that have to agree, since one runs along the other.

In: :class:`Operands` and sizes. Out: nothing, or ValueError with the sentence for ``not counted``: a file whose sizes
contradict each other does not run, so no figure would be right. What is absent or depends on data is not compared.
"""

from __future__ import annotations

from perfgate.graph.operators.definition import Operands, Shape
from perfgate.graph.operators.onnx_sizes import first, given


def told(operands: Operands, *names: str) -> Shape | None:
    """Sizes of the first of ``names`` that the call has; None where they are not known."""
    if not any(given(operands, name) for name in names):
        return None
    try:
        return first(operands, *names)
    except ValueError:
        return None


def agree(one: int, other: int, what: str) -> None:
    """Raises ValueError where two sizes differ; ``what`` says whose they are (``columns of A, rows of B``)."""
    if one != other:
        msg = f"its sizes contradict each other ({what}: {one} and {other}); check the model with onnx.checker"
        raise ValueError(msg)


def summed(inner: int, right: Shape | None, *, turned: bool = False) -> None:
    """The inner size of a product is that of its right operand: of its rows, or its columns where it is ``turned``."""
    if right:
        agree(inner, right[-1] if turned or len(right) == 1 else right[-2], "what its operands A and B are summed over")


def stretched(left: Shape, right: Shape | None) -> None:
    """The batches in front of two matrices are equal, or one of them is 1."""
    for one, other in zip(reversed(left[:-2]), reversed((right or ())[:-2]), strict=False):
        if 1 not in {one, other}:
            agree(one, other, "the batches of its operands A and B")


def deep(operands: Operands, inner: int) -> None:
    """The input is as wide as the packed weight, whose ``K`` is an attribute."""
    width = operands.attribute("K")
    if isinstance(width, int) and width > 0:
        agree(inner, width, "the last size of A, K")
