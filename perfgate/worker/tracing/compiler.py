"""Floor 3, worker. torch's compiler is not imported for what does not compile.

In: nothing. Out: a context in which torch's own functions that only exempt themselves from compilation do so without
``torch._dynamo``, whose import takes seconds; whoever wants more of it gets the real one.
"""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib.abc import Loader
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

import torch

_NAME = "torch._dynamo"
# Where torch remembers that a function has been exempted.
_MARK = "__dynamo_disable"


class _Placeholder(ModuleType):
    """Stands for the compiler until something else than ``disable`` is wanted of it."""

    def __init__(self) -> None:
        super().__init__(_NAME)
        self.__path__: list[str] = []
        self.exempted: list[Any] = []

    def disable(self, fn: Any = None, *_: object, **__: object) -> Any:
        """Nothing is compiled meanwhile, so that a function is as good as its exempted self."""
        if fn is None:
            return self.disable
        self.exempted.append(fn)
        return fn

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") and name.endswith("__"):
            # Whoever looks through all modules (``inspect`` does, in the middle of imports) wants no compiler.
            raise AttributeError(name)
        return getattr(self.give_way(), name)

    def give_way(self) -> ModuleType:
        """Import the real one in the placeholder's stead."""
        self.remove()
        return importlib.import_module(_NAME)

    def remove(self) -> None:
        """Forget the placeholder and all that it said."""
        if sys.modules.get(_NAME) is self:
            del sys.modules[_NAME]
        if vars(torch).get("_dynamo") is self:
            del torch._dynamo
        for fn in self.exempted:
            if getattr(fn, _MARK, None) is fn:
                delattr(fn, _MARK)
        self.exempted.clear()


class _Finder:
    """Importing a part of the compiler imports the real one first."""

    def __init__(self, placeholder: _Placeholder) -> None:
        self._placeholder = placeholder

    def find_spec(self, name: str, _path: object = None, _target: object = None) -> ModuleSpec | None:
        if not name.startswith(f"{_NAME}.") or sys.modules.get(_NAME) is not self._placeholder:
            return None
        self._placeholder.give_way()
        importlib.import_module(name)
        return ModuleSpec(name, _Loaded())


class _Loaded(Loader):
    """Gives a module that is there already."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return sys.modules[spec.name]

    def exec_module(self, _module: ModuleType) -> None:
        return None


@contextmanager
def deferred() -> Iterator[None]:
    """Nothing to do where the compiler is there."""
    if _NAME in sys.modules:
        yield
        return
    placeholder = _Placeholder()
    finder: Any = _Finder(placeholder)
    sys.modules[_NAME] = placeholder
    torch._dynamo = placeholder
    sys.meta_path.insert(0, finder)
    try:
        yield
    finally:
        sys.meta_path.remove(finder)
        placeholder.remove()
