"""Floor 3, graph. torch's remaining operators: linear algebra, Fourier transforms, communication, checks.

In: nothing. Out: ``DEFINITIONS``, ``NAMESPACES``. Factorisations, solvers and Fourier transforms are no matrix products
in the sense of F: kind ``other``, F 0.
"""

from __future__ import annotations

from perfgate.graph.operators.definition import (
    CAST,
    COPY,
    FILL,
    OTHER,
    POINTWISE,
    POOLING,
    SYNC,
    TRANSFER,
    Definition,
    words,
)
from perfgate.graph.operators.torch_movement import moved_kind, nothing

_OTHER = words("""
    _fft_c2c _fft_c2r _fft_r2c stft istft fft_fft fft_fft2 fft_fftn fft_hfft fft_hfft2 fft_hfftn fft_ifft fft_ifft2
    fft_ifftn fft_ihfft fft_ihfft2 fft_ihfftn fft_irfft fft_irfft2 fft_irfftn fft_rfft fft_rfft2 fft_rfftn
    fft_fftshift fft_ifftshift cholesky_inverse cholesky_solve _cholesky_solve_helper linalg_cholesky
    linalg_cholesky_ex linalg_cond linalg_det _linalg_det linalg_eig linalg_eigh _linalg_eigh linalg_eigvals
    _linalg_eigvals linalg_eigvalsh linalg_householder_product linalg_inv linalg_inv_ex linalg_ldl_factor
    linalg_ldl_factor_ex linalg_ldl_solve linalg_lstsq linalg_lu linalg_lu_factor linalg_lu_factor_ex
    linalg_lu_solve linalg_matrix_exp matrix_exp matrix_exp_backward linalg_matrix_rank linalg_matrix_sqrth
    linalg_pinv linalg_polar linalg_qr linalg_slogdet _linalg_slogdet linalg_solve linalg_solve_ex _linalg_solve_ex
    linalg_solve_triangular linalg_svd _linalg_svd linalg_svdvals linalg_tensorinv linalg_tensorsolve linalg_vander
    _lu_with_info lu_solve lu_unpack geqrf orgqr ormqr triangular_solve svd det logdet slogdet inverse pinverse
    _spsolve gradient _sobol_engine_ff_ _sobol_engine_scramble_ _cslt_sparse_mm_search _assert_async
    _functional_assert_async _print _validate_sparse_csr_tensor_args
    """)

_PRIMS_COPIES = words("copy_to copy_strided rev cat clone collapse reshape as_strided_scatter")

# Between processes of one job; also what is not named here.
COMMUNICATION = frozenset(
    words("c10d c10d_functional _c10d_functional _c10d_functional_autograd _dtensor symm_mem fsdp")
)
_COMMUNICATION = {
    "_c10d_functional": words("""
    all_reduce all_reduce_ all_reduce_coalesced all_reduce_coalesced_ all_gather_into_tensor
    all_gather_into_tensor_coalesced all_gather_into_tensor_out all_to_all_single broadcast broadcast_
    reduce_scatter_tensor reduce_scatter_tensor_coalesced reduce_scatter_tensor_out batch_p2p_ops irecv isend
    """),
    "c10d": words("""
    _allgather_base_ _reduce_scatter_base_ allgather_ allgather_coalesced_ allgather_into_tensor_coalesced_ allreduce_
    allreduce_coalesced_ alltoall_ alltoall_base_ barrier broadcast_ gather_ gather_into_tensor_ recv_
    recv_any_source_ reduce_ reduce_scatter_ reduce_scatter_tensor_coalesced_ scatter_ send
    """),
}

_FREE = Definition(kind=OTHER, reads=nothing, writes=nothing)

# Namespaces whose operators come with torch. An unknown operator of any other one may do anything.
NAMESPACES = frozenset(
    words("""
    aten prim prims torchvision image quantized _quantized quantized_decomposed quantization mkldnn mkl onednn
    sparse inductor inductor_prims mkldnn_prepacked prepacked _c10d_functional c10d c10d_functional
    _c10d_functional_autograd symm_mem _dtensor profiler streams cuda rngprims debugprims static_runtime mempool
    fsdp export
    """)
)

DEFINITIONS: dict[str, Definition] = {
    **{f"aten::{name}": Definition(kind=OTHER) for name in _OTHER},
    **{f"prims::{name}": Definition(kind=COPY) for name in _PRIMS_COPIES},
    **{
        f"prims::{name}": _FREE
        for name in ("empty", "empty_strided", "empty_permuted", "resize", "view_of", "as_strided")
    },
    "prims::convert_element_type": Definition(kind=CAST),
    "prims::device_put": Definition(kind=TRANSFER, kind_of=moved_kind),
    "prims::item": Definition(kind=SYNC),
    **{f"prims::{name}": Definition(kind=FILL) for name in ("iota", "full", "full_like", "fill", "scalar_tensor")},
    **{f"prims::fft_{name}": Definition(kind=OTHER) for name in ("c2c", "c2r", "r2c")},
    "prims::svd": Definition(kind=OTHER),
    **{
        f"{namespace}::{name}": Definition(kind=TRANSFER)
        for namespace, names in _COMMUNICATION.items()
        for name in names
    },
    "_c10d_functional::wait_tensor": _FREE,
    "_c10d_functional::_wrap_tensor_autograd": _FREE,
    **{
        f"torchvision::_{name}_backward": Definition(kind=POOLING)
        for name in ("roi_align", "roi_pool", "ps_roi_align", "ps_roi_pool")
    },
    "inductor::accumulate_grad_": Definition(kind=POINTWISE),
    "quantization::_Bfloat16QuantizedToFloat": Definition(kind=CAST),
    "quantization::_FloatToBfloat16Quantized": Definition(kind=CAST),
    "inductor::_alloc_from_pool": _FREE,
    "inductor::_reinterpret_tensor": _FREE,
    "inductor::resize_storage_bytes_": _FREE,
}
