"""Floor 3, graph. FLOP (2 x MAC) of ONNX matrix products: plain, fused, quantised, packed, and linear models.

In: :class:`Operands` with the schemas' names. Out: formulas. Bias and activation of fused operators count apart.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import MATMUL, Definition, Formula, Operands, Shape
from perfgate.graph.operators.onnx_fit import deep, stretched, summed, told
from perfgate.graph.operators.onnx_sizes import (
    byte_size,
    bytes_out,
    elements,
    first,
    given,
    length,
    out,
    shape,
    unknown,
    value,
)


def matmul(operands: Operands) -> int:
    """``[..., M, K] x [..., K, N]`` with NumPy's broadcasting; a vector is a row or a column."""
    left, right = first(operands, "A", "a"), told(operands, "B", "b")
    summed(left[-1], right)
    stretched(left, right)
    return 2 * math.prod(out(operands)) * left[-1]


def fused_matmul(operands: Operands) -> int:
    """As :func:`matmul`; ``transBatchA`` says that the first dimension of A stands for M, ``transA`` swaps M and K."""
    sizes = shape(operands, "A")
    if operands.attribute("transBatchA", 0) and len(sizes) > 2:
        sizes = (*sizes[1:-1], sizes[0], sizes[-1])
    inner = sizes[-2] if operands.attribute("transA", 0) and len(sizes) > 1 else sizes[-1]
    right = told(operands, "B")
    if right is not None and operands.attribute("transBatchB", 0) and len(right) > 2:
        right = (*right[1:-1], right[0], right[-1])
    summed(inner, right, turned=bool(operands.attribute("transB", 0)))
    stretched(sizes, right)
    return 2 * math.prod(out(operands)) * inner


def gemm(operands: Operands) -> int:
    """``alpha * A' x B' + beta * C``: 2 * M * N * K."""
    sizes = shape(operands, "A")
    inner = sizes[0 if operands.attribute("transA", 0) else -1]
    summed(inner, told(operands, "B"), turned=bool(operands.attribute("transB", 0)))
    return 2 * math.prod(out(operands)) * inner


def rows_by_columns(operands: Operands) -> int:
    """All rows of the first operand ``[..., K]`` times a weight that is packed: the output tells its N columns."""
    left = first(operands, "A", "X")
    deep(operands, left[-1])
    return 2 * math.prod(left) * out(operands)[-1]


def projections(operands: Operands) -> int:
    """One input ``A`` times several weights, each with an output of its own: queries, keys and values."""
    columns = int(operands.attribute("Nq", 0)) + 2 * int(operands.attribute("Nkv", 0))
    left = shape(operands, "A")
    deep(operands, left[-1])
    return 2 * math.prod(left) * columns


def gated(operands: Operands) -> int:
    """One input ``A`` times a gate's and a value's weight of N columns each."""
    left = shape(operands, "A")
    deep(operands, left[-1])
    return 4 * math.prod(left) * int(operands.attribute("N", 0))


def position_bias(operands: Operands) -> int:
    """Queries ``[..., heads * head]`` times ``weight [head, D]``."""
    return 2 * math.prod(shape(operands, "query_layer")) * shape(operands, "weight")[-1]


def distances(operands: Operands) -> int:
    """Rows of A against rows of B: the inner products of all pairs."""
    left = shape(operands, "A")
    summed(left[-1], told(operands, "B"), turned=True)
    return 2 * math.prod(out(operands)) * left[-1]


def affine_grid(operands: Operands) -> int:
    """``theta [N, d, d + 1]`` times the coordinates of every point of the grid."""
    return 2 * math.prod(out(operands)) * shape(operands, "theta")[-1]


