"""Floor 0. Names of ONNX nodes in the user's terms, made the same way where a file is read and where it is run.

In: a node's name, operator and metadata as exporters write them. Out: the path of the module that the node came
from (``layer1.0.conv1``), and the operator's full name (``ai.onnx::Conv``). Standard library only.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

# Metadata in which torch's exporter keeps the module path of a node: the text of a list of strings.
SCOPES = "pkg.torch.onnx.name_scopes"

_OUTPUT = re.compile(r"_output_\d+$")
_NUMBER = re.compile(r"_+\d+$")
# Names that an exporter or optimiser gives to nodes of inlined functions: they say nothing.
_ANONYMOUS = re.compile(r"n\d+(_\d+)?")
_PREFIX = "node_"

_WEIGHTED = ("Conv", "ConvTranspose", "Gemm")
_WEIGHT = ".weight"


def operator(domain: str, op_type: str) -> str:
    """``ai.onnx::Conv``; the empty domain is ``ai.onnx``."""
    return f"{domain or 'ai.onnx'}::{op_type}"


def place(
    node_name: str, op_type: str, *, scopes: str = "", inputs: Sequence[str] = (), outputs: Sequence[str] = ()
) -> str:
    """Module path of a node: from its metadata ``SCOPES``, else from its name, else from its first output's.

    Empty: the model itself, or nothing to be told.
    """
    told = module_of_scopes(scopes, op_type, inputs) if scopes else None
    if told is not None:
        return told
    if node_name:
        return module_of(node_name, op_type)
    named = next((output for output in outputs if output), "")
    module = module_of(_OUTPUT.sub("", named), op_type)
    # Exporters number what has no name of its own.
    return "" if module.isdecimal() else module


def module_of(node_name: str, op_type: str) -> str:
    """Module path that a node's name tells: ``/layer1/layer1.0/conv1/Conv`` gives ``layer1.0.conv1``.

    A name without a path is itself the place (``conv1``), unless it merely repeats the operator (``Conv_12``).
    Empty: the model itself, or nothing to be told. A module that is called twice has ``_1`` in the exporter's
    names; that cannot be told from a module of this name, and stays.
    """
    parts = [part for part in node_name.split("/") if part]
    if not parts:
        return ""
    if len(parts) == 1 and not node_name.startswith("/"):
        return _single(parts[0], op_type)
    last = parts[-1]
    # Exporters end a path with the operator, numbered or with an optimiser's suffix; modules are written small.
    if last[0].isupper() or _is_operator(last, op_type):
        parts.pop()
    return _joined(parts)


def module_of_scopes(scopes: str, op_type: str = "", inputs: Sequence[str] = ()) -> str | None:
    """Module path from the metadata ``SCOPES``: ``['', 'layer1', 'layer1.0', 'add_2']`` gives ``layer1.0``.

    None where the text is not such a list. The last entry names the operator's call. A convolution that swallowed
    a normalisation carries the normalisation's scopes but its own weight, which tells its module.
    """
    try:
        found = ast.literal_eval(scopes)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(found, list) or not found or not all(isinstance(scope, str) for scope in found):
        return None
    weight = inputs[1] if op_type in _WEIGHTED and len(inputs) > 1 else ""
    if weight.endswith(_WEIGHT):
        return weight.removesuffix(_WEIGHT)
    return found[-2] if len(found) > 1 else ""


def _single(name: str, op_type: str) -> str:
    body = name.removeprefix(_PREFIX)
    return "" if _is_operator(body, op_type) or _ANONYMOUS.fullmatch(body) else body


def _is_operator(name: str, op_type: str) -> bool:
    return _NUMBER.sub("", name).casefold() == op_type.casefold()


def _joined(parts: list[str]) -> str:
    """Items of a container repeat its name (``conv/conv.0/conv.0.0``): the longest says it all."""
    path: list[str] = []
    for part in parts:
        if path and part.startswith(f"{path[-1]}."):
            path[-1] = part
        else:
            path.append(part)
    return ".".join(path)
