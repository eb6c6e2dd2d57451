"""Floor 3, worker. Which module imports which, recorded while it happens; so that a model is touched by its own
modules only, although one process imports the modules of all models. Standard library only.
"""

from __future__ import annotations

import builtins
import contextlib
import importlib
import importlib.util
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import ModuleType
from typing import Any


class ImportGraph:
    """Edges importer -> imported, from the import statement and ``importlib.import_module``.

    Both are wrapped from :meth:`install` to :meth:`remove`. Imports that neither sees (a loader of the user's own)
    leave modules that nothing reaches: these count for every model.
    """

    def __init__(self) -> None:
        self._edges: dict[str, set[str]] = {}
        self._roots: tuple[str, ...] = ()
        self._shared: frozenset[str] = frozenset()
        self._undo: Callable[[], None] | None = None
        self._known: dict[tuple[str, ...], set[str]] = {}

    def install(self) -> None:
        """Start recording."""
        plain_import, plain_import_module = builtins.__import__, importlib.import_module

        def recording_import(
            name: str,
            globals: Mapping[str, object] | None = None,  # noqa: A002 - the names of the builtin
            locals: Mapping[str, object] | None = None,  # noqa: A002
            fromlist: Sequence[str] | None = (),
            level: int = 0,
        ) -> Any:
            module = plain_import(name, globals, locals, fromlist or (), level)
            # Odd globals: the statement itself has succeeded, and unreached modules count for all.
            with contextlib.suppress(ImportError, TypeError, ValueError):
                self._statement(name, globals, fromlist or (), level)
            return module

        def recording_import_module(name: str, package: str | None = None) -> ModuleType:
            module = plain_import_module(name, package)
            importer = sys._getframe(1).f_globals.get("__name__")
            self._edge(importer, module.__name__)
            return module

        def undo() -> None:
            builtins.__import__, importlib.import_module = plain_import, plain_import_module

        builtins.__import__, importlib.import_module = recording_import, recording_import_module
        self._undo = undo

    def remove(self) -> None:
        """Put the plain functions back; recorded edges stay."""
        if self._undo is not None:
            self._undo()
            self._undo = None

    def settle(self, roots: Iterable[str]) -> None:
        """Take what is loaded now as shared between models whose modules are ``roots``."""
        self._roots = tuple(roots)
        self._shared = frozenset(sys.modules)

    def belongs(self, module: str, roots: Iterable[str]) -> bool:
        """Whether ``module`` is loaded for the model of ``roots``, as far as can be told; in doubt it is."""
        if module not in self._shared or module in self._reached(roots):
            return True
        return module not in self._reached(self._roots)

    def _reached(self, roots: Iterable[str]) -> set[str]:
        # Asked for every loaded module, thousands of times for the same roots.
        key = tuple(roots)
        if key not in self._known:
            self._known[key] = self._walk(key)
        return self._known[key]

    def _walk(self, roots: Iterable[str]) -> set[str]:
        reached: set[str] = set()
        waiting = [name for root in roots for name in _with_parents(root)]
        while waiting:
            name = waiting.pop()
            if name not in reached:
                reached.add(name)
                waiting.extend(self._edges.get(name, ()))
        return reached

    def _statement(self, name: str, names: Mapping[str, object] | None, fromlist: Sequence[str], level: int) -> None:
        importer = (names or {}).get("__name__")
        if level:
            package = (names or {}).get("__package__") or importer
            name = importlib.util.resolve_name("." * level + name, str(package))
        self._edge(importer, name)
        for item in fromlist:
            self._edge(importer, f"{name}.{item}")

    def _edge(self, importer: object, imported: str) -> None:
        if isinstance(importer, str):
            self._known.clear()
            self._edges.setdefault(importer, set()).update(_with_parents(imported))


def _with_parents(name: str) -> list[str]:
    parts = name.split(".")
    return [".".join(parts[: count + 1]) for count in range(len(parts))]
