"""Floor 3, worker. Which operator calls came from one composite call.

In: calls of torch's functions, seen above autograd. Out: the name of the composite call that is running, in
``Places.group``; and whether a tensor was handed to numpy or another library. ``deviceless``: tensors are on no
device, so that autocast raises :class:`NeedsDeviceError`; ``home``: see :class:`mixing.Mixer`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode
from torch.utils import _pytree as pytree
from torch.utils._python_dispatch import _disable_current_modes

from perfgate.records.graph import Call
from perfgate.worker.tracing.mixing import shape_of
from perfgate.worker.tracing.places import Places
from perfgate.worker.tracing.values import Values

_COMPOSITE = {
    "scaled_dot_product_attention": "scaled_dot_product_attention",
    "multi_head_attention_forward": "multi_head_attention_forward",
    "lstm": "lstm",
    "gru": "gru",
    "rnn_tanh": "rnn",
    "rnn_relu": "rnn",
}
_TAKES_DATA = frozenset({"as_tensor", "asarray", "tensor"})
_BACKWARD = frozenset({"backward", "grad"})
_EXITS = frozenset({torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__})


class NeedsDeviceError(Exception):
    """Something that only happens on a device, which tensors without contents and device do not show."""


class Groups(TorchFunctionMode):  # type: ignore[misc]
    """Names composite calls by kind and number; one inside another belongs to the outer one."""

    def __init__(self, places: Places, values: Values, calls: list[Call], *, deviceless: bool, home: Any) -> None:
        super().__init__()
        self._home = home
        self._deviceless = deviceless
        self._calls = calls
        self._places = places
        self._values = values
        self._left_torch = False
        self._depth = 0
        # A backward pass runs, in which torch has this mode switched off though modules may be called.
        self.suspended = False

    @property
    def comes_back(self) -> bool:
        """Whether a tensor that is made of the host's data right now may be what another library made of one."""
        return self._left_torch and self._depth == 0

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        # Below autograd torch no longer tells.
        if self._deviceless and _autocasts():
            message = "autocast does nothing on meta tensors"
            raise NeedsDeviceError(message)
        if func in _EXITS:
            self._left_torch = True
        name = getattr(func, "__name__", "")
        kind = _COMPOSITE.get(name)
        before = self._values.count
        # Data of an array come from outside of torch, whichever function takes them.
        inside = not (args and hasattr(args[0], "__array_interface__"))
        self._depth += inside
        outer, self.suspended = self.suspended, name in _BACKWARD
        try:
            with nullcontext() if kind is None else self._places.grouped(kind):
                result = self._run(func, name, args, kwargs)
        finally:
            self._depth -= inside
            self.suspended = outer
        if before < self._values.count and "empty" not in name:
            self._filled(result, before)
        return result

    def _run(self, func: Any, name: str, args: Any, kwargs: Any) -> Any:
        """Call a function; once more where it minds that only some of its tensors have contents."""
        done = len(self._calls)
        if self._home is not None and name in _TAKES_DATA and str(kwargs.get("device")) == "meta":
            # Where its data are, they can be looked at.
            kwargs = {**kwargs, "device": self._home}
        try:
            return func(*args, **kwargs)
        except RuntimeError as error:
            in_place = name.endswith("_") or kwargs.get("out") is not None
            if not self._deviceless or in_place or "device" not in str(error):
                raise
            shadows = self._shadows(args, kwargs)
            if shadows is None:
                raise
        del self._calls[done:]
        return func(*shadows[0], **shadows[1])

    def _shadows(self, args: Any, kwargs: Any) -> Any:
        """Arguments of which no tensor has contents, or None where that was so before."""
        tensors = [leaf for leaf in pytree.tree_leaves((args, kwargs)) if isinstance(leaf, torch.Tensor)]
        real = [tensor for tensor in tensors if not tensor.is_meta]
        if not real or len(real) == len(tensors) or any(tensor.requires_grad for tensor in real):
            return None

        def shadow(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_meta:
                return leaf
            twin = shape_of(leaf)
            self._values.same_memory(twin, leaf)
            return twin

        # Not to be traced.
        with _disable_current_modes():
            return pytree.tree_map(shadow, (args, kwargs))

    def _filled(self, result: Any, before: int) -> None:
        """What a function of torch itself made has its contents, also where it wrote them past the dispatcher."""
        for leaf in result if isinstance(result, (list, tuple)) else (result,):
            if isinstance(leaf, torch.Tensor) and self._values.seen(leaf):
                storage = self._values.storage(leaf)
                storage.filled = storage.filled or storage.number >= before


def _autocasts() -> bool:
    any_enabled = getattr(torch._C, "_is_any_autocast_enabled", None)
    if any_enabled is not None:
        return bool(any_enabled())
    return bool(torch.is_autocast_enabled("cpu") or torch.is_autocast_enabled("cuda"))
