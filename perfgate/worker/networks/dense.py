"""Floor 3, worker. Networks of matrix products alone: fully connected ones, and tables of embeddings before them.

In: parameters, all whole numbers. Out: modules and their inputs.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

Parameters = dict[str, int]


def fully_connected(given: Parameters) -> nn.Module:
    """``inputs`` features through ``depth`` layers of ``width``; ``normalise`` 1 puts a layer norm after each."""
    return _layers(given["inputs"], given["width"], given["depth"], normalise=given["normalise"])


def features(given: Parameters, batch: int) -> tuple[Any, ...]:
    """Inputs of :func:`fully_connected`."""
    return (torch.randn(batch, given["inputs"]),)


def embedding(given: Parameters) -> nn.Module:
    """``tables`` of ``rows`` x ``dimension``, summed over ``lookups`` indices each, into ``depth`` layers."""
    return _Embedding(given)


def indices(given: Parameters, batch: int) -> tuple[Any, ...]:
    """Inputs of :func:`embedding`: which rows, for every table."""
    return (torch.randint(0, given["rows"], (given["tables"], batch, given["lookups"])),)


def _layers(inputs: int, width: int, depth: int, *, normalise: int) -> Any:
    layers: list[Any] = []
    for number in range(depth):
        layers.append(nn.Linear(inputs if not number else width, width))
        if normalise:
            layers.append(nn.LayerNorm(width))
        layers.append(nn.ReLU())
    return nn.Sequential(*layers)


class _Embedding(nn.Module):  # type: ignore[misc]
    def __init__(self, given: Parameters) -> None:
        super().__init__()
        self.tables = nn.ModuleList(
            nn.EmbeddingBag(given["rows"], given["dimension"], mode="sum") for _ in range(given["tables"])
        )
        joined = given["tables"] * given["dimension"]
        self.layers = _layers(joined, given["width"], given["depth"], normalise=0)

    def forward(self, rows: Any) -> Any:
        found = [table(one) for table, one in zip(self.tables, rows)]  # noqa: B905 - one for each table
        return self.layers(torch.cat(found, 1))
