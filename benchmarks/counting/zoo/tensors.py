"""Real tensors from input specifications (``float32[1,3,224,224]``, ``int64[8,128] < 30522``) for other tools.

perfgate's worker has its own reader of the same texts; other counters and exporters are given tensors made here.
"""

from __future__ import annotations

import re
from typing import Any

import torch

_LEAF = re.compile(r"(?P<dtype>\w+)\[(?P<shape>[\d,]*)\](?: < (?P<bound>\d+))?")


def tensor(text: str, device: str = "cpu") -> Any:
    """One tensor: normal floats, whole numbers below the bound (default 2). Raises ValueError."""
    match = _LEAF.fullmatch(text)
    if match is None:
        msg = f"{text!r} is no input specification"
        raise ValueError(msg)
    dtype = getattr(torch, match["dtype"])
    shape = [int(size) for size in match["shape"].split(",") if size]
    if dtype.is_floating_point:
        return torch.randn(shape, dtype=dtype, device=device)
    return torch.randint(0, int(match["bound"] or 2), shape, device=device).to(dtype)


def tree(specification: Any, device: str = "cpu") -> Any:
    """The same tree with tensors for texts; tuples become lists."""
    if isinstance(specification, dict):
        return {key: tree(item, device) for key, item in specification.items()}
    if isinstance(specification, (list, tuple)):
        return [tree(item, device) for item in specification]
    return tensor(specification, device) if isinstance(specification, str) else specification


def arguments(specification: Any, device: str = "cpu") -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Positional and keyword arguments: a table is keywords, a list positional."""
    made = tree(specification, device)
    return ((), made) if isinstance(made, dict) else (tuple(made), {})
