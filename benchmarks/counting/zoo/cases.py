"""Small models with a known amount of work that counters get wrong: what, its input, and the truth by hand.

In: :data:`CASES`. Each model is built by ``cases:NAME``; MAC are multiply-accumulates of matrix products and
convolutions, without bias. ``params`` None: not compared.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """``train`` True: one forward and backward pass; ``build`` gives the model, ``formula`` says where MAC is from."""

    title: str
    build: Callable[[], Any]
    inputs: tuple[str, ...]
    mac: int
    formula: str
    params: int | None = None
    train: bool = False


class Attention(nn.Module):  # type: ignore[misc]
    """One scaled_dot_product_attention of a tensor with itself."""

    def forward(self, x: Any) -> Any:
        return nn.functional.scaled_dot_product_attention(x, x, x)


class Gram(nn.Module):  # type: ignore[misc]
    """x times its transpose; no parameters."""

    def forward(self, x: Any) -> Any:
        return x @ x.transpose(-1, -2)


class SelfAttention(nn.Module):  # type: ignore[misc]
    """nn.MultiheadAttention of a sequence with itself."""

    def __init__(self) -> None:
        super().__init__()
        self.attention = nn.MultiheadAttention(64, 4, batch_first=True)

    def forward(self, x: Any) -> Any:
        return self.attention(x, x, x, need_weights=False)[0]


class FunctionalConvolution(nn.Module):  # type: ignore[misc]
    """A weight of its own and torch.nn.functional.conv2d; no submodule."""

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(16, 16, 3, 3))

    def forward(self, x: Any) -> Any:
        return nn.functional.conv2d(x, self.weight, padding=1)


class InnerDepthwise(nn.Module):  # type: ignore[misc]
    """A depthwise convolution whose input needs a gradient, as within a network."""

    def __init__(self) -> None:
        super().__init__()
        self.scale = nn.Parameter(torch.ones(1))
        self.conv = nn.Conv2d(16, 16, 3, padding=1, groups=16)

    def forward(self, x: Any) -> Any:
        return self.conv(x * self.scale)


class Tied(nn.Module):  # type: ignore[misc]
    """An embedding whose weight is the output projection's too."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens: Any) -> Any:
        return self.head(self.embedding(tokens))


class Raises(nn.Module):  # type: ignore[misc]
    """Convolves, then fails: what a counter leaves behind shows in the next count."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(16, 16, 3, padding=1)

    def forward(self, x: Any) -> Any:
        self.conv(x)
        msg = "this model fails on purpose"
        raise RuntimeError(msg)


def _quantised() -> Any:
    import warnings

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 32)), {nn.Linear}, torch.qint8)


def _vit() -> Any:
    from torchvision.models import vit_b_16

    return vit_b_16(weights=None)


def _resnet() -> Any:
    from torchvision.models import resnet18

    return resnet18(weights=None)


_IMAGE = ("float32[1,16,8,8]",)

CASES: dict[str, Case] = {
    "sdpa": Case(
        title="SDPA (1,12,64,64)",
        build=Attention,
        inputs=("float32[1,12,64,64]",),
        mac=6_291_456,
        formula="2 x 12 x 64 x 64 x 64",
    ),
    "gram": Case(
        title="x @ x.T (1,12,64,64)",
        build=Gram,
        inputs=("float32[1,12,64,64]",),
        mac=3_145_728,
        formula="12 x 64 x 64 x 64",
    ),
    "mha": Case(
        title="nn.MultiheadAttention(64, 4), 16 tokens",
        build=SelfAttention,
        inputs=("float32[1,16,64]",),
        mac=294_912,
        formula="4 x 16 x 64 x 64 + 2 x 16 x 16 x 64",
    ),
    "encoder": Case(
        title="TransformerEncoderLayer(64, 4, 128), 2 x 16 tokens",
        build=lambda: nn.TransformerEncoderLayer(64, 4, 128, batch_first=True),
        inputs=("float32[2,16,64]",),
        mac=1_114_112,
        formula="2 x (294 912 + 2 x 16 x 64 x 128)",
    ),
    "vit": Case(
        title="ViT-B/16",
        build=_vit,
        inputs=("float32[1,3,224,224]",),
        mac=17_563_828_224,
        formula="counted on plain products, 17.564 GMAC as published",
        params=86_567_656,
    ),
    "lstm": Case(
        title="LSTM(12, 128), 250 steps",
        build=lambda: nn.LSTM(12, 128),
        inputs=("float32[250,1,12]",),
        mac=17_920_000,
        formula="250 x 4 x 128 x (12 + 128)",
    ),
    "gru": Case(
        title="GRU(12, 128), 250 steps",
        build=lambda: nn.GRU(12, 128),
        inputs=("float32[250,1,12]",),
        mac=13_440_000,
        formula="250 x 3 x 128 x (12 + 128)",
    ),
    "transposed": Case(
        title="ConvTranspose2d(16, 8, 4, stride 2, padding 1), 8x8",
        build=lambda: nn.ConvTranspose2d(16, 8, 4, stride=2, padding=1),
        inputs=_IMAGE,
        mac=131_072,
        formula="8 x 8 x 16 x 8 x 4 x 4",
    ),
    "transposed_grouped": Case(
        title="ConvTranspose2d(16, 16, 2, stride 2, groups 4), 8x8",
        build=lambda: nn.ConvTranspose2d(16, 16, 2, stride=2, groups=4),
        inputs=_IMAGE,
        mac=16_384,
        formula="8 x 8 x 16 x 4 x 2 x 2",
    ),
    "depthwise": Case(
        title="depthwise Conv2d(16, 16, 3), 8x8",
        build=lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16),
        inputs=_IMAGE,
        mac=9_216,
        formula="8 x 8 x 16 x 9",
    ),
    "depthwise_train": Case(
        title="the same inside a network, forward and backward",
        build=InnerDepthwise,
        inputs=_IMAGE,
        mac=27_648,
        formula="3 x 9 216",
        train=True,
    ),
    "functional": Case(
        title="functional.conv2d 16 to 16, 3x3, 8x8",
        build=FunctionalConvolution,
        inputs=_IMAGE,
        mac=147_456,
        formula="8 x 8 x 16 x 16 x 9",
    ),
    "embedding": Case(
        title="Embedding(30522, 768), 8 x 128 tokens",
        build=lambda: nn.Embedding(30522, 768),
        inputs=("int64[8,128] < 30522",),
        mac=0,
        formula="rows are copied",
    ),
    "tied": Case(
        title="embedding tied to the head, 1000 x 64, 10 tokens",
        build=Tied,
        inputs=("int64[1,10] < 1000",),
        mac=640_000,
        formula="10 x 64 x 1000",
        params=64_000,
    ),
    "int8": Case(
        title="quantize_dynamic int8 Linear(64, 32), batch 8",
        build=_quantised,
        inputs=("float32[8,64]",),
        mac=16_384,
        formula="8 x 64 x 32",
        params=2_080,
    ),
    "resnet": Case(
        title="resnet18",
        build=_resnet,
        inputs=("float32[1,3,224,224]",),
        mac=1_814_073_344,
        formula="1.814 GMAC as published",
        params=11_689_512,
    ),
}


def __getattr__(name: str) -> Callable[[], Any]:
    if name not in CASES:
        msg = f"there is no case {name!r}"
        raise AttributeError(msg)
    return CASES[name].build
