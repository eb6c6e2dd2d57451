"""Floor 3, worker. Arguments and results of a torch model as a tree that a deployed folder understands.

In: torch's descriptions of containers. Out: JSON: ``value`` (a tensor's number), ``constant``, and containers with
their items. Raises WorkerError, ``unsupported``, for a container that JSON cannot name.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from perfgate.worker.failures import refuse


class _Leaf:
    """Stands for one flat value."""

    def __init__(self, number: int | None, value: object = None) -> None:
        self.number = number
        self.value = value


def arguments(spec: Any, flat: Sequence[Any], used: Sequence[bool], name: str) -> dict[str, Any]:
    """Tree of (args, kwargs); flat values that are tensors are numbered as far as they are ``used``."""
    leaves: list[_Leaf] = []
    count = 0
    for value, read in zip(flat, used, strict=True):
        tensor = isinstance(value, torch.Tensor)
        leaves.append(_Leaf(count if tensor and read else None, value))
        count += tensor and read
    args, kwargs = pytree.tree_unflatten(leaves, spec)
    return {
        "kind": "dict",
        "items": {
            "args": {"kind": "list", "items": [_tree(item, name) for item in args]},
            "kwargs": {"kind": "dict", "items": {key: _tree(item, name) for key, item in kwargs.items()}},
        },
    }


def results(spec: Any, values: Sequence[Any], name: str) -> dict[str, Any]:
    """Tree of what the model returns; ``values``: a name for a tensor, anything else as it is."""
    leaves = []
    count = 0
    for value in values:
        tensor = isinstance(value, str)
        leaves.append(_Leaf(count if tensor else None, value))
        count += tensor
    return _tree(pytree.tree_unflatten(leaves, spec), name)


def _tree(value: Any, name: str) -> dict[str, Any]:
    if isinstance(value, _Leaf):
        if value.number is not None or isinstance(value.value, torch.Tensor):
            return {"kind": "value", "number": value.number}
        if value.value is None or isinstance(value.value, (bool, int, float, str)):
            return {"kind": "constant", "value": value.value}
        return _refuse(value.value, name)
    if value is None:
        return {"kind": "constant", "value": None}
    if isinstance(value, Mapping):
        kind = "dict" if type(value) is dict else _path(value)
        if not all(isinstance(key, str) for key in value):
            return _refuse(value, name)
        return {"kind": kind, "items": {key: _tree(item, name) for key, item in value.items()}}
    if isinstance(value, (list, tuple)):
        plain = {list: "list", tuple: "tuple"}.get(type(value))
        return {"kind": plain or _path(value), "items": [_tree(item, name) for item in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
        return {"kind": _path(value), "items": {key: _tree(item, name) for key, item in fields.items()}}
    return _refuse(value, name)


def _path(value: object) -> str:
    return f"{type(value).__module__}:{type(value).__qualname__}"


def _refuse(value: object, name: str) -> dict[str, Any]:
    message = f"models.{name}: a {type(value).__name__} among its arguments or results cannot be deployed; "
    refuse("unsupported", "build", f"{message}use tensors, numbers, lists, tuples and dicts with names as keys")
