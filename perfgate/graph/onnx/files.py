"""Floor 3, graph. An ONNX file and its data files, checked and read without the weights.

In: a path. Out: the model's proto in which tensors over :data:`MAX_DATA` elements have lost their contents: counting
needs their sizes only. Raises UsageError that names the file and the remedy. Nothing outside of the model's folder is
opened, and of data files only the few bytes of small tensors are read.
"""

from __future__ import annotations

import math
import mmap
from collections.abc import Iterable, Iterator
from contextlib import nullcontext
from pathlib import Path, PurePosixPath, PureWindowsPath

from onnx import AttributeProto, FunctionProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto

from perfgate.errors import UsageError
from perfgate.graph.onnx.elements import bits
from perfgate.graph.onnx.known import MAX_DATA
from perfgate.graph.onnx.lean import without_weights

# Protocol buffers end at 2 GiB; models above keep their weights in data files.
MAX_FILE = 2**31 - 1
# Bytes of one tensor and sizes of one dimension stay far from where 64 bits end.
MAX_TENSOR_BYTES = 2**60

# Version of the format from which on a model names its operator sets.
_OPSETS_SINCE = 3

_POINTER = b"version https://git-lfs.github.com/spec/"
_CONTENTS = (
    "raw_data", "float_data", "int32_data", "int64_data", "uint64_data", "double_data", "string_data",
)  # fmt: skip


def load(path: Path, root: Path | None = None) -> ModelProto:
    """The model in ``path``. A relative path starts at ``root``, and no link may lead out of ``root``."""
    place = path if root is None else root / path
    shown = str(path)
    if root is not None and not place.resolve().is_relative_to(root.resolve()):
        msg = f"{shown}: lies outside of {root}; keep the file inside of the repository"
        raise UsageError(msg)
    model = _read(place, shown)
    if not all(isinstance(text, str) for text in _texts(model)):
        msg = f"{shown}: holds names that are no text (UTF-8); export the model anew"
        raise UsageError(msg)
    # ONNX Runtime looks for data files beside the path that it was given, not where a link leads to.
    folder = place.parent.resolve()
    for tensor in tensors(model):
        _check(tensor, shown)
        if tensor.data_location == TensorProto.EXTERNAL:
            _settle_external(tensor, folder, shown)
        else:
            tensor.ClearField("external_data")
            if element_count(tensor) > MAX_DATA:
                for field in _CONTENTS:
                    tensor.ClearField(field)
    return model


def element_count(tensor: TensorProto) -> int:
    """Number of elements by the sizes that the tensor states."""
    return math.prod(tensor.dims)


def external_key(tensor: TensorProto) -> tuple[str, str] | None:
    """Place in a data file: equal for tensors that share their bytes (tied weights). None for contents in the file."""
    if not tensor.external_data:
        return None
    fields = {entry.key: entry.value for entry in tensor.external_data}
    return fields.get("location", ""), fields.get("offset", "0")


def tensors(model: ModelProto) -> Iterator[TensorProto]:
    """Every tensor that the file holds: initialisers and attributes, those of subgraphs and functions too."""
    yield from _of_graph(model.graph)
    for function in model.functions:
        yield from _of_function(function)
    for info in model.training_info:
        yield from _of_graph(info.initialization)
        yield from _of_graph(info.algorithm)


def _texts(model: ModelProto) -> Iterator[object]:
    """Every name in the file: protocol buffers give bytes where one is no text."""
    graphs = [model.graph]
    nodes = [node for function in model.functions for node in function.node]
    for function in model.functions:
        yield from (function.name, function.domain, *function.input, *function.output, *function.attribute)
    yield from (entry.domain for entry in model.opset_import)
    while graphs or nodes:
        if not nodes:
            graph = graphs.pop()
            nodes = list(graph.node)
            yield from (tensor.name for tensor in graph.initializer)
            yield from (sparse.values.name for sparse in graph.sparse_initializer)
            for info in (*graph.input, *graph.output, *graph.value_info):
                yield info.name
                yield from (dim.dim_param for dim in info.type.tensor_type.shape.dim)
            continue
        node = nodes.pop()
        yield from (node.name, node.op_type, node.domain, *node.input, *node.output)
        yield from (text for entry in node.metadata_props for text in (entry.key, entry.value))
        for attribute in node.attribute:
            yield from (attribute.name, attribute.ref_attr_name)
            graphs += [attribute.g] if attribute.HasField("g") else []
            graphs += attribute.graphs


def _of_graph(graph: GraphProto) -> Iterator[TensorProto]:
    yield from graph.initializer
    for sparse in graph.sparse_initializer:
        yield from _of_sparse(sparse)
    yield from _of_nodes(graph.node)


def _of_function(function: FunctionProto) -> Iterator[TensorProto]:
    yield from _of_nodes(function.node)
    yield from _of_attributes(function.attribute_proto)


def _of_nodes(nodes: Iterable[NodeProto]) -> Iterator[TensorProto]:
    for node in nodes:
        yield from _of_attributes(node.attribute)


