"""Floor 3, graph. FLOP of torch's quantised operators; their weights are packed objects.

In: :class:`Operands` by the names of the schemas. Out: ``DEFINITIONS``. A linear layer's size shows in its input and
output. A convolution needs its weight's size, which a trace gives as an operand under the packed argument's name;
without it the call is not counted.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import CONVOLUTION, MATMUL, Definition, Formula, Operands
from perfgate.graph.operators.torch_matmul import dense, inner

_LINEAR = (
    "linear",
    "linear_relu",
    "linear_dynamic",
    "linear_relu_dynamic",
    "linear_dynamic_fp16",
    "linear_relu_dynamic_fp16",
    "linear_dynamic_fp16_unpacked_weight",
    "linear_leaky_relu",
    "linear_tanh",
    "linear_with_input_q_dq_qweight_dq_output_fp32",
    "linear_with_input_q_dq_qweight_dq_relu_output_fp32",
)


def _convolution(*, transposed: bool = False) -> Formula:
    def formula(operands: Operands) -> int:
        name = "packed_weight" if operands.value("packed_weight") is not None else "weight"
        if operands.value(name) is None:
            msg = "the size of its packed weight is not in the trace"
            raise ValueError(msg)
        shape = operands.shape("qx") if transposed else operands.out()
        channels = shape[1] if len(shape) >= len(operands.shape(name)) else shape[0]
        return 2 * math.prod(shape) * operands.numel(name) // max(1, channels)

    return formula


def _one_dnn(operands: Operands) -> int:
    shape = operands.out()
    return 2 * math.prod(shape) * operands.numel("qw") // max(1, shape[1])


_NAMES = ("conv{n}d", "conv{n}d_relu", "conv{n}d_dynamic", "conv{n}d_add", "conv{n}d_add_relu")
_TRANSPOSED = ("conv_transpose{n}d", "conv_transpose{n}d_dynamic")

DEFINITIONS: dict[str, Definition] = {
    **{
        f"{namespace}::{name}": Definition(kind=MATMUL, flop=dense("X"))
        for namespace in ("quantized", "_quantized")
        for name in _LINEAR
    },
    **{
        f"{namespace}::{name.format(n=n)}": Definition(kind=CONVOLUTION, flop=_convolution())
        for namespace in ("quantized", "_quantized")
        for name in _NAMES
        for n in (1, 2, 3)
    },
    **{
        f"{namespace}::{name.format(n=n)}": Definition(kind=CONVOLUTION, flop=_convolution(transposed=True))
        for namespace in ("quantized", "_quantized")
        for name in _TRANSPOSED
        for n in (1, 2, 3)
    },
    **{
        f"onednn::{name}": Definition(kind=CONVOLUTION, flop=_one_dnn)
        for name in ("qconv_pointwise", "qconv1d_pointwise", "qconv2d_pointwise", "qconv3d_pointwise")
    },
    "quantized::matmul": Definition(kind=MATMUL, flop=inner("qa")),
    "quantized::int4mm_packed_weight_cpu": Definition(kind=MATMUL, flop=dense("self")),
    "_quantized::wrapped_fbgemm_linear_fp16_weight": Definition(kind=MATMUL, flop=dense("X")),
    "_quantized::wrapped_quantized_linear": Definition(kind=MATMUL, flop=dense("X")),
    "_quantized::_wrapped_quantized_linear_prepacked": Definition(kind=MATMUL, flop=dense("X")),
    "quantized_decomposed::mixed_linear": Definition(kind=MATMUL, flop=dense("input")),
    "quantized_decomposed::mixed_mm": Definition(kind=MATMUL, flop=dense("input")),
    **{
        f"sparse::{name}": Definition(kind=MATMUL, flop=dense("X"))
        for name in ("qlinear", "qlinear_relu", "qlinear_dynamic", "qlinear_relu_dynamic")
    },
}
