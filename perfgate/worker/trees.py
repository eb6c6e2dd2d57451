"""Floor 3, worker. Walks any nesting of tensors: inputs and outputs of models.

In: lists, tuples, named tuples, mappings and dataclasses, nested at will. Out: their leaves with paths, or
a copy in which tensors are replaced. Everything else is a leaf and stays the same object.
"""

from __future__ import annotations

import copy
import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch


def leaves(tree: object, path: str = "") -> Iterator[tuple[str, object]]:
    """Every leaf with its path (``[0].logits``), in a fixed order; a container met again is passed over."""
    yield from _leaves(tree, path, set())


def _leaves(tree: object, path: str, above: set[int]) -> Iterator[tuple[str, object]]:
    children = _children(tree)
    if children is None:
        yield path or ".", tree
        return
    if id(tree) in above:
        return
    inner = above | {id(tree)}
    for name, child in children:
        yield from _leaves(child, path + name, inner)


def tensors(tree: object) -> Iterator[tuple[str, Any]]:
    """The leaves that are tensors."""
    for path, leaf in leaves(tree):
        if isinstance(leaf, torch.Tensor):
            yield path, leaf


def map_tensors(function: Callable[[Any], Any], tree: object) -> Any:
    """A tree of the same types with ``function`` applied to each tensor.

    What is shared inside the tree stays shared; a part in which nothing changed is the same object as before.
    """
    return _map(function, tree, {})


def _map(function: Callable[[Any], Any], tree: Any, done: dict[int, tuple[Any, Any]]) -> Any:
    if id(tree) in done:
        return done[id(tree)][1]
    if isinstance(tree, torch.nn.utils.rnn.PackedSequence):
        result = _map_packed(function, tree)
    elif isinstance(tree, torch.Tensor):
        result = function(tree)
    else:
        children = _children(tree)
        if children is None:
            return tree
        done[id(tree)] = (tree, tree)
        before = [child for _, child in children]
        after = [_map(function, child, done) for child in before]
        same = all(old is new for old, new in zip(before, after, strict=True))
        result = tree if same else _rebuild(tree, after)
    # Keeps the old object too, so that its id cannot be given to another one meanwhile.
    done[id(tree)] = (tree, result)
    return result


def _map_packed(function: Callable[[Any], Any], packed: Any) -> Any:
    # Its lengths must stay on the CPU, which only its own method knows.
    moved = function(packed.data)
    return packed if moved is packed.data else packed.to(device=moved.device, dtype=moved.dtype)


def _children(tree: Any) -> list[tuple[str, Any]] | None:
    if isinstance(tree, Mapping):
        return [(f"[{key!r}]", value) for key, value in tree.items()]
    if isinstance(tree, (list, tuple)):
        names = getattr(tree, "_fields", None)
        if isinstance(tree, tuple) and names is not None:
            return [(f".{name}", value) for name, value in zip(names, tree, strict=False)]
        return [(f"[{index}]", value) for index, value in enumerate(tree)]
    if dataclasses.is_dataclass(tree) and not isinstance(tree, type):
        return [(f".{f.name}", getattr(tree, f.name)) for f in dataclasses.fields(tree) if hasattr(tree, f.name)]
    return None


def _rebuild(tree: Any, values: list[Any]) -> Any:
    if isinstance(tree, Mapping):
        changed = copy.copy(tree)
        for key, value in zip(list(tree), values, strict=True):
            changed[key] = value  # type: ignore[index]
        return changed
    if isinstance(tree, tuple):
        make = getattr(tree, "_make", None)
        return make(values) if make is not None else type(tree)(values)
    if isinstance(tree, list):
        changed_list = copy.copy(tree)
        changed_list[:] = values
        return changed_list
    # copy and not dataclasses.replace: __init__ and __post_init__ may compute or forbid fields.
    record = copy.copy(tree)
    names = [f.name for f in dataclasses.fields(tree) if hasattr(tree, f.name)]
    for name, value in zip(names, values, strict=True):
        object.__setattr__(record, name, value)
    return record
