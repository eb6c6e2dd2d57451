"""Floor 3, worker. Operators of a model as placement sees them, whichever framework they come from.

In: a lowered torch graph or the description of an ONNX file. Out: :class:`Operation`, and what each is good for:
real work, cheap arithmetic that goes with it, or a view. No torch.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass

WORK = "work"
CHEAP = "cheap"  # elementwise arithmetic that compilers fuse with what comes before
PREFIX = "prefix"  # goes with what reads it: kernels of integers take what it is made of
VIEW = "view"  # moves nothing, or only reorders: belongs to what made its input

# Base names of torch's operators (``aten.add.Tensor`` -> ``add``; in-place ones without ``_``), and ONNX's in lower
# case. Elementwise functions by power series (tanh, pow, erf) are work: libraries differ by factors there.
_CHEAP_NAMES = """
    add sub mul div neg abs relu clamp clamp_min clamp_max hardtanh relu6 leaky_relu maximum minimum rsub reciprocal
    where eq ne lt le gt ge logical_and logical_or logical_not logical_xor bitwise_and bitwise_or bitwise_not
    bitwise_xor sign masked_fill _to_copy to copy lift_fresh_copy floor ceil round trunc square hardsigmoid
    hardswish threshold remainder fmod floor_divide fill full_like zeros_like ones_like copy_ detach_copy isnan
    isinf addcmul addcdiv lerp clip leakyrelu prelu max min not and or xor equal less lessorequal greater
    greaterorequal cast castlike mod thresholdedrelu identity
    quantizelinear quantize_per_tensor quantize_per_channel
"""
_VIEW_NAMES = """
    getitem view reshape permute transpose t unsqueeze squeeze expand slice select split split_with_sizes chunk unbind
    alias detach as_strided flatten unflatten clone contiguous narrow diagonal movedim expand_as view_as _unsafe_view
    _reshape_alias unfold real imag dropout feature_dropout alpha_dropout view_copy expand_copy permute_copy slice_copy
    sequenceat constantofshape shape size
"""
_PREFIX = frozenset({"dequantizelinear", "dynamicquantizelinear", "dequantize_per_tensor", "dequantize_per_channel"})
_CHEAP, _VIEW = frozenset(_CHEAP_NAMES.split()), frozenset(_VIEW_NAMES.split())

_KINDS = {
    "convolution": ("convolution", "_convolution", "conv1d", "conv2d", "conv3d", "conv_transpose1d", "conv_transpose2d",
                    "conv_transpose3d", "conv", "convtranspose", "convinteger", "qlinearconv"),
    "matmul": ("linear", "addmm", "mm", "bmm", "baddbmm", "matmul", "addmv", "mv", "dot", "gemm", "matmulinteger",
               "qlinearmatmul", "einsum", "_int_mm"),
    "attention": ("scaled_dot_product_attention", "attention", "multiheadattention", "groupqueryattention"),
    "rnn": ("lstm", "gru", "rnn_tanh", "rnn_relu", "rnn"),
    "normalisation": ("layer_norm", "native_layer_norm", "batch_norm", "native_group_norm", "group_norm",
                      "_native_batch_norm_legit_no_training", "instance_norm", "rms_norm", "batchnormalization",
                      "layernormalization", "instancenormalization", "groupnormalization", "lpnormalization",
                      "simplifiedlayernormalization", "lrn"),
    "softmax": ("softmax", "_softmax", "_log_softmax", "log_softmax", "logsoftmax", "hardmax"),
    "pooling": ("max_pool2d", "max_pool1d", "max_pool3d", "max_pool2d_with_indices", "max_pool3d_with_indices",
                "avg_pool1d", "avg_pool2d", "avg_pool3d", "_adaptive_avg_pool2d", "adaptive_avg_pool2d",
                "_adaptive_avg_pool3d", "adaptive_avg_pool1d", "adaptive_max_pool2d", "maxpool", "averagepool",
                "globalaveragepool", "globalmaxpool", "lppool"),
    "embedding": ("embedding", "embedding_bag", "gather", "index_select", "gathernd", "gatherelements", "index",
                  "take"),
    "reduction": ("sum", "mean", "amax", "amin", "var", "var_mean", "std", "prod", "argmax", "argmin", "any", "all",
                  "norm", "linalg_vector_norm", "logsumexp", "reducesum", "reducemean", "reducemax", "reducemin",
                  "reduceprod", "reducel2", "reducel1", "reducesumsquare", "reducelogsumexp"),
    "scan": ("cumsum", "cumprod", "cummax", "cummin", "logcumsumexp"),
}  # fmt: skip
_KIND_OF = {name: kind for kind, names in _KINDS.items() for name in names}


@dataclass(frozen=True, slots=True, kw_only=True)
class Operation:
    """One operator.

    Attributes:
        op: As the framework calls it; ``base`` its plain name in lower case.
        reads: Names of values made by operators or given to the model, in order, repeated as often as they are read.
        makes: Names of values.
        weights: Parameters, buffers and constants by name -> bytes; ``tied``: those of them that are parameters.
        text: Equal for equal operators: name, arguments, shapes and dtypes, without names of values.
        state: Names of buffers that it changes.
        inseparable: What it makes that is no tensor, so that it and its readers stay together.
    """

    op: str
    base: str
    role: str
    kind: str
    reads: tuple[str, ...] = ()
    makes: tuple[str, ...] = ()
    weights: tuple[tuple[str, int], ...] = ()
    tied: tuple[str, ...] = ()
    text: str = ""
    module: str = ""
    state: tuple[str, ...] = ()
    inseparable: tuple[str, ...] = ()


def role(base: str) -> str:
    """``work`` for what is not known."""
    if base in _PREFIX:
        return PREFIX
    plain = base if base in _CHEAP or base in _VIEW else base.rstrip("_")
    if plain in _VIEW:
        return VIEW
    return CHEAP if plain in _CHEAP else WORK


def kind(base: str) -> str:
    """Of operator; its own name where there is no wider class."""
    return _KIND_OF.get(base, base)


def digest(*texts: str) -> str:
    """Sixteen characters that are equal for equal texts."""
    return hashlib.sha256("\x00".join(texts).encode("utf-8", "backslashreplace")).hexdigest()[:16]
