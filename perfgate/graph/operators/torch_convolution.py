"""Floor 3, graph. FLOP and traffic of torch's convolutions, forward and backward, on every backend.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``.

A weight has ``output channels x input channels / groups x kernel`` elements (transposed: input and output change
places). Every output element (transposed: every input element) meets the weight elements of its channel:
MAC = elements x weight elements / channels. Groups, strides and dilation are in the shapes, so no more is needed.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import CONVOLUTION, Definition, Formula, Operands, Parts, Shape


def _per_channel(operands: Operands, shape: Shape, weight: str) -> int:
    """2 FLOP for each element of ``shape`` (items x channels x positions, or unbatched) and weight of its channel."""
    kernel = operands.shape(weight)
    channels = shape[1] if len(shape) >= len(kernel) else shape[0]
    return 2 * math.prod(shape) * operands.numel(weight) // max(1, channels)


def forward(data: str = "input", weight: str = "weight", *, transposed: bool | None = None) -> Formula:
    """A convolution of argument ``data``; ``transposed`` None: the call says it."""

    def formula(operands: Operands) -> int:
        turned = bool(operands.attribute("transposed", False)) if transposed is None else transposed  # noqa: FBT003
        return _per_channel(operands, operands.shape(data) if turned else operands.out(), weight)

    return formula


def packed(data: str, weight: str, *, transposed: bool = False) -> Formula:
    """A convolution whose weight lies in memory in the kernel's own order; only its number of elements is sure."""

    def formula(operands: Operands) -> int:
        shape = operands.shape(data) if transposed else operands.out()
        return 2 * math.prod(shape) * operands.numel(weight) // max(1, shape[1])

    return formula


def _mask(operands: Operands) -> tuple[bool, ...]:
    """Which of the gradients of input, weight, bias are wanted."""
    return tuple(bool(wanted) for wanted in operands.attribute("output_mask", (True, True, True)))


def _backward(data: str = "input", *, transposed: bool | None = None) -> Formula:
    """The gradients of input and weight cost as much as the forward pass each, whatever the groups.

    Each multiply-add of the forward pass has one in either gradient: the same pairs of input, weight and output
    elements meet.
    """

    def formula(operands: Operands) -> int:
        turned = bool(operands.attribute("transposed", False)) if transposed is None else transposed  # noqa: FBT003
        shape = operands.shape(data) if turned else operands.shape("grad_output")
        return sum(_mask(operands)[:2]) * _per_channel(operands, shape, "weight")

    return formula


def _backward_reads(data: str) -> Parts:
    """The gradient of the input needs no input, that of the weight no weight."""

    def parts(operands: Operands) -> dict[str, int]:
        wanted = _mask(operands)
        unread = {} if wanted[1] else {data: 0}
        return unread if wanted[0] else {**unread, "weight": 0}

    return parts


def _gradients(data: str = "input", *, transposed: bool | None = None) -> Definition:
    return Definition(kind=CONVOLUTION, flop=_backward(data, transposed=transposed), reads=_backward_reads(data))


def _double_backward(operands: Operands) -> int:
    """Four convolutions at most: each given second gradient enters two of the three outputs."""
    once = _per_channel(
        operands, operands.shape("self") if operands.attribute("transposed") else operands.shape("gO"), "weight"
    )
    wanted = _mask(operands)
    by_input, by_weight = operands.value("ggI") is not None, operands.value("ggW") is not None
    terms = wanted[0] * (by_input + by_weight) + wanted[1] * by_weight + wanted[2] * by_input
    return terms * once


def _time_major(times: int) -> Formula:
    """``conv_tbc``: the weight is kernel x input channels x output channels."""

    def formula(operands: Operands) -> int:
        kernel, channels, features = operands.shape("weight")
        shape = operands.out() if times == 1 else operands.shape("self")
        return times * 2 * math.prod(shape) // max(1, features) * kernel * channels * features

    return formula


def _deformable(operands: Operands) -> int:
    """The product of the sampled columns with the weight; the sampling itself is no matrix product."""
    return _per_channel(operands, operands.out(), "weight")


def _deformable_backward(operands: Operands) -> int:
    return 2 * _per_channel(operands, operands.shape("grad"), "weight")


_FORMULAS: dict[str, Formula] = {
    "aten::convolution": forward(),
    "aten::_convolution": forward(),
    "aten::convolution_overrideable": forward(),
    "aten::_convolution_mode": forward(transposed=False),
    "aten::_convolution_double_backward": _double_backward,
    "aten::conv_tbc": _time_major(1),
    "aten::conv_tbc_backward": _time_major(2),
    "aten::_nnpack_spatial_convolution": forward(transposed=False),
    "aten::cudnn_convolution_transpose": forward("self", transposed=True),
    "aten::miopen_convolution_transpose": forward("self", transposed=True),
    "aten::_mps_convolution_transpose": forward("self", transposed=True),
    "aten::slow_conv_transpose2d": forward("self", transposed=True),
    "aten::slow_conv_transpose3d": forward("self", transposed=True),
    **{f"aten::conv{n}d": forward(transposed=False) for n in (1, 2, 3)},
    **{f"aten::conv_transpose{n}d": forward(transposed=True) for n in (1, 2, 3)},
    **{
        f"aten::{name}": forward("self", transposed=False)
        for name in (
            "cudnn_convolution",
            "cudnn_convolution_relu",
            "cudnn_convolution_add_relu",
            "miopen_convolution",
            "miopen_convolution_relu",
            "miopen_convolution_add_relu",
            "miopen_depthwise_convolution",
            "mkldnn_convolution",
            "_mps_convolution",
            "_conv_depthwise2d",
            "conv_depthwise3d",
            "thnn_conv2d",
            "_slow_conv2d_forward",
            "slow_conv3d",
            "slow_conv3d_forward",
            "slow_conv_dilated2d",
            "slow_conv_dilated3d",
        )
    },
    "mkldnn::_convolution_pointwise": packed("X", "W"),
    "mkldnn::_convolution_transpose_pointwise": packed("X", "W", transposed=True),
    "mkldnn_prepacked::conv2d_run": packed("X", "W_prepack"),
    "torchvision::deform_conv2d": _deformable,
    "torchvision::_deform_conv2d_backward": _deformable_backward,
}

DEFINITIONS: dict[str, Definition] = {
    **{name: Definition(kind=CONVOLUTION, flop=flop) for name, flop in _FORMULAS.items()},
    "aten::convolution_backward": _gradients(),
    "aten::convolution_backward_overrideable": _gradients(),
    "aten::mps_convolution_backward": _gradients("self", transposed=False),
    "aten::mps_convolution_transpose_backward": _gradients("self", transposed=True),
    "aten::_slow_conv2d_backward": _gradients("self", transposed=False),
}
