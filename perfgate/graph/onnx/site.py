"""Floor 3, graph. One node of an ONNX graph at the place where it is executed.

In: node, what is known of its inputs, the operator sets in force. Out: :class:`Site`, which shape functions ask.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from onnx import AttributeProto, NodeProto, OperatorSetIdProto, TypeProto

from perfgate.graph.onnx.known import Known, Shape, as_int, as_ints, dimensions, tensor_type
from perfgate.onnx_names import operator

Dimensions = tuple[int | None, ...]


class OpenError(Exception):
    """A size cannot be told; the message says why."""


@dataclass(slots=True, kw_only=True)
class Site:
    """A node with its inputs; ``inputs`` has None where an optional one is left out."""

    node: NodeProto
    inputs: list[Known | None]
    domain: str
    version: int
    imports: list[OperatorSetIdProto] = field(default_factory=list)
    ir_version: int = 8
    attributes: dict[str, AttributeProto] = field(default_factory=dict)

    @property
    def op(self) -> str:
        """``ai.onnx::Conv``."""
        return operator(self.domain, self.node.op_type)

    def has(self, position: int) -> bool:
        """Whether the optional input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def known(self, position: int) -> Known | None:
        """What is known of an input; None where it is left out."""
        return self.inputs[position] if position < len(self.inputs) else None

    def type(self, position: int) -> TypeProto:
        """Type of an input; empty where it is left out."""
        known = self.known(position)
        return TypeProto() if known is None else known.type

    def dims(self, position: int) -> Dimensions:
        """Sizes of an input, None for unknown ones. Raises OpenError where not even the rank is known."""
        found = dimensions(self.type(position))
        if found is None:
            msg = f"the sizes of its input {position} are not known"
            raise OpenError(msg)
        return found

    def shape(self, position: int) -> Shape:
        """All sizes of an input. Raises OpenError."""
        found = self.dims(position)
        sizes = tuple(size for size in found if size is not None)
        if len(sizes) != len(found):
            msg = f"a size of its input {position} depends on data"
            raise OpenError(msg)
        return sizes

    def element(self, position: int) -> int:
        """Number of an input's element type; 0 where not known."""
        known = self.known(position)
        return 0 if known is None else known.element

    def data(self, position: int) -> list[int]:
        """Whole numbers that an input holds. Raises OpenError where they depend on data."""
        found = as_ints(self.known(position))
        if found is None:
            msg = f"the values of its input {position} depend on data"
            raise OpenError(msg)
        return found

    def scalar(self, position: int) -> int | None:
        """The whole number that an input holds, if it can be told."""
        return as_int(self.known(position))

    def integer(self, name: str, default: int = 0) -> int:
        """An attribute that is a whole number."""
        found = self.attributes.get(name)
        return default if found is None else int(found.i)

    def integers(self, name: str) -> list[int] | None:
        """An attribute that is a list of whole numbers; None where the node has none."""
        found = self.attributes.get(name)
        return None if found is None else list(found.ints)

    def text(self, name: str, default: str = "") -> str:
        """An attribute that is a text."""
        found = self.attributes.get(name)
        return default if found is None else found.s.decode("utf-8", "replace")

    def graph(self, name: str) -> Any:
        """A subgraph. Raises OpenError where the node has none of that name."""
        found = self.attributes.get(name)
        if found is None or not found.HasField("g"):
            msg = f"it has no subgraph {name!r}"
            raise OpenError(msg)
        return found.g

    def like(self, position: int, shape: Dimensions | None = None, element: int = 0) -> TypeProto:
        """A tensor type with an input's element type (or ``element``) and sizes (or ``shape``)."""
        sizes = dimensions(self.type(position)) if shape is None else shape
        return tensor_type(element or self.element(position), sizes)
