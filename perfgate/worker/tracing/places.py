"""Floor 3, worker. Where in the user's model an operator call belongs.

In: the modules that are entered and left (global hooks of torch, nothing on the modules themselves), and autograd's
numbers. Out: a :class:`Place` for the call that is dispatched now.

A backward operator belongs to the forward operator that made its autograd node. Nodes are numbered in order of their
making and an operator is dispatched right after its node was made, so that the newest number names it.
"""

from __future__ import annotations

import bisect
import weakref
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch.nn.modules import module as hooks
from torch.optim import optimizer as optimizers

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER

# What torch.compile's wrapper adds to the path of what it wraps.
_WRAPPER = "_orig_mod"


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """See :class:`perfgate.records.graph.Call`."""

    module: str = ""
    module_class: str = ""
    phase: str = FORWARD
    group: str = ""


@dataclass(slots=True)
class _Frame:
    """A module that is being called.

    ``node`` is the autograd node inside which it was called, None in a forward; ``resumed``: composite calls are
    watched again for it.
    """

    module: Any
    place: Place
    node: int | None
    resumed: bool = False


def clean(path: str) -> str:
    """A path without the names of torch.compile's wrappers."""
    return ".".join(part for part in path.split(".") if part != _WRAPPER)


class Places:
    """``group`` is the composite call that is running now, or empty; ``functions`` watches for them."""

    def __init__(self) -> None:
        self.functions: Any = None
        self.group = ""
        self._groups: Counter[str] = Counter()
        self._paths: dict[int, tuple[Any, Place]] = {}
        self._classes: dict[str, str] = {}
        self._stack: list[_Frame] = []
        self._origins: dict[int, Place] = {}
        self._numbers: list[int] = []
        self._leaves: dict[int, Place] = {}
        self._optimizing = 0
        self._went_back = False

    def name_modules(self, root: Any, path: str = "") -> None:
        """Give ``root`` and what it holds their paths; the first path of a module stands."""
        for inner, child in root.named_modules():
            full = clean(".".join(part for part in (path, inner) if part))
            if self._path(child) is None:
                place = Place(module=full, module_class=type(child).__name__)
                self._paths[id(child)] = (weakref.ref(child), place)
                self._classes[full] = place.module_class

    def name_leaf(self, tensor: Any, path: str) -> None:
        """A parameter: its gradient is summed up in the module that owns it."""
        owner = path.rpartition(".")[0]
        self._leaves[id(tensor)] = Place(module=owner, module_class=self._classes.get(owner, ""), phase=BACKWARD)

    def _path(self, module: Any) -> Place | None:
        known = self._paths.get(id(module))
        return known[1] if known is not None and known[0]() is module else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Follow modules and optimisers while inside."""
        with ExitStack() as stack:
            # On threads of their own, nodes would have numbers of their own.
            stack.enter_context(torch.autograd.set_multithreading_enabled(False))
            for handle in (
                hooks.register_module_forward_pre_hook(self._enter),
                hooks.register_module_forward_hook(self._leave, always_call=True),
                optimizers.register_optimizer_step_pre_hook(self._begin_update),
                optimizers.register_optimizer_step_post_hook(self._end_update),
            ):
                stack.callback(handle.remove)
            yield

    @contextmanager
    def grouped(self, name: str) -> Iterator[None]:
        """What is dispatched inside belongs to one composite call of kind ``name``, or to the one around it."""
        if self.group:
            yield
            return
        self._groups[name] += 1
        self.group = f"{name}#{self._groups[name]}"
        try:
            yield
        finally:
            self.group = ""

    def _enter(self, module: Any, _inputs: Any) -> None:
        place = self._path(module)
        if place is None:
            # Made on the fly or held out of the model's sight: named by its class, below whoever calls it.
            self.name_modules(module, ".".join(p for p in (self.here().module, type(module).__name__) if p))
            place = self._path(module) or Place()
        frame = _Frame(module, place, _node_number())
        if self.functions is not None and self.functions.suspended:
            frame.resumed = True
            self.functions.suspended = False
            self.functions.__enter__()
        self._stack.append(frame)

    def _leave(self, module: Any, _inputs: Any, _output: Any) -> None:
        # Whatever was left by an exception on the way goes too.
        for depth in range(len(self._stack) - 1, -1, -1):
            frame = self._stack[depth]
            if frame.module is module:
                del self._stack[depth:]
                if frame.resumed and self.functions is not None:
                    self.functions.__exit__(None, None, None)
                    self.functions.suspended = True
                return

    def _begin_update(self, *_: Any) -> None:
        self._optimizing += 1

    def _end_update(self, *_: Any) -> None:
        self._optimizing = max(0, self._optimizing - 1)

    def here(self) -> Place:
        """The module that is running, outside of any backward pass."""
        return self._stack[-1].place if self._stack else Place()

    def now(self) -> Place:
        """The place of the operator that is dispatched now; remembers it for the backward pass."""
        place = self._find()
        number = torch.autograd._get_sequence_nr() - 1
        if number not in self._origins:
            self._origins[number] = place
            bisect.insort(self._numbers, number)
        return place

    def _find(self) -> Place:
        node = torch._C._current_autograd_node()
        top = self._stack[-1] if self._stack else None
        if node is None:
            return self._outside_backward(top)
        self._went_back = True
        number = node._sequence_nr()
        if top is not None and top.node == number:
            # Recomputed for the backward pass, as activation checkpoints are.
            return replace(top.place, phase=BACKWARD, group=self.group)
        return self._origin(node, number)

    def _outside_backward(self, top: _Frame | None) -> Place:
        if top is not None and top.node is None:
            return replace(top.place, group=self.group) if self.group else top.place
        # Clipping gradients and the like come between the backward pass and the update.
        update = self._optimizing or (self._went_back and not torch.is_grad_enabled())
        return Place(phase=OPTIMIZER if update else FORWARD, group=self.group)

    def _origin(self, node: Any, number: int) -> Place:
        if node.name().endswith("AccumulateGrad"):
            return self._leaves.get(id(node.variable), Place(phase=BACKWARD))
        place = self._origins.get(number)
        if place is None:
            # A node without an operator (of views that are written in place) belongs to the operator before it.
            before = bisect.bisect_right(self._numbers, number)
            place = self._origins[self._numbers[before - 1]] if before else Place()
        return replace(place, phase=BACKWARD)


def _node_number() -> int | None:
    node = torch._C._current_autograd_node()
    return None if node is None else int(node._sequence_nr())
