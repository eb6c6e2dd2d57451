"""Floor 3, sampling. The design space of sample networks: families, their parameters, and the ranges of these.

In: a family and a point of the unit cube. Out: a :class:`~perfgate.records.sampling.Network`. Ranges reach from what
launches dominate to what fills a processor for a second; whether a network fits is the pace's business.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.records import sampling
from perfgate.records.sampling import Network

# The smallest feature map: batch norm needs more than one value a channel, also for a batch of 1.
_SMALLEST_MAP = 2


@dataclass(frozen=True, slots=True)
class Choice:
    """One of ``values``, each equally likely; a value that stands there twice is twice as likely."""

    name: str
    values: tuple[int, ...]

    def at(self, place: float) -> int:
        """The value at ``place`` in [0, 1)."""
        return self.values[min(int(place * len(self.values)), len(self.values) - 1)]


@dataclass(frozen=True, slots=True)
class Range:
    """Whole numbers from ``low`` to ``high``, even on a logarithmic scale, in multiples of ``step``."""

    name: str
    low: int
    high: int
    step: int = 1

    def at(self, place: float) -> int:
        """The value at ``place`` in [0, 1)."""
        value: float = self.low * (self.high / self.low) ** place
        return min(self.high, max(self.low, round(value / self.step) * self.step))


Parameter = Choice | Range

_RESOLUTION = Range("resolution", 32, 224, 16)
_STEM = Choice("stem", (1, 2, 2, 4))
# Most networks of practice pool over 3 x 3 pixels, which costs far more than 2 x 2.
_WINDOW = Choice("window", (2, 3, 3))
_POOL = Choice("pool", (0, 1))
_DROPOUT = Choice("dropout", (0, 1))
_HEADS = Range("heads", 2, 16)
_HEAD_SIZE = Choice("head_size", (32, 64, 64, 128))
_EXPANSION = Choice("expansion", (2, 4, 4))
_SEQUENCE = Range("sequence", 16, 512, 8)
_VOCABULARY = Range("vocabulary", 1_000, 50_000, 100)

SPACE: dict[str, tuple[Parameter, ...]] = {
    sampling.CONVOLUTION: (
        Range("depth", 2, 20), Range("width", 8, 128, 8), Choice("kernel", (3, 3, 3, 1, 5, 7)), _RESOLUTION, _STEM,
        Choice("stages", (1, 2, 3, 4, 5)), Choice("normalise", (1, 1, 0)), _WINDOW, _DROPOUT,
    ),
    sampling.RESIDUAL: (
        Choice("stages", (1, 2, 3, 4)), Range("blocks", 1, 6), Range("width", 16, 128, 16),
        Choice("kernel", (3, 3, 3, 5)), _RESOLUTION, _STEM, Choice("bottleneck", (0, 1)),
        Choice("groups", (1, 1, 1, 2, 8, 16)), _POOL, _DROPOUT,
    ),
    sampling.DEPTHWISE: (
        Choice("stages", (1, 2, 3, 4, 5)), Range("blocks", 1, 5), Range("width", 8, 64, 8),
        Choice("expansion", (1, 2, 4, 6)), Choice("kernel", (3, 3, 5, 7)), _RESOLUTION, _STEM,
        Choice("squeeze", (0, 1)), _DROPOUT,
    ),
    sampling.UNET: (
        Choice("levels", (1, 2, 3, 4)), Choice("blocks", (1, 2, 2, 3)), Range("width", 8, 64, 8),
        Choice("kernel", (3, 3, 3, 1)), Range("resolution", 32, 256, 16),
    ),
    sampling.BRANCHES: (
        Choice("join", (0, 1, 2)), Choice("stages", (1, 2, 3, 4)), Range("blocks", 1, 6), Range("width", 16, 128, 16),
        Choice("kernel", (3, 3, 3, 5)), _RESOLUTION, _STEM, _POOL, _DROPOUT,
    ),
    sampling.DENSE: (
        Range("inputs", 32, 25_088, 32), Range("depth", 1, 8), Range("width", 32, 4_096, 32),
        Choice("normalise", (0, 1)),
    ),
    sampling.EMBEDDING: (
        Range("tables", 1, 26), Range("rows", 1_000, 1_000_000, 1_000), Range("dimension", 8, 128, 8),
        Range("lookups", 1, 32), Range("depth", 1, 4), Range("width", 64, 1_024, 32),
    ),
    sampling.RECURRENT: (
        Choice("cell", (0, 1)), Choice("layers", (1, 2, 3)), Range("width", 32, 1_024, 32),
        Range("inputs", 16, 512, 16), Range("sequence", 8, 64, 4), Choice("bidirectional", (0, 0, 1)),
    ),
    sampling.ENCODER: (Range("layers", 1, 8), _HEADS, _HEAD_SIZE, _SEQUENCE, _EXPANSION, _VOCABULARY),
    sampling.DECODER: (
        Range("layers", 1, 8), _HEADS, _HEAD_SIZE, _SEQUENCE, _EXPANSION, _VOCABULARY,
        Choice("memory", (0, 0, 0, 16, 64, 256)),
    ),
    sampling.PATCHES: (
        Range("layers", 1, 12), _HEADS, _HEAD_SIZE, Choice("patch", (8, 16, 16, 32)), Range("resolution", 64, 224, 32),
        _EXPANSION,
    ),
}  # fmt: skip

# Items of one step: rows of features are cheap, images and sequences are not.
_BATCHES = {sampling.DENSE: Range("batch", 1, 1_024), sampling.EMBEDDING: Range("batch", 1, 2_048)}
_BATCH = Range("batch", 1, 64)
# Services run one item at a time, and libraries choose other kernels for it.
_ALONE_SHARE = 0.2

_STAGED = frozenset({sampling.CONVOLUTION, sampling.RESIDUAL, sampling.DEPTHWISE, sampling.BRANCHES})


def network(family: str, places: Sequence[float]) -> Network:
    """The network at a point in [0, 1)^n, n = ``len(SPACE[family])``. Raises KeyError for a family that is not known.

    Stages that would leave no feature map are left out.
    """
    chosen = {one.name: one.at(place) for one, place in zip(SPACE[family], places, strict=True)}
    if family in _STAGED:
        size = math.ceil(chosen["resolution"] / chosen["stem"])
        size = math.ceil(size / 2) if chosen.get("pool") else size
        most = 1 + int(math.log2(size / _SMALLEST_MAP))
        chosen["stages"] = min(chosen["stages"], most)
    if family == sampling.CONVOLUTION:
        # As many convolutions as are built: equally many in every stage.
        chosen["depth"] = max(1, chosen["depth"] // chosen["stages"]) * chosen["stages"]
    return Network(family=family, parameters=chosen)


def batch(family: str, place: float) -> int:
    """The batch size at ``place`` in [0, 1): a fifth of them 1, the rest even on a logarithmic scale."""
    if place < _ALONE_SHARE:
        return 1
    return _BATCHES.get(family, _BATCH).at((place - _ALONE_SHARE) / (1 - _ALONE_SHARE))
