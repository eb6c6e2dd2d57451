"""Floor 3, graph. torch's operators that move, fill, pick or place values without computing on them.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``, with the bytes that are really touched:
rows of a table and not the table, and nothing of a target that is overwritten.
"""

from __future__ import annotations

import math
from collections.abc import Iterable

from perfgate.graph.operators.definition import (
    CAST,
    COPY,
    EMBEDDING,
    FILL,
    GATHER,
    OTHER,
    RANDOM,
    SCATTER,
    SYNC,
    TRANSFER,
    Definition,
    Operands,
    Parts,
    words,
)

_COPIES = words("""
    clone cat concat concatenate _chunk_cat stack _stack hstack vstack dstack column_stack row_stack block_diag
    contiguous constant_pad_nd pad _pad_circular _pad_enum reflection_pad1d reflection_pad2d reflection_pad3d
    replication_pad1d replication_pad2d replication_pad3d repeat tile roll flip fliplr flipud rot90 pixel_shuffle
    pixel_unshuffle channel_shuffle native_channel_shuffle im2col col2im unfold_backward diag diag_embed diagflat
    slice_backward select_backward diagonal_backward trace_backward cartesian_prod combinations meshgrid
    pad_sequence lift_fresh_copy lift _reshape_alias_copy _reshape_copy reshape _lazy_clone _mkldnn_reshape
    _mkldnn_transpose to_mkldnn to_mkldnn_backward to_dense to_dense_backward _to_dense _coalesce coalesce
    copy_sparse_to_sparse _cudnn_rnn_flatten_weight _pack_padded_sequence _pack_padded_sequence_backward
    _pad_packed_sequence _pack_sequence _nested_tensor_from_mask _nested_tensor_from_tensor_list _nested_from_padded
    _nested_from_padded_and_nested_example nested_to_padded_tensor to_padded_tensor _jagged_to_padded_dense_forward
    _padded_dense_to_jagged_forward _nested_from_padded_tensor _nested_select_backward flatten_dense_tensors
    mkldnn_reorder_conv2d_weight mkldnn_reorder_conv3d_weight _convert_weight_to_int4pack
    _convert_weight_to_int4pack_for_cpu _dyn_quant_pack_4bit_weight _cslt_compress fbgemm_pack_gemm_matrix_fp16
    fbgemm_pack_quantized_matrix fbgemm_linear_quantize_weight _wrapped_linear_prepack _to_sparse _to_sparse_csr
    _to_sparse_csc _to_sparse_bsr _to_sparse_bsc _to_sparse_semi_structured to_sparse _sparse_semi_structured_tile
    _sparse_semi_structured_apply _sparse_semi_structured_apply_dense _sparse_broadcast_to_copy
    _convert_indices_from_coo_to_csr _convert_indices_from_csr_to_coo adjoint_copy _foreach_clone resize_output_copy
    _rowwise_prune _spdiags _add_batch_dim _remove_batch_dim one_hot _conj_copy _neg_view_copy _propagate_xla_data
    _make_per_tensor_quantized_tensor _make_per_channel_quantized_tensor int_repr split_copy unbind_copy cat_relu
    chunk_cat all_gather_copy_in
    """)

_CASTS = words("""
    quantize_per_tensor quantize_per_channel quantize_per_tensor_dynamic dequantize quantize_per_channel_group
    dequantize_per_tensor dequantize_per_channel dequantize_per_channel_group quantize_per_token
    dequantize_per_token convert_element_type type_as _autocast_to_full_precision _autocast_to_reduced_precision
    _cast_Byte _cast_Char _cast_Double chalf _cast_Float _cast_Half _cast_Int _cast_Long _cast_Short
    """)

