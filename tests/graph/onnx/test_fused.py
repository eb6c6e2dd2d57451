"""Operators of ONNX Runtime: sizes of outputs as the runtime itself makes them, and F."""

from __future__ import annotations

import math

import pytest
from onnx import helper

from tests.graph.onnx.fused_plain import B4, PLAIN, D, N, S
from tests.graph.onnx.fused_quantised import QUANTISED
from tests.graph.onnx.models import (
    flop,
    model,
    moved,
    node,
    save,
    shape_of,
    traced,
    value,
    weight,
)

MS = "com.microsoft"
CASES = PLAIN | QUANTISED


def skip(inputs):
    """``a _ b`` with ``_`` for an input that is left out."""
    return [name if name != "_" else "" for name in inputs.split()]


def case(name):
    op, inputs, tensors, made, attributes, constants, expected = CASES[name]
    outputs = [f"y{position}" if element is not None else "" for position, element in enumerate(made)]
    infos = [
        helper.make_value_info(output, helper.make_tensor_type_proto(element, None))
        for output, element in zip(outputs, made, strict=True)
        if output
    ]
    proto = model(
        [helper.make_node(op, skip(inputs), outputs, domain=MS, **attributes)],
        [value(tensor, shape, element) for tensor, (shape, element) in tensors.items()],
        infos,
        constants,
        domains=(MS,),
    )
    return proto, expected


@pytest.mark.parametrize("name", CASES)
def test_fused__flop_and_known_sizes(tmp_path, name):
    proto, expected = case(name)

    trace = traced(proto, tmp_path)

    assert flop(trace) == expected
    assert len(trace.results) == len(proto.graph.output)
    assert all(size > 0 for index in trace.results for size in trace.values[index].shape)
    assert not any("cannot be told" in note for note in trace.notes)


# Kernels that ONNX Runtime does not have for the CPU.
_NO_KERNEL = {"all finite", "new dimension", "softmax with bias"}


@pytest.mark.parametrize("name", sorted(set(CASES) - _NO_KERNEL))
def test_fused__sizes_and_types_are_those_that_the_runtime_makes(tmp_path, name):
    runtime = pytest.importorskip("onnxruntime")
    numpy = pytest.importorskip("numpy")
    proto, _ = case(name)
    options = runtime.SessionOptions()
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    session = runtime.InferenceSession(str(save(proto, tmp_path)), options, providers=["CPUExecutionProvider"])
    feeds = {}
    for info in proto.graph.input:
        tensor = info.type.tensor_type
        shape = [dim.dim_value for dim in tensor.shape.dim]
        feeds[info.name] = numpy.zeros(shape, dtype=helper.tensor_dtype_to_np_dtype(tensor.elem_type))
    if name == "grouped attention":
        feeds["lengths"][:] = 5
    made = session.run(None, feeds)

    trace = traced(proto, tmp_path)

    found = [(trace.values[index].shape, trace.values[index].dtype) for index in trace.results]
    assert found == [(array.shape, str(array.dtype)) for array in made]


def test_packed_weights__count_by_their_logical_elements(tmp_path):
    proto, _ = case("four-bit product")

    trace = traced(proto, tmp_path)

    (packed,) = [found for found in trace.values if found.name == "b"]
    assert (packed.bits, packed.logical, packed.shape, packed.role) == (4, 16 * 64, (16, 2, 16), "parameter")
    assert trace.parameters == 16 * 64
    assert trace.weight_bytes == 16 * 64 // 2 + 32 * 4


def test_experts__only_those_that_tokens_can_reach_are_read(tmp_path):
    proto, _ = case("experts")
    for info in list(proto.graph.input)[:2]:
        info.type.tensor_type.shape.dim[0].dim_value = 1

    trace = traced(proto, tmp_path)

    read, written = moved(trace, trace.calls[0])
    assert read == 4 * (16 + 4 + 2 * 32 * 16 + 2 * 16 * 32)
    assert written == 4 * 16


def test_behind_fused_operators__sizes_go_on(tmp_path):
    nodes = [
        node("Attention", "x w b", "a", MS, num_heads=N),
        node("SkipLayerNormalization", "a x g", "n", MS),
        node("MatMul", "n p", "y"),
    ]
    proto = model(
        nodes,
        [value("x", [B4, S, D])],
        [value("y", None)],
        [weight("w", [D, 3 * D]), weight("b", [3 * D]), weight("g", [D]), weight("p", [D, 7])],
        domains=(MS,),
    )

    trace = traced(proto, tmp_path)

    assert shape_of(trace) == (B4, S, 7)
    assert flop(trace) == 2 * B4 * S * D * 3 * D + 4 * B4 * S * S * D + 2 * B4 * S * D * 7


def test_unknown_kernel_with_declared_sizes__sizes_are_taken_from_the_file(tmp_path):
    proto = model(
        [node("Mine", "x", "m", "my.domain"), node("MatMul", "m w", "y")],
        [value("x", ["n", D])],
        [value("y", None)],
        [weight("w", [D, 7])],
        domains=("my.domain",),
        infos=[value("m", ["2*n", D])],
    )

    trace = traced(proto, tmp_path, ["float32[3,24]"])

    assert shape_of(trace) == (6, 7)
    assert [call.op for call in trace.calls] == ["my.domain::Mine", "ai.onnx::MatMul"]
    assert trace.calls[0].operands == {"in0": (0,)}
    assert math.prod(trace.values[trace.calls[0].outputs[0]].shape) == 6 * D
