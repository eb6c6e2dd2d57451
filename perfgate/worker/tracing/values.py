"""Floor 3, worker. The table of tensors that a step's operators saw.

In: tensors, one after another. Out: indices of :class:`Value` records. Storages are told apart by themselves and
not by their addresses, which are used again after a free; nothing is kept alive.
"""

from __future__ import annotations

import math
import weakref
from dataclasses import dataclass
from typing import Any

import torch

from perfgate.records.graph import CONSTANT, INTERMEDIATE, META, Value
from perfgate.worker import counting

# Bits of one logical element where a byte holds several, and how many elements of the shape's own count one is.
_PACKED = {"quint4x2": (4, 1), "quint2x4": (2, 1), "float4_e2m1fn_x2": (4, 2)}


@dataclass(slots=True, kw_only=True)
class Storage:
    """One block of memory.

    Attributes:
        made: In the step.
        filled: By something traced, or before the step.
        foreign: It may be what another library made of a tensor.
        place: The module that made it.
        value: The first value seen of it.
        nbytes: What it holds now.
    """

    number: int
    role: str
    name: str
    device: str = META
    made: bool = False
    filled: bool = True
    foreign: bool = False
    place: str = ""
    value: int = -1
    nbytes: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Known:
    """What is known of a tensor before the step: its role and name; ``logical`` elements where memory packs them."""

    role: str
    name: str
    logical: int | None = None


class Values:
    """Numbers tensors and storages in order of appearance.

    ``live`` and ``peak`` are bytes of storages made in the step.
    """

    def __init__(self, device: str = "") -> None:
        self.items: list[Value] = []
        self.live = 0
        self.peak = 0
        self._own_device = _canonical(device)
        self._count = 0
        self._storages: dict[object, Storage] = {}
        self._index: dict[tuple[object, ...], int] = {}
        self._names: dict[tuple[object, ...], Known] = {}
        self._weak: dict[object, object] = {}

    def know(self, tensor: Any, known: Known) -> None:
        """Say what a tensor is; the first word on a storage and on each of its parts stands."""
        storage = self.storage(tensor)
        if storage.role == CONSTANT:
            storage.role, storage.name = known.role, known.name
        self._names.setdefault((storage.number, *_layout(tensor)[:2]), known)

    def storage(self, tensor: Any, *, made: bool = False, place: str = "") -> Storage:
        """The record of a tensor's storage; a new one is ``made`` in the step or existed before."""
        block = _storage_of(tensor)
        key = _key(tensor, block)
        found = self._storages.get(key)
        if found is not None:
            if found.made and block is not None:
                self._resize(found, block.nbytes())
            return found
        role = INTERMEDIATE if made else CONSTANT
        new = Storage(number=self._count, role=role, name="", made=made, place=place, filled=not made)
        new.device = self._device(tensor)
        self._count += 1
        self._storages[key] = new
        self._watch(key, new, tensor, block)
        if made:
            self._resize(new, block.nbytes() if block is not None else _opaque_bytes(tensor))
        return new

    @property
    def count(self) -> int:
        """How many storages there are so far."""
        return self._count

    def seen(self, tensor: Any) -> bool:
        """Whether the tensor's storage has a number."""
        return self.key(tensor) in self._storages

    def same_memory(self, tensor: Any, source: Any) -> None:
        """``tensor`` is a view of ``source``, also where torch gave it a storage of its own for the time being."""
        block = _storage_of(tensor)
        key = _key(tensor, block)
        if key not in self._storages:
            self._storages[key] = self.storage(source)
            self._weak[key] = weakref.ref(tensor if block is None else block, lambda _: self._forget(key))

    def key(self, tensor: Any) -> object:
        """Equal for tensors that share memory."""
        return _key(tensor, _storage_of(tensor))

    def _watch(self, key: object, record: Storage, tensor: Any, block: Any) -> None:
        """Note the end of a storage, after which its address (without one: the tensor's id) may be another's."""

        def end(_: object) -> None:
            self.live -= record.nbytes
            record.nbytes = 0
            self._forget(key)

        self._weak[key] = weakref.ref(tensor if block is None else block, end)

    def _forget(self, key: object) -> None:
        self._weak.pop(key, None)
        self._storages.pop(key, None)

    def _resize(self, storage: Storage, nbytes: int) -> None:
        if nbytes != storage.nbytes:
            self.live += nbytes - storage.nbytes
            storage.nbytes = nbytes
            self.peak = max(self.peak, self.live)

    def _device(self, tensor: Any) -> str:
        name = _canonical(str(tensor.device))
        return META if name == self._own_device else name

    def move(self, storage: Storage, device: str) -> None:
        """Say that a storage without a device of its own is on ``device``."""
        name = _canonical(device)
        storage.device = META if name == self._own_device else name

    def index(self, tensor: Any, *, made: bool = False, place: str = "") -> int:
        """Number of the value that a tensor is now."""
        storage = self.storage(tensor, made=made, place=place)
        offset, shape, strides, dtype = _layout(tensor)
        key = (storage.number, offset, shape, strides, dtype)
        index = self._index.get(key)
        if index is None:
            index = self._index[key] = len(self.items)
            self.items.append(self._value(tensor, storage, offset, shape, strides, dtype))
        if storage.value < 0:
            storage.value = index
        return index

    def _value(
        self, tensor: Any, storage: Storage, offset: int, shape: tuple[int, ...], strides: tuple[int, ...], dtype: str
    ) -> Value:
        known = self._names.get((storage.number, offset, shape))
        bits, logical = _bits(tensor, shape, dtype)
        if known is not None and known.logical:
            logical = known.logical
            bits = max(1, round(8 * math.prod(shape) * tensor.element_size() / logical))
        return Value(
            shape=shape,
            dtype=dtype,
            storage=storage.number,
            strides=strides,
            offset=offset,
            bits=bits,
            role=storage.role,
            name=known.name if known is not None else storage.name,
            logical=logical,
            device=storage.device,
        )

    def outliving(self) -> tuple[int, ...]:
        """First values of the storages that were made in the step and are still there."""
        return tuple(sorted({s.value for s in self._storages.values() if s.made and s.value >= 0}))


