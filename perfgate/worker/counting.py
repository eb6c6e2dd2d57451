"""Floor 3, worker. What a model holds: parameters, bytes of weights, modules by class.

In: a module. Out: numbers. Nothing is run, nothing is changed.
"""

from __future__ import annotations

import math
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

import torch
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from perfgate.worker import packed as hidden

# Read by torch.compile when it is called, imported or not.
_COMPILER_SWITCH = "TORCHDYNAMO_DISABLE"


def parameters(module: Any) -> int:
    """Elements of all parameters, tied ones once, and of packed weights of quantised modules, as many as they
    stand for."""
    plain: int = sum(_elements(p) for p in module.parameters())
    hidden: int = sum(tensor.numel() for tensor in packed(module))
    return plain + hidden


def _elements(tensor: Any) -> int:
    packed_as = logical(tensor)
    return int(tensor.numel()) if packed_as is None else packed_as


def logical(tensor: Any) -> int | None:
    """Elements that a packed tensor stands for, as its ``quant_state`` says; None where it is not packed."""
    shape = getattr(getattr(tensor, "quant_state", None), "shape", None)
    return None if shape is None else math.prod(shape)


def weight_bytes(module: Any) -> int:
    """Bytes of all parameters and buffers, shared storage once, and of packed weights."""
    seen: set[object] = set()
    total = 0
    for tensor in [*module.parameters(), *module.buffers(), *packed(module)]:
        total += _new_bytes(tensor, seen)
    return total


def inner_tensors(tensor: Any) -> Iterator[Any]:
    """The plain tensors inside a wrapper (quantised, distributed, ...), or the tensor itself."""
    if not is_traceable_wrapper_subclass(tensor):
        yield tensor
        return
    names, _ = tensor.__tensor_flatten__()
    for name in names:
        inner = getattr(tensor, name)
        # Distributed tensors name their mesh too.
        if isinstance(inner, torch.Tensor):
            yield from inner_tensors(inner)


def _new_bytes(tensor: Any, seen: set[object]) -> int:
    return sum(_plain_bytes(inner, seen) for inner in inner_tensors(tensor))


def _plain_bytes(tensor: Any, seen: set[object]) -> int:
    size = int(tensor.numel() * tensor.element_size())
    try:
        storage = tensor.untyped_storage()
        # Elements of four bits are said to have a byte.
        size = min(size, storage.nbytes()) if tensor.is_quantized else size
        # Two views of one storage: each part counts for itself unless it is the same part.
        key: object = (storage._cdata, tensor.storage_offset(), size)
    except (RuntimeError, NotImplementedError):
        key = id(tensor)
        if not tensor.is_quantized and tensor.layout is not torch.strided:
            size = sparse_bytes(tensor)
    if key in seen:
        return 0
    seen.add(key)
    return size


def sparse_bytes(tensor: Any) -> int:
    """Bytes of a sparse tensor's values and indices. Raises RuntimeError where it does not tell them."""
    return sum(int(part.numel() * part.element_size()) for part in _sparse_parts(tensor))


def _sparse_parts(tensor: Any) -> tuple[Any, ...]:
    if tensor.layout is torch.sparse_coo:
        return tensor._values(), tensor._indices()
    if tensor.layout in {torch.sparse_csc, torch.sparse_bsc}:
        return tensor.values(), tensor.ccol_indices(), tensor.row_indices()
    return tensor.values(), tensor.crow_indices(), tensor.col_indices()


def packed(module: Any) -> list[Any]:
    """Weights that quantised modules keep where ``parameters()`` does not look."""
    holders = {id(value): value for child in module.modules() for value in hidden.held(child)}
    leaves = [leaf for value in holders.values() for leaf in hidden.unpacked(value) if leaf is not None]
    found: dict[int, Any] = {id(leaf): leaf for leaf in leaves}
    for child in module.modules():
        # A layer answers for its holder of packed weights too, and unpacking gives new tensors each time: equal
        # values say nothing, since fresh biases are all zero. So only the innermost is asked.
        if not _unpacks(child) or any(inner is not child and _unpacks(inner) for inner in child.modules()):
            continue
        if any(True for inner in child.modules() for _ in hidden.held(inner)):
            continue
        with suppress(Exception):
            found.update({id(tensor): tensor for tensor in child._weight_bias() if isinstance(tensor, torch.Tensor)})
    owned = {id(p) for p in module.parameters()}
    return [tensor for key, tensor in found.items() if key not in owned]


def _unpacks(module: Any) -> bool:
    return callable(getattr(module, "_weight_bias", None))


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


def total(count: Any, modules: Iterable[Any]) -> int:
    """Sum of :func:`parameters` or :func:`weight_bytes` over several models, each tensor once."""
    holder = torch.nn.ModuleList(modules)
    return int(count(holder))


@contextmanager
def uncompiled() -> Iterator[None]:
    """torch.compile'd functions run as they were written, also those that are compiled only inside.

    The compiler is not imported for this, which would take seconds.
    """
    before = os.environ.get(_COMPILER_SWITCH)
    os.environ[_COMPILER_SWITCH] = "1"
    try:
        with _standing_eager():
            yield
    finally:
        if before is None:
            os.environ.pop(_COMPILER_SWITCH, None)
        else:
            os.environ[_COMPILER_SWITCH] = before


@contextmanager
def _standing_eager() -> Iterator[None]:
    """The same for functions that were compiled before; nothing to do where the compiler was never used."""
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
