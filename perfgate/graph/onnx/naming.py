"""Floor 3, graph. Where in the user's modules an ONNX node comes from.

In: a node, and the module of the function call around it. Out: module path and class (``layer1.0.conv1``, ``Conv2d``).
"""

from __future__ import annotations

import ast

from onnx import NodeProto

from perfgate import onnx_names

_CLASSES = "pkg.torch.onnx.class_hierarchy"


def place(node: NodeProto, around: str) -> tuple[str, str]:
    """Module path and its class. ``around``: module of the call whose function the node is part of."""
    known = {entry.key: entry.value for entry in node.metadata_props} if node.metadata_props else {}
    scopes = known.get(onnx_names.SCOPES, "")
    # What a function calls its own values says nothing about modules.
    outputs = () if around else node.output
    module = onnx_names.place(node.name, node.op_type, scopes=scopes, inputs=node.input, outputs=outputs)
    if scopes:
        # A convolution that swallowed a normalisation has the latter's class, and is at its own weight's place.
        return module, _class(known.get(_CLASSES, "")) if onnx_names.module_of_scopes(scopes) == module else ""
    if around and module != around and not module.startswith(f"{around}."):
        module = f"{around}.{module}" if module else around
    return module, ""


def shown(node: NodeProto) -> str:
    """The node as messages name it: ``/fc/Gemm`` or, without a name, ``Gemm making logits``."""
    made = next((name for name in node.output if name), "nothing")
    return f"{node.name} ({node.op_type})" if node.name else f"{node.op_type} making {made}"


def _class(hierarchy: str) -> str:
    """``Conv2d`` from ``['...ResNet', 'torch.nn.modules.conv.Conv2d', 'aten.conv2d.default']``."""
    try:
        found = ast.literal_eval(hierarchy)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if not isinstance(found, list) or len(found) < 2 or not isinstance(found[-2], str):
        return ""
    return found[-2].rpartition(".")[2]
