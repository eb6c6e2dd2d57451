"""Floor 3, graph. Shapes of ONNX Runtime's quantised operators (``com.microsoft``).

In: a :class:`Site`. Out: types of the outputs. Scales and zero points stand between the tensors, so positions matter.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TensorProto, TypeProto

from perfgate.graph.onnx.known import dimensions
from perfgate.graph.onnx.shapes import ShapeFunction, delegated
from perfgate.graph.onnx.shapes_fused import CONV, channels_last, embed_norm
from perfgate.graph.onnx.shapes_old import first
from perfgate.graph.onnx.site import Site

_POOL = ("auto_pad", "ceil_mode", "count_include_pad", "kernel_shape", "pads", "strides")
_FLOAT = TensorProto.FLOAT


def _pair(one: int, other: int) -> ShapeFunction:
    """Broadcasting of two inputs that are not neighbours."""

    def shapes(site: Site) -> Sequence[TypeProto]:
        types = [site.like(position, element=_FLOAT) for position in (one, other)]
        return [site.like(one, dimensions(delegated(site, "Add", (one, other), 13, types=types)[0]))]

    return shapes


def _product(site: Site, positions: tuple[int, int]) -> tuple[int | None, ...] | None:
    types = [site.like(position, element=_FLOAT) for position in positions]
    return dimensions(delegated(site, "MatMul", positions, 13, types=types)[0])


def _float_product(site: Site) -> Sequence[TypeProto]:
    """Two matrices whose product is scaled back to floating point."""
    element = _FLOAT if site.op.endswith("DynamicQuantizeMatMul") else site.element(2) or _FLOAT
    return [site.like(0, _product(site, (0, 1)), element=element)]


def _integer_product(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, _product(site, (0, 1)), element=TensorProto.INT32)]


def _ordered_product(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, _product(site, (0, 2)))]


def _gemm(site: Site) -> Sequence[TypeProto]:
    """``A`` at 0, ``B`` at 3; with an output scale the output is quantised, else floating."""
    types = [site.like(position, element=_FLOAT) for position in (0, 3)]
    made = delegated(site, "Gemm", (0, 3), 13, ("transA", "transB"), types)
    return [site.like(0, dimensions(made[0]), element=0 if site.has(7) else _FLOAT)]


def _conv(site: Site) -> Sequence[TypeProto]:
    if site.integer("channels_last"):
        return channels_last("Conv", 11, CONV, (0, 3))(_as_float(site, (0, 3)))
    made = delegated(site, "Conv", (0, 3), 11, CONV, [site.like(position, element=_FLOAT) for position in (0, 3)])
    return [site.like(0, dimensions(made[0]))]


def _as_float(site: Site, positions: tuple[int, ...]) -> Site:
    """The same node with floating-point inputs, which the standard's operators ask for."""
    inputs = list(site.inputs)
    for position in positions:
        known = inputs[position]
        if known is not None:
            inputs[position] = known.viewed(site.like(position, element=_FLOAT))
    return Site(
        node=site.node,
        inputs=inputs,
        domain=site.domain,
        version=site.version,
        imports=site.imports,
        ir_version=site.ir_version,
        attributes=site.attributes,
    )


def _quantised_conv(site: Site) -> Sequence[TypeProto]:
    made = _conv(site)
    element = site.element(7) or site.element(0)
    return [site.like(0, dimensions(type_), element=element) for type_ in made]


def _nhwc_conv(site: Site) -> Sequence[TypeProto]:
    made = channels_last("Conv", 11, CONV, (0, 3))(_as_float(site, (0, 3)))
    return [site.like(0, dimensions(type_), element=site.element(7)) for type_ in made]


def _pooled(op_type: str, version: int, keep: Sequence[str]) -> ShapeFunction:
    def shapes(site: Site) -> Sequence[TypeProto]:
        turned = _as_float(site, (0,))
        if site.integer("channels_last"):
            made = channels_last(op_type, version, keep, (0,))(turned)
        else:
            made = delegated(turned, op_type, (0,), version, keep)
        return [site.like(0, dimensions(made[0]))]

    return shapes


