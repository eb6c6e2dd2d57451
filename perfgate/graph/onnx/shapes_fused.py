"""Floor 3, graph. Shapes of ONNX Runtime's fused operators (``com.microsoft``): pointwise, norms, matrix products.

In: a :class:`Site`. Out: types of the outputs. Attention is in ``shapes_attention``, quantisation in
``shapes_quantized``.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto, TypeProto

from perfgate.graph.onnx.known import dimensions
from perfgate.graph.onnx.shapes import ShapeFunction, delegated
from perfgate.graph.onnx.shapes_old import broadcast, first
from perfgate.graph.onnx.site import Dimensions, OpenError, Site

_FLOAT = TensorProto.FLOAT
CONV = ("auto_pad", "dilations", "group", "kernel_shape", "pads", "strides")
_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "dilations", "kernel_shape", "pads", "storage_order", "strides")


def like(position: int) -> ShapeFunction:
    """All outputs look like the input at ``position``."""
    return lambda site: [site.like(position)] * len(site.node.output)


def conv(site: Site) -> Sequence[TypeProto]:
    """``X``, ``W`` as the standard's convolution, activation and sum inside."""
    return delegated(site, "Conv", (0, 1), 11, CONV)


def channels_last(function: str, version: int, keep: Sequence[str], positions: Sequence[int] = (0, 1)) -> ShapeFunction:
    """The standard's operator on ``[N, ..., C]``: only the first input and the output are laid out so."""

    def shapes(site: Site) -> Sequence[TypeProto]:
        before = site.dims(positions[0])
        turned = site.like(positions[0], (before[0], before[-1], *before[1:-1]))
        made = delegated(site, function, positions, version, keep, [turned, *(site.type(p) for p in positions[1:])])
        return [_turned_back(type_, site) for type_ in made]

    return shapes


def _turned_back(type_: TypeProto, site: Site) -> TypeProto:
    after = dimensions(type_) or ()
    return site.like(0, (after[0], *after[2:], after[1]))


def fused_matmul(site: Site) -> Sequence[TypeProto]:
    """``A`` and ``B``, each with its batch moved and its last two dimensions swapped on request."""
    operands = []
    for position, letter in ((0, "A"), (1, "B")):
        sizes = list(site.dims(position))
        if site.integer(f"transBatch{letter}") and len(sizes) > 2:
            sizes = [*sizes[1:-1], sizes[0], sizes[-1]]
        if site.integer(f"trans{letter}") and len(sizes) > 1:
            sizes[-1], sizes[-2] = sizes[-2], sizes[-1]
        operands.append(site.like(position, tuple(sizes), element=_FLOAT))
    made = delegated(site, "MatMul", (0, 1), 13, types=operands)
    return [site.like(0, dimensions(made[0]))]


def gemm(site: Site) -> Sequence[TypeProto]:
    """``A`` and ``B`` with ``transA`` and ``transB``."""
    types = [site.like(position, element=_FLOAT) for position in (0, 1)]
    made = delegated(site, "Gemm", (0, 1), 13, ("transA", "transB"), types)
    return [site.like(0, dimensions(made[0]))]


def columns(attribute: str) -> ShapeFunction:
    """``[..., K]`` becomes ``[..., N]``, where an attribute tells N."""
    return lambda site: [site.like(0, (*site.dims(0)[:-1], site.integer(attribute)))]


def _last_of(position: int) -> ShapeFunction:
    return lambda site: [site.like(0, (*site.dims(0)[:-1], site.dims(position)[-1]))]


def _projections(site: Site) -> Sequence[TypeProto]:
    rows = site.dims(0)[:-1]
    widths = [site.integer("Nq"), site.integer("Nkv"), site.integer("Nkv")]
    return [*(site.like(0, (*rows, width)) for width in widths), site.like(0)]


def _gated(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (*site.dims(0)[:-1], site.integer("N"))), site.like(0)]


def _fp4(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (*site.dims(0)[:-1], site.data(2)[-1]))]


def _skip_norm(site: Site) -> Sequence[TypeProto]:
    """output, mean, inverse deviation, input + skip + bias."""
    statistics = site.like(0, (*site.dims(0)[:-1], 1), element=_FLOAT)
    return [site.like(0), statistics, statistics, site.like(0)]


def _simplified(site: Site) -> Sequence[TypeProto]:
    statistics = site.like(0, (*site.dims(0)[:-1], 1), element=_FLOAT)
    return [site.like(0, element=site.element(1)), statistics]


def embed_norm(site: Site) -> Sequence[TypeProto]:
    """``input_ids [B, S]`` and ``word_embedding [V, D]``: output, mask index, sum."""
    batch, steps = site.dims(0)
    made = site.like(2, (batch, steps, site.dims(2)[1]), element=_FLOAT if site.element(2) == TensorProto.UINT8 else 0)
    return [made, site.like(0, (batch,), element=TensorProto.INT32), made]


