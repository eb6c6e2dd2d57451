"""Floor 3, graph. Sequences and optionals of ONNX: lists of tensors of known length are followed, others are not.

In: a :class:`Site`. Out: what is known of the outputs. Putting a tensor into a list moves nothing; what splits or
joins tensors is recorded as the work that it is.
"""

from __future__ import annotations

from collections.abc import Callable

from onnx import TensorProto, TypeProto

from perfgate.graph.onnx.folding import boolean, integers
from perfgate.graph.onnx.known import Known, sequence_type, tensor_type
from perfgate.graph.onnx.site import OpenError, Site

Follow = Callable[[Site], list[Known]]


def _items(site: Site, position: int = 0) -> list[Known]:
    known = site.known(position)
    if known is None or known.items is None:
        msg = "which tensors its sequence holds depends on data"
        raise OpenError(msg)
    return known.items


def _sequence(items: list[Known], element: TypeProto | None = None) -> list[Known]:
    type_ = items[0].type if items else element or tensor_type(0, None)
    return [Known(type=sequence_type(type_), items=items)]


def _position(site: Site, position: int, default: int) -> int:
    if not site.has(position):
        return default
    found = site.scalar(position)
    if found is None:
        msg = "which tensor of its sequence is meant depends on data"
        raise OpenError(msg)
    return found


def _construct(site: Site) -> list[Known]:
    return _sequence([known for known in site.inputs if known is not None])


def _nothing(site: Site) -> list[Known]:
    return _sequence([], tensor_type(site.integer("dtype", 1), None))


def _at(site: Site) -> list[Known]:
    items = _items(site)
    position = _position(site, 1, 0)
    if not -len(items) <= position < len(items):
        msg = f"it takes tensor {position} of a sequence of {len(items)}"
        raise OpenError(msg)
    return [items[position]]


def _insert(site: Site) -> list[Known]:
    items, added = list(_items(site)), site.known(1)
    if added is not None:
        items.insert(_position(site, 2, len(items)), added)
    return _sequence(items)


def _erase(site: Site) -> list[Known]:
    items = list(_items(site))
    if items:
        items.pop(_position(site, 1, -1))
    return _sequence(items)


def _count(site: Site) -> list[Known]:
    return [Known(type=tensor_type(TensorProto.INT64, ()), data=integers(len(_items(site))), static=True)]


def _optional(site: Site) -> list[Known]:
    known = site.known(0)
    if known is None:
        msg = "it holds nothing"
        raise OpenError(msg)
    return [known]


def _has_element(site: Site) -> list[Known]:
    known = site.known(0)
    if known is not None and known.items is None and known.type.HasField("optional_type"):
        msg = "whether it holds anything depends on data"
        raise OpenError(msg)
    return [Known(type=tensor_type(TensorProto.BOOL, ()), data=boolean(value=known is not None), static=True)]


FOLLOWED: dict[str, Follow] = {
    "ai.onnx::Optional": _optional,
    "ai.onnx::OptionalGetElement": _optional,
    "ai.onnx::OptionalHasElement": _has_element,
    "ai.onnx::SequenceAt": _at,
    "ai.onnx::SequenceConstruct": _construct,
    "ai.onnx::SequenceEmpty": _nothing,
    "ai.onnx::SequenceErase": _erase,
    "ai.onnx::SequenceInsert": _insert,
    "ai.onnx::SequenceLength": _count,
}


def parts(site: Site) -> list[TypeProto]:
    """Types of the tensors that ``SplitToSequence`` makes. Raises OpenError where they depend on data."""
    before = site.dims(0)
    axis = site.integer("axis") % len(before)
    size = before[axis]
    if site.has(1):
        given = site.data(1)
        known = site.known(1)
        if known is not None and known.data.ndim == 0:
            if size is None or given[0] < 1:
                msg = "into how many parts it splits depends on data"
                raise OpenError(msg)
            whole, rest = divmod(size, given[0])
            given = [given[0]] * whole + ([rest] if rest else [])
        return [site.like(0, (*before[:axis], part, *before[axis + 1 :])) for part in given]
    if size is None:
        msg = "into how many parts it splits depends on data"
        raise OpenError(msg)
    middle = (1,) if site.integer("keepdims", 1) else ()
    return [site.like(0, (*before[:axis], *middle, *before[axis + 1 :]))] * size


def joined(site: Site) -> TypeProto:
    """Type of what ``ConcatFromSequence`` makes. Raises OpenError where it depends on data."""
    items = _items(site)
    shapes = [known.shape for known in items]
    first = shapes[0] if shapes else None
    if first is None or None in shapes:
        msg = "the sizes of what it joins depend on data"
        raise OpenError(msg)
    axis = site.integer("axis")
    if site.integer("new_axis"):
        axis %= len(first) + 1
        return tensor_type(items[0].element, (*first[:axis], len(items), *first[axis:]))
    axis %= len(first)
    total = sum(shape[axis] for shape in shapes if shape is not None)
    return tensor_type(items[0].element, (*first[:axis], total, *first[axis + 1 :]))
