"""Floor 3, graph. Operators that move nothing: their output is another look at an input's memory.

In: a :class:`Site` and the types of its outputs. Out: position of the input that the first output looks at.
"""

from __future__ import annotations

from onnx import TypeProto

from perfgate.graph.onnx.known import shape_of
from perfgate.graph.onnx.site import Site

_ALWAYS = frozenset(
    {
        "ai.onnx::BitCast",
        "ai.onnx::Flatten",
        "ai.onnx::Identity",
        "ai.onnx::Reshape",
        "ai.onnx::Squeeze",
        "ai.onnx::Unsqueeze",
        "com.microsoft::ExpandDims",
    }
)
_SINGLE = frozenset({"ai.onnx::Concat", "ai.onnx::Max", "ai.onnx::Mean", "ai.onnx::Min", "ai.onnx::Sum"})
_CASTS = frozenset({"ai.onnx::Cast", "ai.onnx::CastLike"})


def source(site: Site, types: list[TypeProto]) -> int | None:
    """The input that output 0 is a view of; None where the operator does work."""
    if not site.has(0) or not site.node.output or not site.node.output[0]:
        return None
    op = site.op
    if op in _ALWAYS or (op in _SINGLE and len(site.inputs) == 1) or (op == "ai.onnx::Dropout" and _idle(site)):
        return 0
    made, given = types[0], site.type(0)
    if op in _CASTS:
        same = made.tensor_type.elem_type == given.tensor_type.elem_type
        return 0 if same else None
    if op == "ai.onnx::Expand":
        return 0 if shape_of(made) is not None and shape_of(made) == shape_of(given) else None
    return 0 if op == "ai.onnx::Transpose" and _keeps_order(site) else None


def _idle(site: Site) -> bool:
    """Dropout outside of training: the default in every version that says so. Its mask is all true, and no work."""
    return not site.has(2) or site.scalar(2) == 0


def _keeps_order(site: Site) -> bool:
    """Only dimensions of size 1 change their places."""
    shape = site.type(0)
    sizes = shape_of(shape)
    if sizes is None:
        return False
    order = site.integers("perm") or list(reversed(range(len(sizes))))
    moved = [axis for axis in order if axis < len(sizes) and sizes[axis] != 1]
    return moved == sorted(moved)
