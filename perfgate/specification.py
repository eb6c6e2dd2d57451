"""Floor 0. The text of one input specification. Standard library only: configuration, file and worker read it alike.

In: texts like ``int64[batch,128] < 30522``. Out: :class:`Leaf`: dtype's name, sizes, bound.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

# dtype, dimensions, and for integers the first value that must not occur.
PATTERN = re.compile(r"\s*(?P<dtype>\w+)\s*\[(?P<dims>[^\[\]]*)\]\s*(?:<\s*(?P<bound>[0-9]{1,18})\s*)?")
EXAMPLE = "write it as in 'float32[batch,3,224,224]' or 'int64[batch,128] < 30522'"


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One tensor. ``bound``: the first whole number that must not occur; None where none was written."""

    dtype: str
    shape: tuple[int, ...]
    bound: int | None = None


def parse(text: str, batch: int) -> Leaf:
    """What ``text`` specifies. Raises ValueError with one sentence."""
    match = PATTERN.fullmatch(text)
    if match is None:
        msg = f"{text!r} is not an input; {EXAMPLE}"
        raise ValueError(msg)
    return Leaf(
        dtype=match["dtype"],
        shape=tuple(_size(dim, text, batch) for dim in dimensions(match["dims"])),
        bound=int(match["bound"]) if match["bound"] else None,
    )


def dimensions(text: str) -> list[str]:
    """The dimensions between the brackets."""
    return [dim.strip() for dim in text.split(",")] if text.strip() else []


def _size(dim: str, text: str, batch: int) -> int:
    """A number, ``batch``, or a product of them as in ``4*batch``."""
    size = 1
    for factor in dim.split("*"):
        word = factor.strip()
        if word == "batch":
            size *= batch
        elif word.isdecimal():
            size *= int(word)
        else:
            msg = f"{word!r} in {text!r} is neither a number nor batch; {EXAMPLE}"
            raise ValueError(msg)
    return size
