"""Floor 3, worker. What an ONNX file says about itself, without the ``onnx`` package and without its weights.

In: the bytes of a file. Out: :class:`ModelFile`: its operators by name, and the files that hold its weights.
Field numbers are those of the format's definition (``onnx.proto``).
"""

from __future__ import annotations

import mmap
from dataclasses import dataclass, field
from pathlib import Path

from perfgate import onnx_names
from perfgate.protobuf import MalformedError, Message

# Subgraphs of subgraphs: deeper than any exporter goes.
_MAX_DEPTH = 50

_MODEL_GRAPH, _MODEL_FUNCTIONS = 7, 25
_GRAPH_NODE, _GRAPH_INITIALIZER, _GRAPH_SPARSE = 1, 5, 15
_FUNCTION_NODE = 7
_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OPERATOR, _NODE_ATTRIBUTE, _NODE_DOMAIN, _NODE_METADATA = (
    1, 2, 3, 4, 5, 7, 9,
)  # fmt: skip
_ATTRIBUTE_TENSOR, _ATTRIBUTE_GRAPH, _ATTRIBUTE_TENSORS, _ATTRIBUTE_GRAPHS, _ATTRIBUTE_SPARSE = 5, 6, 10, 11, 22
_SPARSE_VALUES, _SPARSE_INDICES = 1, 2
_TENSOR_NAME, _TENSOR_EXTERNAL, _TENSOR_LOCATION = 8, 13, 14
# What the last of them holds where the contents lie in another file.
_EXTERNAL = 1
_ENTRY_KEY, _ENTRY_VALUE = 1, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One operator of the file. ``module``: its place in the user's terms, empty for the model itself."""

    name: str
    op_type: str
    domain: str
    module: str
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @property
    def op(self) -> str:
        """``ai.onnx::Conv``."""
        return onnx_names.operator(self.domain, self.op_type)


@dataclass(slots=True, kw_only=True)
class ModelFile:
    """``nodes`` in order, those of subgraphs and functions among them.

    ``external`` maps the location of a file with weights, as it is written, to the first tensor that lies in it.
    """

    nodes: list[Node] = field(default_factory=list)
    external: dict[str, str] = field(default_factory=dict)


def read(path: Path) -> ModelFile:
    """Raises OSError, and MalformedError where this is no ONNX file."""
    with path.open("rb") as stream:
        if not path.stat().st_size:
            raise MalformedError("it is empty")  # noqa: EM101
        with mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return parse(Message.whole(data))


def parse(model: Message) -> ModelFile:
    """Raises MalformedError."""
    found = ModelFile()
    graphs = 0
    for number, part in model.fields():
        if number == _MODEL_GRAPH and isinstance(part, Message):
            graphs += 1
            _graph(part, found, 0)
        elif number == _MODEL_FUNCTIONS and isinstance(part, Message):
            for inner, node in part.fields():
                if inner == _FUNCTION_NODE and isinstance(node, Message):
                    _node(node, found, 0)
    if not graphs:
        raise MalformedError("it holds no graph")  # noqa: EM101
    return found


def _graph(graph: Message, found: ModelFile, depth: int) -> None:
    if depth > _MAX_DEPTH:
        raise MalformedError(f"its graphs are nested more than {_MAX_DEPTH} deep")  # noqa: EM102
    for number, part in graph.fields():
        if not isinstance(part, Message):
            continue
        if number == _GRAPH_NODE:
            _node(part, found, depth)
        elif number == _GRAPH_INITIALIZER:
            _tensor(part, found)
        elif number == _GRAPH_SPARSE:
            _sparse(part, found)


def _node(node: Message, found: ModelFile, depth: int) -> None:
    texts: dict[int, list[str]] = {}
    attributes: list[Message] = []
    scopes = ""
    for number, part in node.fields():
        if not isinstance(part, Message):
            continue
        if number == _NODE_ATTRIBUTE:
            attributes.append(part)
        elif number == _NODE_METADATA:
            key, value = _entry(part)
            scopes = value if key == onnx_names.SCOPES else scopes
        elif number in (_NODE_INPUT, _NODE_OUTPUT, _NODE_NAME, _NODE_OPERATOR, _NODE_DOMAIN):
            texts.setdefault(number, []).append(part.text())
    name, op_type = _last(texts, _NODE_NAME), _last(texts, _NODE_OPERATOR)
    inputs, outputs = tuple(texts.get(_NODE_INPUT, ())), tuple(texts.get(_NODE_OUTPUT, ()))
    found.nodes.append(
        Node(
            name=name,
            op_type=op_type,
            domain=_last(texts, _NODE_DOMAIN),
            module=onnx_names.place(name, op_type, scopes=scopes, inputs=inputs, outputs=outputs),
            inputs=inputs,
            outputs=outputs,
        )
    )
    for attribute in attributes:
        _attribute(attribute, found, depth)


def _attribute(attribute: Message, found: ModelFile, depth: int) -> None:
    for number, part in attribute.fields():
        if not isinstance(part, Message):
            continue
        if number in (_ATTRIBUTE_GRAPH, _ATTRIBUTE_GRAPHS):
            _graph(part, found, depth + 1)
        elif number in (_ATTRIBUTE_TENSOR, _ATTRIBUTE_TENSORS):
            _tensor(part, found)
        elif number == _ATTRIBUTE_SPARSE:
            _sparse(part, found)


def _sparse(sparse: Message, found: ModelFile) -> None:
    for number, part in sparse.fields():
        if number in (_SPARSE_VALUES, _SPARSE_INDICES) and isinstance(part, Message):
            _tensor(part, found)


def _tensor(tensor: Message, found: ModelFile) -> None:
    name, location, elsewhere = "", "", False
    for number, part in tensor.fields():
        if not isinstance(part, Message):
            elsewhere = part == _EXTERNAL if number == _TENSOR_LOCATION else elsewhere
        elif number == _TENSOR_NAME:
            name = part.text()
        elif number == _TENSOR_EXTERNAL:
            key, value = _entry(part)
            location = value if key == "location" else location
    if elsewhere:
        found.external.setdefault(location, name)


def _entry(entry: Message) -> tuple[str, str]:
    parts = {number: part.text() for number, part in entry.fields() if isinstance(part, Message)}
    return parts.get(_ENTRY_KEY, ""), parts.get(_ENTRY_VALUE, "")


def _last(texts: dict[int, list[str]], number: int) -> str:
    return texts.get(number, [""])[-1]
