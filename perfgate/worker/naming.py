"""Floor 3, worker. Weights seeded by parameter name.

In: the user's function that builds a model. Out: the model, in which every randomly initialised parameter
and buffer holds what its own initialiser draws from a seed of its own name.

Seeding once and drawing in order would give each layer behind an added one other weights, and with them
other outputs, though nothing about them changed. So operator calls are recorded while the model is
built, and what ended in a parameter is computed again under that parameter's seed. Loaded weights are
not random and stay as they are. An initialiser that draws until values fit (``trunc_normal_``) must
take the same number of turns whatever was built before: so the generator is also set anew, by shape,
whenever a registered parameter is drawn.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules import module as nn_module
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from perfgate.worker.recipes import Call, Content, Replay, Use, View, set_generators
from perfgate.worker.seeds import derive

T = TypeVar("T")

_OVERWRITES = ("aten::copy_", "aten::fill_", "aten::zero_")


class _Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Keeps, for each storage with random contents, the calls that made them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        # The weak reference keeps the storage's identity from being used again, without keeping its memory.
        self._contents: dict[int, tuple[Any, Content]] = {}
        self._drawn: dict[int, tuple[Any, int]] = {}
        self.problem = ""

    def register(self, _module: Any, _name: str, parameter: Any) -> None:
        """A parameter was given to a module: its draws are seeded by shape from now on."""
        key = _key(parameter) if parameter is not None else None
        if key is not None and key not in self._drawn:
            self._drawn[key] = (StorageWeakRef(parameter.untyped_storage()), 0)

    def content(self, tensor: Any) -> Content | None:
        """The random contents of a tensor's storage, or None."""
        key = _key(tensor)
        known = self._contents.get(key) if key is not None else None
        return known[1] if known else None

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        note = None
        try:
            note = self._before(func, args, kwargs)
        except Exception as error:
            self.problem = self.problem or f"{func}: {type(error).__name__}"
        result = func(*args, **kwargs)
        if note is not None:
            try:
                self._after(note, result)
            except Exception as error:
                self.problem = self.problem or f"{func}: {type(error).__name__}"
        return result

    def _before(self, func: Any, args: Any, kwargs: Any) -> Call | None:
        """The record of a call that matters, with every random argument as it is before the call."""
        written = _written(func, args, kwargs)
        random = torch.Tag.nondeterministic_seeded in func.tags and kwargs.get("generator") is None
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        if not random and all(self.content(tensor) is None for tensor in tensors):
            return None
        if len(written) == 1 and not random and self._settles(func, written[0], tensors):
            return None
        ids = {id(tensor) for tensor in written}
        whole = random and len(written) == 1 and _covers(written[0])

        def argument(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            content = self.content(leaf) if not whole else None
            if content is None:
                # A small private copy: the original may change later.
                storage = leaf.untyped_storage()
                content = Content(storage.nbytes(), storage.device)
                if not whole:
                    content.constant = storage.clone()
            content.uses += 1
            return Use(content, View.of(leaf), written=id(leaf) in ids)

        args_, kwargs_ = pytree.tree_map(argument, (args, kwargs))
        if random:
            self._reseed(written, tensors)
        return Call(func, args_, kwargs_, random)

    def _settles(self, func: Any, target: Any, tensors: list[Any]) -> bool:
        """Whether fixed values replace everything in ``target``: it is not random any more (loaded weights)."""
        fixed = all(self.content(tensor) is None for tensor in tensors if tensor is not target)
        if func._schema.name not in _OVERWRITES or not fixed or not _covers(target):  # noqa: SLF001
            return False
        self._contents.pop(_key(target) or 0, None)
        return True

    def _reseed(self, written: list[Any], tensors: list[Any]) -> None:
        for tensor in written:
            key = _key(tensor)
            if key in self._drawn:
                reference, count = self._drawn[key]
                self._drawn[key] = (reference, count + 1)
                shape = "x".join(map(str, tensor.shape))
                set_generators(derive(self._seed, "draw", shape, tensor.dtype, count), tensors)

    def _after(self, call: Call, result: Any) -> None:
        inputs = {id(use.content): use for use in pytree.tree_leaves((call.args, call.kwargs)) if isinstance(use, Use)}
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        written = [use for use in inputs.values() if use.written]
        known = {key: content for key, (_, content) in self._contents.items()}
        for index, tensor in enumerate(outputs):
            key = _key(tensor)
            if key is None:
                continue
            target = next((use for use in written if id(known.get(key)) == id(use.content)), None)
            storage = tensor.untyped_storage()
            made = Content(storage.nbytes(), storage.device, call=call, output=index)
            if target is not None:
                made = Content(storage.nbytes(), storage.device, call=call, argument=target)
            elif key in known and id(known[key]) in inputs:
                continue
            self._contents[key] = (StorageWeakRef(storage), made)
