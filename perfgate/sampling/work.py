"""Floor 3, sampling. What a sample network does, from its parameters alone: enough to plan with, before it is traced.

In: a :class:`~perfgate.records.sampling.Network`. Out: :class:`Work` of one item's forward pass. The loops are those
of the builders in ``worker/networks``; F = 2 x MAC of products and convolutions, as everywhere in perfgate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from perfgate.records import sampling
from perfgate.records.sampling import Network

_CHANNELS = 3
_CLASSES = 1000
_BOTTLENECK = 4
_SQUEEZE = 4


@dataclass(slots=True, kw_only=True)
class Work:
    """One forward pass of one item.

    ``flop``; ``weights``: parameters, elements; ``made``: elements of all results; ``largest``: of the largest one;
    ``kernels``: operator calls, also for a batch of many.
    """

    flop: float = 0.0
    weights: float = 0.0
    made: float = 0.0
    largest: float = 0.0
    kernels: int = 0

    def result(self, elements: float, kernels: int = 1) -> None:
        """``kernels`` results of so many elements each."""
        self.made += elements * kernels
        self.largest = max(self.largest, elements)
        self.kernels += kernels

    def convolve(self, inputs: int, outputs: int, kernel: int, size: int, *, groups: int = 1, after: int = 2) -> None:
        """A convolution with ``outputs`` maps of ``size`` x ``size``, and ``after`` pointwise operators on them."""
        filters = inputs // groups * outputs * kernel**2
        self.flop += 2 * filters * size**2
        self.weights += filters + outputs
        self.result(outputs * size**2, 1 + after)

    def multiply(self, rows: float, inputs: int, outputs: int, *, after: int = 0) -> None:
        """A fully connected layer on ``rows`` vectors, and ``after`` pointwise operators."""
        self.flop += 2 * rows * inputs * outputs
        self.weights += inputs * outputs + outputs
        self.result(rows * outputs, 1 + after)

    def attend(self, heads: int, head_size: int, queries: int, keys: int) -> None:
        """Softmax(Q K^T) V."""
        self.flop += 4 * heads * head_size * queries * keys
        self.result(heads * head_size * queries, 4)


Parameters = dict[str, int]


def work(network: Network) -> Work:
    """The work of one item. Raises KeyError for an unknown family or a missing parameter."""
    made = Work()
    _FAMILIES[network.family](made, network.parameters)
    return made


def _half(size: int) -> int:
    return max(1, (size + 1) // 2)


def _stem(given: Parameters) -> int:
    return -(-given["resolution"] // given["stem"])


def _convolution(made: Work, given: Parameters) -> None:
    size, width, after = _stem(given), given["width"], 1 + given["normalise"]
    made.convolve(_CHANNELS, width, given["kernel"], size, after=after)
    for stage in range(given["stages"]):
        if stage:
            size = size // 2 if given.get("window", 2) == 2 else _half(size)
            made.result(width * size**2)
        for _ in range(max(1, given["depth"] // given["stages"])):
            made.convolve(width, given["width"] << stage, given["kernel"], size, after=after)
            width = given["width"] << stage
    made.multiply(1, width, _CLASSES, after=1)


def _residual(made: Work, given: Parameters) -> None:
    size, inputs, kernel, groups = _stem(given), given["width"], given["kernel"], given["groups"]
    made.convolve(_CHANNELS, inputs, kernel, size)
    if given.get("pool"):
        size = _half(size)
        made.result(inputs * size**2)
    for stage in range(given["stages"]):
        for block in range(given["blocks"]):
            width = given["width"] << stage
            before, strided = size, bool(stage) and not block
            size = _half(size) if strided else size
            outputs = width * _BOTTLENECK if given["bottleneck"] else width
            if given["bottleneck"]:
                made.convolve(inputs, width, 1, before)
                made.convolve(width, width, kernel, size, groups=groups)
                made.convolve(width, outputs, 1, size)
            else:
                made.convolve(inputs, width, kernel, size)
                made.convolve(width, width, kernel, size, groups=groups)
            if strided or inputs != outputs:
                made.convolve(inputs, outputs, 1, size, after=1)
            made.result(outputs * size**2)
            inputs = outputs
    made.multiply(1, inputs, _CLASSES, after=1)


def _depthwise(made: Work, given: Parameters) -> None:
    size, inputs = _stem(given), given["width"]
    made.convolve(_CHANNELS, inputs, 3, size)
    for stage in range(given["stages"]):
        for block in range(given["blocks"]):
            width, inner, before = given["width"] << stage, inputs * given["expansion"], size
            size = _half(size) if stage and not block else size
            made.convolve(inputs, inner, 1, before)
            made.convolve(inner, inner, given["kernel"], size, groups=inner)
            if given["squeeze"]:
                narrow = max(1, inner // _SQUEEZE)
                made.multiply(1, inner, narrow, after=2)
                made.multiply(1, narrow, inner, after=1)
                made.result(inner * size**2)
            made.convolve(inner, width, 1, size, after=1)
            inputs = width
    made.multiply(1, inputs, _CLASSES, after=1)


def _unet(made: Work, given: Parameters) -> None:
    size, inputs = given["resolution"], _CHANNELS
    for level in range(given["levels"] + 1):
        size = size // 2 if level else size
        for _ in range(given["blocks"]):
            made.convolve(inputs, given["width"] << level, given["kernel"], size)
            inputs = given["width"] << level
    for level in reversed(range(given["levels"])):
        wide, size = given["width"] << level, size * 2
        # Of a transposed convolution with stride 2 each result is one product of all channels.
        made.flop += 2 * inputs * wide * size**2
        made.weights += 4 * inputs * wide
        made.result(wide * size**2, 2)
        for number in range(given["blocks"]):
            made.convolve(wide if number else 2 * wide, wide, given["kernel"], size)
        inputs = wide
    made.convolve(inputs, 1, 1, size, after=0)


def _branches(made: Work, given: Parameters) -> None:
    size, inputs, kernel = _stem(given), given["width"], given["kernel"]
    made.convolve(_CHANNELS, inputs, 3, size)
    if given["pool"]:
        size = _half(size)
        made.result(inputs * size**2)
    for stage in range(given["stages"]):
        width = given["width"] << stage
        if stage:
            made.convolve(inputs, width, 1, size)
            inputs, size = width, _half(size)
            made.result(inputs * size**2)
        for _ in range(given["blocks"]):
            inputs = _JOINS[given["join"]](made, inputs, width, kernel, size)
    made.multiply(1, inputs, _CLASSES, after=1)


def _parallel(made: Work, inputs: int, width: int, kernel: int, size: int) -> int:
    part = width // 4
    for _ in range(3):
        made.convolve(inputs, part, 1, size)
    made.convolve(part, 2 * part, kernel, size)
    made.result(inputs * size**2)
    made.result(width * size**2)
    return width


def _growing(made: Work, inputs: int, width: int, kernel: int, size: int) -> int:
    part = width // 4
    made.weights += 2 * inputs
    made.result(inputs * size**2, 2)
    made.convolve(inputs, 2 * part, 1, size)
    made.convolve(2 * part, part, kernel, size, after=0)
    made.result((inputs + part) * size**2)
    return inputs + part


def _shuffled(made: Work, inputs: int, width: int, kernel: int, size: int) -> int:  # noqa: ARG001 - as the others
    half = inputs // 2
    made.convolve(half, half, 1, size)
    made.convolve(half, half, kernel, size, groups=half, after=1)
    made.convolve(half, half, 1, size)
    made.result(inputs * size**2, 2)
    return inputs


_JOINS = (_parallel, _growing, _shuffled)


def _dense(made: Work, given: Parameters) -> None:
    for number in range(given["depth"]):
        made.multiply(1, given["width"] if number else given["inputs"], given["width"], after=1 + given["normalise"])


def _embedding(made: Work, given: Parameters) -> None:
    joined = given["tables"] * given["dimension"]
    made.weights += given["rows"] * joined
    made.result(joined * given["lookups"])
    made.kernels += given["tables"]
    for number in range(given["depth"]):
        made.multiply(1, given["width"] if number else joined, given["width"], after=1)


def _recurrent(made: Work, given: Parameters) -> None:
    gates, width, ways = (3, 4)[given["cell"] == 0], given["width"], 1 + given["bidirectional"]
    inputs = given["inputs"]
    for _ in range(given["layers"]):
        for _ in range(ways):
            made.multiply(given["sequence"], inputs, gates * width)
            made.multiply(given["sequence"], width, gates * width)
            # Traced step by step: a product and some pointwise operators each.
            made.result(width, 12 * given["sequence"])
        inputs = width * ways
    made.multiply(1, inputs, _CLASSES)


def _layers(made: Work, given: Parameters, length: int, memory: int = 0) -> None:
    heads, head_size = given["heads"], given["head_size"]
    width = heads * head_size
    for _ in range(given["layers"]):
        made.multiply(length, width, 3 * width, after=1)
        made.attend(heads, head_size, length, length)
        made.multiply(length, width, width, after=1)
        if memory:
            made.multiply(length, width, width, after=1)
            made.multiply(memory, width, 2 * width)
            made.attend(heads, head_size, length, memory)
            made.multiply(length, width, width, after=1)
        made.multiply(length, width, width * given["expansion"], after=2)
        made.multiply(length, width * given["expansion"], width, after=1)


def _transformer(made: Work, given: Parameters) -> None:
    width = given["heads"] * given["head_size"]
    made.weights += given["vocabulary"] * width
    made.result(given["sequence"] * width, 2)
    _layers(made, given, given["sequence"], given.get("memory", 0))


def _decoder(made: Work, given: Parameters) -> None:
    _transformer(made, given)
    made.multiply(given["sequence"], given["heads"] * given["head_size"], given["vocabulary"])


def _patches(made: Work, given: Parameters) -> None:
    side, width = given["resolution"] // given["patch"], given["heads"] * given["head_size"]
    made.convolve(_CHANNELS, width, given["patch"], side, after=2)
    _layers(made, given, side**2 + 1)
    made.multiply(1, width, _CLASSES)


_FAMILIES: dict[str, Callable[[Work, Parameters], None]] = {
    sampling.CONVOLUTION: _convolution,
    sampling.RESIDUAL: _residual,
    sampling.DEPTHWISE: _depthwise,
    sampling.UNET: _unet,
    sampling.BRANCHES: _branches,
    sampling.DENSE: _dense,
    sampling.EMBEDDING: _embedding,
    sampling.RECURRENT: _recurrent,
    sampling.ENCODER: _transformer,
    sampling.DECODER: _decoder,
    sampling.PATCHES: _patches,
}
