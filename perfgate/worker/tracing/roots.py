"""Floor 3, worker. The modules that a step uses, by path.

In: a module, or any callable. Out: path -> module; the model itself has the empty path. A callable's modules are
those in its attributes, its closure, its defaults and bound arguments, and the globals that its code names.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Iterator
from typing import Any

import torch

_DEEPEST = 3


def of(*callables: Any) -> dict[str, Any]:
    """Modules of ``callables`` that no other of them holds."""
    found: dict[str, Any] = {}
    seen: set[int] = set()
    for thing in callables:
        for path, module in _modules(thing, "", 0, set()):
            if id(module) not in seen:
                seen.update(id(child) for child in module.modules())
                found.setdefault(path, module)
    return found


def _modules(thing: Any, path: str, depth: int, above: set[int]) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, torch.nn.Module):
        yield path, thing
        yield from _unregistered(thing, path)
        return
    if thing is None or isinstance(thing, (str, bytes, int, float, torch.Tensor, type)) or depth > _DEEPEST:
        return
    if id(thing) in above:
        return
    above.add(id(thing))
    for name, inner in _inside(thing):
        yield from _modules(inner, ".".join(part for part in (path, name) if part), depth + 1, above)


def _unregistered(module: Any, path: str) -> Iterator[tuple[str, Any]]:
    """Modules that a module holds where torch does not look: in plain lists, or put past its attribute setter."""
    for inner, child in module.named_modules():
        if isinstance(child, torch.jit.ScriptModule):
            continue
        for name, value in vars(child).items():
            if name == "_modules" or not isinstance(value, (torch.nn.Module, list, tuple, dict)):
                continue
            full = ".".join(part for part in (path, inner, name) if part)
            if isinstance(value, torch.nn.Module):
                yield full, value
                continue
            items = value.items() if isinstance(value, dict) else enumerate(value)
            yield from ((f"{full}.{key}", item) for key, item in items if isinstance(item, torch.nn.Module))


def _inside(thing: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(thing, functools.partial):
        yield "", thing.func
        yield from ((str(n), item) for n, item in enumerate(thing.args))
        yield from thing.keywords.items()
    elif inspect.ismethod(thing):
        yield "", thing.__self__
    elif inspect.isfunction(thing):
        yield from _of_function(thing)
    elif isinstance(thing, dict):
        yield from ((str(key), item) for key, item in thing.items())
    elif isinstance(thing, (list, tuple)):
        yield from ((str(n), item) for n, item in enumerate(thing))
    elif not inspect.ismodule(thing) and hasattr(thing, "__dict__"):
        yield from vars(thing).items()


def _of_function(function: Any) -> Iterator[tuple[str, Any]]:
    plain = inspect.unwrap(function)
    if not inspect.isfunction(plain):
        # A module inside a decorator.
        yield "", plain
        return
    for name, cell in zip(plain.__code__.co_freevars, plain.__closure__ or (), strict=True):
        try:
            yield name, cell.cell_contents
        except ValueError:
            continue
    yield from ((str(n), item) for n, item in enumerate(plain.__defaults__ or ()))
    yield from (plain.__kwdefaults__ or {}).items()
    for name in plain.__code__.co_names:
        value = plain.__globals__.get(name)
        # Only modules themselves: what else globals hold is no part of this callable.
        if isinstance(value, torch.nn.Module):
            yield name, value
