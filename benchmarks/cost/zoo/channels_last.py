"""Models in the memory format ``channels_last``, as timm's tables marked nhwc ran them."""

from __future__ import annotations

from typing import Any

import torch


class ChannelsLast(torch.nn.Module):  # type: ignore[misc]
    """``module`` with its weights in that memory format, given images in it: a view of the input, not a kernel."""

    def __init__(self, module: torch.nn.Module) -> None:
        super().__init__()
        self.module = module.to(memory_format=torch.channels_last)

    def forward(self, images: torch.Tensor) -> Any:
        """The same shape over the same storage, channels innermost."""
        n, c, height, width = images.shape
        return self.module(images.reshape(n, height, width, c).permute(0, 3, 1, 2))
