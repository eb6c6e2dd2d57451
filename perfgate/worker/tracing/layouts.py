"""Floor 3, worker. Layouts that operators have on a device and torch's shapes-only versions forget.

In: a result without contents. Out: the same in the layout that the operator gives it on the CPU and on GPUs. Without
it everything behind a convolution would seem contiguous, and a model that has lost ``channels_last`` unchanged.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch._prims_common import suggest_memory_format

_FORMATS = {4: torch.channels_last, 5: torch.channels_last_3d}


def settled(func: Any, args: Any, result: Any) -> Any:
    """``result`` of ``func`` on ``args``, laid out as on a device; only results on meta are ever changed."""
    name = func._schema.name
    if name == "aten::convolution":
        return _laid_out(result, args[0], args[1])
    if name == "aten::convolution_backward":
        # Gradients lie as what they are gradients of.
        return (_laid_out(result[0], args[1]), _laid_out(result[1], args[2]), *result[2:])
    return result


def sparse(tensors: Mapping[str, list[Any]]) -> dict[str, object]:
    """``mat1_layout``: ``sparse_csr``, for each argument that is sparse: its sizes alone look like a dense one's."""
    words = {
        f"{name}_layout": str(leaf.layout).removeprefix("torch.")
        for name, leaves in tensors.items()
        for leaf in leaves
        if isinstance(leaf, torch.Tensor)
    }
    return {name: word for name, word in words.items() if word.startswith("sparse")}


def _laid_out(result: Any, *given: Any) -> Any:
    if not isinstance(result, torch.Tensor) or not result.is_meta:
        return result
    wanted = _FORMATS.get(result.dim())
    if wanted is None or not any(_last(tensor, wanted) for tensor in given):
        return result
    return torch.empty_like(result, memory_format=wanted)


def _last(tensor: Any, wanted: Any) -> bool:
    """Whether torch takes a tensor's channels to come last; with one of them or one place both readings fit."""
    there = isinstance(tensor, torch.Tensor) and tensor.dim() in _FORMATS
    return there and suggest_memory_format(tensor) is wanted
