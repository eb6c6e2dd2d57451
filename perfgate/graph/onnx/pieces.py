"""Floor 3, graph. ONNX files taken apart: a description of the operators, and files of some of them.

In: :class:`Wanted` of a worker. Out: the files that it names, written by a process of its own, since reading a file
that another program made may crash. Raises UsageError where the file is at fault, MeasuringError where reading it
failed.

Beginning of ``python -m perfgate.graph.onnx.pieces``: :class:`Wanted` on standard input, an error's text on standard
output.
"""

from __future__ import annotations

import hashlib
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import onnx
from onnx import GraphProto, ModelProto, NodeProto, TensorProto, ValueInfoProto, helper

from perfgate import onnx_names, wire
from perfgate.errors import MeasuringError, PerfgateError, UsageError
from perfgate.graph.onnx import elements, isolated
from perfgate.records.placing import CrossingValue, Cut, Described, DescribedOperator, Wanted

TIMEOUT_S = 300.0

_MODULE = "perfgate.graph.onnx.pieces"
# Constants up to here have their values in the description: axes, shapes and scalars decide what an operator does.
_SMALL_BYTES = 64
# A protocol buffer ends at 2 GiB.
_MOST_BYTES = 2**31 - 2**20
_IDENTITY_OPSET, _IDENTITY_IR = 13, 8


def serve(wanted: Wanted, folder: Path, *, timeout_s: float = TIMEOUT_S) -> None:
    """Write what a worker wants. All of it lies in ``folder``, or UsageError is raised: a worker runs foreign code."""
    for text in (wanted.source, wanted.describe, *(cut.file for cut in wanted.cuts)):
        if text and not Path(text).resolve().is_relative_to(folder.resolve()):
            msg = f"{text}: the worker asked for a file outside of {folder}; that is refused"
            raise UsageError(msg)
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE],
            input=wire.dumps(wanted).encode(),
            capture_output=True,
            timeout=timeout_s,
            env=isolated.environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        msg = f"{wanted.source}: cutting it took longer than {timeout_s:g} s; leave this model out of placement"
        raise MeasuringError(msg) from None
    except OSError as error:
        msg = f"{wanted.source}: the interpreter {sys.executable} that should cut it does not start: {error.strerror}"
        raise MeasuringError(msg) from None
    if done.returncode or done.stdout:
        said = done.stdout.decode("utf-8", "replace").strip() or isolated.ending(done)
        raise MeasuringError(f"{wanted.source}: {said}")  # noqa: EM102


def write(wanted: Wanted) -> None:
    """The same in this process."""
    model = _load(Path(wanted.source)) if wanted.describe or any(cut.nodes for cut in wanted.cuts) else ModelProto()
    if wanted.describe:
        Path(wanted.describe).write_text(wire.dumps(describe(model)), encoding="utf-8")
    for cut in wanted.cuts:
        file = Path(cut.file)
        file.parent.mkdir(parents=True, exist_ok=True)
        # Whoever sees the file may rely on all of it being there.
        part = file.with_name(f"{file.name}.part")
        _save(piece(model, cut) if cut.nodes else identity(), part, file)