def _reduced(site: Site) -> Sequence[TypeProto]:
    types = [site.like(0, element=_FLOAT)]
    made = delegated(site, "ReduceMean", (0,), 13, ("axes", "keepdims"), types)
    return [site.like(0, dimensions(made[0]), element=TensorProto.INT32 if "Integer" in site.op else 0)]


def _concat(site: Site) -> Sequence[TypeProto]:
    """Scale and zero point of the output, then (tensor, scale, zero point) for each input."""
    positions = range(2, len(site.inputs), 3)
    made = delegated(site, "Concat", positions, 13, ("axis",))
    return [site.like(2, dimensions(made[0]))]


def _where(site: Site) -> Sequence[TypeProto]:
    types = [site.type(0), site.like(1, element=_FLOAT), site.like(4, element=_FLOAT)]
    return [site.like(1, dimensions(delegated(site, "Where", (0, 1, 4), 9, types=types)[0]))]


def _dequantised(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, element=site.element(1) or _FLOAT)]


def _quantised(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, element=site.element(2) or TensorProto.UINT8)]


def _ordered(element: int) -> ShapeFunction:
    return lambda site: [site.like(0, element=element)]


def _gathered_blocks(site: Site) -> Sequence[TypeProto]:
    """Rows of a table that packs several elements into a byte along its last dimension."""
    bits = site.integer("bits", 4)
    sizes = list(site.shape(0))
    if site.element(0) == TensorProto.UINT8 and bits < 8:
        sizes[-1] = sizes[-1] * 8 // bits
    axis = site.integer("gather_axis") % len(sizes)
    return [site.like(2, (*sizes[:axis], *site.dims(1), *sizes[axis + 1 :]))]


def _lstm(site: Site) -> Sequence[TypeProto]:
    """``X [steps, batch, inputs]`` and ``R [directions, hidden, 4 * hidden]``."""
    steps, batch, _ = site.dims(0)
    directions, hidden, _ = site.dims(2)
    last = site.like(0, (directions, batch, hidden))
    return [site.like(0, (steps, directions, batch, hidden)), last, last]


def _quantised_embed(site: Site) -> Sequence[TypeProto]:
    return embed_norm(site)[:2]


QUANTIZED: dict[str, ShapeFunction] = {
    "com.microsoft::DequantizeLinear": _dequantised,
    "com.microsoft::DequantizeWithOrder": _ordered(_FLOAT),
    "com.microsoft::DynamicQuantizeLSTM": _lstm,
    "com.microsoft::DynamicQuantizeMatMul": _float_product,
    "com.microsoft::GatherBlockQuantized": _gathered_blocks,
    "com.microsoft::MatMulInteger16": _integer_product,
    "com.microsoft::MatMulIntegerToFloat": _float_product,
    "com.microsoft::QEmbedLayerNormalization": _quantised_embed,
    "com.microsoft::QGemm": _gemm,
    "com.microsoft::QLinearAdd": _pair(0, 3),
    "com.microsoft::QLinearAveragePool": _pooled("AveragePool", 11, _POOL),
    "com.microsoft::QLinearConcat": _concat,
    "com.microsoft::QLinearConv": _quantised_conv,
    "com.microsoft::QLinearGlobalAveragePool": _pooled("GlobalAveragePool", 1, ()),
    "com.microsoft::QLinearLeakyRelu": first,
    "com.microsoft::QLinearMul": _pair(0, 3),
    "com.microsoft::QLinearReduceMean": _reduced,
    "com.microsoft::QLinearSigmoid": first,
    "com.microsoft::QLinearSoftmax": first,
    "com.microsoft::QLinearWhere": _where,
    "com.microsoft::QOrderedMatMul": _ordered_product,
    "com.microsoft::QuantizeLinear": _quantised,
    "com.microsoft::QuantizeWithOrder": _ordered(TensorProto.INT8),
    "com.microsoft::ReduceSumInteger": _reduced,
    "com.ms.internal.nhwc::QLinearConv": _nhwc_conv,
}
