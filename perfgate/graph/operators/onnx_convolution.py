"""Floor 3, graph. FLOP (2 x MAC) of ONNX convolutions, plain, transposed, deformable and quantised.

In: :class:`Operands` with the schemas' names (``X``, ``W``; ``x``, ``w`` for quantised ones). Out: formulas.
The bias counts apart, padding counts as data does (every output element costs the whole kernel).
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import CONVOLUTION, Definition, Operands, Shape
from perfgate.graph.operators.onnx_fit import agree, told
from perfgate.graph.operators.onnx_sizes import first, out

# Channels come second in all operators of this namespace; others have layouts of their own.
_STANDARD = "ai.onnx::"


def convolution(operands: Operands) -> int:
    """Weights ``[M, C/group, k...]``: each output element is a sum over ``C/group * k``, in any layout."""
    weight = first(operands, "W", "w", "weight")
    data = _data(operands)
    if data is not None:
        agree(data[1], weight[1] * int(operands.attribute("group", 1)), "the channels of X, those of W in all groups")
    return 2 * math.prod(out(operands)) * math.prod(weight[1:])


def transposed(operands: Operands) -> int:
    """Weights ``[C, M/group, k...]``: each input element is spread over ``M/group * k`` output elements."""
    data, weight = first(operands, "X", "x"), first(operands, "W", "w")
    if _data(operands) is not None:
        agree(data[1], weight[0], "the channels of X, those of W")
    return 2 * math.prod(data) * math.prod(weight[1:])


def _data(operands: Operands) -> Shape | None:
    """Sizes of the input where it is known which of them are the channels."""
    return told(operands, "X", "x") if operands.call.op.startswith(_STANDARD) else None


_CONVOLUTION = Definition(kind=CONVOLUTION, flop=convolution)
_TRANSPOSED = Definition(kind=CONVOLUTION, flop=transposed)

DEFINITIONS: dict[str, Definition] = {
    "ai.onnx::CausalConvWithState": _CONVOLUTION,
    "ai.onnx::Conv": _CONVOLUTION,
    "ai.onnx::ConvInteger": _CONVOLUTION,
    "ai.onnx::ConvTranspose": _TRANSPOSED,
    "ai.onnx::DeformConv": _CONVOLUTION,
    "ai.onnx::QLinearConv": _CONVOLUTION,
    "com.microsoft::CausalConvWithState": _CONVOLUTION,
    "com.microsoft::ConvTransposeWithDynamicPads": _TRANSPOSED,
    "com.microsoft::FusedConv": _CONVOLUTION,
    "com.microsoft::NhwcConv": _CONVOLUTION,
    "com.microsoft::NhwcFusedConv": _CONVOLUTION,
    "com.microsoft::QLinearConv": _CONVOLUTION,
    "com.microsoft::VarlenCausalConvWithState": _CONVOLUTION,
    "com.microsoft.nchwc::Conv": _CONVOLUTION,
    "com.ms.internal.nhwc::Conv": _CONVOLUTION,
    "com.ms.internal.nhwc::ConvTranspose": _TRANSPOSED,
    "com.ms.internal.nhwc::QLinearConv": _CONVOLUTION,
    "com.ms.internal.nhwc::QLinearConvTranspose": _TRANSPOSED,
}
