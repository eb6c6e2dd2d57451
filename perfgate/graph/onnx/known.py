"""Floor 3, graph. What is known of one name in an ONNX graph while it is walked.

In: type protos. Out: :class:`Known`, with its shape, its few values where they can be told, and its storage.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from onnx import TypeProto

# Values are computed for tensors up to this many elements: shapes, axes, scales, small masks.
MAX_DATA = 4096

Shape = tuple[int, ...]


@dataclass(slots=True, kw_only=True, eq=False)
class Known:
    """A tensor, or a sequence or optional of them.

    Attributes:
        type: As inferred; empty where nothing is known.
        data: NumPy array of all values, if they can be told without running the model.
        static: Made of constants and shapes only, so that it is no work of the step.
        storage: Its memory in the trace; -1 until one is needed. ``index``: its value in the trace, alike.
        items: The tensors of a sequence of known length, or of an optional; None for a tensor.
        stored: Comes from the file: an initialiser or a constant.
    """

    type: TypeProto
    data: Any = None
    static: bool = False
    storage: int = -1
    index: int = -1
    items: list[Known] | None = None
    stored: bool = False

    @property
    def shape(self) -> Shape | None:
        """All sizes; None where one is not known, or the value is no tensor."""
        return shape_of(self.type)

    @property
    def element(self) -> int:
        """Number of its ``TensorProto.DataType``; 0 where not known."""
        return self.type.tensor_type.elem_type if self.type.HasField("tensor_type") else 0

    def viewed(self, type_: TypeProto, data: Any = None) -> Known:
        """Another look at the same memory."""
        return Known(
            type=type_, data=data, static=self.static, storage=self.storage, stored=self.stored, items=self.items
        )


def shape_of(type_: TypeProto) -> Shape | None:
    """All sizes of a tensor type; None where one is not known."""
    sizes = dimensions(type_)
    if sizes is None or any(size is None for size in sizes):
        return None
    return tuple(size for size in sizes if size is not None)


def dimensions(type_: TypeProto) -> tuple[int | None, ...] | None:
    """Sizes with None for unknown ones; None where not even the rank is known."""
    if not type_.HasField("tensor_type") or not type_.tensor_type.HasField("shape"):
        return None
    return tuple(
        dim.dim_value if dim.HasField("dim_value") and dim.dim_value >= 0 else None
        for dim in type_.tensor_type.shape.dim
    )


def tensor_type(element: int, shape: tuple[int | None, ...] | None) -> TypeProto:
    """The type proto of a tensor; ``shape`` None leaves the rank open."""
    made = TypeProto()
    made.tensor_type.elem_type = element
    if shape is not None:
        made.tensor_type.shape.SetInParent()
        for size in shape:
            dim = made.tensor_type.shape.dim.add()
            if size is not None:
                dim.dim_value = size
    return made


def item_type(type_: TypeProto) -> TypeProto:
    """Type of what a sequence or optional holds; empty where it is neither."""
    if type_.HasField("sequence_type"):
        return type_.sequence_type.elem_type
    return type_.optional_type.elem_type if type_.HasField("optional_type") else TypeProto()


def sequence_type(element: TypeProto) -> TypeProto:
    """The type proto of a sequence."""
    made = TypeProto()
    made.sequence_type.elem_type.CopyFrom(element)
    return made


def as_int(known: Known | None) -> int | None:
    """The value of a tensor with a single whole number (or boolean); None where it is not known."""
    if known is None or known.data is None or known.data.size != 1:
        return None
    return int(known.data.reshape(-1)[0])


def as_ints(known: Known | None) -> list[int] | None:
    """All values of a small tensor of whole numbers; None where they are not known."""
    if known is None or known.data is None or known.data.dtype.kind not in "iub":
        return None
    return [int(value) for value in known.data.reshape(-1)]
