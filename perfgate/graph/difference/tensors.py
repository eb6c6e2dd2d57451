"""Floor 3, graph. Tensors as an operator's texts give them, and what differs between two of them, in words.

In: ``float32[1,64,56,56] channels_last``. Out: its parts; ``float32 → bfloat16``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

ARROW = " → "
CONTIGUOUS = "contiguous"

_DIGITS = 18
_TEXT = re.compile(r"([^\[\]]*)\[([^\[\]]*)\] ?(.*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Tensor:
    """``shape`` holds -1 for a size that is not known; ``layout`` is ``contiguous`` where the text says nothing."""

    dtype: str
    shape: tuple[int, ...]
    layout: str = CONTIGUOUS


def parse(text: str) -> Tensor:
    """A tensor from its text; a text of another form is kept whole, as a dtype of no shape."""
    match = _TEXT.fullmatch(text)
    if match is None:
        return Tensor(text, ())
    sizes = (item.strip() for item in match[2].split(",") if item.strip())
    return Tensor(match[1], tuple(_size(item) for item in sizes), match[3] or CONTIGUOUS)


def _size(text: str) -> int:
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _DIGITS else -1


def shape_text(shape: Sequence[int]) -> str:
    """``[1,64,56,56]``."""
    return f"[{','.join('?' if size < 0 else str(size) for size in shape)}]"


@dataclass(frozen=True, slots=True)
class Step:
    """What happened to one tensor: (base, head) of each part that differs, None where it is the same."""

    dtype: tuple[str, str] | None
    layout: tuple[str, str] | None
    shape: tuple[tuple[int, ...], tuple[int, ...]] | None

    @property
    def sizes(self) -> frozenset[tuple[int, int]]:
        """Sizes that became others, as (base, head); of tensors of different rank the numbers of elements."""
        if self.shape is None:
            return frozenset()
        base, head = self.shape
        if len(base) != len(head):
            return frozenset({(_product(base), _product(head))})
        return frozenset((one, other) for one, other in zip(base, head, strict=True) if one != other)


def step(base: Tensor, head: Tensor) -> Step | None:
    """What differs between two tensors; None for nothing."""
    if base == head:
        return None
    # Layouts of tensors of another rank do not compare: a vector is neither channels_last nor not.
    alike = len(base.shape) == len(head.shape)
    return Step(
        dtype=(base.dtype, head.dtype) if base.dtype != head.dtype else None,
        layout=(base.layout, head.layout) if alike and base.layout != head.layout else None,
        shape=(base.shape, head.shape) if base.shape != head.shape else None,
    )


def _product(shape: Iterable[int]) -> int:
    total = 1
    for size in shape:
        total *= size
    return total
