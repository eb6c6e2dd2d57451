"""Floor 3, graph. Attributes of ONNX nodes as JSON.

In: attribute protos. Out: numbers, texts, lists and small tables. What is too long to be compared by eye becomes
``{"length": ..., "sha256": ...}``, so that a change of it is still seen.
"""

from __future__ import annotations

import hashlib
import math
from typing import Any

from onnx import AttributeProto, TensorProto, TypeProto, numpy_helper

from perfgate.graph.onnx.elements import FOLDABLE, dtype
from perfgate.graph.onnx.files import element_count

MAX_ENTRIES = 64
MAX_TEXT = 1024

_A = AttributeProto
_GRAPHS = (_A.GRAPH, _A.GRAPHS)


def as_json(attribute: AttributeProto) -> object:
    """The attribute's value; subgraphs by name only, since they are walked or not counted."""
    kind = attribute.type
    if kind == _A.FLOAT:
        return number(attribute.f)
    if kind == _A.INT:
        return attribute.i
    if kind == _A.STRING:
        return text(attribute.s)
    if kind == _A.FLOATS:
        return entries(tuple(number(value) for value in attribute.floats))
    if kind == _A.INTS:
        return entries(tuple(attribute.ints))
    if kind == _A.STRINGS:
        return entries(tuple(text(value) for value in attribute.strings))
    if kind == _A.TENSOR:
        return tensor(attribute.t)
    if kind in _GRAPHS:
        return tuple(graph.name for graph in (attribute.graphs if kind == _A.GRAPHS else [attribute.g]))
    if kind == _A.TYPE_PROTO:
        return _type(attribute.tp)
    return _digest(attribute.SerializeToString(deterministic=True), 1)


def number(value: float) -> object:
    """A float as JSON has it; infinity and NaN as texts. Shortest form that float32 tells apart."""
    if not math.isfinite(value):
        return str(value)
    return float(f"{value:.7g}")


def text(value: bytes) -> object:
    """Bytes as text; long ones as a digest."""
    if len(value) > MAX_TEXT:
        return _digest(value, len(value))
    return value.decode("utf-8", "backslashreplace")


def entries(values: tuple[Any, ...]) -> object:
    """A list, as a tuple since that is what the codec reads; a long one as a digest."""
    return values if len(values) <= MAX_ENTRIES else _digest(repr(list(values)).encode(), len(values))


def tensor(proto: TensorProto) -> object:
    """A small tensor of numbers with its values, others by type and sizes: weights' values are not compared."""
    count = element_count(proto)
    made: dict[str, object] = {"dtype": dtype(proto.data_type), "shape": tuple(proto.dims)}
    if proto.data_type in FOLDABLE and count <= MAX_ENTRIES:
        made["values"] = array(numpy_helper.to_array(proto))
    return made


def array(values: Any) -> object:
    """Values of a NumPy array: a number for a scalar, else a flat list."""
    flat = tuple(number(value) if isinstance(value, float) else value for value in values.reshape(-1).tolist())
    return flat[0] if values.ndim == 0 else entries(flat)


def _type(proto: TypeProto) -> str:
    return proto.WhichOneof("value") or ""


def _digest(contents: bytes, count: int) -> dict[str, object]:
    return {"length": count, "sha256": hashlib.sha256(contents).hexdigest()}