_FILLS = words("""
    zeros ones full arange range linspace logspace eye tril_indices triu_indices scalar_tensor bartlett_window
    blackman_window hamming_window hann_window kaiser_window zeros_like ones_like full_like new_zeros new_ones
    new_full _efficientzerotensor fill zero _dim_arange _new_zeros_with_same_feature_meta fft_fftfreq fft_rfftfreq
    iota _sobol_engine_initialize_state_
    """)

_RANDOM = words("""
    rand rand_like randn randn_like randint randint_like normal uniform bernoulli exponential geometric cauchy
    log_normal random multinomial poisson binomial _standard_gamma _sample_dirichlet native_dropout _fused_dropout
    dropout feature_dropout alpha_dropout feature_alpha_dropout randperm normal_functional _sobol_engine_draw
    _philox_normal _philox_uniform _philox_key_fold_in _philox_key_split philox_rand _cudnn_init_dropout_state
    """)

# In place, and what was there before is not looked at.
_OVERWRITES = {
    COPY: ("copy_", "_foreach_copy_", "copy_sparse_to_sparse_"),
    FILL: ("fill_", "zero_", "_foreach_zero_"),
    RANDOM: (
        "uniform_",
        "normal_",
        "random_",
        "bernoulli_",
        "exponential_",
        "geometric_",
        "cauchy_",
        "log_normal_",
        "_fill_mem_eff_dropout_mask_",
        "_philox_normal_",
        "_philox_uniform_",
    ),
}

# Allocation and bookkeeping: no byte moves.
_NOTHING = words("""
    empty empty_like empty_strided empty_permuted empty_quantized new_empty new_empty_strided
    _empty_affine_quantized _empty_per_channel_affine_quantized resize_ resize_as_ _resize_output_ sparse_resize_
    sparse_resize_and_clear_ set_ squeeze_ unsqueeze_ t_ transpose_ swapaxes_ swapdims_ detach detach_ alias
    lift_fresh _unsafe_view requires_grad_ retain_grad is_same_size _has_same_storage_numel
    _has_compatible_shallow_copy_type record_stream _nested_get_offsets _nested_get_lengths _nested_get_values
    _nested_get_jagged_dummy _nested_tensor_size _nested_tensor_strides _nested_tensor_storage_offsets
    _nested_view_from_buffer _nested_view_from_jagged _coalesced_ _values _indices values indices crow_indices
    col_indices ccol_indices row_indices is_coalesced dense_dim sparse_dim _nnz _dimI _dimV q_scale q_zero_point
    q_per_channel_scales q_per_channel_zero_points q_per_channel_axis qscheme sym_size sym_numel sym_stride
    sym_storage_offset _assert_tensor_metadata _assert_scalar _functional_assert_scalar sym_constrain_range
    sym_constrain_range_for_size _make_dep_token _functional_sym_constrain_range
    _functional_sym_constrain_range_for_size _debug_has_internal_overlap _is_zerotensor is_pinned shallow_copy_data_
    _sparse_coo_tensor_unsafe _sparse_coo_tensor_with_dims _sparse_coo_tensor_with_dims_and_tensors
    _sparse_csr_tensor_unsafe _sparse_csc_tensor_unsafe _sparse_bsr_tensor_unsafe _sparse_bsc_tensor_unsafe
    _sparse_compressed_tensor_unsafe _sparse_compressed_tensor_with_dims sparse_coo_tensor sparse_compressed_tensor
    _validate_sparse_coo_tensor_args _validate_sparse_compressed_tensor_args _validate_compressed_sparse_indices
    unsafe_split unsafe_split_with_sizes unsafe_chunk _coalesced resize resize_as resize_as_sparse resize_as_sparse_
    set _resize_output is_set_to _use_cudnn_ctc_loss _use_miopen_ctc_loss _nested_get_max_seqlen
    _nested_get_min_seqlen _nested_get_ragged_idx _nested_compute_contiguous_strides_offsets sparse_resize
    sparse_resize_and_clear is_conj is_neg _reshape_from_tensor _shape_as_tensor _test_parallel_materialize
    """)

