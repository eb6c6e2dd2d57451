"""Floor 3, worker. An operator's arguments by the names of its schema.

In: an operator and what it was called with. Out: tensors by argument name, all other arguments as plain JSON.
"""

from __future__ import annotations

import cmath
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch

_LONGEST_TEXT = 200
_LONGEST_LIST = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Argument:
    """One argument of a schema. ``tensors``: it is a tensor, an optional one or a list of them."""

    name: str
    tensors: bool
    default: Any
    written: bool


@cache
def signature(func: Any) -> tuple[Argument, ...]:
    """Arguments of an operator in the order of its schema."""
    return tuple(
        Argument(
            name=item.name,
            tensors="Tensor" in str(item.type),
            default=item.default_value if item.has_default_value() else None,
            written=item.alias_info is not None and item.alias_info.is_write,
        )
        for item in func._schema.arguments
    )


def bound(func: Any, args: Any, kwargs: Any) -> Iterator[tuple[Argument, Any]]:
    """Every argument of the schema with what it has in a call, its default where it was not given."""
    for position, argument in enumerate(signature(func)):
        if position < len(args):
            yield argument, args[position]
        else:
            yield argument, kwargs.get(argument.name, argument.default)


def plain(value: Any) -> object:
    """A value as JSON: numbers, texts, null, lists (tuples); dtypes, devices and infinities as text."""
    if value is None or isinstance(value, (bool, int)):
        return value
    if isinstance(value, str):
        return value[:_LONGEST_TEXT]
    if isinstance(value, float):
        return value if math.isfinite(value) else str(value)
    if isinstance(value, complex):
        return str(value) if cmath.isfinite(value) else repr(value)
    if isinstance(value, (torch.dtype, torch.layout, torch.memory_format)):
        return str(value).removeprefix("torch.")
    if isinstance(value, torch.device):
        return str(value)
    if isinstance(value, (list, tuple)):
        return tuple(plain(item) for item in value[:_LONGEST_LIST])
    if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
        return _concrete(value)
    return type(value).__name__


def _concrete(value: Any) -> object:
    if isinstance(value, torch.SymInt):
        # The size of a ragged dimension is no number.
        return -1 if value.node.is_nested_int() else int(value)
    return float(value) if isinstance(value, torch.SymFloat) else bool(value)
