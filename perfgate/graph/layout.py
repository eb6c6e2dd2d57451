"""Floor 3, graph. What a value occupies: elements, bytes, its part of a storage, and its layout in words.

In: values of a trace. Out: numbers and texts.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from perfgate.records.graph import Value


def numel(shape: tuple[int, ...]) -> int:
    """Elements of a shape; a size that nobody knows (-1, of ragged tensors) counts as 1."""
    return math.prod(size for size in shape if size >= 0)


def elements(value: Value) -> int:
    """Distinct elements in memory: a dimension with stride 0 once, overlapping windows at most their span."""
    if value.logical is not None:
        return value.logical
    if not value.strides:
        return numel(value.shape)
    own = math.prod(size for size, stride in zip(value.shape, value.strides, strict=True) if stride or not size)
    return min(own, _span(value))


def size(value: Value) -> int:
    """Bytes of the value in memory, each element once."""
    return (elements(value) * value.bits + 7) // 8


def _span(value: Value) -> int:
    """Elements from the first to the last one, gaps included."""
    if 0 in value.shape:
        return 0
    if not value.strides:
        return numel(value.shape)
    return 1 + sum((extent - 1) * abs(stride) for extent, stride in zip(value.shape, value.strides, strict=True))


@dataclass(frozen=True, slots=True)
class Region:
    """Part of a storage. ``start`` and ``end`` in bits; ``dense``: every bit between belongs to it.

    Values with equal ``key`` are the same elements of the same storage, in whatever order they are seen.
    """

    storage: int
    start: int
    end: int
    dense: bool
    bytes: int
    key: tuple[object, ...]

    def overlaps(self, other: Region) -> bool:
        """Whether the two may share an element (two that only interleave count as sharing)."""
        return self.start < other.end and other.start < self.end

    def covers(self, other: Region) -> bool:
        """Whether every element of ``other`` surely lies in this one."""
        return self.key == other.key or (self.dense and self.start <= other.start and other.end <= self.end)


def region(value: Value) -> Region:
    """Where a value lies in its storage."""
    unit = value.bits
    if value.logical is not None:
        # Memory holds several logical elements in one of the shape's.
        unit = value.logical * value.bits // max(1, numel(value.shape))
    start = value.offset * unit
    own = elements(value)
    span = own if value.logical is not None else _span(value)
    end = start + span * value.bits
    steps: tuple[object, ...] = ()
    if own != span:
        pairs = zip(value.strides, value.shape, strict=True)
        steps = tuple(sorted((stride, extent) for stride, extent in pairs if stride and extent != 1))
    return Region(
        storage=value.storage,
        start=start,
        end=end,
        dense=own == span,
        bytes=size(value),
        key=(value.storage, start, end, steps),
    )


def union_bytes(regions: list[Region]) -> int:
    """Bytes of several regions of one storage, what they share counted once."""
    unique = list({item.key: item for item in regions}.values())
    dense = sorted((item.start, item.end) for item in unique if item.dense)
    merged: list[tuple[int, int]] = []
    for start, end in dense:
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    total = sum(end - start for start, end in merged)
    for item in unique:
        if not item.dense and not any(start <= item.start and item.end <= end for start, end in merged):
            total += 8 * item.bytes
    extent = max((item.end for item in unique), default=0) - min((item.start for item in unique), default=0)
    return (min(total, extent) + 7) // 8


def describe(value: Value) -> str:
    """``float32[1,64,56,56]``, and the layout where it is not contiguous: ``float32[1,64,56,56] channels_last``."""
    sizes = ",".join("?" if extent < 0 else str(extent) for extent in value.shape)
    word = layout_word(value)
    return f"{value.dtype}[{sizes}]{' ' if word else ''}{word}"


def layout_word(value: Value) -> str:
    """``channels_last``, ``channels_last_3d``, ``transposed``, ``expanded``, ``strided``; empty where contiguous."""
    if not value.strides or 0 in value.shape:
        return ""
    dims = [(stride, extent) for stride, extent in zip(value.strides, value.shape, strict=True) if extent != 1]
    if any(not stride for stride, _ in dims):
        return "expanded"
    if _packed(dims):
        return ""
    rank = len(value.shape)
    if rank in {4, 5}:
        order = [*range(2, rank), 1]
        last = [(value.strides[i], value.shape[i]) for i in (0, *order) if value.shape[i] != 1]
        if _packed(last):
            return "channels_last" if rank == 4 else "channels_last_3d"
    return "transposed" if _packed(sorted(dims, reverse=True)) else "strided"


def _packed(dims: list[tuple[int, int]]) -> bool:
    """Whether (stride, size) pairs, outermost first, leave no gaps."""
    due = 1
    for stride, extent in reversed(dims):
        if stride != due:
            return False
        due *= extent
    return True
