"""Floor 3, worker. How the contents of a tensor came about: a graph of recorded operator calls.

In: operator calls seen while a model is built. Out: the same contents again, with other random numbers.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch.utils import _pytree as pytree

from perfgate.worker.seeds import derive


@dataclass(frozen=True, slots=True)
class View:
    """How a tensor lies in its storage: dtype, size and stride and offset in elements."""

    dtype: Any
    size: tuple[int, ...]
    stride: tuple[int, ...]
    offset: int

    @classmethod
    def of(cls, tensor: Any) -> View:
        """The layout of a strided tensor."""
        return cls(tensor.dtype, tuple(tensor.size()), tuple(tensor.stride()), int(tensor.storage_offset()))

    def on(self, storage: Any) -> Any:
        """A tensor with this layout over ``storage``."""
        empty = torch.empty(0, dtype=self.dtype, device=storage.device)
        return empty.set_(storage, self.offset, self.size, self.stride)


@dataclass(slots=True, eq=False)
class Call:
    """One operator call. Tensors in ``args``/``kwargs`` are :class:`Use` where their contents are random.

    ``seed`` is given to a random operator by the first parameter that needs it.
    """

    function: Any
    args: Any
    kwargs: Any
    random: bool
    seed: int | None = None


@dataclass(slots=True, eq=False)
class Content:
    """The contents of one storage at one moment.

    Either ``call``'s output number ``output``, or what its argument ``argument`` holds after the call, or (without
    ``call``) ``constant``, a private copy; neither: contents that do not matter. ``uses`` counts readers.
    """

    nbytes: int
    device: Any
    call: Call | None = None
    output: int | None = None
    argument: Use | None = None
    constant: Any = None
    uses: int = 0


@dataclass(slots=True, eq=False)
class Use:
    """A tensor argument: contents and layout; ``written`` if the call changes it in place."""

    content: Content
    view: View
    written: bool = False


@dataclass(slots=True)
class Replay:
    """Computes contents again for parameters in order; random calls draw from seeds of the first owner's name."""

    seed: int
    _owner: str = ""
    _drawn: int = 0
    _storages: dict[int, Any] = field(default_factory=dict)
    _results: dict[int, tuple[list[Any], dict[int, Any]]] = field(default_factory=dict)

    def content_of(self, content: Content, owner: str) -> Any:
        """An untyped storage with the contents that ``owner``'s seeds give."""
        self._owner, self._drawn = owner, 0
        self._storages.clear()
        self._results.clear()
        for needed in _in_order(content):
            self._compute(needed)
        return self._storages[id(content)]

    def _compute(self, content: Content) -> None:
        if content.call is None:
            storage = torch.UntypedStorage(content.nbytes, device=content.device)
            if content.constant is not None:
                storage.copy_(content.constant)
            self._storages[id(content)] = storage
            return
        outputs, written = self._run(content.call)
        if content.argument is not None:
            self._storages[id(content)] = written[id(content.argument)]
        else:
            self._storages[id(content)] = outputs[content.output or 0].untyped_storage()

    def _run(self, call: Call) -> tuple[list[Any], dict[int, Any]]:
        if id(call) in self._results:
            return self._results[id(call)]
        written: dict[int, Any] = {}

        def argument(leaf: Any) -> Any:
            if not isinstance(leaf, Use):
                return leaf
            storage = self._storages[id(leaf.content)]
            # Others may still need what was there before this call.
            if leaf.written and leaf.content.uses > 1:
                storage = storage.clone()
            if leaf.written:
                written[id(leaf)] = storage
            return leaf.view.on(storage)

        args, kwargs = pytree.tree_map(argument, (call.args, call.kwargs))
        if call.random:
            if call.seed is None:
                call.seed = derive(self.seed, self._owner, self._drawn)
            self._drawn += 1
            set_generators(call.seed, args, kwargs)
        result = call.function(*args, **kwargs)
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        self._results[id(call)] = (outputs, written)
        return self._results[id(call)]


def _in_order(content: Content) -> list[Content]:
    """Everything that ``content`` needs, before what needs it. A loop, since chains can be long."""
    order: list[Content] = []
    seen: set[int] = set()
    todo: list[tuple[Content, bool]] = [(content, False)]
    while todo:
        item, ready = todo.pop()
        if ready:
            order.append(item)
        elif id(item) not in seen:
            seen.add(id(item))
            todo.append((item, True))
            if item.call is not None:
                uses = pytree.tree_leaves((item.call.args, item.call.kwargs))
                todo.extend((use.content, False) for use in reversed(uses) if isinstance(use, Use))
    return order


def set_generators(seed: int, *arguments: object) -> None:
    """Seed torch's default generators of the CPU and of every GPU that ``arguments`` name or live on."""
    torch.default_generator.manual_seed(seed)
    for leaf in pytree.tree_leaves(arguments):
        device = leaf.device if isinstance(leaf, torch.Tensor) else leaf
        if isinstance(device, torch.device) and device.type == "cuda":
            index = torch.cuda.current_device() if device.index is None else device.index
            torch.cuda.default_generators[index].manual_seed(seed)
