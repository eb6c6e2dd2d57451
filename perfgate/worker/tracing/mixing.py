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

# Only devices take other types than bfloat16.
_NARROW_ON_META = frozenset({"aten::_grouped_mm"})
_FILLS = frozenset(
    f"aten::{name}" for name in ("full_like", "new_full", "new_ones", "new_zeros", "ones_like", "zeros_like")
)
_INDEXING = frozenset(f"aten::{name}" for name in ("index", "index_put", "index_put_", "_unsafe_index"))
_BLANK = frozenset(f"aten::{name}" for name in ("full", "ones", "zeros", "zero", "scalar_tensor"))


class Mixer:
    """Runs operators; knows which real tensors have lost their values to a write without contents.

    ``home``: the device where small tensors are real though the model asks for them beside those without contents;
    None: it gets them as it asks.
    """

    def __init__(self, home: Any = None) -> None:
        self._home = home
        self._stale: dict[int, StorageWeakRef] = {}

    def run(self, func: Any, args: Any, kwargs: Any) -> Any:
        """The operator's result. Raises whatever torch raises, where values are asked for that are not there."""
        tensors = kinds.tensors(args, kwargs)
        contents = not any(tensor.is_meta or self._is_stale(tensor) for tensor in tensors)
        if self._home is not None and contents and _asks_for_meta(kwargs):
            kwargs = {**kwargs, "device": self._home}
        if not tensors:
            return self._factory(func, args, kwargs)
        if all(tensor.is_meta for tensor in tensors):
            result = _without_contents(func, args, _on_meta(kwargs))
            return self._filled(func, args, kwargs, result) if self._home is not None else result
        if contents and (func.is_view or sum(tensor.numel() for tensor in tensors) <= _TABLES):
            return self._real(func, args, kwargs)
        return self._mixed(func, args, kwargs)

    def _factory(self, func: Any, args: Any, kwargs: Any) -> Any:
        """A tensor out of nothing: its size is found out without memory for it."""
        device = kwargs.get("device")
        if not any(item.name == "device" for item in func._schema.arguments) or _asks_for_meta(kwargs):
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

    def _filled(self, func: Any, args: Any, kwargs: Any, result: Any) -> Any:
        """A small tensor of zeros, ones or one number has contents whatever it is made like."""
        name = func._schema.name
        if (
            name not in _FILLS
            or result.numel() > _limit(func, result)
            or (_has_gradients(result) and _differentiates())
        ):
            return result
        like = args[0]
        if name.endswith("_like"):
            blank = torch.empty_strided(like.size(), like.stride(), dtype=like.dtype, device=self._home)
        else:
            blank = torch.empty(0, dtype=like.dtype, device=self._home)
        return func(blank, *args[1:], **{key: value for key, value in kwargs.items() if key != "device"})

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
        if func._schema.name in _INDEXING:
            # How many elements a mask chooses is known from its values only.
            args = (args[0], _positions(args[1]), *args[2:])
        keep = {id(tensor) for tensor in kinds.host_arguments(func, args)}

        def shadow(leaf: Any) -> Any:
            if not isinstance(leaf, torch.Tensor) or leaf.is_meta or id(leaf) in keep:
                return leaf
            twin = shape_of(leaf)
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


def _without_contents(func: Any, args: Any, kwargs: Any) -> Any:
    if func._schema.name not in _NARROW_ON_META or args[0].dtype is torch.bfloat16:
        return func(*args, **kwargs)

    def narrow(leaf: Any) -> Any:
        return leaf.to(torch.bfloat16) if isinstance(leaf, torch.Tensor) and leaf.dtype is args[0].dtype else leaf

    result = func(*pytree.tree_map(narrow, args), **pytree.tree_map(narrow, kwargs))
    return torch.empty_strided(result.size(), result.stride(), dtype=args[0].dtype, device="meta")


def _positions(indices: Any) -> list[Any]:
    """Indices with real masks replaced by the positions that they choose."""
    found: list[Any] = []
    for index in indices:
        if index is not None and not index.is_meta and index.dtype in {torch.bool, torch.uint8}:
            found.extend(index.nonzero().unbind(-1))
        else:
            found.append(index)
    return found


def _differentiates() -> bool:
    """Whether gradients are or may be computed: they are where their tensors are."""
    return torch.is_grad_enabled() or torch._C._current_autograd_node() is not None


def _has_gradients(tensor: Any) -> bool:
    return bool(tensor.is_floating_point() or tensor.is_complex())


def _asks_for_meta(kwargs: Any) -> bool:
    return str(kwargs.get("device")) == "meta"


def _on_meta(kwargs: Any) -> Any:
    changed = dict(kwargs)
    if changed.get("device") is not None:
        changed["device"] = torch.device("meta")
    if changed.get("pin_memory"):
        changed["pin_memory"] = False
    if changed.get("generator") is not None:
        changed["generator"] = None
    return changed


def shape_of(tensor: Any) -> Any:
    """A tensor of the same layout without contents."""
    if tensor.layout is not torch.strided:
        return tensor.to("meta")
    return torch.empty_strided(tensor.size(), tensor.stride(), dtype=tensor.dtype, device="meta")


def _limit(func: Any, shape: Any) -> int:
    weight = torch.Tag.nondeterministic_seeded in func.tags or func._schema.name.startswith("aten::empty")
    blank = func._schema.name in _BLANK | _FILLS and _has_gradients(shape)
    return _WEIGHTS if weight or blank else _TABLES


def _has(device: Any) -> bool:
    device = torch.device(device)
    return bool(device.type == "cpu" or (device.type == "cuda" and torch.cuda.is_available()))
