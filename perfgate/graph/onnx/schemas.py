"""Floor 3, graph. Schemas of ONNX operators: which version is meant, names of inputs, defaults of attributes.

In: domain, operator, version of the operator set. Out: the onnx package's schema where it has one, and names.
"""

from __future__ import annotations

import functools

from onnx import defs

from perfgate.graph.onnx.attributes import as_json
from perfgate.graph.onnx.contrib_names import INPUTS
from perfgate.onnx_names import operator

# ONNX Runtime's layout domain holds the standard's operators with channels last, and some of its own.
CHANNELS_LAST = "com.ms.internal.nhwc"


@functools.cache
def schema(domain: str, op_type: str, version: int) -> defs.OpSchema | None:
    """The schema in force in ``version`` of the operator set; None where the onnx package has none."""
    for place in ("", "com.microsoft") if domain == CHANNELS_LAST else (domain,):
        try:
            return defs.get_schema(op_type, max(version, 1), place)
        except defs.SchemaError:
            continue
    return None


@functools.cache
def since(domain: str, op_type: str, version: int) -> str:
    """Version of the operator itself: the operator set in which it was last changed. Unknown: the set's version."""
    found = schema(domain, op_type, version)
    return str(version if found is None else found.since_version)


@functools.cache
def input_names(domain: str, op_type: str, version: int) -> tuple[str, ...]:
    """Formal names of the inputs; a last one that ends in ``*`` takes all the rest. Empty: not known."""
    found = schema(domain, op_type, version)
    if found is not None:
        variadic = defs.OpSchema.FormalParameterOption.Variadic
        return tuple(f"{entry.name}*" if entry.option == variadic else entry.name for entry in found.inputs)
    place = "com.microsoft" if domain == CHANNELS_LAST else domain
    return INPUTS.get(operator(place, op_type), ())


def input_name(names: tuple[str, ...], position: int) -> str:
    """Name of the input at ``position``; ``in3`` for one of many or of an unknown operator."""
    name = names[position] if position < len(names) else "*"
    return f"in{position}" if name.endswith("*") else name


@functools.cache
def defaults(domain: str, op_type: str, version: int) -> dict[str, object]:
    """Attributes that the schema gives a value where a node has none."""
    found = schema(domain, op_type, version)
    if found is None:
        return {}
    return {
        name: as_json(entry.default_value)
        for name, entry in found.attributes.items()
        if entry.default_value is not None and entry.default_value.name
    }
