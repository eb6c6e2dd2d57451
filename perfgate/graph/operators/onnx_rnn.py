"""Floor 3, graph. FLOP (2 x MAC) of ONNX recurrent layers.

In: ``X`` of ``[steps, batch, inputs]`` (``layout`` 1: ``[batch, steps, inputs]``), ``W`` and ``R`` of
``[directions, gates * hidden, ...]``. Out: formulas. Weights are read once a call in the plain rule of traffic.
"""

from __future__ import annotations

from perfgate.graph.operators.definition import RNN, Definition, Operands
from perfgate.graph.operators.onnx_fit import agree
from perfgate.graph.operators.onnx_sizes import bounded_by, elements, shape, value


def recurrent(operands: Operands) -> int:
    """Every step multiplies each sequence by all of ``W`` and ``R``; peepholes and biases are pointwise.

    ``sequence_lens`` may end sequences early, which depends on data: this is the upper bound.
    """
    data = shape(operands, "X")
    rows = data[0] * data[1]
    if operands.call.op.startswith("ai.onnx::"):
        agree(data[2], shape(operands, "W")[-1], "the last size of X, that of W")
    return 2 * rows * (elements(value(operands, "W")) + elements(value(operands, "R")))


_LONGEST = "is counted as if every sequence were as long as the longest"
_RECURRENT = Definition(kind=RNN, flop=recurrent, note=bounded_by({"sequence_lens": _LONGEST}))

DEFINITIONS: dict[str, Definition] = {
    "ai.onnx::GRU": _RECURRENT,
    "ai.onnx::LSTM": _RECURRENT,
    "ai.onnx::RNN": _RECURRENT,
    "com.microsoft::DynamicQuantizeLSTM": _RECURRENT,
}