def describe(model: ModelProto) -> Described:
    """The operators of ``model``'s main graph."""
    graph = model.graph
    weights: dict[str, int] = {}
    texts: dict[str, str] = {}
    for tensor in graph.initializer:
        count = 1
        for size in tensor.dims:
            count *= size
        nbytes = -(-count * elements.bits(tensor.data_type) // 8)
        weights[tensor.name] = nbytes
        text = f"{elements.dtype(tensor.data_type)}{list(tensor.dims)}"
        if nbytes <= _SMALL_BYTES:
            bare = TensorProto()
            bare.CopyFrom(tensor)
            bare.name = ""
            text += _hash(bare.SerializeToString(deterministic=True))
        texts[tensor.name] = text
    return Described(
        operators=tuple(_operator(node) for node in graph.node),
        inputs=tuple(one.name for one in graph.input if one.name not in weights),
        outputs=tuple(one.name for one in graph.output),
        weights=weights,
        texts=texts,
    )


def _operator(node: NodeProto) -> DescribedOperator:
    captured = tuple(dict.fromkeys(_captured(node)))
    scopes = next((entry.value for entry in node.metadata_props if entry.key == onnx_names.SCOPES), "")
    return DescribedOperator(
        op=node.op_type,
        domain="" if node.domain == "ai.onnx" else node.domain,
        module=onnx_names.place(
            _unfused(node.name), node.op_type, scopes=scopes, inputs=node.input, outputs=node.output
        ),
        reads=(*node.input, *captured),
        makes=tuple(node.output),
        attributes="".join(
            _hash(one.SerializeToString(deterministic=True)) for one in sorted(node.attribute, key=lambda one: one.name)
        ),
    )


def _unfused(name: str) -> str:
    """``/first/MatMul/MatMulAddFusion`` -> ``/first/MatMul``: optimisers append themselves, exporters the operator."""
    parts = name.split("/")
    while len(parts) > 1 and all(part[:1].isupper() for part in parts[-2:]):
        parts.pop()
    return "/".join(parts)


def _hash(contents: bytes) -> str:
    return hashlib.sha256(contents).hexdigest()[:16]


def _captured(node: NodeProto) -> Iterator[str]:
    """Names that a node's sub-graphs take from outside."""
    for attribute in node.attribute:
        graphs = [*attribute.graphs, *([attribute.g] if attribute.HasField("g") else [])]
        for graph in graphs:
            yield from _free(graph)


def _free(graph: GraphProto) -> Iterator[str]:
    known = {one.name for one in graph.input} | {one.name for one in graph.initializer}
    for node in graph.node:
        for name in (*node.input, *_captured(node)):
            if name and name not in known:
                yield name
        known.update(node.output)
    for one in graph.output:
        if one.name not in known:
            yield one.name


def piece(model: ModelProto, cut: Cut) -> ModelProto:
    """The operators of ``cut`` as a model. Raises UsageError where it asks for what is not there."""
    graph = model.graph
    wrong = [number for number in cut.nodes if not 0 <= number < len(graph.node)]
    if wrong:
        msg = f"there is no operator {wrong[0]} in a graph of {len(graph.node)}"
        raise UsageError(msg)
    nodes = [graph.node[number] for number in sorted(cut.nodes)]
    made = {name for node in nodes for name in node.output if name}
    read = dict.fromkeys(
        name for node in nodes for name in (*node.input, *_captured(node)) if name and name not in made
    )
    weights = [tensor for tensor in graph.initializer if tensor.name in read]
    held = {tensor.name for tensor in weights}
    known = {value.name: _info(value) for value in cut.values}
    own = {one.name: one for one in (*graph.input, *graph.output, *graph.value_info)}
    lost = [name for name in cut.outputs if name not in made]
    if lost:
        msg = f"none of these operators makes {lost[0]!r}"
        raise UsageError(msg)
    new = ModelProto()
    new.CopyFrom(_shell(model))
    new.graph.name = graph.name or "piece"
    new.graph.node.extend(nodes)
    new.graph.initializer.extend(weights)
    new.graph.input.extend(known.get(name) or own.get(name) or _untyped(name) for name in read if name not in held)
    new.graph.output.extend(known.get(name) or own.get(name) or _untyped(name) for name in cut.outputs)
    return new


def _shell(model: ModelProto) -> ModelProto:
    """Versions and functions without the graph."""
    shell = ModelProto(ir_version=model.ir_version, producer_name="perfgate")
    shell.opset_import.extend(model.opset_import)
    shell.functions.extend(model.functions)
    return shell


def _info(value: CrossingValue) -> ValueInfoProto:
    number = elements.number(value.dtype)
    if number is None:
        msg = f"{value.name}: ONNX has no dtype {value.dtype}"
        raise UsageError(msg)
    return helper.make_tensor_value_info(value.name, number, [None if size < 0 else size for size in value.shape])


def _untyped(name: str) -> ValueInfoProto:
    return ValueInfoProto(name=name)


def identity() -> ModelProto:
    """One number in, the same out: what a call costs that does nothing."""
    info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [1]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "empty", info[:1], info[1:])
    opset = helper.make_opsetid("", _IDENTITY_OPSET)
    return helper.make_model(graph, opset_imports=[opset], ir_version=_IDENTITY_IR)


def _load(path: Path) -> ModelProto:
    try:
        return onnx.load(path)
    except Exception as error:  # noqa: BLE001 - protocol buffers' own kinds differ by release
        msg = f"cannot be read ({' '.join(str(error).split())[:200]}); export the model anew"
        raise UsageError(msg) from None


def _save(model: ModelProto, part: Path, file: Path) -> None:
    if sum(len(tensor.raw_data) for tensor in model.graph.initializer) < _MOST_BYTES:
        onnx.save(model, part)
    else:
        # The data file's name is written into the model, so it has its last name at once.
        onnx.save(model, part, save_as_external_data=True, location=f"{file.name}.data")
    part.rename(file)


def main() -> int:
    """Serve one request; an error's sentence is all that reaches standard output."""
    try:
        write(wire.loads(Wanted, sys.stdin.buffer.read()))
    except PerfgateError as error:
        sys.stdout.write(" ".join(str(error).split()))
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
