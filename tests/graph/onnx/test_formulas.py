"""FLOP and bytes of the standard's operators."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, defs, helper

from tests.graph.onnx.models import (
    FLOAT,
    INT8,
    INT32,
    INT64,
    UINT8,
    counted,
    flop,
    ints,
    model,
    moved,
    node,
    number,
    shape_of,
    traced,
    untyped,
    value,
    weight,
)


def one(op, inputs, shapes, constants=(), *, outputs="y", opset=17, domain="", elements=None, **attributes):
    """A model of one operator."""
    elements = elements or {}
    return model(
        [node(op, inputs, outputs, domain, **attributes)],
        [value(name, shape, elements.get(name, FLOAT)) for name, shape in shapes.items()],
        [untyped(name) for name in outputs.split()],
        constants,
        opset=opset,
        domains=(domain,) if domain else (),
    )


# Truth of counting.md, sections 3, 4 and 7: FLOP is 2 x MAC.
CASES = {
    "convolution": (
        one("Conv", "x w b", {"x": [1, 16, 8, 8]}, [weight("w", [16, 16, 3, 3]), weight("b", [16])], pads=[1] * 4),
        294_912,
    ),
    "depthwise": (
        one("Conv", "x w", {"x": [1, 16, 8, 8]}, [weight("w", [16, 1, 3, 3])], group=16, pads=[1] * 4),
        18_432,
    ),
    "transposed": (
        one("ConvTranspose", "x w", {"x": [1, 16, 8, 8]}, [weight("w", [16, 8, 4, 4])], strides=[2, 2], pads=[1] * 4),
        2 * 131_072,
    ),
    "transposed, grouped": (
        one("ConvTranspose", "x w", {"x": [1, 16, 8, 8]}, [weight("w", [16, 4, 2, 2])], strides=[2, 2], group=4),
        2 * 16_384,
    ),
    "dilated": (
        one("Conv", "x w", {"x": [1, 4, 16, 16]}, [weight("w", [8, 4, 3, 3])], dilations=[2, 2]),
        2 * 8 * 12 * 12 * 4 * 9,
    ),
    "padded by itself": (
        one("Conv", "x w", {"x": [1, 4, 7, 7]}, [weight("w", [8, 4, 3, 3])], auto_pad="SAME_UPPER", strides=[2, 2]),
        2 * 8 * 4 * 4 * 4 * 9,
    ),
    "one dimension": (one("Conv", "x w", {"x": [2, 4, 16]}, [weight("w", [8, 4, 5])]), 2 * 2 * 8 * 12 * 4 * 5),
    "three dimensions": (
        one("Conv", "x w", {"x": [1, 2, 4, 4, 4]}, [weight("w", [3, 2, 2, 2, 2])]),
        2 * 3 * 27 * 2 * 8,
    ),
    "gemm": (one("Gemm", "x w b", {"x": [8, 64]}, [weight("w", [32, 64]), weight("b", [32])], transB=1), 32_768),
    "gemm, A transposed": (one("Gemm", "x w", {"x": [64, 8]}, [weight("w", [64, 32])], transA=1), 32_768),
    "matmul": (one("MatMul", "x w", {"x": [2, 3, 4, 5]}, [weight("w", [5, 6])]), 2 * 2 * 3 * 4 * 5 * 6),
    "matmul, broadcast": (one("MatMul", "x z", {"x": [7, 1, 4, 5], "z": [3, 5, 6]}), 2 * 7 * 3 * 4 * 5 * 6),
    "matmul of vectors": (one("MatMul", "x z", {"x": [5], "z": [5]}), 2 * 5),
    "matmul, vector on the right": (one("MatMul", "x z", {"x": [3, 4, 5], "z": [5]}), 2 * 3 * 4 * 5),
    "lstm": (
        one(
            "LSTM",
            "x w r",
            {"x": [250, 1, 12]},
            [weight("w", [1, 512, 12]), weight("r", [1, 512, 128])],
            hidden_size=128,
        ),
        35_840_000,
    ),
    "gru": (
        one(
            "GRU",
            "x w r",
            {"x": [250, 1, 12]},
            [weight("w", [1, 384, 12]), weight("r", [1, 384, 128])],
            hidden_size=128,
        ),
        26_880_000,
    ),
    "lstm, both directions": (
        one(
            "LSTM",
            "x w r",
            {"x": [7, 3, 12]},
            [weight("w", [2, 64, 12]), weight("r", [2, 64, 16])],
            hidden_size=16,
            direction="bidirectional",
        ),
        2 * 7 * 3 * 2 * (64 * 12 + 64 * 16),
    ),
    "rnn, batch first": (
        one(
            "RNN",
            "x w r",
            {"x": [3, 7, 12]},
            [weight("w", [1, 16, 12]), weight("r", [1, 16, 16])],
            hidden_size=16,
            layout=1,
        ),
        2 * 7 * 3 * (16 * 12 + 16 * 16),
    ),
    "integer convolution": (
        one("ConvInteger", "x w", {"x": [1, 4, 8, 8]}, [weight("w", [6, 4, 3, 3], UINT8)], elements={"x": UINT8}),
        2 * 6 * 36 * 4 * 9,
    ),
    "integer product": (
        one("MatMulInteger", "x w", {"x": [4, 5]}, [weight("w", [5, 6], INT8)], elements={"x": UINT8}),
        2 * 4 * 5 * 6,
    ),
    "quantised convolution": (
        one(
            "QLinearConv",
            "x s z w s zw s z b",
            {"x": [1, 4, 8, 8]},
            [
                number("s", 0.1, FLOAT),
                number("z", 0, UINT8),
                number("zw", 0, INT8),
                weight("w", [6, 2, 3, 3], INT8),
                weight("b", [6], INT32),
            ],
            elements={"x": UINT8},
            group=2,
        ),
        2 * 6 * 36 * 2 * 9,
    ),
    "quantised product": (
        one(
            "QLinearMatMul",
            "x s z w s z s z",
            {"x": [4, 5]},
            [number("s", 0.1, FLOAT), number("z", 0, UINT8), weight("w", [5, 6], UINT8)],
            elements={"x": UINT8},
        ),
        2 * 4 * 5 * 6,
    ),
    "deformable": (
        one(
            "DeformConv",
            "x w o",
            {"x": [1, 4, 8, 8], "o": [1, 18, 6, 6]},
            [weight("w", [6, 4, 3, 3])],
            opset=19,
        ),
        2 * 6 * 36 * 4 * 9,
    ),
    "linear model": (
        one(
            "LinearClassifier",
            "x",
            {"x": [9, 5]},
            outputs="l s",
            domain="ai.onnx.ml",
            coefficients=[0.5] * 15,
            classlabels_ints=[0, 1, 2],
        ),
        2 * 9 * 15,
    ),
    "linear model, more coefficients than are shown": (
        one("LinearRegressor", "x", {"x": [9, 500]}, domain="ai.onnx.ml", coefficients=[0.5] * 1000, targets=2),
        2 * 9 * 1000,
    ),
    "support vectors": (
        one(
            "SVMRegressor",
            "x",
            {"x": [9, 5]},
            domain="ai.onnx.ml",
            support_vectors=[0.5] * 20,
            coefficients=[1.0] * 4,
            n_supports=4,
        ),
        2 * 9 * 20,
    ),
    "pooling": (one("MaxPool", "x", {"x": [1, 4, 8, 8]}, kernel_shape=[2, 2]), 0),
}


@pytest.mark.parametrize("name", CASES)
def test_formula__counts(tmp_path, name):
    proto, expected = CASES[name]

    assert flop(traced(proto, tmp_path)) == expected


EQUATIONS = {
    "ij,jk->ik": ([3, 4], [4, 5], 2 * 3 * 4 * 5),
    "ij,jk": ([3, 4], [4, 5], 2 * 3 * 4 * 5),
    "bij,bjk->bik": ([2, 3, 4], [2, 4, 5], 2 * 2 * 3 * 4 * 5),
    "...ij,...jk->...ik": ([7, 2, 3, 4], [1, 2, 4, 5], 2 * 7 * 2 * 3 * 4 * 5),
    "...ij,jk": ([7, 2, 3, 4], [4, 5], 2 * 7 * 2 * 3 * 4 * 5),
    "bhid,bhjd->bhij": ([2, 4, 5, 6], [2, 4, 7, 6], 2 * 2 * 4 * 5 * 7 * 6),
    "i,i->": ([9], [9], 2 * 9),
    "i,j->ij": ([3], [4], 0),
    "ij,ij->ij": ([3, 4], [3, 4], 0),
    "ij,i->j": ([3, 4], [3], 2 * 3 * 4),
    "ii,ij->j": ([3, 3], [3, 4], 2 * 3 * 4),
}


@pytest.mark.parametrize("equation", EQUATIONS)
def test_einsum__costs_a_product_for_every_combination_of_indices(tmp_path, equation):
    left, right, expected = EQUATIONS[equation]

    assert flop(traced(one("Einsum", "a b", {"a": left, "b": right}, equation=equation), tmp_path)) == expected


def test_einsum__of_three_is_contracted_from_left_to_right_as_torch_does(tmp_path):
    proto = one("Einsum", "a b c", {"a": [3, 4], "b": [4, 5], "c": [5, 6]}, equation="ij,jk,kl->il")

    assert flop(traced(proto, tmp_path)) == 2 * 3 * 4 * 5 + 2 * 3 * 5 * 6


@pytest.mark.parametrize("equation", ["ij->ji", "ii->i", "ij->"])
def test_einsum__of_one_tensor_is_no_product(tmp_path, equation):
    assert flop(traced(one("Einsum", "a", {"a": [4, 4]}, equation=equation), tmp_path)) == 0


ATTENTION = {
    "four dimensions": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 4, 7, 6], "v": [2, 4, 7, 8]}, "y", {}),
    "packed heads": (
        "q k v",
        {"q": [2, 5, 24], "k": [2, 7, 24], "v": [2, 7, 32]},
        "y",
        {"q_num_heads": 4, "kv_num_heads": 4},
    ),
    "causal": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 4, 5, 6], "v": [2, 4, 5, 6]}, "y", {"is_causal": 1}),
    "fewer key heads": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 2, 7, 6], "v": [2, 2, 7, 6]}, "y", {}),
    "past": (
        "q k v m pk pv",
        {"q": [2, 4, 5, 6], "k": [2, 4, 7, 6], "v": [2, 4, 7, 6], "m": [5, 10], "pk": [2, 4, 3, 6], "pv": [2, 4, 3, 6]},
        "y k2 v2",
        {},
    ),
}


# Operators of newer sets have names of inputs only where the onnx package knows them.
newest = pytest.mark.skipif(defs.onnx_opset_version() < 27, reason="the onnx package is older than these operators")


@newest
@pytest.mark.parametrize("name", ATTENTION)
def test_attention__counts_as_the_operators_that_the_standard_defines_it_by(tmp_path, name):
    inputs, shapes, outputs, attributes = ATTENTION[name]
    proto = one("Attention", inputs, shapes, outputs=outputs, opset=23, **attributes)
    types = [helper.make_tensor_type_proto(FLOAT, shapes[name]).SerializeToString() for name in inputs.split()]
    schema: Any = defs.get_schema("Attention", 23, "")
    body = schema.get_context_dependent_function(proto.graph.node[0].SerializeToString(), types)
    expanded = ModelProto()
    expanded.CopyFrom(proto)
    function = expanded.functions.add()
    function.ParseFromString(body)
    function.domain = expanded.graph.node[0].domain = "by.definition"
    expanded.opset_import.append(helper.make_opsetid("by.definition", 1))

    fused, apart = traced(proto, tmp_path), traced(expanded, tmp_path)

    assert [call.op for call in fused.calls] == ["ai.onnx::Attention"]
    assert sum(call.op == "ai.onnx::MatMul" for call in apart.calls) == 2
    assert flop(fused) == flop(apart) > 0
    assert shape_of(fused) == shape_of(apart)


@newest
def test_attention__heads_come_from_attributes_where_they_are_packed(tmp_path):
    proto = one(
        "Attention",
        "q k v",
        {"q": [2, 5, 24], "k": [2, 7, 12], "v": [2, 7, 16]},
        opset=23,
        q_num_heads=4,
        kv_num_heads=2,
    )

    assert flop(traced(proto, tmp_path)) == 2 * 2 * 4 * 5 * 7 * (6 + 8)


@newest
def test_linear_attention__reads_the_state_per_query_head_and_writes_it_per_key_head(tmp_path):
    shapes = {"q": [2, 5, 4 * 6], "k": [2, 5, 2 * 6], "v": [2, 5, 2 * 8]}
    rules = {"linear": 1, "delta": 2}
    for rule, passes in rules.items():
        extra = {"b": [2, 5, 2]} if rule == "delta" else {}
        proto = one(
            "LinearAttention",
            "q k v" if rule == "linear" else "q k v s d b",
            {**shapes, **extra},
            outputs="y s2",
            opset=27,
            q_num_heads=4,
            kv_num_heads=2,
            update_rule=rule,
        )
        if rule == "delta":
            proto.graph.node[0].input[3:5] = ["", ""]

        assert flop(traced(proto, tmp_path)) == 2 * 2 * 5 * 6 * 8 * (4 + 2 * passes)


def test_upper_bounds__are_noted(tmp_path):
    weights = [weight("w", [1, 64, 12]), weight("r", [1, 64, 16])]
    proto = one("LSTM", "x w r b l", {"x": [7, 3, 12], "l": [3]}, weights, elements={"l": INT32}, hidden_size=16)
    proto.graph.node[0].input[3] = ""

    totals = counted(proto, tmp_path).totals

    assert totals.flop == 2 * 7 * 3 * (64 * 12 + 64 * 16)
    assert any("ai.onnx::LSTM is counted as if every sequence were as long" in note for note in totals.notes)


def test_gather__reads_the_rows_that_it_touches(tmp_path):
    proto = one("Gather", "w i", {"i": [8, 128]}, [weight("w", [30522, 768])], elements={"i": INT64})

    trace = traced(proto, tmp_path)

    rows = 8 * 128 * 768 * 4
    assert moved(trace, trace.calls[0]) == (rows + 8 * 128 * 8, rows)


def test_slice__reads_what_it_keeps(tmp_path):
    proto = one("Slice", "x s e a", {"x": [10, 100]}, [ints("s", 2), ints("e", 4), ints("a", 0)])

    trace = traced(proto, tmp_path)

    assert shape_of(trace) == (2, 100)
    assert moved(trace, trace.calls[0]) == (800, 800)
    assert trace.calls[0].operands == {"data": (0,)}
    assert trace.calls[0].attributes == {"starts": (2,), "ends": (4,), "axes": (0,)}


def test_fill__reads_nothing(tmp_path):
    proto = one("ConstantOfShape", "s", {}, [ints("s", 100, 100)], value=helper.make_tensor("v", FLOAT, [1], [0.0]))

    trace = traced(proto, tmp_path)

    assert moved(trace, trace.calls[0]) == (0, 40_000)


def test_vectors__bytes_of_whole_graphs(tmp_path):
    linear = one("Gemm", "x w b", {"x": [8, 64]}, [weight("w", [32, 64]), weight("b", [32])], transB=1)
    grown = one(
        "ConvTranspose",
        "x w b",
        {"x": [1, 16, 8, 8]},
        [weight("w", [16, 8, 4, 4]), weight("b", [8])],
        strides=[2, 2],
        pads=[1] * 4,
    )

    assert counted(linear, tmp_path).totals.traffic.eager == 11_392
    assert counted(grown, tmp_path).totals.traffic.eager == 20_512
    assert counted(CASES["convolution"][0], tmp_path).totals.traffic.eager == 17_472


def test_work_of_unknown_size__is_not_counted_with_its_reason(tmp_path):
    proto = model(
        [node("NonZero", "x", "i"), node("Cast", "i", "f", to=FLOAT), node("MatMul", "w f", "y")],
        [value("x", [5, 5])],
        [untyped("y")],
        [weight("w", [3, 2])],
    )

    totals = counted(proto, tmp_path).totals

    assert [(entry.op, entry.reason) for entry in totals.not_counted] == [
        ("ai.onnx::MatMul", "the sizes of 'out0' depend on data")
    ]
    assert any("NonZero making i" in note for note in totals.notes)


MS = "com.microsoft"
# Sizes that the file declares for its output, since nobody can tell them, and an operator that cannot give them.
CONTRADICTIONS = {
    "inner": ([2, 4], one("MatMul", "A B", {"A": [2, 5], "B": [4, 4]})),
    "vector": ([2], one("MatMul", "A B", {"A": [2, 5], "B": [4]})),
    "batches": ([3, 3, 4], one("MatMul", "A B", {"A": [2, 3, 5], "B": [3, 5, 4]})),
    "integers": (
        [2, 4],
        one("MatMulInteger", "A B", {"A": [2, 5], "B": [4, 4]}, elements={"A": INT8, "B": INT8}),
    ),
    "gemm": ([2, 5], one("Gemm", "A B", {"A": [2, 5], "B": [5, 4]}, transB=1)),
    "gemm turned": ([5, 4], one("Gemm", "A B", {"A": [2, 5], "B": [5, 4]}, transA=1)),
    "fused": ([2, 5], one("FusedMatMul", "A B", {"A": [2, 5], "B": [5, 4]}, domain=MS, transB=1)),
    "packed": (
        [2, 8],
        one(
            "MatMulNBits",
            "A B scales",
            {"A": [2, 48], "B": [8, 2, 16], "scales": [16]},
            domain=MS,
            elements={"B": UINT8},
            K=64,
            N=8,
            bits=4,
            block_size=32,
        ),
    ),
    "channels": ([1, 6, 6, 6], one("Conv", "X W", {"X": [1, 4, 8, 8], "W": [6, 3, 3, 3]})),
    "groups": ([1, 6, 6, 6], one("Conv", "X W", {"X": [1, 4, 8, 8], "W": [6, 4, 3, 3]}, group=2)),
    "transposed": ([1, 3, 10, 10], one("ConvTranspose", "X W", {"X": [1, 4, 8, 8], "W": [6, 3, 3, 3]})),
    "einsum": ([2, 4], one("Einsum", "a b", {"a": [2, 5], "b": [4, 4]}, equation="ij,jk->ik")),
    "lstm": ([5, 1, 2, 4], one("LSTM", "X W R", {"X": [5, 2, 7], "W": [1, 16, 6], "R": [1, 16, 4]}, hidden_size=4)),
    "heads": (
        [1, 2, 3, 8],
        one("Attention", "Q K V", {"Q": [1, 2, 3, 8], "K": [1, 2, 3, 4], "V": [1, 2, 3, 8]}, opset=23),
    ),
}


@pytest.mark.parametrize("name", sorted(CONTRADICTIONS))
def test_formula__sizes_that_contradict_each_other_are_not_counted(tmp_path, name):
    declared, proto = CONTRADICTIONS[name]
    proto.graph.output[0].CopyFrom(value("y", declared, INT32 if name == "integers" else FLOAT))

    totals = counted(proto, tmp_path).totals

    (entry,) = totals.not_counted
    assert totals.flop == 0
    assert "its sizes contradict each other" in entry.reason
    if name == "inner":
        assert "summed over: 5 and 4)" in entry.reason


def test_unknown_operator__is_not_counted(tmp_path):
    totals = counted(one("Mine", "x", {"x": [5, 5]}, domain="my.domain"), tmp_path).totals

    assert [entry.op for entry in totals.not_counted] == ["my.domain::Mine"]


@pytest.mark.parametrize("op", ["GreedySearch", "PagedAttention", "GatedDeltaNet"])
def test_operators_without_formula__are_not_counted(tmp_path, op):
    totals = counted(one(op, "x", {"x": [5, 5]}, domain="com.microsoft"), tmp_path).totals

    assert [entry.op for entry in totals.not_counted] == [f"com.microsoft::{op}"]
