"""Floor 3, worker. Networks of convolutions: plain stacks, residual, depthwise, and U-shaped ones.

In: parameters, all whole numbers. Out: a module that takes ``float32[batch, 3, resolution, resolution]``. Widths
double and sizes halve from one stage to the next, as in networks of practice.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

IMAGE_CHANNELS = 3
CLASSES = 1000
_BOTTLENECK = 4
_SQUEEZE = 4
_DROPPED = 0.2

Parameters = dict[str, int]


def convolution(given: Parameters) -> nn.Module:
    """``depth`` convolutions in ``stages``, with or without batch norm (``normalise``), then a classifier.

    ``stem`` is the stride of the first convolution; between stages a max pool over a ``window`` halves the size.
    ``dropout`` 1: before the classifier, here and in the networks below.
    """
    width, kernel = given["width"], given["kernel"]
    layers = convolve(IMAGE_CHANNELS, width, kernel, given["stem"], normalise=given["normalise"])
    for stage in range(given["stages"]):
        if stage:
            layers.append(pooling(given.get("window", 2)))
        for _ in range(max(1, given["depth"] // given["stages"])):
            wanted = given["width"] << stage
            layers += convolve(width, wanted, kernel, 1, normalise=given["normalise"])
            width = wanted
    return nn.Sequential(*layers, *classifier(width, given))


def residual(given: Parameters) -> nn.Module:
    """``blocks`` residual blocks in each of ``stages``; ``bottleneck`` 1: narrow in the middle, with ``groups``.

    ``pool`` 1: a max pool after the first convolution.
    """
    width = given["width"]
    layers = convolve(IMAGE_CHANNELS, width, given["kernel"], given["stem"])
    if given.get("pool"):
        layers.append(pooling(3))
    for stage in range(given["stages"]):
        for block in range(given["blocks"]):
            wanted = given["width"] << stage
            made = _Residual(width, wanted, given, stride=2 if stage and not block else 1)
            layers.append(made)
            width = made.width
    return nn.Sequential(*layers, *classifier(width, given))


def depthwise(given: Parameters) -> nn.Module:
    """Inverted residual blocks: wider by ``expansion``, one filter a channel, narrow; ``squeeze`` 1 weighs channels."""
    width = given["width"]
    layers = convolve(IMAGE_CHANNELS, width, 3, given["stem"], activation=nn.Hardswish)
    for stage in range(given["stages"]):
        for block in range(given["blocks"]):
            wanted = given["width"] << stage
            layers.append(_Inverted(width, wanted, given, stride=2 if stage and not block else 1))
            width = wanted
    return nn.Sequential(*layers, *classifier(width, given))


def unet(given: Parameters) -> nn.Module:
    """Down ``levels`` times and up again, each level joined with its like; a mask of the input's size comes out."""
    return _UNet(given)


def images(given: Parameters, batch: int) -> tuple[Any, ...]:
    """Inputs of every network in this file."""
    return (torch.randn(batch, IMAGE_CHANNELS, given["resolution"], given["resolution"]),)


def convolve(
    inputs: int,
    outputs: int,
    kernel: int,
    stride: int,
    *,
    groups: int = 1,
    normalise: int = 1,
    activation: Any = nn.ReLU,
) -> list[Any]:
    """A convolution that keeps the size but for its stride, batch norm and activation."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, kernel // 2, groups=groups, bias=not normalise)
    layers: list[Any] = [layer]
    if normalise:
        layers.append(nn.BatchNorm2d(outputs))
    if activation is not None:
        layers.append(activation())
    return layers


def pooling(window: int) -> Any:
    """A max pool that halves the size: 2 x 2 without the last row of an odd size, 3 x 3 with all rows."""
    return nn.MaxPool2d(window, 2, window // 2 if window % 2 else 0)


def classifier(width: int, given: Parameters) -> list[Any]:
    """Mean over the feature map, and an output for each class."""
    dropped = [nn.Dropout(_DROPPED)] if given.get("dropout") else []
    return [nn.AdaptiveAvgPool2d(1), nn.Flatten(), *dropped, nn.Linear(width, CLASSES)]


class _Residual(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, given: Parameters, *, stride: int) -> None:
        super().__init__()
        kernel, groups = given["kernel"], given["groups"]
        if given["bottleneck"]:
            self.width = width * _BOTTLENECK
            layers = [
                *convolve(inputs, width, 1, 1),
                *convolve(width, width, kernel, stride, groups=groups),
                *convolve(width, self.width, 1, 1, activation=None),
            ]
        else:
            self.width = width
            layers = [
                *convolve(inputs, width, kernel, stride),
                *convolve(width, width, kernel, 1, groups=groups, activation=None),
            ]
        self.body = nn.Sequential(*layers)
        same = inputs == self.width and stride == 1
        self.short = None if same else nn.Sequential(*convolve(inputs, self.width, 1, stride, activation=None))
        self.activation = nn.ReLU(inplace=True)

    def forward(self, x: Any) -> Any:
        short = x if self.short is None else self.short(x)
        return self.activation(self.body(x) + short)


class _Inverted(nn.Module):  # type: ignore[misc]
    def __init__(self, inputs: int, width: int, given: Parameters, *, stride: int) -> None:
        super().__init__()
        inner = inputs * given["expansion"]
        self.widen = nn.Sequential(*convolve(inputs, inner, 1, 1, activation=nn.Hardswish))
        self.filter = nn.Sequential(
            *convolve(inner, inner, given["kernel"], stride, groups=inner, activation=nn.Hardswish)
        )
        self.weigh = None
        if given["squeeze"]:
            narrow = max(1, inner // _SQUEEZE)
            self.weigh = nn.Sequential(
                nn.AdaptiveAvgPool2d(1), nn.Conv2d(inner, narrow, 1), nn.ReLU(), nn.Conv2d(narrow, inner, 1),
                nn.Hardsigmoid(),
            )  # fmt: skip
        self.narrow = nn.Sequential(*convolve(inner, width, 1, 1, activation=None))
        self.joins = inputs == width and stride == 1

    def forward(self, x: Any) -> Any:
        inner = self.filter(self.widen(x))
        if self.weigh is not None:
            inner = inner * self.weigh(inner)
        made = self.narrow(inner)
        return made + x if self.joins else made


class _UNet(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters) -> None:
        super().__init__()
        width, kernel, blocks = given["width"], given["kernel"], given["blocks"]
        widths = [width << level for level in range(given["levels"] + 1)]
        self.pool = nn.MaxPool2d(2)
        self.down = nn.ModuleList()
        before = IMAGE_CHANNELS
        for wide in widths:
            self.down.append(_stack(before, wide, kernel, blocks))
            before = wide
        self.rise = nn.ModuleList()
        self.up = nn.ModuleList()
        for wide in reversed(widths[:-1]):
            self.rise.append(nn.ConvTranspose2d(2 * wide, wide, 2, 2))
            self.up.append(_stack(2 * wide, wide, kernel, blocks))
        self.mask = nn.Conv2d(width, 1, 1)

    def forward(self, x: Any) -> Any:
        kept = []
        for level, stage in enumerate(self.down):
            x = stage(self.pool(x) if level else x)
            kept.append(x)
        kept.pop()
        for rise, stage in zip(self.rise, self.up):  # noqa: B905 - equally many by construction
            x = stage(torch.cat((rise(x), kept.pop()), 1))
        return self.mask(x)


def _stack(inputs: int, width: int, kernel: int, blocks: int) -> Any:
    layers: list[Any] = []
    for number in range(blocks):
        layers += convolve(inputs if not number else width, width, kernel, 1)
    return nn.Sequential(*layers)
