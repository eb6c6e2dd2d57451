"""Models that torch exported: the same F as torch's own, and the cases that other counters lose."""

from __future__ import annotations

import logging
from typing import Any

import onnx
import pytest
from onnx import TensorProto

from perfgate.errors import UsageError
from perfgate.graph.build import build
from perfgate.graph.onnx import isolated, read
from tests.graph.onnx.models import (
    FLOAT,
    flop,
    model,
    node,
    number,
    traced,
    untyped,
    value,
    weight,
)

pytestmark = pytest.mark.torch

# 2 x the MAC that torchvision publishes, measured on tensors without contents (counting.md, sections 2 and 7).
TRUTH = {
    "resnet18": 2 * 1_814_073_344,
    "mobilenet_v2": 2 * 300_774_272,
    "squeezenet1_0": 2 * 818_924_576,
    "mobilenet_v3_small": 2 * 56_510_400,
}


@pytest.mark.parametrize("name", TRUTH)
def test_export__counts_as_torch_does(exports, name):
    totals = build(read.trace(exports.get(name))).totals

    assert totals.flop == TRUTH[name]
    assert totals.not_counted == ()
    assert not any("cannot be told" in note for note in totals.notes)


@pytest.mark.slow
def test_export__of_a_transformer_counts_as_torch_does(exports):
    totals = build(read.trace(exports.get("vit_b_16"))).totals

    assert totals.flop == 2 * 17_563_828_224
    assert totals.not_counted == ()
    assert not any("cannot be told" in note for note in totals.notes)


def test_export__counts_alike_from_both_exporters(exports):
    graph = build(read.trace(exports.get("resnet18", "dynamo")))

    assert graph.totals.flop == TRUTH["resnet18"]
    assert graph.totals.not_counted == ()
    assert "layer1.0.conv1" in {operator.module for operator in graph.operators}


def test_export__names_are_the_users(exports):
    graph = build(read.trace(exports.get("resnet18")))

    convolutions = [operator.name for operator in graph.operators if operator.kind == "convolution"]
    assert convolutions[:4] == ["conv1", "layer1.0.conv1", "layer1.0.conv2", "layer1.1.conv1"]
    assert "layer2.0.downsample.0" in convolutions
    assert graph.operators[-1].name == "fc"


def test_export__weights_are_those_of_the_file(exports):
    trace = read.trace(exports.get("resnet18", "dynamo"))

    # torch has 11 689 512; normalisations are folded into convolutions.
    assert trace.parameters == 11_679_912
    assert trace.weight_bytes == 4 * 11_679_912
    assert any("compare them with other ONNX files only" in note for note in trace.notes)


@pytest.mark.parametrize("exporter", ["torchscript", "dynamo"])
def test_dynamic_batch__is_bound_or_refused_and_never_nothing(exports, exporter):
    """Plain shape inference leaves 21 of resnet18's 49 nodes without numbers, and a naive sum is 0."""
    path = exports.get("resnet18", exporter, dynamic=True)

    with pytest.raises(UsageError, match=r"input 'x': dimension 0 .* has no size"):
        read.trace(path)
    trace = read.trace(path, {"x": "float32[batch,3,224,224]"}, batch=8)

    assert flop(trace) == 8 * TRUTH["resnet18"]
    assert any(note.startswith("bound: ") and "= 8 (inputs.x, dimension 0 of x)" in note for note in trace.notes)


def test_dynamic_batch__with_shapes_computed_in_the_graph(exports):
    """A small vision transformer: its batch size goes through chains of Shape, Gather, Concat, Where, Expand."""
    import torchvision

    net = torchvision.models.VisionTransformer(32, 8, num_layers=2, num_heads=2, hidden_dim=16, mlp_dim=32)
    fixed = read.trace(exports.of(net, (1, 3, 32, 32), "small-vit"))
    path = exports.of(net, (1, 3, 32, 32), "small-vit", dynamic=True)

    trace = isolated.trace(path, ["float32[batch,3,32,32]"], batch=5)

    assert {"Shape", "Where", "Expand"} <= {entry.op_type for entry in onnx.load(str(path)).graph.node}
    assert flop(trace) == 5 * flop(fixed) > 0
    assert all(size >= 0 for found in trace.values for size in found.shape)
    assert not {"Shape", "Where"} & {call.op.partition("::")[2] for call in trace.calls}