def _canonical(device: str) -> str:
    return f"{device}:0" if device == "cuda" else device


def _storage_of(tensor: Any) -> Any:
    """The untyped storage, or None for tensors without one (sparse, nested, opaque, wrappers)."""
    if tensor.layout is not torch.strided or tensor.is_nested:
        return None
    try:
        storage = tensor.untyped_storage()
        return storage if storage._cdata else None
    except (RuntimeError, NotImplementedError):
        return None


def _key(tensor: Any, block: Any) -> object:
    return ("tensor", id(tensor)) if block is None else block._cdata


def _layout(tensor: Any) -> tuple[int, tuple[int, ...], tuple[int, ...], str]:
    """Offset, sizes (-1: ragged), strides (empty: contiguous) and the name of the dtype."""
    dtype = str(tensor.dtype).removeprefix("torch.")
    if tensor.is_nested:
        return 0, tuple(_size(tensor, dim) for dim in range(tensor.dim())), (), dtype
    shape = tuple(int(size) for size in tensor.shape)
    if tensor.layout is not torch.strided:
        return 0, shape, (), dtype
    strides = () if tensor.is_contiguous() else tuple(int(stride) for stride in tensor.stride())
    return int(tensor.storage_offset()), shape, strides, dtype


def _size(tensor: Any, dim: int) -> int:
    try:
        size = tensor.size(dim)
        return size if isinstance(size, int) else -1
    except RuntimeError:
        return -1


def _bits(tensor: Any, shape: tuple[int, ...], dtype: str) -> tuple[int, int | None]:
    if tensor.is_nested:
        return 8 * tensor.dtype.itemsize, int(tensor.numel())
    if tensor.layout is not torch.strided:
        stored = _stored(tensor)
        # Each element's share of the indices belongs to it.
        bits = round(8 * _sparse_bytes(tensor) / stored) if stored else 0
        return bits or 8 * tensor.dtype.itemsize, stored
    if dtype in _PACKED:
        bits, factor = _PACKED[dtype]
        return bits, None if factor == 1 else factor * math.prod(shape)
    return 8 * tensor.dtype.itemsize, None


def _stored(tensor: Any) -> int | None:
    """How many elements a sparse tensor really holds; None where it does not say."""
    try:
        return int(tensor._values().numel() if tensor.layout is torch.sparse_coo else tensor.values().numel())
    except (RuntimeError, NotImplementedError, AttributeError):
        return None


def _sparse_bytes(tensor: Any) -> int:
    """Bytes of values and indices; 0 where they are not told."""
    try:
        return counting.sparse_bytes(tensor)
    except (RuntimeError, NotImplementedError, AttributeError):
        return 0


def _opaque_bytes(tensor: Any) -> int:
    try:
        sparse = 0 if tensor.is_nested or tensor.layout is torch.strided else _sparse_bytes(tensor)
        return sparse or int(tensor.numel() * tensor.dtype.itemsize)
    except RuntimeError:
        return 0
