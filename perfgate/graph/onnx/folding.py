"""Floor 3, graph. Values that can be told without running the model: shapes, axes, scales, small masks.

In: a :class:`Site` whose inputs are known. Out: NumPy arrays of the outputs, or None. The work is done by the onnx
package's reference implementation, for small tensors and for operators that neither guess nor read anything.
"""

from __future__ import annotations

import math
import warnings
from typing import Any

from onnx import TensorProto, TypeProto, helper, numpy_helper
from onnx.reference import ReferenceEvaluator

from perfgate.graph.onnx.known import MAX_DATA, shape_of
from perfgate.graph.onnx.shapes import foldable
from perfgate.graph.onnx.site import Site

_PURE_NAMES = """
    Abs Add And ArgMax ArgMin BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast CastLike Ceil Clip Compress Concat
    ConstantOfShape Cos CumSum Div Equal Exp Expand EyeLike Flatten Floor Gather GatherElements GatherND Greater
    GreaterOrEqual Identity IsInf IsNaN Less LessOrEqual Log Max Mean Min Mod Mul Neg NonZero Not OneHot Or Pad Pow
    Range Reciprocal ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum Relu Reshape Round ScatterElements ScatterND
    Shape Sigmoid Sign Sin Size Slice Split Sqrt Squeeze Sub Sum Tanh Tile TopK Transpose Trilu Unsqueeze Where Xor
"""
_PURE = frozenset(_PURE_NAMES.split())
# How large their outputs get depends on values: they need a known size before anything is computed.
_GROWING = frozenset({"ConstantOfShape", "Expand", "EyeLike", "OneHot", "Pad", "Range", "Tile"})


def fold(site: Site, types: list[TypeProto]) -> list[Any] | None:
    """Values of all outputs; None where they cannot be told, or are too many to be worth it."""
    if site.domain or site.node.op_type not in _PURE:
        return None
    if site.node.op_type in ("Shape", "Size"):
        return _sizes(site)
    inputs = {}
    for name, known in zip(site.node.input, site.inputs, strict=True):
        if known is None:
            continue
        if known.data is None:
            return None
        inputs[name] = known.data
    shapes = [shape_of(type_) for type_ in types]
    if any(shape is not None and math.prod(shape) > MAX_DATA for shape in shapes):
        return None
    if site.node.op_type in _GROWING and None in shapes:
        return None
    if not all(foldable(type_) for name, type_ in zip(site.node.output, types, strict=True) if name):
        return None
    return _run(site, inputs)


def _sizes(site: Site) -> list[Any] | None:
    known = site.known(0)
    shape = None if known is None else known.shape
    if shape is None:
        return None
    if site.node.op_type == "Size":
        return [integers(math.prod(shape))]
    start, end = site.integer("start"), site.integer("end", len(shape))
    return [integers(shape[start:end])]


def integers(values: int | tuple[int, ...]) -> Any:
    """An int64 array: a scalar, or of one dimension."""
    flat = [values] if isinstance(values, int) else list(values)
    shape = () if isinstance(values, int) else (len(flat),)
    return numpy_helper.to_array(helper.make_tensor("", TensorProto.INT64, shape, flat))


def boolean(*, value: bool) -> Any:
    """A scalar array of one boolean."""
    return numpy_helper.to_array(helper.make_tensor("", TensorProto.BOOL, (), [value]))


def _run(site: Site, inputs: dict[str, Any]) -> list[Any] | None:
    names = [name for name in dict.fromkeys(site.node.input) if name]
    outputs = [name for name in site.node.output if name]
    function = helper.make_function("perfgate", "fold", names, outputs, [site.node], site.imports)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            made = ReferenceEvaluator(function).run(None, inputs, attributes={})
    except Exception:  # noqa: BLE001 - an odd node is simply not computed
        return None
    found = dict(zip(outputs, made, strict=True))
    arrays = [found.get(name) for name in site.node.output]
    if any(array is not None and (not hasattr(array, "dtype") or array.size > MAX_DATA) for array in arrays):
        return None
    return arrays
