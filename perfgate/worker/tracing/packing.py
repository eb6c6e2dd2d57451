"""Floor 3, worker. Weights that are packed out of sight.

In: a parameter, or what a quantised operator is given. Out: the tensors inside by name, and how many elements they
stand for.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from perfgate.worker import counting, packed

_LAYER = ("weight", "bias")
_CELL = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
# Matrices of a single cell, by the name of their argument: their ending. Their biases are arguments once more.
_ALONE = {"w_ih": "_ih", "w_hh": "_hh"}


def is_packed(value: Any) -> bool:
    """Whether an argument is a packed weight of a quantised operator, or the cells of a recurrent layer."""
    if isinstance(value, (list, tuple)):
        return bool(value) and all(map(packed.is_packed, value))
    return packed.is_packed(value)


def unpacked(
    value: Any, argument: str, tensors: Mapping[str, list[Any]], attributes: Mapping[str, object]
) -> list[tuple[str, Any]]:
    """The tensors of a packed argument by the names that plain modules give them; None where one is absent.

    ``tensors`` and ``attributes`` are the call's other arguments by name.
    """
    if isinstance(value, (list, tuple)):
        directions = ("", "_reverse") if attributes.get("bidirectional") else ("",)
        endings = [f"_l{place // len(directions)}{directions[place % len(directions)]}" for place in range(len(value))]
        return [
            (f"{name}{ending}", leaf)
            for cell, ending in zip(value, endings, strict=True)
            for name, leaf in zip(_CELL, packed.unpacked(cell), strict=False)
        ]
    ending = _ALONE.get(argument, "")
    found = [(f"{name}{ending}", leaf) for name, leaf in zip(_LAYER, packed.unpacked(value), strict=False)]
    # What is given twice is read once.
    again = bool(ending) and any(tensors.get(f"{letter}{ending}") for letter in ("b", "bias"))
    return found[:1] if again else found


def parts(tensor: Any) -> Iterator[tuple[Any, int | None]]:
    """A tensor, or the plain ones inside a wrapper, each with its logical elements where memory packs them."""
    for inner in counting.inner_tensors(tensor):
        yield inner, counting.logical(inner)
