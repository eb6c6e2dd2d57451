"""Floor 3, graph. FLOP (2 x MAC) of ONNX convolutions, plain, transposed, deformable and quantised.

In: :class:`Operands` with the schemas' names (``X``, ``W``; ``x``, ``w`` for quantised ones). Out: formulas.
The bias counts apart, padding counts as data does (every output element costs the whole kernel).
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import CONVOLUTION, Definition, Operands
from perfgate.graph.operators.onnx_sizes import first, out


def convolution(operands: Operands) -> int:
    """Weights ``[M, C/group, k...]``: each output element is a sum over ``C/group * k``, in any layout."""
    return 2 * math.prod(out(operands)) * math.prod(first(operands, "W", "w", "weight")[1:])


def transposed(operands: Operands) -> int:
    """Weights ``[C, M/group, k...]``: each input element is spread over ``M/group * k`` output elements."""
    return 2 * math.prod(first(operands, "X", "x")) * math.prod(first(operands, "W", "w")[1:])


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
