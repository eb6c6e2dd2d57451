"""Floor 3, graph. FLOP of torch's recurrent layers and cells, forward and backward.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``.

In every step and for every item each element of each weight matrix is used once, so MAC = (steps x items) x elements of
all matrices. Layers, directions, projections and gates are all in the matrices. Packed sequences have one row for
each real step. As one operator a layer reads its weights once.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.graph.operators.definition import RNN, Definition, Formula, Operands

# cuDNN's and oneDNN's numbers of the modes relu, tanh, lstm, gru.
_GATES_BY_MODE = {0: 1, 1: 1, 2: 4, 3: 3}


def _matrices(operands: Operands, names: Sequence[str]) -> int:
    """Elements of all weight matrices among the arguments; biases have one dimension."""
    return sum(
        math.prod(value.shape) if value.logical is None else value.logical
        for name in names
        for value in operands.values(name)
        if len(value.shape) == 2
    )


def _steps(operands: Operands, data: str) -> int:
    """Steps x items of the input, whose last size is the features."""
    return math.prod(operands.shape(data)[:-1])


def _hidden(operands: Operands) -> int:
    given = operands.attribute("hidden_size")
    return int(given) if isinstance(given, int) and given > 0 else operands.shape("hx")[-1]


def _from_sizes(operands: Operands, data: str, gates: int) -> int:
    """Elements of all matrices where the weights are hidden in packed objects, from the sizes of the layer."""
    hidden = _hidden(operands)
    projected = int(operands.attribute("proj_size") or 0)
    out = projected or hidden
    directions = 2 if operands.attribute("bidirectional") else 1
    total = 0
    width = operands.shape(data)[-1]
    for _ in range(int(operands.attribute("num_layers") or 1)):
        total += directions * (gates * hidden * (width + out) + projected * hidden)
        width = out * directions
    return total


def _layers(data: str, weights: Sequence[str], gates: int | None) -> Formula:
    """``gates`` None: the call's mode says it."""

    def formula(operands: Operands) -> int:
        found = _matrices(operands, weights)
        if not found:
            kind = gates if gates is not None else _GATES_BY_MODE[int(operands.attribute("mode"))]
            found = _from_sizes(operands, data, kind)
        return 2 * _steps(operands, data) * found

    return formula


def _either(weights: str, gates: int) -> Formula:
    """Layers as torch calls them: ``input``, or ``data`` of a packed sequence."""
    plain, ragged = (_layers(name, (weights,), gates) for name in ("input", "data"))
    return lambda operands: (ragged if operands.value("data") is not None else plain)(operands)


def _backward(forward: Formula) -> Formula:
    """The gradient through time is one more pass over the matrices, that of the weights another, where wanted."""

    def formula(operands: Operands) -> int:
        mask = operands.attribute("output_mask")
        weights_too = bool(mask[3]) if isinstance(mask, (list, tuple)) and len(mask) == 4 else True
        return (1 + weights_too) * forward(operands)

    return formula


def _cell(operands: Operands) -> int:
    """One step of one layer."""
    return 2 * math.prod(operands.shape("input")[:-1]) * (operands.numel("w_ih") + operands.numel("w_hh"))


def _packed_cell(gates: int) -> Formula:
    """One step of one layer whose matrices are packed objects; the hidden state says how large they are."""

    def formula(operands: Operands) -> int:
        data, hidden = operands.shape("input"), operands.shape("hx")[-1]
        return 2 * math.prod(data[:-1]) * gates * hidden * (data[-1] + hidden)

    return formula


_ONE_DNN = _layers("input", ("weight0", "weight1"), None)
# In the backward call they are numbered from 1.
_ONE_DNN_BACKWARD = _backward(_layers("input", ("weight1", "weight2"), None))
_CUDNN = _layers("input", ("weight",), None)
_MPS = _layers("input", ("params",), 4)

_FORMULAS: dict[str, Formula] = {
    "aten::lstm": _either("params", 4),
    "aten::gru": _either("params", 3),
    "aten::rnn_tanh": _either("params", 1),
    "aten::rnn_relu": _either("params", 1),
    "aten::quantized_lstm": _either("params", 4),
    "aten::quantized_gru": _either("params", 3),
    "aten::mkldnn_rnn_layer": _ONE_DNN,
    "aten::mkldnn_rnn_layer_backward": _ONE_DNN_BACKWARD,
    "aten::_cudnn_rnn": _CUDNN,
    "aten::_cudnn_rnn_backward": _backward(_CUDNN),
    "aten::miopen_rnn": _CUDNN,
    "aten::miopen_rnn_backward": _backward(_CUDNN),
    "aten::_lstm_mps": _MPS,
    "aten::lstm_mps_backward": _backward(_MPS),
    **{f"aten::{name}_cell": _cell for name in ("lstm", "gru", "rnn_tanh", "rnn_relu")},
    **{
        f"aten::quantized_{name}_cell": _packed_cell(gates)
        for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))
    },
    **{
        f"quantized::quantized_{name}_cell_dynamic": _packed_cell(gates)
        for name, gates in (("lstm", 4), ("gru", 3), ("rnn_tanh", 1), ("rnn_relu", 1))
    },
}

DEFINITIONS: dict[str, Definition] = {name: Definition(kind=RNN, flop=flop) for name, flop in _FORMULAS.items()}
