"""Small real models: a residual network and a transformer, with a knob for each kind of change."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812
from torch.utils.checkpoint import checkpoint

from perfgate.graph.build import build
from perfgate.records.graph import Graph
from perfgate.worker.tracing import trace_callable


def images(size: int = 16) -> Any:
    return torch.zeros(2, 3, size, size)


def tokens() -> Any:
    return torch.zeros(2, 8, dtype=torch.int64)


def graph_of(model: Any, *given: Any, train: bool = False, real: bool = False, modes: bool = False) -> Graph:
    """The counted graph of one call. ``modes`` True: leave the modules in the modes that they are in."""
    if not modes:
        model.train(train)
    return build(trace_callable(model, given, train=train, real=real))


class Block(nn.Module):  # type: ignore[misc]
    """Convolution, norm, activation, convolution, norm, sum; ``before`` runs on what the second convolution reads."""

    def __init__(self, width: int = 16, norm: Callable[[int], Any] = nn.BatchNorm2d, act: Any = None) -> None:
        super().__init__()
        self.conv1 = nn.Conv2d(width, width, 3, padding=1)
        self.bn1 = norm(width)
        self.act1 = act or nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1)
        self.bn2 = nn.BatchNorm2d(width)
        self.act2 = nn.ReLU(inplace=True)

    def before(self, y: Any, x: Any) -> Any:
        return y

    def forward(self, x: Any) -> Any:
        y = self.act1(self.bn1(self.conv1(x)))
        y = self.bn2(self.conv2(self.before(y, x)).to(x.dtype))
        y += x
        return self.act2(y)


class Residual(nn.Module):  # type: ignore[misc]
    """Stem, three blocks, mean, classifier."""

    def __init__(self, width: int = 16, block: type[Block] = Block, **options: Any) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, width, 3, padding=1)
        self.blocks = nn.Sequential(*(block(width, **options) for _ in range(3)))
        self.fc = nn.Linear(width, 10)

    def forward(self, x: Any) -> Any:
        return self.fc(self.blocks(self.stem(x)).mean((2, 3)))


class InFloat(Block):
    """The second convolution in float32, whatever the others are in."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(width)
        self.conv2.float()

    def before(self, y: Any, x: Any) -> Any:
        return y.float()


class Wide(Block):
    """Reads its input a second time beside its own features."""

    def __init__(self, width: int = 16) -> None:
        super().__init__(width)
        self.conv2 = nn.Conv2d(2 * width, width, 3, padding=1)

    def before(self, y: Any, x: Any) -> Any:
        return torch.cat([y, x], 1)


class Attention(nn.Module):  # type: ignore[misc]
    """Self-attention: by hand, as torch has it, or head after head."""

    def __init__(self, width: int, form: str) -> None:
        super().__init__()
        self.qkv = nn.Linear(width, 3 * width)
        self.proj = nn.Linear(width, width)
        self.form = form

    def forward(self, x: Any) -> Any:
        batch, length, width = x.shape
        q, k, v = self.qkv(x).view(batch, length, 3, 4, width // 4).permute(2, 0, 3, 1, 4)
        scale = (width // 4) ** -0.5
        if self.form == "torch":
            y = F.scaled_dot_product_attention(q, k, v)
        elif self.form == "loop":
            heads = [torch.softmax(q[:, i] @ k[:, i].transpose(-1, -2) * scale, -1) @ v[:, i] for i in range(4)]
            y = torch.stack(heads, 1)
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) * scale, -1) @ v
        return self.proj(y.transpose(1, 2).reshape(batch, length, width))


class Layer(nn.Module):  # type: ignore[misc]
    """Pre-norm transformer layer."""

    def __init__(self, width: int, hidden: int, form: str, act: Any) -> None:
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attn = Attention(width, form)
        self.norm2 = nn.LayerNorm(width)
        self.fc1 = nn.Linear(width, hidden)
        self.act = act or nn.GELU()
        self.fc2 = nn.Linear(hidden, width)
        self.drop = nn.Dropout(0.1)

    def inner(self, x: Any) -> Any:
        return self.act(self.fc1(x))

    def forward(self, x: Any) -> Any:
        x = x + self.attn(self.norm1(x))
        return x + self.drop(self.fc2(self.inner(self.norm2(x))))


class LayerInFloat(Layer):
    """The activation in float32."""

    def inner(self, x: Any) -> Any:
        return self.act(self.fc1(x).float()).to(x.dtype)


class Unfused(nn.Module):  # type: ignore[misc]
    """A linear layer whose bias is an addition of its own."""

    def __init__(self, width: int, hidden: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(hidden, width))
        self.bias = nn.Parameter(torch.zeros(hidden))

    def forward(self, x: Any) -> Any:
        return x @ self.weight.t() + self.bias


class Decoder(nn.Module):  # type: ignore[misc]
    """Embedding, layers, norm, head that shares the embedding's weight."""

    def __init__(
        self,
        *,
        layers: int = 3,
        width: int = 32,
        hidden: int = 64,
        form: str = "hand",
        act: Any = None,
        layer: type[Layer] = Layer,
        tied: bool = True,
    ) -> None:
        super().__init__()
        self.emb = nn.Embedding(100, width)
        self.layers = nn.ModuleList(layer(width, hidden, form, act) for _ in range(layers))
        self.norm = nn.LayerNorm(width)
        self.head = nn.Linear(width, 100, bias=False)
        if tied:
            self.head.weight = self.emb.weight

    def each(self, layer: Any, x: Any) -> Any:
        return layer(x)

    def forward(self, given: Any) -> Any:
        x = self.emb(given)
        for layer in self.layers:
            x = self.each(layer, x)
        return self.head(self.norm(x))


class Checkpointed(Decoder):
    def each(self, layer: Any, x: Any) -> Any:
        return checkpoint(layer, x, use_reentrant=False)


class Waiting(Decoder):
    """Looks at a value after each layer."""

    def each(self, layer: Any, x: Any) -> Any:
        x = layer(x)
        if x.abs().max().item() > 1e9:
            raise ValueError
        return x


class Branching(Decoder):
    """Takes a branch by a value: torch.compile has to break the graph there."""

    def each(self, layer: Any, x: Any) -> Any:
        return layer(x) if (x.mean() < 1e9) else x


class Twice(Decoder):
    """Runs the second layer a second time."""

    def each(self, layer: Any, x: Any) -> Any:
        x = layer(x)
        return layer(x) if layer is self.layers[1] else x


class DropsAlways(Decoder):
    """Dropout by the function, which does not know of eval()."""

    def each(self, layer: Any, x: Any) -> Any:
        return F.dropout(layer(x), 0.1)
