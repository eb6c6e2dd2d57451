"""Floor 3, worker. What can be counted exactly: parameters, bytes, matmul-like FLOP, operator calls.

In: a loaded model and its step. Out: numbers, and notes on what could not be had. Everything that a count
changes for its purposes is put back, also after an exception. FLOP = 2 x multiply-accumulate.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import Any

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

from perfgate.worker.failures import WorkerError

# Bookkeeping of autograd and allocation without any work of its own. `_unsafe_view` is a view of a fresh copy.
_FREE = frozenset(
    f"aten::{name}"
    for name in ("detach", "empty", "empty_strided", "empty_like", "new_empty", "lift_fresh", "_unsafe_view")
)


def parameters(module: Any) -> int:
    """Elements of all parameters, tied ones once, and of packed weights of quantised modules."""
    plain: int = sum(p.numel() for p in module.parameters())
    hidden: int = sum(tensor.numel() for tensor in packed(module))
    return plain + hidden


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers, shared storage once, and of packed weights."""
    seen: set[object] = set()
    total = 0
    for tensor in [*module.parameters(), *module.buffers(), *packed(module)]:
        total += _new_bytes(tensor, seen)
    return total


def _new_bytes(tensor: Any, seen: set[object]) -> int:
    size = int(tensor.numel() * tensor.element_size())
    try:
        storage = tensor.untyped_storage()
        # Two views of one storage: each part counts for itself unless it is the same part.
        key: object = (storage._cdata, tensor.storage_offset(), size)
    except (RuntimeError, NotImplementedError):
        key = id(tensor)
        if not tensor.is_quantized and tensor.layout is not torch.strided:
            values = tensor.values()
            size = int(values.numel() * values.element_size())
    if key in seen:
        return 0
    seen.add(key)
    return size


def packed(module: Any) -> list[Any]:
    """Weights that quantised modules keep where ``parameters()`` does not look."""
    found: list[Any] = []
    for child in module.modules():
        unpack = getattr(child, "_weight_bias", None)
        if not callable(unpack):
            continue
        with suppress(Exception):
            found.extend(tensor for tensor in unpack() if isinstance(tensor, torch.Tensor))
            continue
    owned = {id(p) for p in module.parameters()}
    unique: dict[int, Any] = {}
    for tensor in found:
        if id(tensor) not in owned and not any(_same(tensor, other) for other in unique.values()):
            unique[id(tensor)] = tensor
    return list(unique.values())


def _same(one: Any, other: Any) -> bool:
    """Unpacking gives new tensors; a module and its parameter holder give the same weights twice."""
    return one.shape == other.shape and one.dtype == other.dtype and bool(torch.equal(one, other))


def structure(module: Any) -> dict[str, object]:
    """How many modules of each class, and the bytes of the parameters that they hold themselves."""
    classes: Counter[str] = Counter()
    sizes: Counter[str] = Counter()
    seen: set[object] = set()
    for child in module.modules():
        name = type(child).__name__
        classes[name] += 1
        held = sum(_new_bytes(p, seen) for p in child.parameters(recurse=False))
        if held:
            sizes[name] += held
    return {"modules": dict(sorted(classes.items())), "parameter_bytes": dict(sorted(sizes.items()))}


class _Operators(TorchDispatchMode):  # type: ignore[misc]
    def __init__(self) -> None:
        super().__init__()
        self.count: int = 0

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        # See naming.Recorder.
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view and func._schema.name not in _FREE:
            self.count += 1
        return func(*args, **(kwargs or {}))


def operators(call: Callable[[], object]) -> int:
    """Dispatched operator calls of ``call`` that are no views; compiled parts run uncompiled for it."""
    with uncompiled(), _Operators() as mode:
        call()
    return int(mode.count)


