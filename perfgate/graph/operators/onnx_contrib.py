"""Floor 3, graph. Kinds and movements of ONNX Runtime's own operators that are no matmul-like work.

In: nothing. Out: ``DEFINITIONS`` for ``com.microsoft`` and the layouts that ONNX Runtime writes into optimised files.
"""

from __future__ import annotations

from perfgate.graph.operators import onnx_movement as move
from perfgate.graph.operators.definition import (
    CAST,
    COPY,
    EMBEDDING,
    FILL,
    GATHER,
    NORMALIZATION,
    OTHER,
    POINTWISE,
    POOLING,
    REDUCTION,
    RNN,
    SOFTMAX,
    SORT,
    TRANSFER,
    Definition,
)
from perfgate.graph.operators.onnx_sizes import unknown

_PLAIN: dict[str, str] = {
    POINTWISE: """
        BiasAdd BiasDropout BiasGelu BiasSplitGelu BitmaskBiasDropout BitmaskDropout ComplexMul ComplexMulConj
        EngramGate FastGelu GatedAdd Gelu GemmaRotaryEmbedding HyperConnectionPostMix HyperConnectionPreMix
        LinearAttentionGate MRotaryEmbedding MulInteger NGramRepeatBlock QLinearAdd QLinearLeakyRelu QLinearMul
        QLinearSigmoid QLinearWhere QOrderedGelu QuickGelu RotaryEmbedding ScaledSiLU SwiGLU
    """,
    NORMALIZATION: """
        BranchwiseRMSNorm GatedRMSNorm GroupNorm QOrderedLayerNormalization RMSNormRotary SimplifiedLayerNormalization
        SkipGroupNorm SkipLayerNormalization SkipSimplifiedLayerNormalization
    """,
    SOFTMAX: "BiasSoftmax QLinearSoftmax",
    POOLING: "CropAndResize GridSample MaxpoolWithMask NhwcMaxPool QLinearAveragePool QLinearGlobalAveragePool",
    REDUCTION: "IsAllFinite QLinearReduceMean ReduceSumInteger",
    COPY: """
        ConvStateReplay ExpandDims Pad QLinearConcat RemovePadding RestorePadding SpeculativePrefixCommit Trilu
        UnfoldTensor
    """,
    CAST: "DequantizeBFP DequantizeLinear DequantizeWithOrder QuantizeBFP QuantizeLinear QuantizeWithOrder",
    SORT: "MoEGroupRouter PackedSparseAttentionIndexerMerge Unique",
    OTHER: """
        BifurcationDetector DynamicTimeWarping Inverse Irfft MurmurHash3 NGramHashMapping Rfft SampleOp Tokenizer
        VarlenNGramHashMapping
    """,
}

_NO_FORMULA = "there is no formula for it; give one in [operators]"

_UNKNOWN: dict[str, str] = {
    "BeamSearch": "it runs whole decoders as often as the data asks for",
    "GreedySearch": "it runs whole decoders as often as the data asks for",
    "Sampling": "it runs whole decoders as often as the data asks for",
    "WhisperBeamSearch": "it runs whole decoders as often as the data asks for",
    "EPContext": "it holds a compiled model that the file does not tell",
    "Snpe": "it holds a compiled model that the file does not tell",
    "HyperConnectionLowRankMix": _NO_FORMULA,
    "WordConvEmbedding": _NO_FORMULA,
}

# Layouts that ONNX Runtime chooses: the same operators as the standard's.
_BLOCKED = "AveragePool GlobalAveragePool GlobalMaxPool MaxPool"
_CHANNELS_LAST = {
    POOLING: """
        AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool QLinearAveragePool Resize
    """,
    NORMALIZATION: "BatchNormalization InstanceNormalization LRN",
    COPY: "DepthToSpace MaxUnpool SpaceToDepth",
}


def _contrib() -> dict[str, Definition]:
    found = {
        f"com.microsoft::{name}": Definition(kind=kind) for kind, names in _PLAIN.items() for name in names.split()
    }
    for name, reason in _UNKNOWN.items():
        found[f"com.microsoft::{name}"] = Definition(kind=OTHER, flop=unknown(reason))
    found |= {
        "com.microsoft::AttnLSTM": Definition(kind=RNN, flop=unknown(_NO_FORMULA)),
        "com.microsoft::EmbedLayerNormalization": Definition(kind=EMBEDDING, movement=move.embeddings),
        "com.microsoft::QEmbedLayerNormalization": Definition(kind=EMBEDDING, movement=move.embeddings),
        "com.microsoft::TorchEmbedding": Definition(kind=EMBEDDING, movement=move.part_read("weight")),
        "com.microsoft::GatherBlockQuantized": Definition(kind=GATHER, movement=move.rows_unpacked),
        "com.microsoft::GatherPacked": Definition(kind=GATHER, movement=move.rows_unpacked),
        "com.microsoft::GatherND": Definition(kind=GATHER, movement=move.part_read("data")),
        "com.microsoft::Range": Definition(kind=FILL, movement=move.written_only),
        "com.microsoft::RelativePositionBias": Definition(kind=GATHER, movement=move.part_read("bias_table")),
        "ai.onnx::MemcpyFromHost": Definition(kind=TRANSFER),
        "ai.onnx::MemcpyToHost": Definition(kind=TRANSFER),
        "com.microsoft.nchwc::ReorderInput": Definition(kind=COPY),
        "com.microsoft.nchwc::ReorderOutput": Definition(kind=COPY),
        "com.microsoft.nchwc::Upsample": Definition(kind=POOLING),
    }
    found |= {f"com.microsoft.nchwc::{name}": Definition(kind=POOLING) for name in _BLOCKED.split()}
    for kind, names in _CHANNELS_LAST.items():
        found |= {f"com.ms.internal.nhwc::{name}": Definition(kind=kind) for name in names.split()}
    return found


DEFINITIONS: dict[str, Definition] = _contrib()
