"""Floor 3, worker. Operators on tensors with and without contents side by side.

In: an operator and its arguments. Out: its result, without contents as soon as one argument has none. Small tensors
keep their contents, so that tables and flags that a model looks at have values; large ones get none, so that a model
of any size fits.
"""

from __future__ import annotations

from typing import Any

import torch
from torch.multiprocessing.reductions import StorageWeakRef
from torch.utils import _pytree as pytree

from perfgate.worker.tracing import kinds

# Elements up to which weights (drawn at random, or blank) and tables (everything else) are real.
_WEIGHTS = 16_384
_TABLES = 1 << 20

_BLANK = frozenset(f"aten::{name}" for name in ("full", "ones", "zeros", "zero", "scalar_tensor"))


class Mixer:
    """Runs operators; knows which real tensors have lost their values to a write without contents."""

    def __init__(self) -> None:
        self._stale: dict[int, StorageWeakRef] = {}

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result. Raises whatever torch raises, where values are asked for that are not there."""
        tensors = kinds.tensors(args, kwargs)
        if not tensors:
            return self._factory(func, args, kwargs)
        if all(tensor.is_meta for tensor in tensors):
            return func(*args, **_on_meta(kwargs))
        contents = not any(tensor.is_meta or self._is_stale(tensor) for tensor in tensors)
        if contents and (func.is_view or sum(tensor.numel() for tensor in tensors) <= _TABLES):
            return self._real(func, args, kwargs)
        return self._mixed(func, args, kwargs)

    def _factory(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor out of nothing: its size is found out without memory for it."""
        device = kwargs.get("device")
        if not any(item.name == "device" for item in func._schema.arguments) or str(device) == "meta":
            return func(*args, **kwargs)
        shape = func(*args, **_on_meta({**kwargs, "device": "meta"}))
        usable = device is None or device.type == "cpu" or _has(device)
        if usable and isinstance(shape, torch.Tensor) and shape.numel() <= _limit(func, shape):
            return func(*args, **kwargs)
        return shape

    def _real(self, func: Any, args: Any, kwargs: Any) -> Any:
        device = kwargs.get("device")
        if device is not None and not _has(device):
            return self._mixed(func, args, kwargs)
        shape = self._foreseen(func, args, kwargs)
        if isinstance(shape, torch.Tensor) and shape.numel() > _TABLES:
            return shape
        return func(*args, **kwargs)

    def _foreseen(self, func: Any, args: Any, kwargs: Any) -> Any:
        """What a call gives, without contents: a small tensor may become a large one. None where nobody knows."""
        if func.is_view or func._schema.is_mutable or kinds.is_question(func):
            return None
        try:
            return self._mixed(func, args, kwargs)
        except Exception:
            return None

    def _mixed(self, func: Any, args: Any, kwargs: Any) -> Any:
        originals: dict[int, Any] = {}

        keep = {id(tensor) for tensor in kinds.host_arguments(func, args)}

        def shadow(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_meta or id(leaf) in keep:
                return leaf
            twin = _shape_of(leaf)
            originals[id(twin)] = (twin, leaf)
            return twin

        shaded = pytree.tree_map(shadow, (args, kwargs))
        result = func(*shaded[0], **_on_meta(shaded[1]))
        for tensor in kinds.written(func, args, kwargs):
            if not tensor.is_meta:
                block = tensor.untyped_storage()
                self._stale[block._cdata] = StorageWeakRef(block)
        # What an operator changed in place is given back as it came.
        return pytree.tree_map(lambda leaf: originals[id(leaf)][1] if id(leaf) in originals else leaf, result)

    def _is_stale(self, tensor: Any) -> bool:
        if not self._stale or tensor.is_meta or tensor.layout is not torch.strided:
            return False
        return tensor.untyped_storage()._cdata in self._stale


def _on_meta(kwargs: Any) -> Any:
    changed = dict(kwargs)
    if changed.get("device") is not None:
        changed["device"] = torch.device("meta")
    if changed.get("pin_memory"):
        changed["pin_memory"] = False
    if changed.get("generator") is not None:
        changed["generator"] = None
    return changed


def _shape_of(tensor: Any) -> Any:
    if tensor.layout is not torch.strided:
        return tensor.to("meta")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _limit(func: Any, shape: Any) -> int:
    weight = torch.Tag.nondeterministic_seeded in func.tags or func._schema.name.startswith("aten::empty")
    blank = func._schema.name in _BLANK and (shape.is_floating_point() or shape.is_complex())
    return _WEIGHTS if weight or blank else _TABLES


def _has(device: Any) -> bool:
    device = torch.device(device)
    return bool(device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_available()))
