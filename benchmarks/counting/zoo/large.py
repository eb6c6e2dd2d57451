"""Models of five thousand operators, and variants of the same for comparisons."""

from __future__ import annotations

from typing import Any

import torch
from torch import nn

# Convolution, norm, activation and addition.
_OPERATORS_PER_BLOCK = 4
BLOCKS = 5000 // _OPERATORS_PER_BLOCK


class Block(nn.Module):  # type: ignore[misc]
    """x + relu(norm(conv(x)))."""

    def __init__(self, kernel: int = 3) -> None:
        super().__init__()
        self.conv = nn.Conv2d(8, 8, kernel, padding=kernel // 2)
        self.norm = nn.BatchNorm2d(8)

    def forward(self, x: Any) -> Any:
        return x + torch.relu(self.norm(self.conv(x)))


def deep() -> Any:
    """:data:`BLOCKS` residual blocks: 5 000 operators."""
    return nn.Sequential(*(Block() for _ in range(BLOCKS)))


def one_changed() -> Any:
    """The same with another kernel in one block in the middle."""
    return nn.Sequential(*(Block(5 if number == BLOCKS // 2 else 3) for number in range(BLOCKS)))


def half() -> Any:
    """The first half of the blocks."""
    return nn.Sequential(*(Block() for _ in range(BLOCKS // 2)))


def all_changed() -> Any:
    """Every convolution with another kernel."""
    return nn.Sequential(*(Block(5) for _ in range(BLOCKS)))
