"""Operators of ONNX Runtime: sizes of outputs as the runtime itself makes them, and F."""

from __future__ import annotations

import math
from typing import Any

import pytest
from onnx import helper

from tests.graph.onnx.models import (
    BOOL,
    FLOAT,
    FLOAT16,
    INT8,
    INT32,
    INT64,
    UINT8,
    flop,
    model,
    moved,
    node,
    number,
    save,
    shape_of,
    traced,
    value,
    weight,
)

MS = "com.microsoft"


def skip(inputs):
    """``a _ b`` with ``_`` for an input that is left out."""
    return [name if name != "_" else "" for name in inputs.split()]


F, H, Q, B = FLOAT, FLOAT16, UINT8, INT8
B4, S, D, N, P = 2, 5, 24, 4, 3
SIZE = D // N

# name -> (operator, inputs, tensors, outputs, attributes, constants, FLOP)
CASES: dict[str, Any] = {
    "attention": (
        "Attention",
        "x w b",
        {"x": ((B4, S, D), F), "w": ((D, 3 * D), F), "b": ((3 * D,), F)},
        (F,),
        {"num_heads": N},
        (),
        2 * B4 * S * D * 3 * D + 2 * 2 * B4 * S * S * D,
    ),
    "attention with past": (
        "Attention",
        "x w b _ past",
        {"x": ((B4, S, D), F), "w": ((D, 3 * D), F), "b": ((3 * D,), F), "past": ((2, B4, N, P, SIZE), F)},
        (F, F),
        {"num_heads": N, "unidirectional": 1},
        (),
        2 * B4 * S * D * 3 * D + 2 * 2 * B4 * S * (S + P) * D,
    ),
    "multi-head attention": (
        "MultiHeadAttention",
        "q k v",
        {"q": ((B4, S, D), F), "k": ((B4, 7, D), F), "v": ((B4, 7, D), F)},
        (F,),
        {"num_heads": N},
        (),
        2 * 2 * B4 * S * 7 * D,
    ),
    "multi-head attention of other value size": (
        "MultiHeadAttention",
        "q k v",
        {"q": ((B4, S, D), F), "k": ((B4, 7, D), F), "v": ((B4, 7, 2 * D), F)},
        (F,),
        {"num_heads": N},
        (),
        2 * B4 * S * 7 * (D + 2 * D),
    ),
    "multi-head attention, past and present": (
        "MultiHeadAttention",
        "q k v _ _ _ pk pv",
        {
            "q": ((B4, S, D), F),
            "k": ((B4, S, D), F),
            "v": ((B4, S, D), F),
            "pk": ((B4, N, P, SIZE), F),
            "pv": ((B4, N, P, SIZE), F),
        },
        (F, F, F),
        {"num_heads": N},
        (),
        2 * 2 * B4 * S * (S + P) * D,
    ),
    "multi-head attention across, keys cached": (
        "MultiHeadAttention",
        "q k v",
        {"q": ((B4, S, D), F), "k": ((B4, N, 7, SIZE), F), "v": ((B4, N, 7, SIZE), F)},
        (F,),
        {"num_heads": N},
        (),
        2 * 2 * B4 * S * 7 * D,
    ),
    "grouped attention": (
        "GroupQueryAttention",
        "q k v pk pv lengths total",
        {
            "q": ((1, 1, 64), F),
            "k": ((1, 1, 32), F),
            "v": ((1, 1, 32), F),
            "pk": ((1, 2, 8, 16), F),
            "pv": ((1, 2, 8, 16), F),
            "lengths": ((1,), INT32),
        },
        (F, F, F),
        {"num_heads": 4, "kv_num_heads": 2},
        (helper.make_tensor("total", INT32, [1], [6]),),
        2 * 4 * 1 * 6 * (16 + 16),
    ),
    "skip norm": (
        "SkipLayerNormalization",
        "x s g b",
        {"x": ((B4, S, D), F), "s": ((B4, S, D), F), "g": ((D,), F), "b": ((D,), F)},
        (F,),
        {},
        (),
        0,
    ),
    "skip norm with sum": (
        "SkipSimplifiedLayerNormalization",
        "x s g",
        {"x": ((B4, S, D), F), "s": ((B4, S, D), F), "g": ((D,), F)},
        (F, None, None, F),
        {},
        (),
        0,
    ),
    "embedding norm": (
        "EmbedLayerNormalization",
        "i s we pe se g b",
        {
            "i": ((B4, S), INT32),
            "s": ((B4, S), INT32),
            "we": ((100, D), F),
            "pe": ((16, D), F),
            "se": ((2, D), F),
            "g": ((D,), F),
            "b": ((D,), F),
        },
        (F, INT32),
        {},
        (),
        0,
    ),
    "fused product": ("FusedMatMul", "a b", {"a": ((B4, 3, 4), F), "b": ((4, 5), F)}, (F,), {}, (), 2 * B4 * 3 * 4 * 5),
    "fused product, A transposed": (
        "FusedMatMul",
        "a b",
        {"a": ((B4, 4, 3), F), "b": ((B4, 4, 5), F)},
        (F,),
        {"transA": 1},
        (),
        2 * B4 * 3 * 4 * 5,
    ),
    "fused product, B transposed": (
        "FusedMatMul",
        "a b",
        {"a": ((B4, 3, 4), F), "b": ((B4, 5, 4), F)},
        (F,),
        {"transB": 1},
        (),
        2 * B4 * 3 * 4 * 5,
    ),
    "fused product, batch inside": (
        "FusedMatMul",
        "a b",
        {"a": ((3, B4, 4), F), "b": ((4, B4, 5), F)},
        (F,),
        {"transBatchA": 1, "transBatchB": 1},
        (),
        2 * B4 * 3 * 4 * 5,
    ),
    "fused gemm": (
        "FusedGemm",
        "a b c",
        {"a": ((4, 3), F), "b": ((5, 4), F), "c": ((5,), F)},
        (F,),
        {"transA": 1, "transB": 1, "activation": "Relu"},
        (),
        2 * 3 * 4 * 5,
    ),
    "fused convolution": (
        "FusedConv",
        "x w b",
        {"x": ((1, 4, 8, 8), F), "w": ((6, 2, 3, 3), F), "b": ((6,), F)},
        (F,),
        {"activation": "Relu", "group": 2, "strides": [2, 2], "pads": [1, 1, 1, 1]},
        (),
        2 * 6 * 4 * 4 * 2 * 9,
    ),
    "bias and gelu": ("BiasGelu", "x b", {"x": ((B4, D), F), "b": ((D,), F)}, (F,), {}, (), 0),
    "gelu": ("Gelu", "x", {"x": ((B4, D), F)}, (F,), {}, (), 0),
    "fast gelu": ("FastGelu", "x b", {"x": ((B4, D), F), "b": ((D,), F)}, (F,), {}, (), 0),
    "quick gelu": ("QuickGelu", "x", {"x": ((B4, D), F)}, (F,), {}, (), 0),
    "rotary embedding": (
        "RotaryEmbedding",
        "x p c s",
        {"x": ((B4, S, D), F), "p": ((B4, S), INT64), "c": ((8, 3), F), "s": ((8, 3), F)},
        (F,),
        {"num_heads": N},
        (),
        0,
    ),
    "four-bit product": (
        "MatMulNBits",
        "a b s",
        {"a": ((B4, 3, 64), F)},
        (F,),
        {"K": 64, "N": 16, "bits": 4, "block_size": 32},
        (weight("b", [16, 2, 16], Q), weight("s", [32])),
        2 * B4 * 3 * 64 * 16,
    ),
    "quantised attention": (
        "QAttention",
        "x w b xs ws _ xz wz",
        {"x": ((B4, S, D), Q), "w": ((D, 3 * D), B), "b": ((3 * D,), F)},
        (F,),
        {"num_heads": N},
        (number("xs", 0.1, F), number("ws", 0.1, F), number("xz", 1, Q), number("wz", 0, B)),
        2 * B4 * S * D * 3 * D + 2 * 2 * B4 * S * S * D,
    ),
    "quantised gemm": (
        "QGemm",
        "a as az b bs bz",
        {"a": ((4, 3), Q), "b": ((5, 3), B)},
        (F,),
        {"transB": 1},
        (number("as", 0.1, F), number("az", 1, Q), number("bs", 0.1, F), number("bz", 0, B)),
        2 * 4 * 5 * 3,
    ),
    "quantised sum": (
        "QLinearAdd",
        "a as az b bs bz cs cz",
        {"a": ((B4, 1, 5), Q), "b": ((3, 5), Q)},
        (Q,),
        {},
        tuple(number(name, 0.1, F) for name in ("as", "bs", "cs")) + tuple(number(n, 1, Q) for n in ("az", "bz", "cz")),
        0,
    ),
    "quantised product of elements": (
        "QLinearMul",
        "a as az b bs bz cs cz",
        {"a": ((3, 5), Q), "b": ((B4, 1, 5), Q)},
        (Q,),
        {},
        tuple(number(name, 0.1, F) for name in ("as", "bs", "cs")) + tuple(number(n, 1, Q) for n in ("az", "bz", "cz")),
        0,
    ),
    "quantised sigmoid": (
        "QLinearSigmoid",
        "x xs xz ys yz",
        {"x": ((B4, D), Q)},
        (Q,),
        {},
        (number("xs", 0.1, F), number("ys", 0.1, F), number("xz", 1, Q), number("yz", 1, Q)),
        0,
    ),
    "quantised concat": (
        "QLinearConcat",
        "ys yz a s z b s z",
        {"a": ((B4, 3), Q), "b": ((B4, 4), Q)},
        (Q,),
        {"axis": 1},
        (number("ys", 0.1, F), number("s", 0.1, F), number("yz", 1, Q), number("z", 1, Q)),
        0,
    ),
    "quantised global pool": (
        "QLinearGlobalAveragePool",
        "x xs xz ys yz",
        {"x": ((1, 6, 6, 4), Q)},
        (Q,),
        {"channels_last": 1},
        (number("xs", 0.1, F), number("ys", 0.1, F), number("xz", 1, Q), number("yz", 1, Q)),
        0,
    ),
    "quantised pool": (
        "QLinearAveragePool",
        "x xs xz ys yz",
        {"x": ((1, 4, 6, 6), Q)},
        (Q,),
        {"kernel_shape": [2, 2], "strides": [2, 2]},
        (number("xs", 0.1, F), number("ys", 0.1, F), number("xz", 1, Q), number("yz", 1, Q)),
        0,
    ),
    "quantised convolution, channels last": (
        "QLinearConv",
        "x xs xz w ws wz ys yz",
        {"x": ((1, 8, 8, 4), Q)},
        (Q,),
        {"channels_last": 1, "strides": [2, 2], "pads": [1, 1, 1, 1], "kernel_shape": [3, 3]},
        (
            number("xs", 0.1, F),
            number("xz", 1, Q),
            weight("w", [6, 4, 3, 3], B),
            number("ws", 0.1, F),
            number("wz", 0, B),
            number("ys", 0.1, F),
            number("yz", 1, Q),
        ),
        2 * 4 * 4 * 6 * 4 * 9,
    ),
    "dynamic quantised product": (
        "DynamicQuantizeMatMul",
        "a b s z",
        {"a": ((B4, 3, 4), F), "b": ((4, 5), B), "s": ((1,), F), "z": ((1,), B)},
        (F,),
        {},
        (),
        2 * B4 * 3 * 4 * 5,
    ),
    "scaled integer product": (
        "MatMulIntegerToFloat",
        "a b as bs",
        {"a": ((B4, 3, 4), Q), "b": ((4, 5), B), "as": ((1,), F), "bs": ((1,), F)},
        (F,),
        {},
        (),
        2 * B4 * 3 * 4 * 5,
    ),
    "quantise": (
        "QuantizeLinear",
        "x s z",
        {"x": ((B4, D), F)},
        (B,),
        {},
        (number("s", 0.1, F), number("z", 0, B)),
        0,
    ),
    "dequantise": (
        "DequantizeLinear",
        "x s z",
        {"x": ((B4, D), B)},
        (F,),
        {},
        (number("s", 0.1, F), number("z", 0, B)),
        0,
    ),
    "channels-last pool": (
        "NhwcMaxPool",
        "x",
        {"x": ((1, 9, 9, 4), B)},
        (B,),
        {"kernel_shape": [3, 3], "strides": [2, 2]},
        (),
        0,
    ),
    "quantised lstm": (
        "DynamicQuantizeLSTM",
        "x w r b _ _ _ _ ws wz rs rz",
        {"x": ((7, B4, 12), F), "b": ((1, 8 * 16), F)},
        (F, F, F),
        {"hidden_size": 16},
        (
            weight("w", [1, 12, 64], B),
            weight("r", [1, 16, 64], B),
            weight("ws", [1]),
            weight("wz", [1], B),
            weight("rs", [1]),
            weight("rz", [1], B),
        ),
        2 * 7 * B4 * (12 * 64 + 16 * 64),
    ),
    "experts": (
        "MoE",
        "x r a _ b",
        {"x": ((6, 16), F), "r": ((6, 4), F), "a": ((4, 32, 16), F), "b": ((4, 16, 32), F)},
        (F,),
        {"k": 2, "activation_type": "relu"},
        (),
        2 * 6 * 2 * (32 * 16 + 16 * 32),
    ),
    "distances": (
        "CDist",
        "a b",
        {"a": ((5, 8), F), "b": ((7, 8), F)},
        (F,),
        {"metric": "euclidean"},
        (),
        2 * 5 * 7 * 8,
    ),
    "new dimension": (
        "ExpandDims",
        "x a",
        {"x": ((B4, D), F)},
        (F,),
        {},
        (number("a", 1, INT32),),
        0,
    ),
    "softmax with bias": (
        "BiasSoftmax",
        "x b",
        {"x": ((B4, N, S, S), F), "b": ((B4, 1, 1, S), F)},
        (F,),
        {"axis": 3, "is_inner_broadcast": 0},
        (),
        0,
    ),
    "triangle": ("Trilu", "x", {"x": ((5, 5), F)}, (F,), {}, (), 0),
    "all finite": ("IsAllFinite", "x", {"x": ((5, 5), F)}, (BOOL,), {}, (), 0),
}


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
