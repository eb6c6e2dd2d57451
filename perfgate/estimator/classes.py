"""Floor 3, estimator. Which class of kernels a group belongs to, told from its kind and its counted figures alone.

In: columns of figures, one entry a group of kernels. Out: the number of each group's class in :data:`CLASSES`.

A class is what shares seconds per FLOP, per byte and per call. A group of kernels does not say what shapes it had, but
its figures do, up to a layout: for a product of ``m`` positions, ``n`` outputs and ``k`` terms F = 2 m n k, it writes
m n elements and its weight has n k, so that m = F / (2 weight) and k = F / (2 written). No class depends on the batch:
each ratio that is looked at stays when all but the weights grows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from perfgate.records.graph import BACKWARD, OPTIMIZER

Floats = npt.NDArray[np.float64]
Codes = npt.NDArray[np.intp]
Mask = npt.NDArray[np.bool_]

DENSE = "dense convolution"  # k x k, over all channels
UNIT = "1x1 convolution"
GROUPED = "grouped convolution"
# One filter a channel; libraries have kernels of their own for 3 x 3 and 5 x 5, and slow ones for larger filters.
DEPTHWISE_3 = "depthwise convolution 3x3"
DEPTHWISE_5 = "depthwise convolution 5x5"
DEPTHWISE_LARGE = "depthwise convolution 7x7 and more"
STEM = "stem convolution"  # of an image's few channels
LINEAR = "linear"  # a product with a weight
PRODUCT = "batched product"  # of two activations
ATTENTION = "attention"
RECURRENT = "recurrent"
CONVOLUTION_BACKWARD = "convolution backward"
LINEAR_BACKWARD = "linear backward"
PRODUCT_BACKWARD = "batched product backward"
ATTENTION_BACKWARD = "attention backward"
ACTIVATION = "activation"  # one tensor read, one written
COMBINATION = "combination"  # two or more tensors of a size read: additions, gates
BROADCAST = "broadcast"  # a tensor and a much smaller one
SCALE_NORM = "affine normalisation"  # with statistics that are there already: batch norm in inference
STATISTIC_NORM = "statistic normalisation"  # that makes its statistics: layer and group norm
NORM_BACKWARD = "normalisation backward"
SOFTMAX = "softmax"
POOLING = "pooling"
UPSAMPLING = "upsampling"
REDUCTION = "reduction"
LOOKUP = "lookup"
COPY = "copy"
CAST = "cast"
FILL = "fill"
SORT = "sort"
OPTIMISER = "optimiser"
WEIGHTS_ONLY = "weights only"  # moves parameters and nothing that grows with the batch
TRANSFER = "transfer"
UNKNOWN = "unknown"
CLASSES = (
    DENSE,
    UNIT,
    GROUPED,
    DEPTHWISE_3,
    DEPTHWISE_5,
    DEPTHWISE_LARGE,
    STEM,
    LINEAR,
    PRODUCT,
    ATTENTION,
    RECURRENT,
    CONVOLUTION_BACKWARD,
    LINEAR_BACKWARD,
    PRODUCT_BACKWARD,
    ATTENTION_BACKWARD,
    ACTIVATION,
    COMBINATION,
    BROADCAST,
    SCALE_NORM,
    STATISTIC_NORM,
    NORM_BACKWARD,
    SOFTMAX,
    POOLING,
    UPSAMPLING,
    REDUCTION,
    LOOKUP,
    COPY,
    CAST,
    FILL,
    SORT,
    OPTIMISER,
    WEIGHTS_ONLY,
    TRANSFER,
    UNKNOWN,
)
# Those that have FLOP.
PRODUCTS = CLASSES[: CLASSES.index(ACTIVATION)]
_NUMBER = {name: number for number, name in enumerate(CLASSES)}

# Kinds of operators whose class follows from the kind; those of no class here are unknown.
_BY_KIND = {
    "attention": ATTENTION,
    "rnn": RECURRENT,
    "convolution": DENSE,
    "matmul": LINEAR,
    "pointwise": ACTIVATION,
    "normalization": SCALE_NORM,
    "softmax": SOFTMAX,
    "pooling": POOLING,
    "reduction": REDUCTION,
    "embedding": LOOKUP,
    "gather": LOOKUP,
    "scatter": LOOKUP,
    "copy": COPY,
    "cast": CAST,
    "fill": FILL,
    "random": FILL,
    "sort": SORT,
    "transfer": TRANSFER,
    "sync": TRANSFER,
    "other": COPY,
}
KINDS = frozenset(_BY_KIND)
_BACKWARD = {
    "convolution": CONVOLUTION_BACKWARD,
    "matmul": LINEAR_BACKWARD,
    "attention": ATTENTION_BACKWARD,
    "normalization": NORM_BACKWARD,
}
# A convolution of an image's 3 channels at 4 x 4 has 48 terms.
_FEW_TERMS = 50.0
_LARGEST_FILTER = 31


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """Of one call of each group. ``code`` numbers the (kind, phase) in ``pairs``; elements, not bytes, but ``flop``.

    ``moved``: all that is read and written. ``written``; ``weight``: the part of ``moved`` that does not grow with the
    batch; ``read``: what is read and does.
    """

    pairs: tuple[tuple[str, str], ...]
    code: Codes
    flop: Floats
    moved: Floats
    read: Floats
    written: Floats
    weight: Floats


def classes(figures: Figures) -> Codes:
    """The class of each group."""
    first = np.array([_NUMBER[_class(kind, phase)] for kind, phase in figures.pairs], dtype=np.intp)
    found = first[figures.code]
    written = np.maximum(figures.written, 1.0)
    reads = figures.read / written
    alone = (figures.weight > 0) & (figures.weight >= 0.999 * figures.moved)
    _choose(found, DENSE, _convolutions(figures))
    _choose(found, LINEAR, [(PRODUCT, figures.weight <= 0)])
    _choose(found, LINEAR_BACKWARD, [(PRODUCT_BACKWARD, figures.weight <= 0)])
    _choose(found, ACTIVATION, [(BROADCAST, reads < 0.8), (COMBINATION, reads > 1.2)])
    _choose(found, POOLING, [(UPSAMPLING, reads < 1)])
    _choose(found, SCALE_NORM, [(STATISTIC_NORM, _makes_statistics(figures))])
    for name in (CAST, COPY, ACTIVATION, COMBINATION, BROADCAST, SCALE_NORM, STATISTIC_NORM, REDUCTION):
        _choose(found, name, [(WEIGHTS_ONLY, alone)])
    return found


def _class(kind: str, phase: str) -> str:
    if phase == OPTIMIZER:
        return OPTIMISER
    if phase == BACKWARD and kind in _BACKWARD:
        return _BACKWARD[kind]
    return _BY_KIND.get(kind, UNKNOWN)


def _makes_statistics(figures: Figures) -> Mask:
    """Of normalisations: where more is written than the activations that are read, and it grows with the batch.

    Batch norm in inference on a processor writes as well, two numbers a channel next to the four that it reads: a half
    of its weights at every batch. Figures of groups are rounded means, hence the tolerance.
    """
    more = figures.written - figures.read
    of_channels = abs(2 * more - figures.weight) <= 2.0 + 1e-3 * figures.weight
    return (more > 1.0) & ~of_channels


def _convolutions(figures: Figures) -> list[tuple[str, Mask]]:
    """Later entries win."""
    weight = np.maximum(figures.weight, 1.0)
    positions = np.maximum(figures.flop / (2 * weight), 1.0)
    terms = figures.flop / (2 * np.maximum(figures.written, 1.0))
    # Terms of an output over channels read at its position: k x k / (groups x stride x stride).
    window = terms / np.maximum(figures.read / positions, 1e-9)
    few = terms <= _FEW_TERMS
    grouped = window < 0.2
    side = np.sqrt(terms)
    whole = np.rint(side)
    depthwise = (
        (window < 0.9) & (abs(side - whole) < 1e-6) & (whole % 2 == 1) & (whole > 1) & (whole <= _LARGEST_FILTER)
    )
    return [
        (UNIT, (window <= 1.3) & ~grouped),
        (GROUPED, grouped),
        (STEM, few & (window >= 0.9)),
        (GROUPED, few & (window < 0.9)),
        (DEPTHWISE_3, depthwise),
        (DEPTHWISE_5, depthwise & (whole > 3)),
        (DEPTHWISE_LARGE, depthwise & (whole > 5)),
    ]


def _choose(found: Codes, name: str, choices: list[tuple[str, Mask]]) -> None:
    mine = found == _NUMBER[name]
    for other, where in choices:
        found[mine & where] = _NUMBER[other]
