"""Floor 3, cost. Plain data as YAML. In: dicts, lists, texts and numbers. Out: text in block style.

A text that YAML could take for something else (``true``, ``1x1``, ``NO``) stands in double quotes, whose escapes are
those of JSON.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

# Letters first, then what is special nowhere inside of a scalar: and none of the words that mean a truth value.
_PLAIN = re.compile(r"[A-Za-z][A-Za-z0-9._/-]*")
_WORDS = {"true", "false", "yes", "no", "on", "off", "null", "y", "n"}


def document(data: Mapping[str, Any], *comments: str) -> str:
    """One document, below ``comments`` of one line each; ends with a line feed."""
    lines = [f"# {' '.join(comment.split())}" for comment in comments if comment.strip()]
    return "\n".join([*lines, *_mapping(data, "")]) + "\n"


def scalar(value: Any) -> str:
    """A text, a number, a truth value or nothing as it stands behind a key."""
    if isinstance(value, str):
        return value if _PLAIN.fullmatch(value) and value.lower() not in _WORDS else json.dumps(value)
    return json.dumps(value)


def _mapping(data: Mapping[str, Any], indent: str) -> Iterator[str]:
    for key, value in data.items():
        yield from _entry(f"{indent}{scalar(key)}:", value, indent)


def _entry(start: str, value: Any, indent: str) -> Iterator[str]:
    inner = f"{indent}  "
    if isinstance(value, Mapping) and value:
        yield start
        yield from _mapping(value, inner)
    elif isinstance(value, Sequence) and not isinstance(value, str) and value:
        yield start
        for item in value:
            yield from _item(item, inner)
    else:
        yield f"{start} {scalar(value)}"


def _item(value: Any, indent: str) -> Iterator[str]:
    if isinstance(value, Mapping) and value:
        first, *others = _mapping(value, f"{indent}  ")
        yield f"{indent}- {first.lstrip()}"
        yield from others
    else:
        yield f"{indent}- {scalar(value)}"
