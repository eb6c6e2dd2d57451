"""FLOP and bytes of the standard's operators."""

from __future__ import annotations

import pytest
from onnx import helper

from tests.graph.onnx.models import (
    FLOAT,
    INT8,
    INT32,
    INT64,
    UINT8,
    counted,
    flop,
    ints,
    moved,
    number,
    shape_of,
    traced,
    weight,
)
from tests.graph.onnx.single import one

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
