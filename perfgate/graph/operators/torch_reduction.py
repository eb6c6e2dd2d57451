"""Floor 3, graph. torch's operators that sum, compare or sort along dimensions, and normalise with the result.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``. None of them is a matrix product.
"""

from __future__ import annotations

from collections.abc import Iterable

from perfgate.graph.operators.definition import (
    NORMALIZATION,
    POINTWISE,
    POOLING,
    REDUCTION,
    SOFTMAX,
    SORT,
    Definition,
    Operands,
    words,
)

_REDUCTIONS = words("""
    sum mean prod amax amin max min aminmax _aminmax all any argmax argmin std var std_mean var_mean norm
    frobenius_norm nuclear_norm native_norm linalg_norm linalg_vector_norm linalg_matrix_norm linalg__powsum
    logsumexp nansum nanmean median nanmedian mode quantile nanquantile count_nonzero cumsum cumprod cummax cummin
    _cummax_helper _cummin_helper logcumsumexp _logcumsumexp trace dist histc bincount histogram histogramdd
    _histogramdd_bin_edges _histogramdd_from_bin_cts _histogramdd_from_bin_tensors trapezoid trapz
    cumulative_trapezoid cosine_similarity pairwise_distance pdist _pdist_forward norm_except_dim sum_to_size
    segment_reduce _segment_reduce_backward _is_all_true _is_any_true hash_tensor allclose corrcoef cov
    cummaxmin_backward _sparse_sum _sparse_csr_sum _sparse_csr_prod xor_sum choose_qparams_optimized
    _choose_qparams_per_tensor choose_qparams choose_qparams_symmetric choose_qparams_per_token
    choose_qparams_per_token_asymmetric _choose_qparams_per_token_asymmetric_impl _fused_moving_avg_obs_fq_helper
    _fused_moving_avg_obs_fq_helper_functional fused_moving_avg_obs_fake_quant batch_norm_stats
    batch_norm_gather_stats batch_norm_gather_stats_with_counts batch_norm_backward_reduce batch_norm_update_stats
    _foreach_norm _foreach_max _foreach_powsum _sparse_mask_projection _linalg_check_errors mse_loss l1_loss
    smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy binary_cross_entropy_with_logits kl_div
    poisson_nll_loss cross_entropy_loss cosine_embedding_loss hinge_embedding_loss margin_ranking_loss
    triplet_margin_loss multi_margin_loss multilabel_margin_loss multilabel_margin_loss_forward nll_loss_nd ctc_loss
    _ctc_loss _cudnn_ctc_loss miopen_ctc_loss
    """)

# Their backward passes only spread a number: elementwise.
_LOSSES = words("""
    mse_loss smooth_l1_loss huber_loss soft_margin_loss binary_cross_entropy multi_margin_loss
    multilabel_margin_loss _ctc_loss
    """)

_NORMALIZATIONS = words("""
    batch_norm native_batch_norm _native_batch_norm_legit _native_batch_norm_legit_functional
    _native_batch_norm_legit_no_training _batch_norm_with_update _batch_norm_with_update_functional
    _batch_norm_no_update _batch_norm_impl_index cudnn_batch_norm miopen_batch_norm batch_norm_elemt
    batch_norm_backward_elemt quantized_batch_norm layer_norm native_layer_norm group_norm native_group_norm
    instance_norm rms_norm _fused_rms_norm renorm _weight_norm _weight_norm_interface _weight_norm_differentiable
    batch_norm1d batch_norm2d batch_norm3d batch_norm_relu batch_norm1d_relu batch_norm2d_relu batch_norm3d_relu
    qbatch_norm2d
    """)

_SOFTMAX = words("""
    softmax _softmax log_softmax _log_softmax _safe_softmax _masked_softmax _sparse_softmax _sparse_log_softmax
    _nested_tensor_softmax_with_shape
    """)

