"""Floor 2, config. pydantic's complaints in, one :class:`ConfigProblem` for each wrong key out.

The key is written as in the file (``models.resnet50.batch[1]``); the hint names the close match.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from perfgate.config import schema, values
from perfgate.errors import ConfigProblem

Loc = tuple[int | str, ...]

_EXPECTED = {
    "int_type": "a whole number",
    "float_type": "a number",
    "string_type": "a text",
    "bool_type": "true or false",
    "list_type": "a list",
    "dict_type": "a table",
    "model_type": "a table",
    "model_attributes_type": "a table",
}


def from_validation(error: ValidationError, *, file: str, prefix: Loc = ()) -> list[ConfigProblem]:
    """All of ``error``, each with the place, the reason and a hint, in the order of the schema."""
    found = []
    for item in error.errors(include_url=False):
        loc = item["loc"]
        reason, hint = _explain(str(item["type"]), loc, item["input"], item.get("ctx", {}), str(item["msg"]))
        found.append(problem(file, (*prefix, *loc), reason, hint))
    return found


def problem(file: str, loc: Loc, reason: str, hint: str = "") -> ConfigProblem:
    """A problem at ``loc``: texts are keys, numbers are positions in a list."""
    return ConfigProblem(file=file, key=dotted(loc) or "(whole file)", reason=reason, hint=hint)


def dotted(loc: Loc) -> str:
    """``models.resnet50.batch[1]``; a key that is not a bare TOML key is quoted."""
    text = ""
    for part in loc:
        if isinstance(part, int):
            text += f"[{part}]"
        elif part != "[key]":  # pydantic's mark for "the key itself is wrong"
            bare = part.replace("_", "").replace("-", "")
            shown = part if bare.isascii() and bare.isalnum() else f'"{part}"'
            text += f".{shown}" if text else shown
    return text


def _explain(kind: str, loc: Loc, value: object, context: Mapping[str, Any], message: str) -> tuple[str, str]:
    if kind == "extra_forbidden":
        return "unknown key", _hint_for_key(loc)
    if kind == "missing":
        return "missing", "write version = 1" if loc == ("version",) else ""
    if kind == "literal_error":
        return f"{_show(value)} is not {context['expected']}", _close(value, _choices(str(context["expected"])))
    if kind == "value_error":
        hint = _close(loc[-2], values.gateable()) if loc[-1] == "[key]" and len(loc) > 1 else ""
        return str(context["error"]), hint
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {_show(value)}", ""
    return f"{_show(value)}: {message[:1].lower()}{message[1:]}", ""


def _choices(expected: str) -> list[str]:
    return [part.strip("' ") for part in expected.replace(" or ", ", ").split(",")]


def _close(value: object, candidates: Iterable[str]) -> str:
    matches = difflib.get_close_matches(str(value), list(candidates), n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else ""


def _hint_for_key(loc: Loc) -> str:
    key = str(loc[-1])
    if key in schema.LATER:
        return "not supported by this version of perfgate; remove it"
    table = _table_at(loc[:-1])
    known = schema.names(table)
    elsewhere = sorted((item.path for item in schema.all_keys() if item.path[-1] == key), key=len)
    if elsewhere:
        return f"it belongs in {_place(elsewhere[0])}"
    if close := _close(key, known):
        return close
    return f"known here: {', '.join(known)}"


def _place(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(path[:-1])}]" if len(path) > 1 else "the top of the file"


def _table_at(loc: Loc) -> type[schema.Table]:
    table: type[schema.Table] = schema.ConfigTable
    between = False
    for part in loc:
        if between:
            between = False
            continue
        below, between = schema.inner(schema.names(table)[str(part)])
        if below is None:
            break
        table = below
    return table


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
