"""Models in which compute libraries differ, for ``python -m benchmarks.place.real``; each returns a module."""

# mypy: allow-subclassing-any
from __future__ import annotations

import torch
from torch import nn


class Scan(nn.Module):
    """Running sums and powers over long rows between two products."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(256, 1024)
        self.last = nn.Linear(1024, 64)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = torch.cumsum(self.first(x), 1)
        for _ in range(3):
            rows = torch.cumsum(torch.tanh(rows), 1) / 32
        return self.last(torch.pow(rows.abs() + 0.1, 1.7))


class OneRow(nn.Module):
    """Products with one row, which only read weights."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(1536, 1536) for _ in range(4))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.tanh(layer(x))
        return x


class Narrow(nn.Module):
    """Products in bfloat16, running sums in float32 between them."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(512, 512, dtype=torch.bfloat16) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = torch.cumsum(layer(x.to(torch.bfloat16)).to(torch.float32), 1) / 16
        return x


class Softmaxes(nn.Module):
    """Attention written out, with a softmax over long rows."""

    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(192, 576)
        self.out = nn.Linear(192, 192)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for _ in range(2):
            q, k, v = self.qkv(x).view(*x.shape[:2], 3, 6, 32).permute(2, 0, 3, 1, 4).unbind(0)
            weights = torch.softmax(q @ k.transpose(-1, -2) / 5.7, -1)
            x = x + self.out((weights @ v).transpose(1, 2).reshape(x.shape))
        return x


class Depthwise(nn.Module):
    """Large depthwise filters, layer norms and gelu."""

    def __init__(self) -> None:
        super().__init__()
        self.stem = nn.Conv2d(3, 64, 4, stride=4)
        self.depth = nn.ModuleList(nn.Conv2d(64, 64, 7, padding=3, groups=64) for _ in range(3))
        self.norm = nn.ModuleList(nn.LayerNorm(64) for _ in range(3))
        self.wide = nn.ModuleList(nn.Linear(64, 256) for _ in range(3))
        self.narrow = nn.ModuleList(nn.Linear(256, 64) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        x = self.stem(x)
        for depth, norm, wide, narrow in zip(self.depth, self.norm, self.wide, self.narrow, strict=True):
            y = norm(depth(x).permute(0, 2, 3, 1))
            x = x + narrow(nn.functional.gelu(wide(y))).permute(0, 3, 1, 2)
        return x.mean((2, 3))


class Mixed(nn.Module):
    """A convolutional network whose head is running sums: two libraries are each best at half of it."""

    def __init__(self) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(3, 48, 3, padding=1), nn.ReLU(), nn.Conv2d(48, 48, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.out = nn.Linear(48, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        rows = self.body(x).flatten(2)
        for _ in range(4):
            rows = torch.cumsum(rows, 2) / 64
        return self.out(torch.pow(rows.abs() + 0.1, 1.5).mean(2))


class Scans(nn.Module):
    """Convolutions, and running sums over rows and columns after each, as selective scans of images have them."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, 32, 3, padding=1)
        self.second = nn.Conv2d(32, 32, 3, padding=1)
        self.out = nn.Linear(32, 10)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in (self.first, self.second):
            x = torch.relu(layer(x))
            for dimension in (2, 3):
                x = torch.cumsum(x, dimension) / 56
        return self.out(x.mean((2, 3)))


class Recurrent(nn.Module):
    """An LSTM between an embedding-sized product and a head."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(64, 128)
        self.lstm = nn.LSTM(128, 128, batch_first=True)
        self.last = nn.Linear(128, 32)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.last(self.lstm(torch.relu(self.first(x)))[0])


def scan() -> nn.Module:
    return Scan()


def one_row() -> nn.Module:
    return OneRow()


def softmaxes() -> nn.Module:
    return Softmaxes()


def depthwise() -> nn.Module:
    return Depthwise()


def mixed() -> nn.Module:
    return Mixed()


def scans() -> nn.Module:
    return Scans()


def recurrent() -> nn.Module:
    return Recurrent()


def narrow() -> nn.Module:
    return Narrow()
