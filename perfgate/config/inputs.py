"""Floor 2, config. The grammar of ``inputs``: what is wrong in a tree of input specifications.

In: the TOML value of ``inputs``. Out: ``(place, reason)`` for every wrong leaf, and the tree frozen.
A leaf is ``DTYPE[DIM, ...]`` or ``DTYPE[DIM, ...] < BOUND`` (whole numbers below BOUND), a number
or a boolean; a DIM is a whole number, ``batch``, or a product of them (``4*batch``).
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from perfgate.specification import EXAMPLE, PATTERN, dimensions

_INTEGERS = ("uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64")
_OTHERS = (
    "bool", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2", "complex64", "complex128",
)  # fmt: skip
DTYPES = (*_INTEGERS, *_OTHERS)


# Specifications travel to the worker as JSON, which has a largest depth too.
MAX_NESTING = 16

Place = tuple[int | str, ...]


def problems(tree: object) -> Iterator[tuple[Place, str]]:
    """Every wrong place as (place below ``inputs``, reason); nothing where the tree is right."""
    # Configurations have lists, records tuples.
    if isinstance(tree, (list, tuple, dict)):
        yield from _walk(tree, ())
    else:
        yield (), f"{tree!r} is neither a list (positional) nor a table (keywords); put it in [ ]"


def uses_batch(tree: object) -> bool:
    """Whether any leaf has a dimension ``batch``."""
    if isinstance(tree, dict):
        return any(uses_batch(item) for item in tree.values())
    if isinstance(tree, (list, tuple)):
        return any(uses_batch(item) for item in tree)
    return isinstance(tree, str) and re.search(r"\bbatch\b", tree) is not None


def freeze(tree: object) -> object:
    """The same tree with tuples for lists, as the JSON codec reads it back."""
    if isinstance(tree, dict):
        return {key: freeze(item) for key, item in tree.items()}
    return tuple(freeze(item) for item in tree) if isinstance(tree, list) else tree


def _walk(tree: object, place: Place) -> Iterator[tuple[Place, str]]:
    if len(place) > MAX_NESTING:
        yield place[:1], f"nested more than {MAX_NESTING} deep; use make_inputs"
    elif isinstance(tree, dict):
        for key, item in tree.items():
            yield from _walk(item, (*place, key))
    elif isinstance(tree, (list, tuple)):
        for index, item in enumerate(tree):
            yield from _walk(item, (*place, index))
    elif isinstance(tree, str):
        yield from ((place, reason) for reason in _leaf(tree))
    elif not isinstance(tree, (bool, int, float)):
        yield place, f"{tree} is neither a specification nor a number; {EXAMPLE}"
    elif tree != tree or tree in (float("inf"), float("-inf")):
        yield place, f"{tree} is not a finite number"


def _leaf(text: str) -> Iterator[str]:
    match = PATTERN.fullmatch(text)
    if not match:
        yield f"{text!r} is not an input specification; {EXAMPLE}"
        return
    dtype, bound = match["dtype"], match["bound"]
    if dtype not in DTYPES:
        yield f"{dtype!r} is not a dtype; write one of {', '.join(DTYPES)}"
    elif bound is not None and dtype not in _INTEGERS:
        yield f"'< {bound}' needs a dtype of whole numbers, and {dtype} is not one"
    if bound is not None and int(bound) < 1:
        yield f"'< {bound}' leaves no value; write at least '< 1'"
    for dim in dimensions(match["dims"]):
        if not all(_is_factor(factor.strip()) for factor in dim.split("*")):
            yield f"dimension {dim!r} of {text!r} is no whole number of at least 1, no 'batch' and no product of them"


def _is_factor(text: str) -> bool:
    return text == "batch" or re.fullmatch(r"0*[1-9][0-9]{0,17}", text) is not None
