"""Floor 3, worker. Networks whose branches are joined by concatenation: parallel, growing, and shuffled ones.

In: parameters, all whole numbers. Out: a module that takes ``float32[batch, 3, resolution, resolution]``.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from perfgate.worker.networks.convolutional import IMAGE_CHANNELS, Parameters, classifier, convolve, pooling

# Values of ``join``.
PARALLEL, GROWING, SHUFFLED = 0, 1, 2
_WINDOW = 3
_PARTS = 4


def branches(given: Parameters) -> nn.Module:
    """``blocks`` in each of ``stages``, joined as ``join`` says; a multiple of 4 as ``width``.

    0: convolutions of two sizes and a pool side by side, 1: what a block makes is added to the channels, 2: half of the
    channels pass by, and both halves are mixed. Between stages a convolution of one pixel and a max pool.
    """
    inputs = given["width"]
    layers = convolve(IMAGE_CHANNELS, inputs, _WINDOW, given["stem"])
    if given["pool"]:
        layers.append(pooling(_WINDOW))
    for stage in range(given["stages"]):
        width = given["width"] << stage
        if stage:
            layers += [*convolve(inputs, width, 1, 1), pooling(_WINDOW)]
            inputs = width
        for _ in range(given["blocks"]):
            block = _BLOCKS[given["join"]](inputs, width, given["kernel"])
            layers.append(block)
            inputs = block.width
    return nn.Sequential(*layers, *classifier(inputs, given))


class _Parallel(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, kernel: int) -> None:
        super().__init__()
        part, self.width = width // _PARTS, width
        self.paths = nn.ModuleList(
            (
                nn.Sequential(*convolve(inputs, part, 1, 1)),
                nn.Sequential(*convolve(inputs, part, 1, 1), *convolve(part, 2 * part, kernel, 1)),
                nn.Sequential(nn.MaxPool2d(_WINDOW, 1, 1), *convolve(inputs, part, 1, 1)),
            )
        )

    def forward(self, x: Any) -> Any:
        return torch.cat([path(x) for path in self.paths], 1)


class _Growing(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, kernel: int) -> None:
        super().__init__()
        part = width // _PARTS
        self.width = inputs + part
        self.body = nn.Sequential(
            nn.BatchNorm2d(inputs),
            nn.ReLU(),
            *convolve(inputs, 2 * part, 1, 1),
            nn.Conv2d(2 * part, part, kernel, 1, kernel // 2, bias=False),
        )

    def forward(self, x: Any) -> Any:
        return torch.cat((x, self.body(x)), 1)


class _Shuffled(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, kernel: int) -> None:  # noqa: ARG002 - all blocks are called alike
        super().__init__()
        half, self.width = inputs // 2, inputs
        self.body = nn.Sequential(
            *convolve(half, half, 1, 1),
            *convolve(half, half, kernel, 1, groups=half, activation=None),
            *convolve(half, half, 1, 1),
        )

    def forward(self, x: Any) -> Any:
        kept, given = x.chunk(2, 1)
        x = torch.cat((kept, self.body(given)), 1)
        batch, channels, height, width = x.shape
        return x.view(batch, 2, channels // 2, height, width).transpose(1, 2).reshape(batch, channels, height, width)


_BLOCKS: dict[int, Any] = {PARALLEL: _Parallel, GROWING: _Growing, SHUFFLED: _Shuffled}
