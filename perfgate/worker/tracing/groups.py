"""Floor 3, worker. Which operator calls came from one composite call.

In: calls of torch's functions, seen above autograd. Out: the name of the composite call that is running, in
``Places.group``; and whether a tensor was handed to numpy or another library. ``deviceless``: tensors are on no
device, so that autocast raises :class:`NeedsDeviceError`.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

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
_BACKWARD = frozenset({"backward", "grad"})
_EXITS = frozenset({torch.Tensor.numpy, torch.Tensor.__array__, torch.Tensor.__dlpack__})


class NeedsDeviceError(Exception):
    """Something that only happens on a device, which tensors without contents and device do not show."""


class Groups(TorchFunctionMode):  # type: ignore[misc]
    """Names composite calls by kind and number; one inside another belongs to the outer one."""

    def __init__(self, places: Places, values: Values, *, deviceless: bool) -> None:
        super().__init__()
        self._deviceless = deviceless
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
                result = func(*args, **kwargs)
        finally:
            self._depth -= inside
            self.suspended = outer
        if before < self._values.count and "empty" not in name:
            self._filled(result, before)
        return result

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