_GATHERS = words("""
    index_select gather take take_along_dim index _unsafe_index _unsafe_masked_index
    """)
_PICKS = words("""
    masked_select nonzero nonzero_static nonzero_numpy argwhere repeat_interleave sparse_mask
    _gather_sparse_backward
    """)
_SCATTERS = words("""
    scatter scatter_add scatter_reduce index_add index_copy index_fill index_reduce index_put _index_put_impl
    _unsafe_index_put _unsafe_masked_index_put_accumulate masked_scatter put slice_scatter select_scatter
    diagonal_scatter as_strided_scatter fill_diagonal_ masked_select_backward index_select_backward gather_backward
    slice_inverse
    """)
_EMBEDDINGS = words("""
    embedding_backward embedding_dense_backward embedding_sparse_backward _embedding_bag_backward
    _embedding_bag_dense_backward _embedding_bag_sparse_backward _embedding_bag_per_sample_weights_backward
    embedding_bag_prepack embedding_bag_unpack embedding_renorm
    """)
_BAGS = words("""
    embedding_bag _embedding_bag _embedding_bag_forward_only embedding_byte embedding_4bit embedding_2bit
    embedding_bag_byte embedding_bag_4bit embedding_bag_2bit embedding_bag_byte_rowwise_offsets
    embedding_bag_4bit_rowwise_offsets embedding_bag_2bit_rowwise_offsets
    """)


def nothing(operands: Operands) -> dict[str, int]:
    """No argument and no output moves a byte."""
    outputs = {f"out{number}": 0 for number in range(len(operands.call.outputs))}
    return {**dict.fromkeys(operands.call.operands, 0), **outputs}


def unread(*names: str) -> Parts:
    """Arguments that are not looked at, only overwritten or asked for their sizes."""
    return lambda _: dict.fromkeys(names, 0)


def moved_kind(operands: Operands) -> str:
    """A copy to another device, to another dtype, or neither."""
    outputs = operands.call.outputs
    source = operands.value("src") or operands.value("self") or operands.value("input")
    if source is None or not outputs or outputs[0] < 0:
        return COPY
    target = operands.trace.values[outputs[0]]
    if source.device != target.device:
        return TRANSFER
    return CAST if source.dtype != target.dtype else COPY


def _rows_picked(operands: Operands) -> dict[str, int]:
    return {"self": operands.rows("self", operands.numel_out())}


def _rows_looked_up(operands: Operands) -> dict[str, int]:
    return {"weight": operands.rows("weight", operands.numel_out())}


def _rows_bagged(operands: Operands) -> dict[str, int]:
    width = operands.shape("weight")[-1]
    return {"weight": operands.rows("weight", operands.numel("indices") * width)}


def _renormed(operands: Operands) -> dict[str, int]:
    width = operands.shape("self")[-1]
    return {"self": operands.rows("self", operands.numel("indices") * width)}


def _by_index(source: str) -> Parts:
    """``index`` has one entry for each element that is placed; of ``source`` as many are read."""
    return lambda operands: {source: operands.rows(source, operands.numel("index"))}


