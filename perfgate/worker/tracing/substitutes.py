"""Floor 3, worker. What stands for a model's tensors while it is traced.

In: a tensor. Out: its substitute, always the same one; tensors that share memory have substitutes that share it too.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass, transform_subclass

# How a step is traced. Without contents; the same but small tensors that are no weights keep theirs; as fake tensors,
# which say that they are on the model's device; with contents.
META = "meta"
VALUES = "values"
FAKE = "fake"
REAL = "real"

# Elements up to which tables of integers, other constants, and weights that are not trained keep their contents.
_INTEGERS = 1 << 20
_FLOATS = 4096
_WEIGHTS = 64


class Substitutes:
    """Makes substitutes of one kind. ``trains``: gradients of small weights have to go where the others go."""

    def __init__(self, kind: str, *, device: str = "cpu", trains: bool = False) -> None:
        self.kind = kind
        self.fake_mode = _fake_mode() if kind == FAKE else None
        self._device = device
        self._trains = trains
        self._done: dict[int, tuple[Any, Any]] = {}
        self._blocks: dict[int, Any] = {}

    def __call__(self, tensor: Any) -> Any:
        """The substitute of a tensor."""
        known = self._done.get(id(tensor))
        if known is None:
            # The original is kept too, so that its id cannot be given to another one.
            known = self._done[id(tensor)] = (tensor, self._make(tensor))
        return known[1]

    def _make(self, tensor: Any) -> Any:
        parameter = isinstance(tensor, torch.nn.Parameter)
        if torch.nn.parameter.is_lazy(tensor):
            # Its first use would give the original its shape.
            where = tensor.device if self.kind == REAL else torch.device("meta")
            return type(tensor)(requires_grad=tensor.requires_grad, device=where, dtype=tensor.dtype)
        if not (parameter or self._changes(tensor)):
            return tensor
        with torch.no_grad():
            plain = tensor.detach()
            if self._changes(tensor):
                plain = self._without_contents(plain)
        if not parameter:
            return plain.requires_grad_(tensor.requires_grad) if tensor.is_leaf else plain
        made = torch.nn.Parameter(plain, requires_grad=tensor.requires_grad)
        if type(made) is not type(tensor) and type(plain) is torch.Tensor:
            made = torch.Tensor._make_subclass(type(tensor), plain, tensor.requires_grad)
        vars(made).update(vars(tensor))
        _copy_hooks(tensor, made)
        return made

    def _changes(self, tensor: Any) -> bool:
        """Whether the substitute has no contents."""
        if self.kind == REAL:
            return False
        if self.kind != VALUES or tensor.is_meta:
            return True
        if isinstance(tensor, torch.nn.Parameter):
            return self._trains or bool(tensor.numel() > _WEIGHTS)
        whole = not tensor.is_floating_point() and not tensor.is_complex()
        return bool(tensor.numel() > (_INTEGERS if whole else _FLOATS))

    def _without_contents(self, tensor: Any) -> Any:
        if is_traceable_wrapper_subclass(tensor):
            # Ragged sizes cannot be taken over; then what is inside has to do.
            with suppress(Exception):
                return transform_subclass(tensor, self._inner)
            return tensor
        if tensor.layout is not torch.strided or tensor.is_nested or tensor.is_quantized:
            # Where torch has no such tensors without contents, the original has to do.
            with suppress(RuntimeError, NotImplementedError):
                return tensor.to("meta")
            return tensor
        if self.fake_mode is not None:
            with self.fake_mode:
                return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device=self._device)
        block = self._block(tensor.untyped_storage())
        empty = torch.empty(0, dtype=tensor.dtype, device="meta")
        return empty.set_(block, tensor.storage_offset(), tensor.size(), tensor.stride())

    def _inner(self, _name: str, inner: Any) -> Any:
        return self._without_contents(inner) if isinstance(inner, torch.Tensor) else inner

    def _block(self, storage: Any) -> Any:
        known = self._blocks.get(storage._cdata)
        if known is None:
            block = torch.UntypedStorage(storage.nbytes(), device="meta")
            known = self._blocks[storage._cdata] = (storage, block)
        return known[1]


def _fake_mode() -> Any:
    from torch._subclasses.fake_tensor import FakeTensorMode

    return FakeTensorMode(allow_non_fake_inputs=True)


def _copy_hooks(tensor: Any, made: Any) -> None:
    """What is done to a gradient on its way is part of the step."""
    if getattr(tensor, "_backward_hooks", None):
        made._backward_hooks = tensor._backward_hooks
    if getattr(tensor, "_post_accumulate_grad_hooks", None):
        made._post_accumulate_grad_hooks = tensor._post_accumulate_grad_hooks
