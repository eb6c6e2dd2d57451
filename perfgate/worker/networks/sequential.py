"""Floor 3, worker. Networks over sequences: recurrent ones and transformers.

In: parameters, all whole numbers. Out: modules and their inputs. Transformers normalise before each part.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

from perfgate.worker.networks.convolutional import CLASSES, IMAGE_CHANNELS

Parameters = dict[str, int]

GRU = 1


def recurrent(given: Parameters) -> nn.Module:
    """``layers`` of LSTM (``cell`` 0) or GRU (1) over vectors of ``inputs``; ``bidirectional`` 1 runs both ways."""
    return _Recurrent(given)


def vectors(given: Parameters, batch: int) -> tuple[Any, ...]:
    """Inputs of :func:`recurrent`."""
    return (torch.randn(batch, given["sequence"], given["inputs"]),)


def encoder(given: Parameters) -> nn.Module:
    """A transformer encoder over tokens of a ``vocabulary``."""
    return _Transformer(given, causal=False, memory=0)


def decoder(given: Parameters) -> nn.Module:
    """A causal transformer that predicts tokens; ``memory`` > 0: it looks at so many vectors beside the tokens."""
    return _Transformer(given, causal=True, memory=given["memory"])


def tokens(given: Parameters, batch: int) -> tuple[Any, ...]:
    """Inputs of :func:`encoder` and :func:`decoder`."""
    given_tokens = torch.randint(0, given["vocabulary"], (batch, given["sequence"]))
    if not given.get("memory"):
        return (given_tokens,)
    return given_tokens, torch.randn(batch, given["memory"], given["heads"] * given["head_size"])


def patches(given: Parameters) -> nn.Module:
    """A transformer encoder over the square patches of an image, with a class token."""
    return _Patches(given)


class _Recurrent(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters) -> None:
        super().__init__()
        make = nn.GRU if given["cell"] == GRU else nn.LSTM
        self.cells = make(
            given["inputs"],
            given["width"],
            given["layers"],
            batch_first=True,
            bidirectional=bool(given["bidirectional"]),
        )
        self.out = nn.Linear(given["width"] * (1 + given["bidirectional"]), CLASSES)

    def forward(self, x: Any) -> Any:
        return self.out(self.cells(x)[0][:, -1])


class _Attention(nn.Module):  # type: ignore[misc]
    """``memory`` True: keys and values come from elsewhere, so that the products are three instead of one."""

    def __init__(self, given: Parameters, *, causal: bool, memory: bool) -> None:
        super().__init__()
        self.heads, self.causal = given["heads"], causal
        width = given["heads"] * given["head_size"]
        self.query = nn.Linear(width, width if memory else 3 * width)
        self.memory = nn.Linear(width, 2 * width) if memory else None
        self.out = nn.Linear(width, width)

    def forward(self, x: Any, memory: Any = None) -> Any:
        batch, length, width = x.shape
        if self.memory is None:
            query, key, value = self.query(x).chunk(3, -1)
        else:
            query = self.query(x)
            key, value = self.memory(memory).chunk(2, -1)
        split = [
            part.reshape(batch, -1, self.heads, width // self.heads).transpose(1, 2) for part in (query, key, value)
        ]
        mixed = nn.functional.scaled_dot_product_attention(*split, is_causal=self.causal)
        return self.out(mixed.transpose(1, 2).reshape(batch, length, width))


class _Layer(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters, *, causal: bool, memory: bool) -> None:
        super().__init__()
        width = given["heads"] * given["head_size"]
        inner = width * given["expansion"]
        self.attention = _Attention(given, causal=causal, memory=False)
        self.before_attention = nn.LayerNorm(width)
        self.cross = _Attention(given, causal=False, memory=True) if memory else None
        self.before_cross = nn.LayerNorm(width) if memory else None
        self.before_forward = nn.LayerNorm(width)
        self.forward_part = nn.Sequential(nn.Linear(width, inner), nn.GELU(), nn.Linear(inner, width))

    def forward(self, x: Any, memory: Any = None) -> Any:
        x = x + self.attention(self.before_attention(x))
        if self.cross is not None and self.before_cross is not None:
            x = x + self.cross(self.before_cross(x), memory)
        return x + self.forward_part(self.before_forward(x))


class _Transformer(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters, *, causal: bool, memory: int) -> None:
        super().__init__()
        width = given["heads"] * given["head_size"]
        self.words = nn.Embedding(given["vocabulary"], width)
        self.places = nn.Parameter(torch.zeros(given["sequence"], width))
        self.layers = nn.ModuleList(_Layer(given, causal=causal, memory=memory > 0) for _ in range(given["layers"]))
        self.last = nn.LayerNorm(width)
        # What predicts tokens has an output for each word; an encoder is read at its first place.
        self.out = nn.Linear(width, given["vocabulary"], bias=False) if causal else None

    def forward(self, given_tokens: Any, memory: Any = None) -> Any:
        x = self.words(given_tokens) + self.places
        for layer in self.layers:
            x = layer(x, memory)
        x = self.last(x)
        return x[:, 0] if self.out is None else self.out(x)


class _Patches(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters) -> None:
        super().__init__()
        width = given["heads"] * given["head_size"]
        side = given["resolution"] // given["patch"]
        self.cut = nn.Conv2d(IMAGE_CHANNELS, width, given["patch"], given["patch"])
        self.first = nn.Parameter(torch.zeros(1, 1, width))
        self.places = nn.Parameter(torch.zeros(side * side + 1, width))
        self.layers = nn.Sequential(*(_Layer(given, causal=False, memory=False) for _ in range(given["layers"])))
        self.last = nn.LayerNorm(width)
        self.out = nn.Linear(width, CLASSES)

    def forward(self, x: Any) -> Any:
        cut = self.cut(x).flatten(2).transpose(1, 2)
        x = torch.cat((self.first.expand(cut.shape[0], -1, -1), cut), 1) + self.places
        return self.out(self.last(self.layers(x)[:, 0]))
