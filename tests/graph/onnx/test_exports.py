"""Models that torch exported: the same F as torch's own, and the cases that other counters lose."""

from __future__ import annotations

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
    "squeezenet1_0": 2 * 818_925_952,
    "mobilenet_v3_small": 2 * 56_510_032,
    "vit_b_16": 2 * 17_563_828_224,
}


@pytest.mark.parametrize("name", TRUTH)
def test_export__counts_as_torch_does(exports, name):
    totals = build(read.trace(exports.get(name))).totals

    assert totals.flop == TRUTH[name]
    assert totals.not_counted == ()
    assert not any("cannot be told" in note for note in totals.notes)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2"])
def test_export__counts_alike_from_both_exporters(exports, name):
    graph = build(read.trace(exports.get(name, "dynamo")))

    assert graph.totals.flop == TRUTH[name]
    assert graph.totals.not_counted == ()
    modules = {operator.module for operator in graph.operators}
    expected = {"resnet18": "layer1.0.conv1", "mobilenet_v2": "features.1.conv.0.0"}
    assert expected[name] in modules


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

    with pytest.raises(UsageError, match="input 'x': dimension 0 .* has no size"):
        read.trace(path)
    trace = read.trace(path, {"x": "float32[batch,3,224,224]"}, batch=8)

    assert flop(trace) == 8 * TRUTH["resnet18"]
    assert any(note.startswith("bound: ") and "= 8 (inputs.x, dimension 0 of x)" in note for note in trace.notes)


def test_dynamic_batch__with_shapes_computed_in_the_graph(exports):
    path = exports.get("vit_b_16", dynamic=True)

    trace = isolated.trace(path, ["float32[batch,3,224,224]"], batch=2)

    assert flop(trace) == 2 * TRUTH["vit_b_16"]
    assert all(size >= 0 for found in trace.values for size in found.shape)


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
    import logging

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


def test_optimised_file__of_the_runtime_counts_the_same(exports, tmp_path):
    """Fused convolutions, blocked layouts: the work is the same."""
    runtime = pytest.importorskip("onnxruntime")
    options = runtime.SessionOptions()
    options.optimized_model_filepath = str(tmp_path / "fused.onnx")
    options.graph_optimization_level = runtime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.log_severity_level = 4
    runtime.InferenceSession(str(exports.get("resnet18")), options, providers=["CPUExecutionProvider"])

    trace = read.trace(tmp_path / "fused.onnx")

    assert any(call.op == "com.microsoft::FusedConv" for call in trace.calls)
    assert flop(trace) == TRUTH["resnet18"]


def test_recurrent_and_grown_layers__count_as_torch_does(exports):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.lstm = torch.nn.LSTM(12, 128, batch_first=True)
            self.up = torch.nn.ConvTranspose2d(16, 16, 2, stride=2, groups=4)

        def forward(self, x):
            steps, _ = self.lstm(x)
            return self.up(steps[:, :64].reshape(1, 16, 8, 64))

    trace = read.trace(exports.of(Net(), (1, 250, 12), "recurrent"))

    # A grouped transposition: every input element meets 4 output channels of 2 x 2.
    assert flop(trace) == 35_840_000 + 2 * 16 * 8 * 64 * 4 * 4


def test_loop_of_torch__is_followed(exports):
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(8, 8)

        def forward(self, x):
            for _ in range(x.size(0)):
                x = self.layer(x)
            return x

    path = exports.of(torch.jit.script(Net()), (5, 8), "loop")

    trace = read.trace(path)

    assert any(entry.op_type == "Loop" for entry in onnx.load(str(path)).graph.node)
    assert flop(trace) == 5 * 2 * 5 * 8 * 8
