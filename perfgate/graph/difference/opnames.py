"""Floor 3, graph. Names of operators: the short form for people, families, and which are only preparations.

In: ``aten::_native_batch_norm_legit_no_training``. Out: ``native_batch_norm``, ``normalization`` ...
"""

from __future__ import annotations

import re

# Operators that only change how a tensor lies in memory, or its dtype: never the aim of a change, mostly its price.
_CASTS = frozenset({"_to_copy", "to", "Cast", "CastLike", "convert_element_type", "_autocast_to_reduced_precision",
                    "_autocast_to_full_precision"})  # fmt: skip
_COPIES = frozenset({"clone", "contiguous", "copy", "_reshape_copy", "Transpose", "_to_dense", "to_mkldnn"})

# The first pattern found in a name decides. Words end at underscores.
_FAMILIES = tuple(
    (re.compile(pattern), name)
    for pattern, name in (
        (r"attention|scaled_dot_product|transformer_encoder_layer", "attention"),
        (r"upsample|interpolate|resize|^grid_sample", "resize"),
        (r"(^|_)q?(linear)?(conv\d?d?|conv_transpose\dd|convolution|convtranspose|convinteger)(_|$|\d)", "convolution"),
        (r"embedding", "embedding"),
        (r"softmax", "softmax"),
        (r"(^|_)(batch|layer|group|instance|rms|local_response)_?norm|normalization", "normalization"),
        (r"lstm|(^|_)(gru|rnn)(_|$)|_rnn_", "rnn"),
        (r"linear|matmul|gemm|addmm|b?add?bmm|(^|_)[bm]mm?(_|$)|addm[mv]|einsum", "matmul"),
        (r"pool", "pooling"),
        (r"dropout|bernoulli", "dropout"),
        (r"cross_entropy|_loss", "loss"),
        (r"(^|_)pad(_|$|ding)", "pad"),
        (r"(^|_|v|h|d)(cat|stack|concat|concatenate)(_|$)", "cat"),
    )
)
_WHOLE = {"mv": "matmul", "dot": "matmul", "inner": "matmul", "item": "sync", "local_scalar_dense": "sync",
          "is_nonzero": "sync", "to_copy": "copy", "clone": "copy", "contiguous": "copy", "to": "copy",
          "copy": "copy", "reshape": "copy", "flatten": "copy", "cast": "copy"}  # fmt: skip

# What a composite operator, as a profile names it, may be made of in a graph.
_PARTS = {
    "attention": ("attention", "matmul", "softmax", "dropout", "copy", "mul", "div"),
    "loss": ("loss", "softmax"),
    "rnn": ("rnn", "matmul"),
    "normalization": ("normalization", "copy"),
    "matmul": ("matmul", "add", "copy"),
    "cat": ("cat", "copy"),
    "pooling": ("pooling", "mean"),
    "dropout": ("dropout", "mul", "div"),
}


def short(op: str) -> str:
    """``relu_`` of ``aten::relu_``; another namespace than torch's and ONNX's own stays."""
    namespace, found, name = op.rpartition("::")
    return name if found and namespace in {"aten", "prims", "ai.onnx", "higher_order"} else op


def base_name(op: str) -> str:
    """The operator whatever its form: ``relu`` of ``aten::relu_``, ``foreach_add`` of ``aten::_foreach_add_``."""
    name = short(op).removesuffix(".out")
    return name.strip("_") or name


def in_place(op: str) -> bool:
    """Whether the name says that it writes its first operand."""
    return short(op).endswith("_") and not short(op).endswith("__")


def is_cast(op: str) -> bool:
    """Whether it makes another dtype (or device) of a tensor."""
    return short(op) in _CASTS


def is_passing(op: str) -> bool:
    """Whether it only casts or lays out anew what others made and read."""
    name = short(op)
    return name in _CASTS or name in _COPIES


def family(op: str) -> str:
    """Operators that do the same work under several names have one family: ``linear`` and ``addmm`` are ``matmul``."""
    name = base_name(op).lower()
    if name in _WHOLE:
        return _WHOLE[name]
    return next((found for pattern, found in _FAMILIES if pattern.search(name)), name)


def parts(op: str) -> tuple[str, ...]:
    """Families that a profiled operator may stand for in the graph, likeliest first."""
    found = family(op)
    return _PARTS.get(found, (found,))
