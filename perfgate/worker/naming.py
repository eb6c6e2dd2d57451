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

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.nn.modules.module import register_module_parameter_registration_hook
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import TorchDispatchMode

from perfgate.worker.recipes import Call, Content, Replay, Use, View, set_generators
from perfgate.worker.seeds import derive

_FILLS = frozenset({"aten::copy_", "aten::fill_", "aten::zero_"})
_DRAWS = frozenset(
    f"aten::{name}_"
    for name in ("bernoulli", "cauchy", "exponential", "geometric", "log_normal", "normal", "random", "uniform")
)


@dataclass(frozen=True, slots=True)
class _Seen:
    """One call that matters, between its start and its end. ``written``: storage keys it changes in place."""

    call: Call
    written: dict[int, tuple[Any, Use]]
    inputs: frozenset[int]


class Recorder(TorchDispatchMode):  # type: ignore[misc]
    """Keeps, for each storage with random contents, the calls that made them."""

    def __init__(self, seed: int) -> None:
        super().__init__()
        self._seed = seed
        # The weak reference keeps a storage's identity from being given to another, without its memory.
        self._contents: dict[int, tuple[Any, Content]] = {}
        self._registered: dict[int, tuple[Any, int]] = {}
        self.problem = ""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # Otherwise torch imports its whole compiler at the first call, which takes longer than most models.
        return False

    def register(self, _module: Any, _name: str, parameter: Any) -> None:
        """A module was given a parameter: draws into it are seeded by shape from now on."""
        key = None if parameter is None else _key(parameter)
        if key is not None and key not in self._registered:
            self._registered[key] = (StorageWeakRef(parameter.untyped_storage()), 0)

    def content(self, tensor: Any) -> Content | None:
        """The random contents of a tensor's storage; None where they are not random."""
        key = _key(tensor)
        known = None if key is None else self._contents.get(key)
        return None if known is None else known[1]

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        seen = None
        try:
            seen = self._before(func, args, kwargs)
        except Exception as error:
            self.problem = self.problem or f"{func}: {type(error).__name__}"
        result = func(*args, **kwargs)
        if seen is not None:
            self._after(seen, result)
        return result

    def _before(self, func: Any, args: Any, kwargs: Any) -> _Seen | None:
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        written = _written(func, args, kwargs)
        if kwargs.get("generator") is not None:
            # A generator of the user's own does not depend on what else is built, nor could it be turned back.
            for tensor in written:
                self._contents.pop(_key(tensor) or 0, None)
            return None
        random = torch.Tag.nondeterministic_seeded in func.tags
        if not random and all(self.content(tensor) is None for tensor in tensors):
            return None
        name = func._schema.name
        if (
            name in _FILLS
            and _covers(written[0])
            and not any(self.content(tensor) for tensor in tensors if tensor is not written[0])
        ):
            # Fixed values replace everything, as when weights are loaded: no longer random.
            self._contents.pop(_key(written[0]) or 0, None)
            return None
        changed = {id(tensor) for tensor in written}
        fresh = name in _FILLS or (random and name in _DRAWS)
        uses: dict[int, tuple[Any, Use]] = {}

        def argument(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor):
                return leaf
            writes = id(leaf) in changed
            use = Use(self._content_of(leaf, blank=writes and fresh and _covers(leaf)), View.of(leaf), written=writes)
            key = _key(leaf)
            if writes and key is not None:
                uses[key] = (leaf, use)
            return use

        args, kwargs = pytree.tree_map(argument, (args, kwargs))
        if random:
            self._reseed(written)
        inputs = frozenset(key for key in map(_key, tensors) if key is not None)
        return _Seen(Call(func, args, kwargs, random), uses, inputs)

    def _content_of(self, tensor: Any, *, blank: bool) -> Content:
        content = None if blank else self.content(tensor)
        if content is None:
            storage = tensor.untyped_storage()
            # A private copy, since the original may change later.
            constant = None if blank else storage.clone()
            content = Content(storage.nbytes(), storage.device, constant=constant)
        content.uses += 1
        return content

    def _reseed(self, written: list[Any]) -> None:
        for tensor in written:
            key = _key(tensor) or 0
            if key in self._registered:
                reference, count = self._registered[key]
                self._registered[key] = (reference, count + 1)
                set_generators(derive(self._seed, "draw", tuple(tensor.shape), tensor.dtype, count), tensor)

    def _after(self, seen: _Seen, result: Any) -> None:
        for target, (tensor, use) in seen.written.items():
            self._remember(
                target, tensor, Content(use.content.nbytes, use.content.device, call=seen.call, argument=use)
            )
        outputs = [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]
        for index, tensor in enumerate(outputs):
            key = _key(tensor)
            # A view shares its input's storage and contents.
            if key is not None and key not in seen.inputs:
                storage = tensor.untyped_storage()
                self._remember(key, tensor, Content(storage.nbytes(), storage.device, call=seen.call, output=index))

    def _remember(self, key: int, tensor: Any, content: Content) -> None:
        self._contents[key] = (StorageWeakRef(tensor.untyped_storage()), content)


def _key(tensor: Any) -> int | None:
    """Identity of a tensor's storage; None for tensors without one (sparse, meta, not yet initialised)."""
    if tensor.layout is not torch.strided or tensor.is_meta or torch.nn.parameter.is_lazy(tensor):
        return None
    try:
        return int(tensor.untyped_storage()._cdata)
    except (RuntimeError, NotImplementedError):
        return None


def _covers(tensor: Any) -> bool:
    return bool(tensor.numel() * tensor.element_size() == tensor.untyped_storage().nbytes())


def _written(func: Any, args: Any, kwargs: Any) -> list[Any]:
    """Tensors that the operator's schema says are changed in place."""
    found: list[Any] = []
    for position, argument in enumerate(func._schema.arguments):
        if argument.alias_info is not None and argument.alias_info.is_write:
            value = args[position] if position < len(args) else kwargs.get(argument.name)
            found.extend(leaf for leaf in pytree.tree_leaves(value) if isinstance(leaf, torch.Tensor))
    return found


@contextmanager
def recording(seed: int) -> Iterator[Recorder]:
    """Record what is built inside; give the result to :func:`rename`."""
    recorder = Recorder(seed)
    hook = register_module_parameter_registration_hook(recorder.register)
    try:
        with recorder:
            yield recorder
    finally:
        hook.remove()


def rename(module: Any, recorder: Recorder, seed: int) -> tuple[str, ...]:
    """Draw the random contents of ``module``'s parameters and buffers again by name; returns notes.

    A tensor that is part of two names (tied weights) follows the first; copies of one original (layers
    cloned from one) keep being equal.
    """
    replay = Replay(seed)
    done: set[int] = set()
    failed = [recorder.problem] if recorder.problem else []
    named = [*module.named_parameters(), *module.named_buffers()]
    with torch.no_grad():
        for name, tensor in named:
            content, key = recorder.content(tensor), _key(tensor)
            if content is None or key is None or key in done:
                continue
            done.add(key)
            try:
                tensor.untyped_storage().copy_(replay.content_of(content, name))
            except Exception as error:
                failed.append(f"{name}: {type(error).__name__}")
    if not failed:
        return ()
    return (f"not all weights are seeded by name, an added layer may change others ({failed[0]})",)
