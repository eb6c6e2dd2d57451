"""Small ONNX models for tests, and their counts."""

from __future__ import annotations

from pathlib import Path

from onnx import TensorProto, helper

from perfgate.graph.build import build
from perfgate.graph.onnx import read
from perfgate.graph.operators.definition import Operands
from perfgate.graph.operators.onnx_table import DEFINITIONS
from perfgate.records.graph import Call, Graph, Trace

FLOAT, INT64, INT32, INT8, UINT8, BOOL, FLOAT16 = (
    TensorProto.FLOAT,
    TensorProto.INT64,
    TensorProto.INT32,
    TensorProto.INT8,
    TensorProto.UINT8,
    TensorProto.BOOL,
    TensorProto.FLOAT16,
)


def node(op_type, inputs, outputs, domain="", name="", **attributes):
    return helper.make_node(op_type, inputs.split(), outputs.split(), domain=domain, name=name, **attributes)


def value(name, shape, element=FLOAT):
    return helper.make_tensor_value_info(name, element, shape)


def weight(name, shape, element=FLOAT):
    """An initialiser of zeros."""
    size = 1
    for extent in shape:
        size *= extent
    bits = {FLOAT: 4, INT64: 8, INT32: 4, INT8: 1, UINT8: 1, BOOL: 1, FLOAT16: 2}[element]
    return helper.make_tensor(name, element, shape, b"\0" * size * bits, raw=True)


def ints(name, *values):
    return helper.make_tensor(name, INT64, [len(values)], values)


def number(name, item, element=INT64):
    return helper.make_tensor(name, element, [], [item])


def model(nodes, inputs, outputs, initializers=(), *, opset=17, domains=(), functions=(), ir_version=8, infos=()):
    graph = helper.make_graph(nodes, "g", inputs, outputs, initializer=initializers, value_info=infos)
    imports = [helper.make_opsetid("", opset), *(helper.make_opsetid(domain, 1) for domain in domains)]
    return helper.make_model(graph, opset_imports=imports, functions=functions, ir_version=ir_version)


def save(proto, folder: Path, name="m.onnx") -> Path:
    path: Path = Path(folder) / name
    path.write_bytes(proto.SerializeToString())
    return path


def traced(proto, folder: Path, inputs=None, **options) -> Trace:
    return read.trace(save(proto, folder), inputs, **options)


def counted(proto, folder: Path, inputs=None, **options) -> Graph:
    return build(traced(proto, folder, inputs, **options))


def flop(trace: Trace) -> int:
    """F by the table's formulas alone; raises where one does not know."""
    total = 0
    for call in trace.calls:
        formula = DEFINITIONS[call.op].flop
        total += formula(Operands(trace, call)) * call.repeat if formula is not None else 0
    return total


def moved(trace: Trace, call: Call) -> tuple[int, int]:
    """Bytes (read, written) by the operator's own rule."""
    movement = DEFINITIONS[call.op].movement
    assert movement is not None
    return movement(Operands(trace, call))


def ops(trace: Trace) -> list[str]:
    return [call.op.partition("::")[2] for call in trace.calls]


def untyped(name, element=FLOAT):
    """An output whose sizes the file does not tell."""
    return helper.make_value_info(name, helper.make_tensor_type_proto(element, None))


def shape_of(trace: Trace, position=0) -> tuple[int, ...]:
    """Sizes of a result."""
    shape: tuple[int, ...] = trace.values[trace.results[position]].shape
    return shape
