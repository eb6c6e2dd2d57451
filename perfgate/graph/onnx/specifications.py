"""Floor 3, graph. Sizes of a model's inputs: the file's own, bound to what the configuration says.

In: the graph's inputs and the tree of input specifications (a list by position, a table by name; leaves such as
``float32[batch,3,224,224]``). Out: :class:`Bound`. Raises UsageError that names file, input, dimension and remedy:
a symbolic dimension without a size is an error, and never counts as nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NoReturn

from onnx import TypeProto, ValueInfoProto, helper, numpy_helper

from perfgate import expressions, specification
from perfgate.config import inputs as grammar
from perfgate.errors import UsageError
from perfgate.graph.onnx.elements import dtype, number
from perfgate.graph.onnx.known import item_type, sequence_type, shape_of, tensor_type

# The word that stands for an unknown size in suggested specifications.
_SIZE = "SIZE"


@dataclass(slots=True, kw_only=True)
class Bound:
    """Every input with all of its sizes.

    Attributes:
        types: Name -> type; a sequence's items have their own types in ``items``.
        data: Name -> NumPy array of an input that the configuration gives as a number.
        places: Name -> ``inputs[0]`` or ``inputs.mask``.
        sizes: Symbolic dimension -> its size.
        notes: Which dimension got which size from where, one sentence each.
    """

    types: dict[str, TypeProto] = field(default_factory=dict)
    items: dict[str, list[TypeProto]] = field(default_factory=dict)
    data: dict[str, Any] = field(default_factory=dict)
    places: dict[str, str] = field(default_factory=dict)
    sizes: dict[str, int] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)


def bind(graph_inputs: Iterable[ValueInfoProto], tree: object, batch: int, file: str) -> Bound:
    """Bind the inputs of ``file``. ``tree`` None: the file has to tell all sizes itself."""
    declared = [_cleaned(info) for info in graph_inputs]
    given = _by_name(declared, tree, file)
    binder = _Binder(file, batch)
    for info in declared:
        binder.bound.places[info.name] = given[info.name][0] if info.name in given else f"inputs.{info.name}"
        if info.name in given:
            binder.take(info, *given[info.name])
    binder.agree()
    for info in declared:
        if info.name not in given:
            binder.bound.types[info.name] = binder.complete(info)
    return binder.bound


def _cleaned(info: ValueInfoProto) -> ValueInfoProto:
    """The input with sizes of 0 and less, by which some exporters mean "any", left open."""
    made = ValueInfoProto()
    made.CopyFrom(info)
    if made.type.HasField("tensor_type"):
        for dim in made.type.tensor_type.shape.dim:
            if dim.HasField("dim_value") and dim.dim_value <= 0:
                dim.Clear()
    return made


def resolve(type_: TypeProto, sizes: Mapping[str, int]) -> TypeProto:
    """The type with symbolic sizes (``batch``, ``2*sequence + 1``) replaced where ``sizes`` tells them."""
    made = TypeProto()
    made.CopyFrom(type_)
    inner = made
    while inner.HasField("sequence_type") or inner.HasField("optional_type"):
        inner = item_type(inner)
    if inner.HasField("tensor_type"):
        for dim in inner.tensor_type.shape.dim:
            if dim.HasField("dim_param"):
                size = _evaluate(dim.dim_param, sizes)
                dim.Clear()
                if size is not None:
                    dim.dim_value = size
    return made


def _evaluate(text: str, sizes: Mapping[str, int]) -> int | None:
    if text in sizes:
        return sizes[text]
    try:
        return expressions.parse(text).value(sizes)
    except ValueError:
        return None


def _by_name(declared: list[ValueInfoProto], tree: object, file: str) -> dict[str, tuple[str, object]]:
    """Input name -> (place, specification)."""
    if tree is None:
        return {}
    for place, reason in grammar.problems(tree):
        msg = f"{file}: {_shown(place)}: {reason}"
        raise UsageError(msg)
    names = [info.name for info in declared]
    if isinstance(tree, dict):
        for key in tree:
            if key not in names:
                msg = f"{file}: inputs.{key}: the model has no such input; its inputs are {', '.join(names) or 'none'}"
                raise UsageError(msg)
        return {key: (f"inputs.{key}", leaf) for key, leaf in tree.items()}
    leaves = list(tree) if isinstance(tree, (list, tuple)) else [tree]
    if len(leaves) > len(names):
        msg = f"{file}: inputs has {len(leaves)} entries, the model takes {len(names)}: {', '.join(names) or 'none'}"
        raise UsageError(msg)
    return {name: (f"inputs[{n}]", leaf) for n, (name, leaf) in enumerate(zip(names, leaves, strict=False))}


def _shown(place: tuple[int | str, ...]) -> str:
    return "inputs" + "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in place)


class _Binder:
    def __init__(self, file: str, batch: int) -> None:
        self.file = file
        self.batch = batch
        self.bound = Bound()
        self._from: dict[str, str] = {}

    def take(self, info: ValueInfoProto, place: str, leaf: object) -> None:
        """Bind one input to its specification."""
        if isinstance(leaf, (list, tuple)):
            self._sequence(info, place, leaf)
        elif isinstance(leaf, dict):
            self._refuse(info, f"{place} is a table, and inputs of ONNX models are tensors; write {_suggested(info)}")
        elif isinstance(leaf, str):
            self.bound.types[info.name] = self._tensor(info, info.type, place, leaf)
        else:
            self._number(info, place, leaf)

    def agree(self) -> None:
        """Sizes of computed dimensions (``2*n``) that were bound before their parts fit what the parts come to."""
        for name, size in self.bound.sizes.items():
            others = {other: value for other, value in self.bound.sizes.items() if other != name}
            computed = _evaluate(name, others)
            if computed is not None and computed != size:
                origin = self._from[name]
                msg = f"{self.file}: dimension {name!r} is {size} by {origin}, but comes to {computed}; make them agree"
                raise UsageError(msg)

    def complete(self, info: ValueInfoProto) -> TypeProto:
        """Type of an input without specification: all sizes are in the file or bound by other inputs."""
        type_ = resolve(info.type, self.bound.sizes)
        if info.type.HasField("optional_type"):
            return type_
        if not type_.HasField("tensor_type"):
            self._refuse(info, "the file does not tell its sizes; give them in inputs as a list of specifications")
        if shape_of(type_) is None:
            for axis, dim in enumerate(info.type.tensor_type.shape.dim):
                named = f" {dim.dim_param!r}" if dim.dim_param else ""
                if not type_.tensor_type.shape.dim[axis].HasField("dim_value"):
                    self._refuse(info, f"dimension {axis}{named} has no size; write inputs with {_suggested(info)}")
            self._refuse(info, f"the file does not tell its sizes; write inputs with {_suggested(info)}")
        return type_

    def _sequence(self, info: ValueInfoProto, place: str, leaves: list[Any] | tuple[Any, ...]) -> None:
        if not info.type.HasField("sequence_type"):
            self._refuse(info, f"{place} is a list, and the input is one tensor; write {_suggested(info)}")
        element = item_type(info.type)
        found = []
        for position, leaf in enumerate(leaves):
            if not isinstance(leaf, str):
                self._refuse(info, f"{place}[{position}] is no specification; write it as in 'float32[batch,3]'")
            found.append(self._tensor(info, element, f"{place}[{position}]", leaf))
        self.bound.items[info.name] = found
        self.bound.types[info.name] = sequence_type(found[0] if found else element)

    def _number(self, info: ValueInfoProto, place: str, leaf: object) -> None:
        type_ = info.type
        declared = type_.tensor_type.shape.dim
        single = type_.HasField("tensor_type") and all(dim.dim_value <= 1 for dim in declared)
        if not single or not isinstance(leaf, (bool, int, float)):
            self._refuse(info, f"{place} is {leaf!r}, and the input has dimensions; write {_suggested(info)}")
        kind = dtype(type_.tensor_type.elem_type)
        if isinstance(leaf, float) and kind.startswith(("int", "uint", "bool")):
            self._refuse(info, f"{place} is {leaf}, which {kind} cannot hold")
        shape = tuple(1 for _ in declared)
        for axis, dim in enumerate(declared):
            if dim.dim_param:
                self._bind(info, place, axis, dim.dim_param, 1)
        self.bound.types[info.name] = tensor_type(type_.tensor_type.elem_type, shape)
        try:
            proto = helper.make_tensor(info.name, type_.tensor_type.elem_type, shape, [leaf])
        except (TypeError, ValueError, OverflowError, KeyError):
            self._refuse(info, f"{place} is {leaf}, which {kind} cannot hold")
        self.bound.data[info.name] = numpy_helper.to_array(proto)

    def _tensor(self, info: ValueInfoProto, type_: TypeProto, place: str, text: str) -> TypeProto:
        if not type_.HasField("tensor_type"):
            self._refuse(info, f"{place} does not fit the input's type; write {_suggested(info)}")
        leaf = specification.parse(text, self.batch)
        element = type_.tensor_type.elem_type
        if element and number(leaf.dtype) != element:
            self._refuse(info, f"{place} is {leaf.dtype}, the model takes {dtype(element)}; write {_suggested(info)}")
        if type_.tensor_type.HasField("shape"):
            self._fit(info, type_, place, leaf.shape)
        return tensor_type(element or number(leaf.dtype) or 0, leaf.shape)

    def _fit(self, info: ValueInfoProto, type_: TypeProto, place: str, sizes: tuple[int, ...]) -> None:
        declared = type_.tensor_type.shape.dim
        if len(declared) != len(sizes):
            self._refuse(
                info, f"{place} has {len(sizes)} dimensions, the model takes {len(declared)}; write {_suggested(info)}"
            )
        for axis, (dim, size) in enumerate(zip(declared, sizes, strict=True)):
            if dim.HasField("dim_value"):
                if dim.dim_value != size:
                    self._refuse(
                        info,
                        f"dimension {axis} is {size} in {place}, but the file fixes it at {dim.dim_value}; write "
                        f"{dim.dim_value}, or export the model with this dimension dynamic",
                    )
            elif dim.dim_param:
                self._bind(info, place, axis, dim.dim_param, size)

    def _bind(self, info: ValueInfoProto, place: str, axis: int, name: str, size: int) -> None:
        known = _evaluate(name, self.bound.sizes)
        if known is None:
            self.bound.sizes[name] = size
            self._from[name] = f"{place}, dimension {axis} of {info.name}"
            self.bound.notes.append(f"{name} = {size} ({self._from[name]})")
        elif known != size:
            origin = self._from.get(name, "other dimensions")
            self._refuse(
                info,
                f"dimension {axis} {name!r} is {size} in {place}, but {known} by {origin}; give both the same size",
            )

    def _refuse(self, info: ValueInfoProto, reason: str) -> NoReturn:
        msg = f"{self.file}: input {info.name!r}: {reason}"
        raise UsageError(msg)


def _suggested(info: ValueInfoProto) -> str:
    """``x = 'float32[batch,3,SIZE,SIZE]'``: what the file tells, in the grammar of inputs."""
    type_ = info.type
    if not type_.HasField("tensor_type"):
        return f"{info.name} = ['float32[batch,{_SIZE}]']"
    tensor = type_.tensor_type
    sizes = []
    for axis, dim in enumerate(tensor.shape.dim):
        free = "batch" if axis == 0 else _SIZE
        sizes.append(str(dim.dim_value) if dim.dim_value > 0 else free)
    text = ",".join(sizes) if tensor.HasField("shape") else f"batch,{_SIZE}"
    return f"{info.name} = '{dtype(tensor.elem_type)}[{text}]'"