def _dropout(site: Site) -> Sequence[TypeProto]:
    return [site.like(0), site.like(0, element=TensorProto.BOOL)]


def _bit_dropout(site: Site) -> Sequence[TypeProto]:
    total = 1
    for size in site.shape(0):
        total *= size
    return [site.like(0), site.like(0, ((total + 31) // 32,), element=TensorProto.UINT32)]


def _split_gelu(site: Site) -> Sequence[TypeProto]:
    *rows, last = site.shape(0)
    return [site.like(0, (*rows, last // 2))]


def _swiglu(site: Site) -> Sequence[TypeProto]:
    return [site.like(0)] if site.has(1) else _split_gelu(site)


def _scalar(element: int) -> ShapeFunction:
    return lambda site: [site.like(0, (), element=element)]


def _expand_dims(site: Site) -> Sequence[TypeProto]:
    before, axis = site.dims(0), site.scalar(1)
    if axis is None:
        msg = "its axis depends on data"
        raise OpenError(msg)
    axis %= len(before) + 1
    return [site.like(0, (*before[:axis], 1, *before[axis:]))]


def _distances(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (site.dims(0)[0], site.dims(1)[0]))]


def _rfft(site: Site) -> Sequence[TypeProto]:
    *rows, last = site.shape(0)
    return [site.like(0, (*rows, last // 2 + 1 if site.integer("onesided", 1) else last, 2))]


def _irfft(site: Site) -> Sequence[TypeProto]:
    *rows, last, _ = site.shape(0)
    return [site.like(0, (*rows, (last - 1) * 2 if site.integer("onesided", 1) else last))]


def _embedding(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (*site.dims(1), *site.dims(0)[1:]))]


def _crop_and_resize(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (site.dims(1)[0], site.dims(0)[1], *site.data(3)))]


def _position_bias(site: Site) -> Sequence[TypeProto]:
    lengths = site.scalar(1), site.scalar(2)
    return [site.like(0, (1, site.dims(0)[1], *lengths))]


def _gated_position_bias(site: Site) -> Sequence[TypeProto]:
    """``rel_pos [1, heads, S, S]`` for every sequence of ``query_layer``."""
    batch: Dimensions = site.dims(0)[:1] if not site.has(6) else site.dims(6)[:1]
    return [site.like(0, (*batch, *site.dims(2)[1:]))]


def _conv_with_state(site: Site) -> Sequence[TypeProto]:
    batch, channels, steps = site.dims(0)
    if site.integer("channels_last"):
        steps, channels = channels, steps
    kernel = site.shape(1)[-1]
    return [site.like(0), site.like(0, (batch, channels, (kernel - 1) * site.integer("dilation", 1)))]


def _blocked(site: Site) -> Sequence[TypeProto]:
    """``ReorderInput``: blocks of channels, whatever the layout before."""
    before = site.dims(0)
    return [site.like(0, (before[0], before[-1], *before[1:-1]) if site.integer("channels_last") else before)]


def _unblocked(site: Site) -> Sequence[TypeProto]:
    """``ReorderOutput``: ``channels`` of them are no padding."""
    before, channels = site.dims(0), site.integer("channels")
    if site.integer("channels_last"):
        return [site.like(0, (before[0], *before[2:], channels))]
    return [site.like(0, (before[0], channels, *before[2:]))]


def _enlarged(site: Site) -> Sequence[TypeProto]:
    scales = site.integers("scales") or []
    return [site.like(0, tuple(size * scale for size, scale in zip(site.shape(0), scales, strict=True)))]


_FIRST = """
    BiasAdd BiasSoftmax BranchwiseRMSNorm FastGelu GatedAdd GatedRMSNorm Gelu GroupNorm Inverse LinearAttentionGate
    MRotaryEmbedding MoE MoEPacked QuickGelu RotaryEmbedding ScaledSiLU SkipGroupNorm Trilu QOrderedGelu
    QOrderedLayerNormalization QMoE
"""

FUSED: dict[str, ShapeFunction] = {
    **{f"com.microsoft::{name}": first for name in _FIRST.split()},
    **{f"com.microsoft::{name}": broadcast for name in ("BiasGelu", "ComplexMul", "ComplexMulConj")},
    **{f"com.microsoft::{name}": _dropout for name in ("BiasDropout",)},
    **{f"com.microsoft::{name}": _bit_dropout for name in ("BitmaskBiasDropout", "BitmaskDropout")},
    **{f"com.microsoft::{name}": conv for name in ("FusedConv",)},
    **{
        f"com.microsoft::{name}": fused_matmul
        for name in ("FusedMatMul", "FusedMatMulActivation", "SparseToDenseMatMul", "TransposeMatMul")
    },
    **{
        f"com.microsoft::{name}": columns("N")
        for name in ("MatMulBnb4", "MatMulNBits", "MatMulNBitsQLoRA", "MatMulPacked")
    },
    "ai.onnx::SimplifiedLayerNormalization": _simplified,
    "com.microsoft.nchwc::AveragePool": lambda site: delegated(site, "AveragePool", (0,), 11, _POOL),
    "com.microsoft.nchwc::Conv": lambda site: delegated(site, "Conv", (0, 1), 11, CONV),
    "com.microsoft.nchwc::GlobalAveragePool": lambda site: delegated(site, "GlobalAveragePool", (0,), 1),
    "com.microsoft.nchwc::GlobalMaxPool": lambda site: delegated(site, "GlobalMaxPool", (0,), 1),
    "com.microsoft.nchwc::MaxPool": lambda site: delegated(site, "MaxPool", (0,), 12, _POOL),
    "com.microsoft.nchwc::ReorderInput": _blocked,
    "com.microsoft.nchwc::ReorderOutput": _unblocked,
    "com.microsoft.nchwc::Upsample": _enlarged,
    "com.microsoft::BiasSplitGelu": _split_gelu,
    "com.microsoft::CDist": _distances,
    "com.microsoft::CausalConvWithState": _conv_with_state,
    "com.microsoft::CropAndResize": _crop_and_resize,
    "com.microsoft::DynamicTimeWarping": lambda site: [site.like(0, (2, None), element=TensorProto.INT32)],
    "com.microsoft::EmbedLayerNormalization": embed_norm,
    "com.microsoft::ExpandDims": _expand_dims,
    "com.microsoft::FusedGemm": gemm,
    "com.microsoft::GatedRelativePositionBias": _gated_position_bias,
    "com.microsoft::GatherND": lambda site: delegated(site, "GatherND", (0, 1), 13),
    "com.microsoft::GemmFastGelu": _last_of(1),
    "com.microsoft::GemmFloat8": gemm,
    "com.microsoft::GemmaRotaryEmbedding": lambda site: [site.like(1), site.like(3)],
    "com.microsoft::GridSample": lambda site: delegated(site, "GridSample", (0, 1), 16),
    "com.microsoft::Irfft": _irfft,
    "com.microsoft::IsAllFinite": _scalar(TensorProto.BOOL),
    "com.microsoft::MatMulFpQ4": _fp4,
    "com.microsoft::MatMulNBitsMlp": _gated,
    "com.microsoft::MatMulNBitsQkv": _projections,
    "com.microsoft::MaxpoolWithMask": lambda site: delegated(site, "MaxPool", (0,), 12, _POOL),
    "com.microsoft::NGramRepeatBlock": like(1),
    "com.microsoft::NhwcFusedConv": channels_last("Conv", 11, CONV),
    "com.microsoft::NhwcConv": channels_last("Conv", 11, CONV),
    "com.microsoft::NhwcMaxPool": channels_last("MaxPool", 12, _POOL, (0,)),
    "com.microsoft::Pad": lambda site: delegated(site, "Pad", (0, 1), 13),
    "com.microsoft::Range": lambda site: delegated(site, "Range", (0, 1, 2), 11),
    "com.microsoft::RelativePositionBias": _position_bias,
    "com.microsoft::Rfft": _rfft,
    "com.microsoft::SkipLayerNormalization": _skip_norm,
    "com.microsoft::SkipSimplifiedLayerNormalization": _skip_norm,
    "com.microsoft::SimplifiedLayerNormalization": _simplified,
    "com.microsoft::SwiGLU": _swiglu,
    "com.microsoft::TorchEmbedding": _embedding,
    "com.ms.internal.nhwc::AveragePool": channels_last("AveragePool", 11, _POOL, (0,)),
    "com.ms.internal.nhwc::BatchNormalization": first,
    "com.ms.internal.nhwc::Conv": channels_last("Conv", 11, CONV),
    "com.ms.internal.nhwc::ConvTranspose": channels_last(
        "ConvTranspose", 11, (*CONV, "output_padding", "output_shape")
    ),
    "com.ms.internal.nhwc::GlobalAveragePool": channels_last("GlobalAveragePool", 1, (), (0,)),
    "com.ms.internal.nhwc::GlobalMaxPool": channels_last("GlobalMaxPool", 1, (), (0,)),
    "com.ms.internal.nhwc::InstanceNormalization": first,
    "com.ms.internal.nhwc::LRN": first,
    "com.ms.internal.nhwc::MaxPool": channels_last("MaxPool", 12, _POOL, (0,)),
}