def _of_attributes(attributes: Iterable[AttributeProto]) -> Iterator[TensorProto]:
    for attribute in attributes:
        if attribute.HasField("t"):
            yield attribute.t
        if attribute.HasField("sparse_tensor"):
            yield from _of_sparse(attribute.sparse_tensor)
        if attribute.HasField("g"):
            yield from _of_graph(attribute.g)
        yield from attribute.tensors
        for sparse in attribute.sparse_tensors:
            yield from _of_sparse(sparse)
        for graph in attribute.graphs:
            yield from _of_graph(graph)


def _of_sparse(sparse: SparseTensorProto) -> Iterator[TensorProto]:
    yield sparse.values
    yield sparse.indices


def _read(place: Path, shown: str) -> ModelProto:
    try:
        if not place.is_file():
            what = "is no plain file (a folder or a pipe)" if place.exists() else "there is no such file"
            msg = f"{shown}: {what}; give the path of an .onnx file"
            raise UsageError(msg)
        size = place.stat().st_size
        if size > MAX_FILE:
            msg = (
                f"{shown}: {size} bytes are more than an ONNX file can have (2 GiB); save the model with its weights "
                "in a data file (onnx.save_model with save_as_external_data=True)"
            )
            raise UsageError(msg)
        with place.open("rb") as file:
            if file.read(len(_POINTER)) == _POINTER:
                raise UsageError(_pointer(shown))
            # An empty file cannot be mapped.
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) if size else nullcontext(b"") as contents:
                return _parse(contents, shown)
    except OSError as error:
        msg = f"{shown}: cannot be read: {error.strerror}; check the path and its permissions"
        raise UsageError(msg) from None


def _parse(contents: mmap.mmap | bytes, shown: str) -> ModelProto:
    model = ModelProto()
    try:
        model.ParseFromString(without_weights(contents))
    except Exception:  # noqa: BLE001 - what protocol buffers raise differs by their implementation
        model = ModelProto()
    # Protocol buffers read much that was never meant as one: a model has a graph with outputs, and operator sets.
    graph = model.HasField("graph") and model.graph.output
    if not graph or (model.ir_version >= _OPSETS_SINCE and not model.opset_import):
        msg = f"{shown}: is no ONNX model or is cut off; export it anew, and check it with onnx.checker.check_model"
        raise UsageError(msg)
    return model


def _check(tensor: TensorProto, shown: str) -> None:
    if any(size < 0 for size in tensor.dims) or element_count(tensor) * bits(tensor.data_type) > MAX_TENSOR_BYTES * 8:
        msg = f"{shown}: tensor {tensor.name!r} has the impossible sizes {list(tensor.dims)}; export the model anew"
        raise UsageError(msg)


def _settle_external(tensor: TensorProto, folder: Path, shown: str) -> None:
    """The data file is there, inside of the model's folder, and long enough; small contents are read from it."""
    fields = {entry.key: entry.value for entry in tensor.external_data}
    location = fields.get("location", "")
    place = _inside(location, folder, tensor.name, shown)
    expected = (element_count(tensor) * bits(tensor.data_type) + 7) // 8
    try:
        offset, length = int(fields.get("offset", 0)), int(fields.get("length", expected))
    except ValueError:
        offset = length = -1
    if offset < 0 or length < expected:
        msg = f"{shown}: tensor {tensor.name!r} states no place in {location!r} that can hold it; export the model anew"
        raise UsageError(msg)
    try:
        with place.open("rb") as file:
            if place.stat().st_size < offset + expected:
                pointer = file.read(len(_POINTER)) == _POINTER
                cut = f"{shown}: its data file {location!r} is too short for tensor {tensor.name!r}; copy it anew"
                raise UsageError(_pointer(location) if pointer else cut)
            if element_count(tensor) > MAX_DATA:
                return
            file.seek(offset)
            tensor.raw_data = file.read(expected)
    except OSError as error:
        msg = f"{shown}: its data file {location!r} cannot be read: {error.strerror}; check its permissions"
        raise UsageError(msg) from None
    tensor.data_location = TensorProto.DEFAULT


def _inside(location: str, folder: Path, name: str, shown: str) -> Path:
    posix, windows = PurePosixPath(location), PureWindowsPath(location)
    leaves = posix.is_absolute() or windows.is_absolute() or windows.drive or ".." in {*posix.parts, *windows.parts}
    place = folder / location
    if not location or "\0" in location or leaves or not place.resolve().is_relative_to(folder):
        msg = (
            f"{shown}: tensor {name!r} keeps its data in {location!r}, which is not in the model's own folder; "
            "put the data file beside the model and export it with that name"
        )
        raise UsageError(msg)
    if place.exists() and not place.is_file():
        msg = f"{shown}: its data file {location!r} is no plain file (a folder or a pipe); put the file there"
        raise UsageError(msg)
    if not place.is_file():
        msg = f"{shown}: its data file {location!r} is missing; put it beside the model (is it in Git LFS, or ignored?)"
        raise UsageError(msg)
    return place


def _pointer(shown: str) -> str:
    return (
        f"{shown}: is a Git LFS pointer, not the file itself; run 'git lfs pull' (in Actions: checkout with lfs: true)"
    )
