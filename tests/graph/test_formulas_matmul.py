from __future__ import annotations

import pytest

from perfgate.graph.operators import einsum
from perfgate.graph.operators.definition import MATMUL, REDUCTION
from tests.graph.book import Book, flop, worked

M, K, N, B = 3, 5, 7, 2
ONE = 2 * M * K * N


@pytest.mark.parametrize(
    ("op", "shapes", "out", "expected"),
    [
        ("mm", {"self": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("mm_", {"self": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("_int_mm", {"self": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("_scaled_mm", {"self": (M, K), "mat2": (K, N), "scale_a": (), "scale_b": ()}, (M, N), ONE),
        ("addmm", {"self": (N,), "mat1": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("addmm_", {"self": (M, N), "mat1": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("_addmm_activation", {"self": (N,), "mat1": (M, K), "mat2": (K, N)}, (M, N), ONE),
        ("bmm", {"self": (B, M, K), "mat2": (B, K, N)}, (B, M, N), B * ONE),
        ("baddbmm", {"self": (B, M, N), "batch1": (B, M, K), "batch2": (B, K, N)}, (B, M, N), B * ONE),
        ("addbmm", {"self": (M, N), "batch1": (B, M, K), "batch2": (B, K, N)}, (M, N), B * ONE),
        ("mv", {"self": (M, K), "vec": (K,)}, (M,), 2 * M * K),
        ("addmv", {"self": (M,), "mat": (M, K), "vec": (K,)}, (M,), 2 * M * K),
        ("dot", {"self": (K,), "tensor": (K,)}, (), 2 * K),
        ("vdot", {"self": (K,), "other": (K,)}, (), 2 * K),
        ("matmul", {"self": (4, 1, M, K), "other": (B, K, N)}, (4, B, M, N), 4 * B * ONE),
        ("matmul", {"self": (K,), "other": (K, N)}, (N,), 2 * K * N),
        ("linear", {"input": (B, M, K), "weight": (N, K), "bias": (N,)}, (B, M, N), B * ONE),
        ("_weight_int8pack_mm", {"self": (M, K), "mat2": (N, K), "scales": (N,)}, (M, N), ONE),
        ("_weight_int4pack_mm", {"self": (M, K), "mat2": (1, 1, 32, 4)}, (M, N), ONE),
        ("_dyn_quant_matmul_4bit", {"inp": (M, K), "packed_weights": (99,)}, (M, N), ONE),
        ("fbgemm_linear_fp16_weight", {"input": (M, K), "packed_weight": (1,), "bias": (N,)}, (M, N), ONE),
        ("fbgemm_linear_int8_weight", {"input": (M, K), "weight": (N, K), "packed": (1,)}, (M, N), ONE),
        ("mkldnn_linear", {"self": (M, K), "weight": (N, K)}, (M, N), ONE),
        ("_grouped_mm", {"self": (M, K), "mat2": (B, K, N), "offs": (B,)}, (M, N), ONE),
        ("_grouped_mm", {"self": (M, K), "mat2": (K, N), "offs": (B,)}, (B, M, N), ONE),
        ("_grouped_mm", {"self": (B, M, K), "mat2": (K, N), "offs": (B,)}, (M, N), ONE),
        ("_scaled_grouped_mm", {"self": (B, M, K), "mat2": (B, K, N)}, (B, M, N), B * ONE),
        ("bilinear", {"input1": (B, M), "input2": (B, K), "weight": (N, M, K)}, (B, N), B * ONE),
        ("_cslt_sparse_mm", {"compressed_A": (30,), "dense_B": (K, N)}, (M, N), ONE),
        ("_sparse_semi_structured_linear", {"input": (M, K), "weight": (N, 2), "meta": (N, 1)}, (M, N), ONE),
        ("_euclidean_dist", {"x1": (M, K), "x2": (N, K)}, (M, N), 2 * M * N * (K + 2)),
    ],
)
def test_flop__of_products(op, shapes, out, expected):
    assert flop(f"aten::{op}", shapes, out) == expected


@pytest.mark.parametrize(
    ("op", "shapes", "out"),
    [
        ("mkldnn::_linear_pointwise", {"X": (B, M, K), "W": (N, K), "B": None}, (B, M, N)),
        ("mkl::_mkl_linear", {"X": (B, M, K), "MKL_W": (1,), "ORI_W": (N, K)}, (B, M, N)),
        ("onednn::qlinear_pointwise", {"qx": (B, M, K), "qw": (K, N)}, (B, M, N)),
        ("quantized::linear", {"X": (B, M, K)}, (B, M, N)),
        ("quantized::linear_relu_dynamic", {"X": (B, M, K)}, (B, M, N)),
        ("_quantized::linear_dynamic", {"X": (B, M, K)}, (B, M, N)),
        ("quantized::matmul", {"qa": (B, M, K), "qb": (B, K, N)}, (B, M, N)),
        ("sparse::qlinear", {"X": (B, M, K)}, (B, M, N)),
        ("quantized_decomposed::mixed_mm", {"input": (B, M, K), "weight": (K, N)}, (B, M, N)),
    ],
)
def test_flop__of_linear_layers_on_other_backends(op, shapes, out):
    assert flop(op, shapes, out) == B * ONE


@pytest.mark.parametrize(
    ("mask", "products"),
    [((True, True, True), 2), ((False, True, True), 1), ((True, False, False), 1), ((False, False, True), 0)],
)
def test_flop__gradients_of_a_linear_layer_are_one_product_each(mask, products):
    shapes = {"self": (B, M, K), "grad_output": (B, M, N), "weight": (N, K)}
    assert flop("aten::linear_backward", shapes, (B, M, K), (N, K), output_mask=mask) == products * B * ONE


def test_flop__of_a_sparse_operand_counts_what_is_stored():
    book = Book()
    sparse, dense = book.value(16, 32, logical=46), book.value(32, 8)
    book.call("aten::_sparse_mm", {"sparse": sparse, "dense": dense}, book.value(16, 8))
    assert book.graph().totals.flop == 2 * 46 * 8


def test_flop__of_packed_4_bit_numbers_counts_logical_ones():
    book = Book()
    left = book.value(16, 32, dtype="uint8", bits=4, logical=16 * 64)
    right = book.value(32, 8, dtype="uint8", bits=4, logical=64 * 8)
    book.call("aten::_scaled_mm", {"self": left, "mat2": right}, book.value(16, 8))
    assert book.graph().totals.flop == 2 * 16 * 64 * 8


def test_flop__of_a_ragged_linear_layer_is_exact():
    book = Book()
    ragged, weight = book.value(2, -1, 8, logical=64), book.value(4, 8)
    book.call("aten::linear", {"input": ragged, "weight": weight}, book.value(2, -1, 4, logical=32))
    assert book.graph().totals.flop == 2 * 64 * 4


def test_flop__complex_numbers_take_four_real_multiplications():
    shapes = {"self": (M, K), "mat2": (K, N)}
    assert worked("aten::mm", shapes, (M, N), dtype="complex64").flop == 4 * ONE


@pytest.mark.parametrize(
    ("rows", "p", "mode", "kind"),
    [
        (26, 2.0, 0, MATMUL),
        (25, 2.0, 0, REDUCTION),
        (3, 2.0, 1, MATMUL),
        (99, 2.0, 2, REDUCTION),
        (99, 1.0, 1, REDUCTION),
    ],
)
def test_flop__distances_are_products_only_where_torch_makes_them_so(rows, p, mode, kind):
    found = worked("aten::_cdist_forward", {"x1": (rows, K), "x2": (4, K)}, (rows, 4), p=p, compute_mode=mode)
    assert found.kind == kind
    assert found.flop == (2 * rows * 4 * (K + 2) if kind == MATMUL else 0)


def test_flop__of_many_products_in_one_call_is_their_sum():
    assert flop("aten::_foreach_mm", {"self": [(M, K), (1, K)], "mat2": [(K, N), (K, 1)]}) == ONE + 2 * K


@pytest.mark.parametrize(
    ("equation", "shapes", "expected"),
    [
        ("bij,bjk->bik", ((B, M, K), (B, K, N)), B * ONE),
        ("ij,jk", ((M, K), (K, N)), ONE),
        ("...ij,...jk->...ik", ((4, B, M, K), (1, K, N)), 4 * B * ONE),
        ("ij,ij->ij", ((M, K), (M, K)), 0),
        ("i,j->ij", ((M,), (K,)), 0),
        ("ij->", ((M, K),), 0),
        ("ij,j,k->ik", ((M, K), (K,), (N,)), 2 * M * K),
        ("ij,jk,kl->il", ((M, K), (K, N), (N, 4)), ONE + 2 * M * N * 4),
    ],
)
def test_einsum__contracts_from_left_to_right(equation, shapes, expected):
    assert einsum.flop(equation, shapes) == expected
    assert flop("aten::einsum", {"tensors": list(shapes)}, (M,), equation=equation) == expected


def test_einsum__that_does_not_fit_is_not_counted():
    found = worked("aten::einsum", {"tensors": [(M, K)]}, (M,), equation="ijk->i")
    assert found.flop is None
    assert "does not fit" in found.reason
