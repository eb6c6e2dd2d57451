"""Floor 3, graph. Shapes where the onnx package has no inference for the standard's own operators.

In: a :class:`Site`. Out: types of the outputs. Mostly first versions of operators (operator sets 1 to 6), in which
broadcasting went one way only: the output looks like the first input.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from onnx import TypeProto

from perfgate.graph.onnx.elements import number
from perfgate.graph.onnx.shapes import ShapeFunction, delegated
from perfgate.graph.onnx.site import OpenError, Site

_OLD_NAMES = {"float": "float32", "double": "float64"}


def first(site: Site) -> Sequence[TypeProto]:
    """Every output like the first input: pointwise operators, normalisations."""
    return [site.like(0)] * max(len(site.node.output), 1)


def broadcast(site: Site) -> Sequence[TypeProto]:
    """NumPy's broadcasting of the first two inputs."""
    return delegated(site, "Add", (0, 1), 13, types=[site.like(0, element=1), site.like(1, element=1)])


def _cast(site: Site) -> Sequence[TypeProto]:
    name = site.text("to").lower()
    found = number(_OLD_NAMES.get(name, name))
    if found is None:
        msg = f"it casts to the unknown type {name!r}"
        raise OpenError(msg)
    return [site.like(0, element=found)]


def _concat(site: Site) -> Sequence[TypeProto]:
    axis = site.integer("axis", 1)
    sizes = list(site.shape(0))
    sizes[axis] = sum(site.shape(position)[axis] for position in range(len(site.inputs)))
    return [site.like(0, tuple(sizes))]


def _reshape(site: Site) -> Sequence[TypeProto]:
    given, before = site.integers("shape") or [], site.shape(0)
    sizes = [before[axis] if size == 0 else size for axis, size in enumerate(given)]
    known = total = 1
    for size in before:
        total *= size
    for size in sizes:
        known *= size if size > 0 else 1
    return [site.like(0, tuple(total // known if size < 0 else size for size in sizes))]


def _split(site: Site) -> Sequence[TypeProto]:
    axis, before = site.integer("axis"), site.shape(0)
    count = len(site.node.output)
    parts = site.integers("split") or (site.data(1) if site.has(1) else [before[axis] // count] * count)
    return [site.like(0, (*before[:axis], part, *before[axis + 1 :])) for part in parts]


def _pad(site: Site) -> Sequence[TypeProto]:
    before, pads = site.shape(0), site.integers("paddings") or site.integers("pads") or []
    ends = pads[len(before) :]
    return [site.like(0, tuple(size + pads[axis] + ends[axis] for axis, size in enumerate(before)))]


def _upsample(site: Site) -> Sequence[TypeProto]:
    batch, channels, height, width = site.shape(0)
    scales = [site.attributes[name].f for name in ("height_scale", "width_scale")]
    return [site.like(0, (batch, channels, int(height * scales[0]), int(width * scales[1])))]


def _gemm(site: Site) -> Sequence[TypeProto]:
    rows, columns = site.shape(0), site.shape(1)
    return [site.like(0, (rows[1 if site.integer("transA") else 0], columns[0 if site.integer("transB") else 1]))]


def _gru(site: Site) -> Sequence[TypeProto]:
    steps, batch, _ = site.shape(0)
    directions, _, hidden = site.shape(2)
    return [site.like(0, (steps, directions, batch, hidden)), site.like(0, (directions, batch, hidden))]


def _pool(site: Site) -> Sequence[TypeProto]:
    return delegated(site, "LpPool", (0,), 11, ("kernel_shape", "pads", "strides", "auto_pad"))


def _global_pool(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, tuple(size if axis < 2 else 1 for axis, size in enumerate(site.dims(0))))]


def _compress(site: Site) -> Sequence[TypeProto]:
    kept, before = sum(map(bool, site.data(1))), site.shape(0)
    if "axis" not in site.attributes:
        return [site.like(0, (kept,))]
    axis = site.integer("axis") % len(before)
    return [site.like(0, (*before[:axis], kept, *before[axis + 1 :]))]


def _unpool(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, tuple(site.data(2)))]


def _range(site: Site) -> Sequence[TypeProto]:
    """Every type of number, and bounds of one dimension too, which the onnx package leaves open."""
    bounds = [site.known(position) for position in range(3)]
    values = [None if known is None or known.data is None else known.data.reshape(-1) for known in bounds]
    if any(value is None or value.size != 1 for value in values):
        msg = "its bounds depend on data"
        raise OpenError(msg)
    start, limit, step = (float(value[0]) for value in values if value is not None)
    return [site.like(0, (max(math.ceil((limit - start) / step), 0),))]


def _stft(site: Site) -> Sequence[TypeProto]:
    """``signal [B, L, ...]``: one spectrum for each step of the window; half of it unless ``onesided`` is 0."""
    batch, length = site.shape(0)[:2]
    step, frame = site.scalar(1), site.scalar(3) if site.has(3) else site.shape(2)[0]
    if step is None or frame is None:
        msg = "its window depends on data"
        raise OpenError(msg)
    bins = frame // 2 + 1 if site.integer("onesided", 1) else frame
    return [site.like(0, (batch, (length - frame) // step + 1, bins, 2))]


def _logical(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, tuple(size.dim_value for size in broadcast(site)[0].tensor_type.shape.dim), element=9)]


def _features(site: Site) -> Sequence[TypeProto]:
    columns = sum(site.shape(position)[-1] for position in range(len(site.inputs)))
    return [site.like(0, (site.shape(0)[0], columns), element=1)]


def _as_float(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, element=1)]


def _targets(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (site.shape(0)[0], site.integer("targets", site.integer("n_targets", 1))), element=1)]


_FIRST = """
    Abs Add BatchNormalization Ceil Clip Div Dropout Elu Exp Floor GroupNormalization HardSigmoid InstanceNormalization
    LeakyRelu Log Max Mean MeanVarianceNormalization Min Mul Neg PRelu Reciprocal Relu Selu Sigmoid Sqrt Sub Sum Tanh
    Affine ImageScaler ParametricSoftplus Scale ScaledTanh SimplifiedLayerNormalization MemcpyFromHost MemcpyToHost
"""

OLD: dict[str, ShapeFunction] = {
    **{f"ai.onnx::{name}": first for name in _FIRST.split()},
    "ai.onnx::Cast": _cast,
    "ai.onnx::Compress": _compress,
    "ai.onnx::Concat": _concat,
    "ai.onnx::GRU": _gru,
    "ai.onnx::Gemm": _gemm,
    "ai.onnx::GlobalLpPool": _global_pool,
    "ai.onnx::GreaterOrEqual": _logical,
    "ai.onnx::LessOrEqual": _logical,
    "ai.onnx::LpPool": _pool,
    "ai.onnx::MaxUnpool": _unpool,
    "ai.onnx::Pad": _pad,
    "ai.onnx::Range": _range,
    "ai.onnx::Reshape": _reshape,
    "ai.onnx::STFT": _stft,
    "ai.onnx::Split": _split,
    "ai.onnx::Upsample": _upsample,
    "ai.onnx.ml::FeatureVectorizer": _features,
    "ai.onnx.ml::Imputer": first,
    "ai.onnx.ml::LinearRegressor": _targets,
    "ai.onnx.ml::Normalizer": _as_float,
    "ai.onnx.ml::SVMRegressor": _targets,
    "ai.onnx.ml::Scaler": _as_float,
    "ai.onnx.ml::TreeEnsembleRegressor": _targets,
}
