"""Floor 3, graph. What perfgate knows of ONNX operators: kind, FLOP formula, movement.

In: nothing. Out: ``DEFINITIONS`` by full name (``ai.onnx::Conv``, ``com.microsoft::Attention``). Formulas read
operands by names that are the same in every version of the operator; variadic ones are ``in0``, ``in1``, ...
"""

from __future__ import annotations

from perfgate.graph.operators import (
    einsum,
    onnx_attention,
    onnx_contrib,
    onnx_convolution,
    onnx_kinds,
    onnx_matmul,
    onnx_rnn,
)
from perfgate.graph.operators.definition import Definition

DEFINITIONS: dict[str, Definition] = {
    **onnx_kinds.DEFINITIONS,
    **onnx_contrib.DEFINITIONS,
    **onnx_convolution.DEFINITIONS,
    **onnx_matmul.DEFINITIONS,
    **einsum.ONNX,
    **onnx_attention.DEFINITIONS,
    **onnx_rnn.DEFINITIONS,
}
