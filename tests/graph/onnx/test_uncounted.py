"""Operators that are not counted, with the reason."""

from __future__ import annotations

import pytest

from tests.graph.onnx.models import FLOAT, INT8, INT32, UINT8, counted, model, node, untyped, value, weight
from tests.graph.onnx.single import one


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
    "integers": ([2, 4], one("MatMulInteger", "A B", {"A": [2, 5], "B": [4, 4]}, elements={"A": INT8, "B": INT8})),
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
