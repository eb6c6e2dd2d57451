"""Floor 3, worker. Weights that are packed out of sight.

In: a parameter, or what a quantised operator is given. Out: the tensors inside, and how many elements they stand for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import _disable_current_modes

from perfgate.worker import counting


def is_packed(value: Any) -> bool:
    """Whether an argument is a packed weight of a quantised operator."""
    return isinstance(value, torch.ScriptObject) and hasattr(value, "unpack")


def unpacked(value: Any) -> list[Any]:
    """Weight and bias of a packed weight."""
    # Not on fake tensors, which know no quantised ones.
    with suppress(Exception), _disable_current_modes():
        return [leaf if isinstance(leaf, torch.Tensor) else None for leaf in value.unpack()]
    return []


def parts(tensor: Any) -> Iterator[tuple[Any, int | None]]:
    """A tensor, or the plain ones inside a wrapper, each with its logical elements where memory packs them."""
    for inner in counting.inner_tensors(tensor):
        yield inner, counting.logical(inner)
