"""Floor 3, worker. A model's own arguments as a flat list, and its results out of one. No perfgate.

In: the trees of ``interface.json``. Raises ValueError, with what to do, where arguments have another structure.
"""

from __future__ import annotations

import importlib
from collections.abc import Sequence
from typing import Any


def flatten(tree: Any, value: Any) -> list[Any]:
    """Tensors of ``value`` in the order of the model's inputs. Raises ValueError where it has another structure."""
    found: dict[int, Any] = {}
    if tree["kind"] == "inputs":
        value = _named(list(tree["items"]), value["args"], value["kwargs"])
    _walk(tree, value, "", found)
    return [found[number] for number in sorted(found)]


def _named(names: list[str], args: Sequence[Any], kwargs: dict[str, Any]) -> dict[str, Any]:
    """Inputs of an ONNX model, given by position or by name."""
    if len(args) > len(names):
        message = f"{len(args)} values are given, and the model has {len(names)} inputs: {', '.join(names)}"
        raise ValueError(message)
    return {**dict(zip(names, args, strict=False)), **kwargs}


def _walk(tree: Any, value: Any, path: str, found: dict[int, Any]) -> None:
    kind = tree["kind"]
    if kind == "value":
        if tree["number"] is not None:
            found[tree["number"]] = value
        return
    if kind == "constant":
        if value != tree["value"]:
            message = f"{path or 'the argument'} is {value!r}, and this plan was made for {tree['value']!r}"
            raise ValueError(message)
        return
    parts = tree["items"]
    inner = _children(tree, value, path)
    for (key, part), child in zip(parts.items() if isinstance(parts, dict) else enumerate(parts), inner, strict=True):
        name = f"{path}[{key!r}]" if path else str(key)
        _walk(part, child, "" if not path and key in {"args", "kwargs"} else name, found)


def _children(tree: Any, value: Any, path: str) -> list[Any]:
    parts = tree["items"]
    if isinstance(parts, dict):
        keys = list(parts)
        given = value if isinstance(value, dict) else {key: getattr(value, key, None) for key in keys}
        if set(given) != set(keys):
            shown = [", ".join(map(str, names)) or "nothing" for names in (keys, given)]
            message = f"{path or 'arguments'}: expected {shown[0]}, found {shown[1]}"
            raise ValueError(message)
        return [given[key] for key in keys]
    if len(value) != len(parts):
        message = f"{path or 'arguments'}: expected {len(parts)} positional values, found {len(value)}"
        raise ValueError(message)
    return list(value)


def unflatten(tree: Any, values: Sequence[Any]) -> Any:
    """The model's results in its own containers."""
    kind = tree["kind"]
    if kind == "value":
        return values[tree["number"]]
    if kind == "constant":
        return tree["value"]
    parts = tree["items"]
    if isinstance(parts, dict):
        built = {key: unflatten(part, values) for key, part in parts.items()}
        return built if kind == "dict" else _class(kind)(**built)
    items = [unflatten(part, values) for part in parts]
    if kind == "list":
        return items
    return tuple(items) if kind == "tuple" else _class(kind)(*items)


def _class(path: str) -> Any:
    module, _, name = path.partition(":")
    found: Any = importlib.import_module(module)
    for part in name.split("."):
        found = getattr(found, part)
    return found
