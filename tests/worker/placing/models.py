"""Small torch models with what makes placement hard, each with its inputs."""

# mypy: allow-subclassing-any
from __future__ import annotations

import torch
from torch import nn


class Residual(nn.Module):
    """Convolutions with normalisation, a shortcut, pooling and a classifier; two equal blocks."""

    def __init__(self):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.one = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.two = nn.Sequential(nn.Conv2d(8, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.head = nn.Linear(8, 5)

    def forward(self, x):
        x = self.stem(x)
        x = torch.relu(self.one(x) + x)
        x = torch.relu(self.two(x) + x)
        return self.head(x.mean((2, 3)))


class Attention(nn.Module):
    """Queries, keys, values, a mask by keyword, two results by name."""

    def __init__(self):
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.qkv = nn.Linear(16, 48)
        self.out = nn.Linear(16, 16)

    def forward(self, x, *, mask):
        q, k, v = self.qkv(self.norm(x)).chunk(3, dim=-1)
        q, k, v = (t.unflatten(-1, (4, 4)).transpose(1, 2) for t in (q, k, v))
        mixed = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        y = self.out(mixed.transpose(1, 2).flatten(2))
        return {"hidden": x + y, "pooled": torch.tanh(y[:, 0])}


class Chain(nn.Module):
    """Operators that libraries differ in, one after the other, with a table that is made anew in each call."""

    def __init__(self):
        super().__init__()
        self.mix = nn.Linear(32, 32)

    def forward(self, x):
        x = self.mix(x) * torch.arange(32, dtype=torch.float32) / 32
        x = torch.cumsum(x, dim=1)
        return torch.pow(torch.sigmoid(x), 1.7)


class Tied(nn.Module):
    """One matrix looks words up and scores them."""

    def __init__(self):
        super().__init__()
        self.words = nn.Embedding(40, 16)
        self.inner = nn.Linear(16, 16)
        self.score = nn.Linear(16, 40, bias=False)
        self.score.weight = self.words.weight

    def forward(self, ids):
        return self.score(torch.tanh(self.inner(self.words(ids))))


class Recurrent(nn.Module):
    """A recurrent layer whose results are a tuple inside the graph."""

    def __init__(self):
        super().__init__()
        self.rnn = nn.LSTM(8, 12, batch_first=True)
        self.head = nn.Linear(12, 3)

    def forward(self, x):
        y, (hidden, _) = self.rnn(x)
        return self.head(y), hidden


class Counting(nn.Module):
    """Keeps a sum from call to call."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 4)
        self.last = nn.Linear(4, 4)
        self.register_buffer("total", torch.zeros(4))

    def forward(self, x):
        x = self.first(x)
        self.total.add_(x.sum(0))
        return self.last(x + self.total)


class Branching(nn.Module):
    """Control flow that depends on values."""

    def forward(self, x):
        return x + 1 if x.sum() > 0 else x - 1


def made(name):
    """A model in eval mode with positional and keyword arguments, always the same."""
    torch.manual_seed(0)
    model = {one.__name__: one for one in (Residual, Attention, Chain, Tied, Recurrent, Counting, Branching)}[name]()
    for child in model.modules():
        if isinstance(child, nn.BatchNorm2d):
            child.running_mean.normal_()
            child.running_var.uniform_(0.5, 2)
    arguments = {
        "Residual": (torch.randn(2, 3, 12, 12),),
        "Attention": (torch.randn(2, 6, 16),),
        "Chain": (torch.randn(4, 32),),
        "Tied": (torch.randint(0, 40, (2, 5)),),
        "Recurrent": (torch.randn(2, 5, 8),),
        "Counting": (torch.randn(3, 4),),
        "Branching": (torch.randn(3),),
    }[name]
    keywords = {"mask": torch.randn(6, 6)} if name == "Attention" else {}
    return model.eval(), arguments, keywords