# Pooling and resampling: windows over positions.
_POOLING = words("""
    adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d
    adaptive_max_pool1d adaptive_max_pool2d adaptive_max_pool3d avg_pool1d avg_pool2d avg_pool3d
    fractional_max_pool2d fractional_max_pool3d max_pool1d max_pool2d max_pool3d max_pool1d_with_indices
    max_pool2d_with_indices max_pool3d_with_indices max_unpool2d max_unpool3d mkldnn_max_pool2d mkldnn_max_pool3d
    mkldnn_adaptive_avg_pool2d quantized_max_pool1d quantized_max_pool2d quantized_max_pool3d upsample_bicubic2d
    upsample_bilinear2d upsample_linear1d upsample_nearest1d upsample_nearest2d upsample_nearest3d
    upsample_trilinear3d _upsample_bicubic2d_aa _upsample_bilinear2d_aa _upsample_lanczos2d_aa
    _upsample_nearest_exact1d _upsample_nearest_exact2d _upsample_nearest_exact3d __interpolate __upsample
    __upsample_bilinear __upsample_nearest grid_sampler grid_sampler_2d grid_sampler_3d
    _grid_sampler_2d_cpu_fallback cudnn_grid_sampler affine_grid_generator cudnn_affine_grid_generator roi_align
    roi_pool ps_roi_align ps_roi_pool qroi_align
    """)

_SORTS = words("""
    sort argsort msort topk kthvalue _unique _unique2 unique_dim unique_consecutive unique_dim_consecutive
    searchsorted bucketize nms qnms box_iou_rotated
    """)


def _training(operands: Operands) -> bool:
    return bool(operands.attribute("training") or operands.attribute("train"))


def _running_statistics(operands: Operands) -> dict[str, int]:
    """In training they are updated, though the older schemas do not say so; in evaluation only read."""
    if not _training(operands):
        return {}
    return {name: operands.bytes_in(name) for name in ("running_mean", "running_var")}


def _batch_norm_backward(operands: Operands) -> dict[str, int]:
    """The step's own statistics in training, the running ones in evaluation."""
    names = ("running_mean", "running_var") if _training(operands) else ("save_mean", "save_invstd", "save_var")
    return dict.fromkeys(names, 0)


def _picked(operands: Operands) -> dict[str, int]:
    """Of every row only the target's entry is looked at."""
    targets = operands.numel("target")
    return {"self": operands.rows("self", targets), "weight": operands.rows("weight", targets)}


def _named(kind: str, names: Iterable[str]) -> dict[str, Definition]:
    definition = Definition(kind=kind)
    return {f"aten::{name}": definition for name in names}


_BATCH_NORM = Definition(kind=NORMALIZATION, writes=_running_statistics)
_BATCH_NORM_BACKWARD = Definition(kind=NORMALIZATION, reads=_batch_norm_backward)

DEFINITIONS: dict[str, Definition] = {
    **_named(REDUCTION, _REDUCTIONS),
    **_named(POINTWISE, [f"{name}_backward" for name in _LOSSES]),
    **_named(NORMALIZATION, _NORMALIZATIONS),
    **_named(SOFTMAX, _SOFTMAX),
    **_named(SOFTMAX, [f"{name}_backward_data" for name in _SOFTMAX]),
    **_named(POOLING, _POOLING),
    **_named(SORT, _SORTS),
    **{f"aten::{name}": _BATCH_NORM for name in ("native_batch_norm", "cudnn_batch_norm", "miopen_batch_norm")},
    **{
        f"aten::{name}_backward": _BATCH_NORM_BACKWARD
        for name in (
            "native_batch_norm",
            "cudnn_batch_norm",
            "miopen_batch_norm",
            "batch_norm",
            "_batch_norm_impl_index",
        )
    },
    **{f"aten::{name}_forward": Definition(kind=REDUCTION, reads=_picked) for name in ("nll_loss", "nll_loss2d")},
    **{f"aten::{name}": Definition(kind=REDUCTION, reads=_picked) for name in ("nll_loss", "nll_loss2d")},
    **_named(POINTWISE, ("nll_loss_backward", "nll_loss2d_backward")),
}
