"""Floor 3, graph. Contents of an ONNX file: initialisers and constants.

In: tensor protos, without the contents of large ones. Out: :class:`Known` with a storage of the trace; tensors that
share their place in a data file (tied weights) share it.
"""

from __future__ import annotations

from typing import Any

from onnx import NodeProto, SparseTensorProto, TensorProto, helper, numpy_helper

from perfgate.graph.onnx.elements import FOLDABLE, dtype, weight_like
from perfgate.graph.onnx.files import element_count, external_key
from perfgate.graph.onnx.known import MAX_DATA, Known, tensor_type
from perfgate.graph.onnx.recording import Recorder, Storage
from perfgate.records.graph import PARAMETER

_NUMBERS = {"value_float": 1, "value_floats": 1, "value_int": 7, "value_ints": 7}


class Contents:
    """Everything that the file holds, each once however often it is met (calls of a function, turns of a loop)."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder = recorder
        self._known: dict[tuple[str | bytes, ...], Known] = {}
        self._places: dict[tuple[str, str], int] = {}

    def initializer(self, tensor: TensorProto, scope: tuple[str, ...], *, inline: bool = False) -> Known:
        """An initialiser, or a tensor in a ``Constant`` node (``inline``)."""
        return self._kept((*scope, tensor.name), tensor, inline=inline)

    def sparse(self, sparse: SparseTensorProto, scope: tuple[str, ...]) -> Known:
        """A sparse initialiser, as large as it would be if it were dense: that is what formulas see."""
        made = TensorProto(name=sparse.values.name, data_type=sparse.values.data_type, dims=sparse.dims)
        made.data_location = TensorProto.EXTERNAL
        return self._kept((*scope, made.name), made, inline=False)

    def constant(self, node: NodeProto, scope: tuple[str, ...]) -> Known | None:
        """What a ``Constant`` node holds; None where it holds something unheard of."""
        for attribute in node.attribute:
            tensor = None
            if attribute.name == "value":
                tensor = TensorProto()
                tensor.CopyFrom(attribute.t)
            elif attribute.name == "sparse_value":
                return self.sparse(attribute.sparse_tensor, (*scope, node.output[0]))
            elif attribute.name in _NUMBERS:
                values = helper.get_attribute_value(attribute)
                shape = [len(values)] if attribute.name.endswith("s") else []
                flat = list(values) if shape else [values]
                tensor = helper.make_tensor("", _NUMBERS[attribute.name], shape, flat)
            elif attribute.name in ("value_string", "value_strings"):
                count = len(attribute.strings)
                dims = [count] if attribute.name.endswith("s") else []
                tensor = TensorProto(data_type=TensorProto.STRING, dims=dims)
            if tensor is not None:
                tensor.name = node.output[0]
                return self._kept((*scope, tensor.name), tensor, inline=True)
        return None

    def _kept(self, key: tuple[str, ...], tensor: TensorProto, *, inline: bool) -> Known:
        # A function's constants may come from the attributes of its calls, and differ between them.
        contents = tensor.SerializeToString() if inline and element_count(tensor) <= MAX_DATA else b""
        whole = (*key, contents)
        if whole not in self._known:
            self._known[whole] = self._made(tensor, inline=inline)
        return self._known[whole]

    def _made(self, tensor: TensorProto, *, inline: bool) -> Known:
        place = external_key(tensor)
        known_place = None if place is None or not place[0] else self._places.get(place)
        if known_place is None:
            storage = Storage(
                role=PARAMETER,
                name=tensor.name,
                dtype=dtype(tensor.data_type),
                rank=len(tensor.dims),
                elements=element_count(tensor),
                inline=inline,
            )
            known_place = self._recorder.storage(storage)
            if place is not None and place[0]:
                self._places[place] = known_place
        return Known(
            type=tensor_type(tensor.data_type, tuple(tensor.dims)),
            data=_values(tensor),
            # Work on weights is work of the step, however few they are.
            static=not _weight(tensor, inline=inline),
            storage=known_place,
            stored=True,
        )


def _weight(tensor: TensorProto, *, inline: bool) -> bool:
    single = inline and element_count(tensor) == 1
    return bool(tensor.dims) and not single and weight_like(dtype(tensor.data_type))


def _values(tensor: TensorProto) -> Any:
    if tensor.data_type not in FOLDABLE or element_count(tensor) > MAX_DATA:
        return None
    if tensor.data_location == TensorProto.EXTERNAL:
        return None
    try:
        return numpy_helper.to_array(tensor)
    except (ValueError, TypeError):
        # Contents that do not fill the stated sizes: the sizes are what counts.
        return None
