"""Floor 3, worker. The same model for a while with other tensors, so that tracing leaves nothing behind in it.

In: modules and what stands for their tensors. Out: nothing; at the end all is as it was, also after an exception.
"""

from __future__ import annotations

import copy
import random
import sys
from collections import deque
from collections.abc import Callable, Iterator, MutableMapping, MutableSequence, MutableSet
from contextlib import ExitStack, contextmanager
from typing import Any

import torch

Substitute = Callable[[Any], Any]

# Tables of torch.nn.Module itself.
_OWN = frozenset(vars(torch.nn.Module()))
_CONTAINERS = (list, dict, set, deque, tuple)
_DEEPEST = 6


def children_of(roots: list[Any]) -> list[Any]:
    """Every module in and below ``roots`` once; of compiled TorchScript only its topmost modules."""
    found: dict[int, Any] = {}
    hidden: set[int] = set()
    for root in roots:
        for child in root.modules():
            if isinstance(child, torch.jit.ScriptModule):
                hidden.update(id(inner) for inner in child.modules() if inner is not child)
            found.setdefault(id(child), child)
    return [child for key, child in found.items() if key not in hidden]


@contextmanager
def standing_in(roots: list[Any], substitute: Substitute, *, scripts: Callable[[Any], Any]) -> Iterator[None]:
    """Modules in and below ``roots`` with substitutes for their tensors.

    Attributes of each submodule are put back at the end, also those that a forward pass sets itself (caches,
    counters, lists that grow). ``scripts`` gives the substitute of a whole TorchScript module.
    """
    children = children_of(roots)
    known: dict[int, tuple[Any, Any]] = {}
    with ExitStack() as stack:
        for child in children:
            stack.callback(_Kept(child).restore)
        for child in children:
            if isinstance(child, torch.jit.ScriptModule):
                continue
            for table in (child._parameters, child._buffers):
                table.update({name: substitute(tensor) for name, tensor in table.items() if tensor is not None})
            for name, inner in child._modules.items():
                if isinstance(inner, torch.jit.ScriptModule):
                    child._modules[name] = scripts(inner)
            for name, value in list(vars(child).items()):
                if name not in _OWN:
                    vars(child)[name] = _private(value, substitute, known)
        yield


class _Kept:
    """A module as it was."""

    def __init__(self, module: Any) -> None:
        self._module = module
        self._class = type(module)
        script = isinstance(module, torch.jit.ScriptModule)
        self._gradients = [(p, p.grad) for p in module.parameters(recurse=script)]
        self._attributes: dict[str, Any] = {}
        self._tables: dict[str, Any] = {}
        if not script:
            self._attributes = dict(vars(module))
            own = ((name, vars(module).get(name)) for name in _OWN)
            self._tables = {name: copy.copy(table) for name, table in own if isinstance(table, (dict, set))}

    def restore(self) -> None:
        for parameter, gradient in self._gradients:
            if parameter.grad is not gradient:
                parameter.grad = gradient
        if not self._attributes:
            return
        if type(self._module) is not self._class:
            self._module.__class__ = self._class
        vars(self._module).clear()
        vars(self._module).update(self._attributes)
        for name, saved in self._tables.items():
            table = vars(self._module)[name]
            table.clear()
            table.update(saved)


def _private(value: Any, substitute: Substitute, known: dict[int, tuple[Any, Any]], depth: int = 0) -> Any:
    """A copy of a container, and of those in it, with substitutes for tensors; everything else is the same object.

    What is shared stays shared.
    """
    if isinstance(value, torch.Tensor):
        return substitute(value)
    if not isinstance(value, _CONTAINERS) or depth > _DEEPEST or hasattr(value, "_fields"):
        return value
    if id(value) in known:
        return known[id(value)][1]
    try:
        made = copy.copy(value)
        known[id(value)] = (value, made)
        _fill(made, value, lambda item: _private(item, substitute, known, depth + 1))
    except Exception:
        # A container with a will of its own: better the original than a broken one.
        known[id(value)] = (value, value)
        return value
    if isinstance(made, tuple):
        items = tuple(_private(item, substitute, known, depth + 1) for item in value)
        made = value if all(new is old for new, old in zip(items, value, strict=True)) else items
        known[id(value)] = (value, made)
    return made


def _fill(made: Any, value: Any, private: Callable[[Any], Any]) -> None:
    if isinstance(made, MutableMapping):
        for key, item in value.items():
            new = private(item)
            if new is not item:
                made[key] = new
    elif isinstance(made, MutableSequence):
        for index, item in enumerate(value):
            new = private(item)
            if new is not item:
                made[index] = new
    elif isinstance(made, MutableSet):
        return


@contextmanager
def generators_kept() -> Iterator[None]:
    """Python's, numpy's and torch's random generators are as before at the end."""
    numpy: Any = sys.modules.get("numpy")
    python = random.getstate()
    arrays = numpy.random.get_state() if numpy is not None and hasattr(numpy, "random") else None
    gpus = list(range(torch.cuda.device_count())) if torch.cuda.is_initialized() else []
    with torch.random.fork_rng(devices=gpus):
        try:
            yield
        finally:
            random.setstate(python)
            if arrays is not None:
                numpy.random.set_state(arrays)