def experts(operands: Operands) -> int:
    """Every token goes through ``k`` experts: 2 * tokens * k * weights of one expert.

    Weights are ``[experts, ...]``, packed ones count by their logical elements; the router is an operator apart.
    """
    tokens = math.prod(shape(operands, "input")[:-1])
    names = [f"fc{number}_experts_weights" for number in (1, 2, 3)]
    weights = [value(operands, name) for name in names if given(operands, name)]
    chosen = int(operands.attribute("k", 1))
    return sum(2 * tokens * chosen * (elements(weight) // weight.shape[0]) for weight in weights)


def experts_moved(operands: Operands) -> tuple[int, int]:
    """Only the weights of experts that tokens can reach are read: at most ``tokens * k`` of them."""
    read = 0
    tokens = math.prod(shape(operands, "input")[:-1]) * int(operands.attribute("k", 1))
    for name in operands.call.operands:
        for found in operands.values(name):
            size = byte_size(found)
            many = found.shape[0] if found.shape else 1
            read += size * min(tokens, many) // many if name.startswith("fc") else size
    return read, bytes_out(operands)


def linear_model(operands: Operands) -> int:
    """Rows of ``X`` times the coefficients, which are an attribute."""
    return 2 * _rows(shape(operands, "X")) * length(operands.attribute("coefficients"))


def support_vectors(operands: Operands) -> int:
    """The kernel of every row with every support vector; without vectors the model is linear."""
    vectors = length(operands.attribute("support_vectors"))
    return 2 * _rows(shape(operands, "X")) * (vectors or length(operands.attribute("coefficients")))


def _rows(sizes: Shape) -> int:
    return sizes[0] if len(sizes) > 1 else 1


def _all(flop: Formula, *names: str) -> dict[str, Definition]:
    return {name: Definition(kind=MATMUL, flop=flop) for name in names}


_MS = "com.microsoft::"

DEFINITIONS: dict[str, Definition] = {
    **_all(
        matmul,
        "ai.onnx::MatMul",
        "ai.onnx::MatMulInteger",
        "ai.onnx::QLinearMatMul",
        f"{_MS}DynamicQuantizeMatMul",
        f"{_MS}MatMulInteger16",
        f"{_MS}MatMulIntegerToFloat",
        f"{_MS}QOrderedMatMul",
    ),
    **_all(
        fused_matmul,
        f"{_MS}FusedMatMul",
        f"{_MS}FusedMatMulActivation",
        f"{_MS}SparseToDenseMatMul",
        f"{_MS}TransposeMatMul",
    ),
    **_all(gemm, "ai.onnx::Gemm", f"{_MS}FusedGemm", f"{_MS}GemmFloat8", f"{_MS}QGemm"),
    **_all(
        rows_by_columns,
        f"{_MS}GemmFastGelu",
        f"{_MS}MatMulBlockQuantizedFp4Weight",
        f"{_MS}MatMulBlockQuantizedFp8Weight",
        f"{_MS}MatMulBnb4",
        f"{_MS}MatMulFpQ4",
        f"{_MS}MatMulNBits",
        f"{_MS}MatMulPacked",
    ),
    **_all(projections, f"{_MS}MatMulNBitsQkv"),
    **_all(gated, f"{_MS}MatMulNBitsMlp"),
    **_all(position_bias, f"{_MS}GatedRelativePositionBias"),
    **_all(distances, f"{_MS}CDist"),
    **_all(affine_grid, "ai.onnx::AffineGrid"),
    **_all(linear_model, "ai.onnx.ml::LinearClassifier", "ai.onnx.ml::LinearRegressor"),
    **_all(support_vectors, "ai.onnx.ml::SVMClassifier", "ai.onnx.ml::SVMRegressor"),
    **{name: Definition(kind=MATMUL, flop=experts, movement=experts_moved) for name in (f"{_MS}MoE", f"{_MS}QMoE")},
    **_all(
        unknown("its weights are packed in a way that the file does not tell"),
        f"{_MS}MatMulNBitsQLoRA",
        f"{_MS}MoEPacked",
        f"{_MS}RouterGateUpProj",
    ),
}