def test_int8__with_an_operator_of_ones_own_loses_that_operator_only(tmp_path):
    nodes = [
        node("DynamicQuantizeLinear", "x", "xq xs xz"),
        node("MatMulInteger", "xq w xz wz", "m"),
        node("Cast", "m", "f", to=FLOAT),
        node("Mul", "xs ws", "s"),
        node("Mul", "f s", "h"),
        node("FusedThing", "h", "g", "my.ops", name="/head/FusedThing"),
        node("Gemm", "g v", "y"),
    ]
    proto = model(
        nodes,
        [value("x", [4, 16])],
        [untyped("y")],
        [
            weight("w", [16, 32], TensorProto.INT8),
            number("wz", 0, TensorProto.INT8),
            number("ws", 0.1, FLOAT),
            weight("v", [32, 10]),
        ],
        domains=("my.ops",),
        infos=[value("g", [4, 32])],
    )

    totals = build(traced(proto, tmp_path)).totals

    assert totals.flop == 2 * 4 * 16 * 32 + 2 * 4 * 32 * 10
    assert [(entry.op, entry.calls, entry.first) for entry in totals.not_counted] == [("my.ops::FusedThing", 1, "head")]


def test_int8__by_the_runtimes_own_quantiser(exports, tmp_path):
    quantization = pytest.importorskip("onnxruntime.quantization")
    path = exports.get("squeezenet1_0")
    logging.disable(logging.WARNING)
    try:
        quantization.quantize_dynamic(str(path), str(tmp_path / "int8.onnx"))
    finally:
        logging.disable(logging.NOTSET)

    totals = build(read.trace(tmp_path / "int8.onnx")).totals

    kinds = {entry.op_type for entry in onnx.load(str(tmp_path / "int8.onnx")).graph.node}
    assert "ConvInteger" in kinds
    assert totals.flop == TRUTH["squeezenet1_0"]
    assert totals.not_counted == ()


def test_recurrent_and_grown_layers__count_as_torch_does(exports):
    import torch

    nn: Any = torch.nn
    recurrent = nn.LSTM(12, 128, batch_first=True)
    grown = nn.ConvTranspose2d(16, 16, 2, stride=2, groups=4)

    assert flop(read.trace(exports.of(recurrent, (1, 250, 12), "lstm"))) == 35_840_000
    assert flop(read.trace(exports.of(grown, (1, 16, 8, 8), "grown"))) == 2 * 16_384


@pytest.mark.parametrize(
    ("level", "op"),
    [("ORT_ENABLE_EXTENDED", "com.microsoft::FusedConv"), ("ORT_ENABLE_ALL", "com.microsoft.nchwc::Conv")],
)
def test_optimised_file__of_the_runtime_counts_the_same(exports, tmp_path, level, op):
    """Fused convolutions, blocked layouts: the work is the same."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.graph_optimization_level = getattr(runtime.GraphOptimizationLevel, level)
    options.log_severity_level = 4
    runtime.InferenceSession(str(exports.get("resnet18")), options, providers=["CPUExecutionProvider"])

    trace = read.trace(tmp_path / "fused.onnx")

    ops = {call.op for call in trace.calls}
    # Blocked layouts exist for processors with wide vectors only.
    assert op in ops or (level == "ORT_ENABLE_ALL" and "com.microsoft::FusedConv" in ops)
    assert flop(trace) == TRUTH["resnet18"]