def flop(call: Callable[[], object]) -> int:
    """Matmul-like FLOP of ``call`` by torch's own counter, with no fused fast path to hide work."""
    with _no_fast_path(), uncompiled(), FlopCounterMode(display=False) as counter:
        call()
    return int(counter.get_total_flops())


def flop_on_host(call: Callable[[], object]) -> int:
    """:func:`flop` of a call that really runs: attention by plain matrix products, which the counter knows."""
    with sdpa_kernel(SDPBackend.MATH):
        return flop(call)


@contextmanager
def _no_fast_path() -> Iterator[None]:
    before = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        yield
    finally:
        torch.backends.mha.set_fastpath_enabled(before)


@contextmanager
def uncompiled() -> Iterator[None]:
    """torch.compile'd functions run as they were written; nothing to do where it was never used."""
    dynamo: Any = sys.modules.get("torch._dynamo")
    set_stance = getattr(torch.compiler, "set_stance", None)
    if dynamo is None:
        yield
    elif set_stance is not None:
        with set_stance("force_eager"):
            yield
    else:
        before = dynamo.config.disable
        dynamo.config.disable = True
        try:
            yield
        finally:
            dynamo.config.disable = before


@contextmanager
def stand_in(module: Any, *, meta: bool) -> Iterator[None]:
    """The same module for a while with other tensors, so that counting leaves no trace in it.

    ``meta`` True: shapes without contents. False: parameters that share their contents but have their own
    gradients, and private copies of buffers. Each submodule's attributes are put back at the end, also
    those that a forward pass set itself (caches), and so is the random generator.
    """
    made: dict[int, Any] = {}

    def other(tensor: Any) -> Any:
        if id(tensor) not in made:
            made[id(tensor)] = _meta(tensor) if meta else _copy(tensor)
        return made[id(tensor)]

    with ExitStack() as stack:
        stack.enter_context(torch.random.fork_rng(devices=_gpus(module)))
        for child in [] if module is None else list(module.modules()):
            stack.callback(_restore, child, dict(vars(child)), *_inner(child))
            for table in (child._parameters, child._buffers):
                table.update({name: other(tensor) for name, tensor in table.items() if tensor is not None})
            for name, value in list(vars(child).items()):
                if isinstance(value, torch.Tensor):
                    vars(child)[name] = other(value)
        yield


def _inner(child: Any) -> tuple[dict[str, Any], dict[str, Any], dict[str, Any]]:
    return dict(child._parameters), dict(child._buffers), dict(child._modules)


def _restore(child: Any, attributes: dict[str, Any], *tables: dict[str, Any]) -> None:
    vars(child).clear()
    vars(child).update(attributes)
    for table, saved in zip((child._parameters, child._buffers, child._modules), tables, strict=True):
        table.clear()
        table.update(saved)


def _meta(tensor: Any) -> Any:
    empty = torch.empty_like(tensor.detach(), device="meta")
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(empty, requires_grad=tensor.requires_grad)
    return empty.requires_grad_(tensor.requires_grad)


def _copy(tensor: Any) -> Any:
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(tensor.detach(), requires_grad=tensor.requires_grad)
    return tensor.detach().clone()


def _gpus(module: Any) -> list[int]:
    if module is None:
        return []
    return sorted({p.device.index for p in module.parameters() if p.device.type == "cuda"})


def count_flop(module: Any, on_meta: Callable[[], object], on_host: Callable[[], object]) -> tuple[int | None, str]:
    """FLOP of one step and a note (empty: counted without contents, as it should be).

    Models that look at values refuse tensors without contents; these run once more, for real.
    """
    try:
        with stand_in(module, meta=True):
            return flop(on_meta), ""
    except WorkerError:
        raise
    except Exception as error:
        first = type(error).__name__
    try:
        with stand_in(module, meta=False):
            return flop_on_host(
                on_host
            ), f"FLOP counted on real tensors, since the model refuses meta tensors ({first})"
    except Exception as error:
        return None, f"FLOP could not be counted: {type(error).__name__}"
