"""Floor 3, worker. Marks in a profile: where a step, a wait and each call of a module begin and end.

In: the user's module. Out: profiler ranges with names of perfgate's own, opened by global hooks, which leave the
module itself untouched.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch.nn.modules.module import register_module_forward_hook, register_module_forward_pre_hook

OWN = "perfgate::"
STEP = f"{OWN}step"
# The wait for the devices at the end of a step or of a span: nobody's work.
WAIT = f"{OWN}wait"
MODULE = f"{OWN}module#"

# What torch.compile's wrapper adds to the path of what it wraps.
_WRAPPER = "_orig_mod"


@contextmanager
def marked(name: str) -> Iterator[None]:
    """A range called ``name`` in the running profile; nothing where none runs."""
    opened = _begin(name)
    try:
        yield
    finally:
        opened.__exit__(None, None, None)


def _begin(name: str) -> Any:
    # A plain record_function is an operator call of its own and some ten times slower.
    fast = getattr(torch._C._profiler, "_RecordFunctionFast", None)
    opened = torch.autograd.profiler.record_function(name) if fast is None else fast(name)
    opened.__enter__()
    return opened


class ModuleRanges:
    """One range for each call of a module, called ``MODULE`` and an index into ``paths``.

    Paths are the tracer's: a submodule that is registered several times has the path under which it was
    registered first, one that is no part of ``module`` (a loss, say) is named by its class below its caller.
    """

    def __init__(self, module: Any) -> None:
        self.paths: list[str] = []
        self._indices: dict[str, int] = {}
        self._known: dict[int, tuple[Any, int]] = {}
        # Hooks are called in every thread that runs a module, and ranges belong to a thread.
        self._thread = threading.local()
        if module is not None:
            self._name(module, "")

    @contextmanager
    def installed(self) -> Iterator[None]:
        """Hooks for every module of the process, until the end, also by an exception."""
        handles = [
            register_module_forward_pre_hook(self._enter),
            register_module_forward_hook(self._leave, always_call=True),
        ]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()
            self._close(0)

    def _name(self, root: Any, path: str) -> None:
        for inner, child in root.named_modules():
            if self._index(child) is None:
                full = ".".join(part for part in [*path.split("."), *inner.split(".")] if part not in ("", _WRAPPER))
                if full not in self._indices:
                    self._indices[full] = len(self.paths)
                    self.paths.append(full)
                # Weak: modules made in each step must not pile up, nor an address be taken for a former owner's.
                self._known[id(child)] = (weakref.ref(child), self._indices[full])

    def _index(self, child: Any) -> int | None:
        known = self._known.get(id(child))
        return known[1] if known is not None and known[0]() is child else None

    def _open(self) -> list[tuple[int, int, Any]]:
        if not hasattr(self._thread, "ranges"):
            self._thread.ranges = []
        ranges: list[tuple[int, int, Any]] = self._thread.ranges
        return ranges

    def _enter(self, child: Any, _args: Any) -> None:
        ranges = self._open()
        index = self._index(child)
        if index is None:
            caller = self.paths[ranges[-1][1]] if ranges else ""
            self._name(child, ".".join(part for part in (caller, type(child).__name__) if part))
            index = self._index(child) or 0
        ranges.append((id(child), index, _begin(f"{MODULE}{index}")))

    def _leave(self, child: Any, _args: Any, _output: Any) -> None:
        ranges = self._open()
        # What lies above was left by something other than an ordinary exception. No range of this module: another
        # hook raised before ours could open one.
        for depth in range(len(ranges) - 1, -1, -1):
            if ranges[depth][0] == id(child):
                self._close(depth)
                return

    def _close(self, depth: int) -> None:
        ranges = self._open()
        while len(ranges) > depth:
            ranges.pop()[2].__exit__(None, None, None)
