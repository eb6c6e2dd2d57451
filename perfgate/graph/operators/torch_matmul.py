"""Floor 3, graph. FLOP of torch's matrix products: plain, batched, grouped, scaled, packed, sparse.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``. M x K times K x N is 2 M K N FLOP.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import MATMUL, REDUCTION, Definition, Formula, Operands
from perfgate.records.graph import Value

_UPPER = "is counted as if its sparse operand were dense (upper bound)"


def _product(left: Value, right: Value) -> int:
    """2 M K N of two matrices (the last two sizes); of a sparse one only the stored elements."""
    rows, inner, columns = left.shape[-2], left.shape[-1], right.shape[-1]
    for value, other in ((left, columns), (right, rows)):
        if value.logical is not None and value.logical < math.prod(value.shape):
            return 2 * value.logical * other
    if left.logical is not None:
        # Two 4-bit numbers of one byte lie along the inner dimension.
        inner = left.logical // max(1, math.prod(left.shape[:-1]))
    return 2 * math.prod(left.shape[:-2]) * rows * inner * columns


def matrices(left: str, right: str) -> Formula:
    """Two matrices, or two equal batches of them, by the names of their arguments."""

    def formula(operands: Operands) -> int:
        operands.shape(left), operands.shape(right)
        one, other = operands.value(left), operands.value(right)
        return _product(one, other) if one is not None and other is not None else 0

    return formula


def dense(name: str) -> Formula:
    """A linear layer whose weight may be packed: each element of ``name`` meets each feature of the output."""
    return lambda operands: 2 * operands.numel(name) * operands.out()[-1]


def inner(name: str) -> Formula:
    """Each element of the output is a sum over the last size of ``name``."""
    return lambda operands: 2 * operands.numel_out() * operands.shape(name)[-1]


def _vector(name: str) -> Formula:
    return lambda operands: 2 * operands.numel(name)


def _linear(operands: Operands) -> int:
    """Each input element meets each feature of the output; holds for ragged inputs too."""
    weight = operands.shape("weight")
    return 2 * operands.numel("input") * (weight[0] if len(weight) == 2 else 1)


def _linear_backward(operands: Operands) -> int:
    """Gradients of input and weight are one product each; of the bias none. ``self`` is the input."""
    mask = tuple(operands.attribute("output_mask", (True, True, True)))
    return (bool(mask[0]) + bool(mask[1])) * 2 * operands.numel("grad_output") * operands.shape("self")[-1]


def _matmul_backward(operands: Operands) -> int:
    mask = tuple(operands.attribute("mask", (True, True)))
    return (bool(mask[0]) + bool(mask[1])) * 2 * operands.numel("grad") * operands.shape("self")[-1]


def _grouped(operands: Operands) -> int:
    """``offs`` cuts one dimension into groups: rows of the left, the inner one, or columns of the right."""
    left, right = operands.shape("self"), operands.shape("mat2")
    if len(left) == 3 and len(right) == 3:
        return 2 * math.prod(left) * right[-1]
    return 2 * left[-2] * left[-1] * right[-1]


def _lists(operands: Operands) -> int:
    pairs = zip(operands.values("self"), operands.values("mat2"), strict=True)
    return sum(_product(left, right) for left, right in pairs)


def _reduced_backward(operands: Operands) -> int:
    """Gradients of the sparse and of the dense operand, one product each."""
    mask = tuple(operands.attribute("output_mask", (True, True)))
    return sum(bool(wanted) for wanted in mask) * matrices("self", "grad_out")(operands)


def _tensordot(operands: Operands) -> int:
    left = operands.shape("self")
    contracted = [left[int(dim)] for dim in operands.attribute("dims_self", ())]
    return 2 * operands.numel_out() * math.prod(contracted)


def _bilinear(operands: Operands) -> int:
    """Every (item, output, left feature, right feature) once. ``weight`` is outputs x left x right."""
    weight = operands.shape("weight")
    return 2 * operands.numel_out() * weight[1] * weight[2]


def _trilinear(operands: Operands) -> int:
    """Every point of the index space that the three operands span together, once."""
    shapes = []
    for name, places in (("i1", "expand1"), ("i2", "expand2"), ("i3", "expand3")):
        full = list(operands.shape(name))
        for place in sorted(int(dim) for dim in operands.attribute(places, ())):
            full.insert(place, 1)
        shapes.append(full)
    return 2 * int(math.prod(max(sizes) if min(sizes) else 0 for sizes in zip(*shapes, strict=True)))


def _euclidean(operands: Operands) -> int:
    """Squared norms enter the product as two more columns. Points x1 (P x M) and x2 (R x M)."""
    return 2 * operands.numel_out() * (operands.shape("x1")[-1] + 2)


def _cdist(operands: Operands) -> int:
    """A matrix product only for Euclidean distances, by wish (mode 1) or above 25 points; see ``torch.cdist``."""
    mode = operands.attribute("compute_mode") or 0
    many = max(operands.shape("x1")[-2], operands.shape("x2")[-2]) > 25
    if float(operands.attribute("p", 2.0)) != 2.0 or mode == 2 or not (mode == 1 or many):
        return 0
    return _euclidean(operands)


def _cdist_kind(operands: Operands) -> str:
    return MATMUL if _cdist(operands) else REDUCTION


def _two(operands: Operands) -> int:
    return matrices("a", "b")(operands) + matrices("c", "d")(operands)


def _gathered(operands: Operands) -> int:
    """``A_shard``, gathered from all ranks, times each of ``Bs``: the products are the last outputs."""
    count = len(operands.values("Bs"))
    last = len(operands.call.outputs)
    return sum(2 * operands.numel_out(last - 1 - i) * operands.shape("A_shard")[-1] for i in range(count))


def _bounded(flop: Formula) -> Definition:
    return Definition(kind=MATMUL, flop=flop, note=lambda operands: f"{operands.call.op} {_UPPER}")


_FORMULAS: dict[str, Formula] = {
    "aten::mm": matrices("self", "mat2"),
    "aten::bmm": matrices("self", "mat2"),
    "aten::_int_mm": matrices("self", "mat2"),
    "aten::_scaled_mm": matrices("self", "mat2"),
    "aten::_scaled_mm_v2": matrices("self", "mat2"),
    "aten::addmm": matrices("mat1", "mat2"),
    "aten::_addmm_activation": matrices("mat1", "mat2"),
    "aten::baddbmm": matrices("batch1", "batch2"),
    "aten::addbmm": matrices("batch1", "batch2"),
    "aten::mv": _vector("self"),
    "aten::addmv": _vector("mat"),
    "aten::dot": _vector("self"),
    "aten::vdot": _vector("self"),
    "aten::inner": inner("self"),
    "aten::matmul": inner("self"),
    "aten::linalg_matmul": inner("self"),
    "aten::linalg_vecdot": lambda operands: 2 * max(operands.numel("x"), operands.numel("y")),
    "aten::tensordot": _tensordot,
    "aten::linear": _linear,
    "aten::linear_backward": _linear_backward,
    "aten::matmul_backward": _matmul_backward,
    "aten::_foreach_mm": _lists,
    "aten::_compute_linear_combination": lambda operands: 2 * operands.numel_out() * operands.shape("coefficients")[-1],
    "aten::_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm": _grouped,
    "aten::_scaled_grouped_mm_v2": _grouped,
    "aten::bilinear": _bilinear,
    "aten::_trilinear": _trilinear,
    "aten::_euclidean_dist": _euclidean,
    "aten::_weight_int4pack_mm": dense("self"),
    "aten::_weight_int4pack_mm_for_cpu": dense("self"),
    "aten::_weight_int4pack_mm_with_scales_and_zeros": dense("self"),
    "aten::_weight_int8pack_mm": dense("self"),
    "aten::_mixed_dtypes_linear": dense("input"),
    "aten::_dyn_quant_matmul_4bit": dense("inp"),
    "aten::_wrapped_quantized_linear_prepacked": dense("input"),
    "aten::fbgemm_linear_fp16_weight": dense("input"),
    "aten::fbgemm_linear_fp16_weight_fp32_activation": dense("input"),
    "aten::fbgemm_linear_int8_weight": dense("input"),
    "aten::fbgemm_linear_int8_weight_fp32_activation": dense("input"),
    "aten::mkldnn_linear": dense("self"),
    "aten::mkldnn_linear_backward": _linear_backward,
    "aten::mkldnn_linear_backward_input": lambda operands: 2 * operands.numel("grad_output") * operands.out()[-1],
    "aten::mkldnn_linear_backward_weights": lambda operands: (
        2 * operands.numel("grad_output") * operands.shape("input")[-1]
    ),
    "mkldnn::_linear_pointwise": dense("X"),
    "mkl::_mkl_linear": dense("X"),
    "onednn::qlinear_pointwise": dense("qx"),
    "onednn::linear_dynamic_fp16": dense("x"),
    "onednn::linear_relu_dynamic_fp16": dense("x"),
    "inductor::_mm_plus_mm": _two,
    "symm_mem::_async_input_mm": matrices("a", "b"),
    "symm_mem::fused_all_gather_matmul": _gathered,
    "symm_mem::fused_all_gather_scaled_matmul": _gathered,
    "symm_mem::fused_matmul_reduce_scatter": matrices("A", "B"),
    "symm_mem::fused_scaled_matmul_reduce_scatter": matrices("A", "B"),
    # Sparse: what is stored of the sparse operand meets every column of the other one.
    "aten::_sparse_mm": matrices("sparse", "dense"),
    "aten::_sparse_mm_reduce_impl": matrices("self", "other"),
    "aten::_sparse_mm_reduce_impl_backward": _reduced_backward,
    "aten::_sparse_addmm": matrices("mat1", "mat2"),
    "aten::hspmm": matrices("mat1", "mat2"),
    "aten::smm": matrices("self", "mat2"),
    "aten::sspaddmm": matrices("mat1", "mat2"),
    "aten::sparse_sampled_addmm": lambda operands: 2 * operands.numel("self") * operands.shape("mat1")[-1],
}

# How many products a two-to-four sparse kernel really saves is its own affair.
_BOUNDED: dict[str, Formula] = {
    "aten::_sparse_sparse_matmul": matrices("self", "other"),
    "aten::_cslt_sparse_mm": lambda operands: 2 * operands.numel_out() * operands.shape("dense_B")[-2],
    "aten::_sparse_semi_structured_linear": dense("input"),
    "aten::_sparse_semi_structured_mm": lambda operands: 2 * operands.numel_out() * operands.shape("mat2")[-2],
    "aten::_sparse_semi_structured_addmm": lambda operands: 2 * operands.numel_out() * operands.shape("mat2")[-2],
}

DEFINITIONS: dict[str, Definition] = {
    **{name: Definition(kind=MATMUL, flop=flop) for name, flop in _FORMULAS.items()},
    **{name: _bounded(flop) for name, flop in _BOUNDED.items()},
    **{
        name: Definition(kind=MATMUL, flop=_cdist, kind_of=_cdist_kind)
        for name in ("aten::_cdist_forward", "aten::cdist")
    },
}