def _indexed(operands: Operands) -> int:
    """Elements of ``self`` that ``indices`` name: their common shape, and every dimension that has none."""
    own = list(operands.shape("self"))
    places = operands.call.operands.get("indices", ())
    indices = [operands.trace.values[place] for place in places if place >= 0]
    if any(index.dtype in {"bool", "uint8"} for index in indices):
        # A mask: how much it lets through depends on data.
        return math.prod(own)
    rank = max((len(index.shape) for index in indices), default=0)
    padded = [(1,) * (rank - len(index.shape)) + index.shape for index in indices]
    common = math.prod(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
    free = [extent for number, extent in enumerate(own) if number >= len(places) or places[number] < 0]
    return int(common * math.prod(free))


def _touched(operands: Operands) -> int:
    """Elements of ``self`` that an operator in place changes."""
    if "indices" in operands.call.operands:
        return _indexed(operands)
    for name in ("source", "src"):
        if operands.value(name) is not None and operands.call.op.startswith("aten::index"):
            return operands.numel(name)
    index = operands.numel("index")
    if operands.call.op.startswith("aten::index"):
        own = operands.shape("self")
        dim = int(operands.attribute("dim", 0))
        return math.prod(own) // max(1, own[dim] if own else 1) * index
    return index


def _placed(operands: Operands) -> dict[str, int]:
    return {"self": operands.rows("self", _touched(operands))}


def _placed_reads(operands: Operands) -> dict[str, int]:
    """Of the target as much as is changed where it is added to, nothing where it is overwritten."""
    adds = bool(operands.attribute("accumulate")) or "add" in operands.call.op or "reduce" in operands.call.op
    adds = adds or bool(operands.attribute("reduce"))
    parts = {"self": operands.rows("self", _touched(operands)) if adds else 0}
    if operands.value("src") is not None and operands.value("index") is not None:
        parts["src"] = operands.rows("src", operands.numel("index"))
    return parts


_IN_PLACE = Definition(kind=SCATTER, reads=_placed_reads, writes=_placed)
_MOVED = Definition(kind=COPY, kind_of=moved_kind)


def _named(definition: Definition, names: Iterable[str]) -> dict[str, Definition]:
    return {f"aten::{name}": definition for name in names}


DEFINITIONS: dict[str, Definition] = {
    **_named(Definition(kind=COPY), _COPIES),
    **_named(Definition(kind=CAST), _CASTS),
    **_named(Definition(kind=FILL), _FILLS),
    **_named(Definition(kind=RANDOM), _RANDOM),
    **{
        f"aten::{name}": Definition(kind=kind, reads=unread("self"), kind_of=moved_kind if name == "copy_" else None)
        for kind, names in _OVERWRITES.items()
        for name in names
    },
    **_named(Definition(kind=OTHER, reads=nothing, writes=nothing), _NOTHING),
    # torch calls it no view, and so it counts by the plain rule.
    **_named(Definition(kind=OTHER), ["as_strided_"]),
    **_named(_MOVED, ["_to_copy", "to", "copy", "_to_cpu", "cpu", "cuda"]),
    **_named(Definition(kind=COPY, reads=unread("dst")), ["_copy_from", "_copy_from_and_resize"]),
    **_named(Definition(kind=TRANSFER), ["_pin_memory", "pin_memory"]),
    **_named(Definition(kind=SYNC), ["_local_scalar_dense", "item", "is_nonzero", "equal"]),
    **_named(Definition(kind=GATHER, reads=_rows_picked), _GATHERS),
    **_named(Definition(kind=GATHER), _PICKS),
    **_named(Definition(kind=SCATTER), _SCATTERS),
    **_named(Definition(kind=SCATTER, reads=_by_index("src")), ["scatter", "scatter_add", "scatter_reduce"]),
    **_named(
        _IN_PLACE,
        [
            "scatter_",
            "scatter_add_",
            "scatter_reduce_",
            "index_add_",
            "index_copy_",
            "index_fill_",
            "index_reduce_",
            "index_put_",
            "_index_put_impl_",
            "put_",
        ],
    ),
    **_named(Definition(kind=EMBEDDING), _EMBEDDINGS),
    **_named(Definition(kind=EMBEDDING, reads=_rows_looked_up), ["embedding"]),
    **_named(Definition(kind=EMBEDDING, reads=_rows_bagged), _BAGS),
    **_named(Definition(kind=EMBEDDING, reads=_renormed, writes=_renormed), ["embedding_renorm_"]),
    **_named(
        Definition(kind=COPY), (f"{name}_pad{n}d_backward" for name in ("reflection", "replication") for n in (1, 2, 3))
    ),
}
