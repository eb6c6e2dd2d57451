"""Floor 3, worker. Tensors of any library as NumPy arrays and back, without copies on the CPU. No perfgate."""

from __future__ import annotations

from typing import Any


def to_numpy(value: Any) -> Any:
    """A contiguous array that shares the memory of ``value`` where it lies on the CPU in that order."""
    import numpy as np

    if isinstance(value, np.ndarray):
        return np.asarray(value, order="C")
    if hasattr(value, "detach"):
        return value.detach().cpu().contiguous().numpy()
    if hasattr(value, "numpy"):
        return np.asarray(value.numpy(), order="C")
    return np.asarray(value, order="C")


def to_torch(value: Any, device: Any) -> Any:
    """A tensor on ``device`` that shares the memory of ``value`` where it lies there."""
    import torch

    if isinstance(value, torch.Tensor):
        return value if value.device == device else value.to(device)
    array = to_numpy(value)
    # torch warns of memory that it must not write to.
    tensor = torch.from_numpy(array if array.flags.writeable else array.copy())
    return tensor if device.type == "cpu" else tensor.to(device)
