"""Floor 3, graph. Types of a node's outputs.

In: a :class:`Site`. Out: one type for each output, and why one stayed open. First the onnx package's own inference,
with the values of small inputs; where it has none (ONNX Runtime's operators, very old versions) our own functions;
last what the file itself declares.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from onnx import NodeProto, TensorProto, TypeProto, helper, numpy_helper, shape_inference
from onnx.checker import ValidationError

from perfgate.graph.onnx import schemas
from perfgate.graph.onnx.elements import FOLDABLE
from perfgate.graph.onnx.known import Known, shape_of
from perfgate.graph.onnx.site import OpenError, Site

# The onnx package infers these, but not from all that their inputs and attributes tell.
_TOLD_BY_VALUES = ("ai.onnx::Compress", "ai.onnx::MaxUnpool", "ai.onnx::Range", "ai.onnx::STFT")

ShapeFunction = Callable[[Site], Sequence[TypeProto]]


class MisfitError(Exception):
    """The sizes of the inputs do not fit the operator; the message says how."""


def infer(site: Site, own: ShapeFunction | None, declared: Sequence[TypeProto]) -> tuple[list[TypeProto], str]:
    """Types of all outputs (those without a name stay empty), and the reason why one is not known, if so.

    ``own`` is asked where the onnx package has no inference at all. Raises MisfitError where the inputs' sizes, all of
    them known, contradict the operator, and the file does not declare the output's sizes either.
    """
    offers: list[Sequence[TypeProto]] = []
    reason = ""
    try:
        told = own is not None and site.op in _TOLD_BY_VALUES
        standard, reason = (None, "") if told else _standard(site)
        if own is not None and standard is None:
            made, reason = _owned(site, own)
            offers.append(made)
            standard = _standard(site)[0] if told and not (made and all(map(_settled, made))) else None
        offers.append(standard or [])
    except MisfitError:
        if not all(map(_settled, _named(site, declared))):
            raise
    found = _merged(len(site.node.output), *offers, declared)
    return found, "" if all(map(_settled, _named(site, found))) else reason


def _owned(site: Site, own: ShapeFunction) -> tuple[list[TypeProto], str]:
    try:
        return list(own(site)), "a size depends on data"
    except OpenError as error:
        return [], str(error)
    except (IndexError, ValueError, ArithmeticError, TypeError, KeyError):
        return [], "its inputs do not fit it"


def _named(site: Site, types: Sequence[TypeProto]) -> list[TypeProto]:
    return [type_ for name, type_ in zip(site.node.output, types, strict=False) if name]


def delegated(
    site: Site,
    op_type: str,
    positions: Sequence[int],
    version: int,
    keep: Sequence[str] = (),
    types: Sequence[TypeProto] = (),
) -> list[TypeProto]:
    """What the standard's operator ``op_type`` makes of some of the inputs, with the attributes ``keep``.

    ``types`` stand for the inputs' own. Raises OpenError where it makes nothing of them.
    """
    names = [f"i{number}" for number in range(len(positions))]
    node = helper.make_node(op_type, names, ["o"])
    node.attribute.extend(site.attributes[name] for name in keep if name in site.attributes)
    known = [site.known(position) for position in positions]
    given = types or [Known(type=TypeProto()).type if entry is None else entry.type for entry in known]
    data = {name: entry.data for name, entry in zip(names, known, strict=True) if entry is not None and not types}
    made, reason = _inferred("", node, version, dict(zip(names, given, strict=True)), data, site)
    if not made or not made[0].HasField("tensor_type"):
        raise OpenError(reason or "its sizes are not known")
    return made


def _standard(site: Site) -> tuple[list[TypeProto] | None, str]:
    """None instead of types: the onnx package has no inference for the operator."""
    if site.domain == schemas.CHANNELS_LAST:
        return None, "its layout is ONNX Runtime's own"
    types: dict[str, TypeProto] = {}
    data = {}
    for name, known in zip(site.node.input, site.inputs, strict=True):
        if name and known is not None:
            types[name] = known.type
            data[name] = known.data
    return _inferred(site.domain, site.node, site.version, types, data, site)


def _inferred(
    domain: str, node: NodeProto, version: int, types: dict[str, TypeProto], data: dict[str, object], site: Site
) -> tuple[list[TypeProto] | None, str]:
    schema = schemas.schema(domain, node.op_type, version)
    if schema is None or not schema.has_type_and_shape_inference_function:
        return None, "there is no shape inference for this operator"
    try:
        made = shape_inference.infer_node_outputs(
            schema,
            node,
            types,
            {name: proto for name, values in data.items() if (proto := _proto(name, values)) is not None},
            opset_imports=site.imports or None,
            ir_version=site.ir_version,
        )
    except shape_inference.InferenceError as error:
        text = " ".join(str(error).split())
        known = all(shape_of(type_) is not None for name, type_ in types.items() if name)
        if known and "[ShapeInferenceError]" in text:
            raise MisfitError(text.replace("[ShapeInferenceError] ", "")) from None
        return [], text
    except ValidationError as error:
        known_ones = [attribute for attribute in node.attribute if attribute.name in schema.attributes]
        if len(known_ones) == len(node.attribute):
            return [], " ".join(str(error).split())[:200]
        # What newer or careless exporters add does not change the sizes.
        plain = helper.make_node(node.op_type, node.input, node.output, domain=node.domain)
        plain.attribute.extend(known_ones)
        return _inferred(domain, plain, version, types, data, site)
    except KeyError as error:
        if "" in types or "" not in node.input:
            return [], f"{error} is not known"
        # onnx before 1.17 looks for the types of inputs that are left out, too.
        return _inferred(domain, node, version, {**types, "": TypeProto()}, data, site)
    except (RuntimeError, ValueError, IndexError) as error:
        return [], " ".join(str(error).split())[:200]
    outputs = [made.get(name, TypeProto()) for name in node.output]
    return outputs, "a size depends on data"


def _proto(name: str, values: object) -> TensorProto | None:
    return None if values is None else numpy_helper.from_array(values, name)  # type: ignore[arg-type]


def _merged(count: int, *offers: Sequence[TypeProto]) -> list[TypeProto]:
    """For each output the first offer with all sizes; failing that, the first that tells anything."""
    chosen = []
    for position in range(count):
        found = [offer[position] for offer in offers if position < len(offer)]
        settled = [type_ for type_ in found if _settled(type_)]
        telling = [type_ for type_ in found if type_.WhichOneof("value")]
        chosen.append((settled or telling or [TypeProto()])[0])
    return chosen


def _settled(type_: TypeProto) -> bool:
    if type_.HasField("tensor_type"):
        return shape_of(type_) is not None and type_.tensor_type.elem_type != 0
    return type_.WhichOneof("value") is not None


def foldable(type_: TypeProto) -> bool:
    """Whether values of this type can be computed while reading."""
    return type_.HasField("tensor_type") and type_.tensor_type.elem_type in FOLDABLE
