"""Floor 3, graph. One name for several operators: ``layer3.*.conv2``.

In: names. Out: a pattern in which ``*`` stands for what differs.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

ANY = "*"
_LISTED = 3
_BETWEEN = ("", ".", "/", "#")
_TURN = re.compile(r"#\d+$")
_PARTS = re.compile(r"([./#])")


def pattern(names: Sequence[str], *, inside: bool = False) -> str:
    """What the names have in common; ``*`` alone where that is nothing.

    ``inside`` True asks for a common container: a common end (``*.conv2``) does not count.
    """
    unique = list(dict.fromkeys(names))
    if len(unique) == 1:
        return unique[0]
    # Several turns of one operator differ in their number alone.
    unique = list(dict.fromkeys(_TURN.sub("", name) for name in unique))
    if len(unique) == 1:
        return unique[0]
    split = [_PARTS.split(name) for name in unique]
    if len({tuple(parts[1::2]) for parts in split}) == 1:
        joined = [_part(column) for column in zip(*split, strict=True)]
    else:
        joined = _ends(split)
    text = re.sub(r"\*([./#]\*)+", ANY, "".join(joined))
    text = text if re.search(r"[^*./#]", text) else ANY
    return ANY if inside and text.startswith((ANY, "/")) else text


def listed(names: Sequence[str]) -> str:
    """The pattern, or the first names where there is none."""
    text = pattern(names)
    if text != ANY:
        return text
    unique = list(dict.fromkeys(names))
    return ", ".join(unique[:_LISTED]) + (", …" if len(unique) > _LISTED else "")


def _part(column: Sequence[str]) -> str:
    if len({*column}) == 1:
        return column[0]
    # ``layer1`` and ``layer3`` are ``layer*``; ``conv1`` and ``classifier`` only begin alike.
    stems = {part.rstrip("0123456789") for part in column}
    return f"{stems.pop()}{ANY}" if len(stems) == 1 else ANY


def _ends(split: list[list[str]]) -> list[str]:
    shortest = min(len(parts) for parts in split)
    first = 0
    while first < shortest and len({parts[first] for parts in split}) == 1:
        first += 1
    last = 0
    while last < shortest - first and len({parts[-1 - last] for parts in split}) == 1:
        last += 1
    example = split[0]
    start, end = example[:first], example[len(example) - last :]
    # Containers are parted by dots; what comes behind one may be a module or an operator.
    between = ["."] if start and start[-1] not in _BETWEEN else []
    return [*start, *between, ANY, *(["."] if end and end[0] not in _BETWEEN else []), *end]
