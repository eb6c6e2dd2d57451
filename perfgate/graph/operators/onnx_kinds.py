"""Floor 3, graph. Kinds and movements of ONNX operators that are no matmul-like work.

In: nothing. Out: ``DEFINITIONS`` for the standard's domains; see ``onnx_contrib`` for ONNX Runtime's.
Operators of older operator sets, which newer ones have dropped, are here too.
"""

from __future__ import annotations

from perfgate.graph.operators import onnx_movement as move
from perfgate.graph.operators.definition import (
    CAST,
    COPY,
    FILL,
    GATHER,
    NORMALIZATION,
    OTHER,
    POINTWISE,
    POOLING,
    RANDOM,
    REDUCTION,
    SCATTER,
    SOFTMAX,
    SORT,
    Definition,
    Movement,
)
from perfgate.graph.operators.onnx_sizes import unknown

_PLAIN: dict[str, str] = {
    POINTWISE: """
        Abs Acos Acosh Add Affine And Asin Asinh Atan Atanh BitShift BitwiseAnd BitwiseNot BitwiseOr BitwiseXor
        Ceil Celu Clip Cos Cosh Div Dropout Elu Equal Erf Exp Floor Gelu Greater GreaterOrEqual HardSigmoid HardSwish
        ImageScaler IsInf IsNaN LeakyRelu Less LessOrEqual Log Max Mean Min Mish Mod Mul Neg Not Or PRelu
        ParametricSoftplus Pow Reciprocal Relu RotaryEmbedding Round Scale ScaledTanh Selu Shrink Sigmoid Sign Sin Sinh
        Softplus Softsign Sqrt Sub Sum SwiGLU Swish Tan Tanh ThresholdedRelu Where Xor
    """,
    NORMALIZATION: """
        BatchNormalization GroupNormalization InstanceNormalization LRN LayerNormalization LpNormalization
        MeanVarianceNormalization RMSNormalization SimplifiedLayerNormalization
    """,
    SOFTMAX: "Hardmax LogSoftmax Softmax",
    POOLING: """
        AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool MaxPool MaxRoiPool Resize RoiAlign
        Upsample
    """,
    REDUCTION: """
        ArgMax ArgMin CumProd CumSum NegativeLogLikelihoodLoss ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax
        ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare SoftmaxCrossEntropyLoss
    """,
    COPY: """
        CenterCropPad Concat ConcatFromSequence DepthToSpace Flatten Identity Optional OptionalGetElement Pad Reshape
        ReverseSequence SequenceAt SequenceConstruct SequenceErase SequenceInsert SpaceToDepth Split SplitToSequence
        Squeeze Tile Transpose Trilu Unsqueeze BitCast Expand
    """,
    CAST: "Cast CastLike DequantizeLinear DynamicQuantizeLinear QuantizeLinear",
    RANDOM: "Bernoulli Multinomial",
    SORT: "NonMaxSuppression TopK Unique",
    SCATTER: "Col2Im MaxUnpool OneHot Scatter ScatterElements ScatterND TensorScatter",
    GATHER: "Compress NonZero",
    OTHER: """
        DFT Det ImageDecoder MelWeightMatrix RegexFullMatch STFT StringConcat StringNormalizer StringSplit
        TfIdfVectorizer
    """,
}

_MOVING: dict[str, tuple[str, Movement]] = {
    "BlackmanWindow": (OTHER, move.written_only),
    "Constant": (COPY, move.nothing),
    "ConstantFill": (FILL, move.written_only),
    "ConstantOfShape": (FILL, move.written_only),
    "Crop": (COPY, move.part_read("input")),
    "DynamicSlice": (COPY, move.part_read("data")),
    "EyeLike": (FILL, move.written_only),
    "Gather": (GATHER, move.part_read("data")),
    "GatherElements": (GATHER, move.part_read("data")),
    "GatherND": (GATHER, move.part_read("data")),
    "GivenTensorFill": (FILL, move.written_only),
    "HammingWindow": (OTHER, move.written_only),
    "HannWindow": (OTHER, move.written_only),
    "OptionalHasElement": (OTHER, move.nothing),
    "RandomNormal": (RANDOM, move.written_only),
    "RandomNormalLike": (RANDOM, move.written_only),
    "RandomUniform": (RANDOM, move.written_only),
    "RandomUniformLike": (RANDOM, move.written_only),
    "Range": (FILL, move.written_only),
    "SequenceEmpty": (OTHER, move.nothing),
    "SequenceLength": (OTHER, move.nothing),
    "Shape": (OTHER, move.nothing),
    "Size": (OTHER, move.nothing),
    "Slice": (COPY, move.part_read("data")),
}

# Classical models: their work is comparisons and look-ups; linear ones are in ``onnx_matmul``.
_CLASSICAL: dict[str, str] = {
    POINTWISE: "Binarizer CastMap CategoryMapper DictVectorizer Imputer LabelEncoder OneHotEncoder Scaler ZipMap",
    NORMALIZATION: "Normalizer",
    COPY: "FeatureVectorizer",
    OTHER: "TreeEnsemble TreeEnsembleClassifier TreeEnsembleRegressor",
}


def _standard() -> dict[str, Definition]:
    found = {f"ai.onnx::{name}": Definition(kind=kind) for kind, names in _PLAIN.items() for name in names.split()}
    for name, (kind, movement) in _MOVING.items():
        found[f"ai.onnx::{name}"] = Definition(kind=kind, movement=movement)
    for kind, names in _CLASSICAL.items():
        found |= {f"ai.onnx.ml::{name}": Definition(kind=kind) for name in names.split()}
    for name in ("If", "Loop", "Scan", "SequenceMap"):
        # The reader follows them into their bodies; one that is left cannot be followed.
        found[f"ai.onnx::{name}"] = Definition(kind=OTHER, flop=unknown("what it runs depends on data"))
    found["ai.onnx.ml::ArrayFeatureExtractor"] = Definition(kind=GATHER, movement=move.part_read("X"))
    for name in ("Adagrad", "Adam", "Momentum"):
        found[f"ai.onnx.preview.training::{name}"] = Definition(kind=POINTWISE)
    found["ai.onnx.preview.training::Gradient"] = Definition(
        kind=OTHER, flop=unknown("the backward pass that it stands for is not in the file")
    )
    return found


DEFINITIONS: dict[str, Definition] = _standard()
