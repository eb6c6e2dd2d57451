"""Floor 2, config. pydantic's complaints in, one :class:`ConfigProblem` for each wrong key out.

The key is written as in the file (``models.resnet50.batch[1]``); the hint names the close match.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import ValidationError

from perfgate.config import schema, values
from perfgate.config.tables import Table
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


def from_validation(
    error: ValidationError,
    *,
    file: str,
    prefix: Loc = (),
    root: type[Table] = schema.ConfigTable,
    private: bool = False,
) -> list[ConfigProblem]:
    """All of ``error``, each with the place, the reason and a hint, in the order of the schema.

    ``root`` is the table that was validated; ``private``: no reason repeats a value of the file.
    """
    found = []
    for item in error.errors(include_url=False):
        loc, kind = item["loc"], str(item["type"])
        if kind == "extra_forbidden":
            reason, hint = "unknown key", _hint_for_key(loc, root)
        elif private and kind != "missing" and loc[-1] != "[key]":
            reason, hint = f"must be {_kind_of(loc, root)}", "the value is not repeated here"
        else:
            reason, hint = _explain(kind, loc, item["input"], item.get("ctx", {}), str(item["msg"]))
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
    if kind == "missing":
        return "missing", "write version = 1" if loc == ("version",) else ""
    if kind == "literal_error":
        return f"{_show(value)} is not {context['expected']}", _close(value, _choices(str(context["expected"])))
    if kind == "value_error":
        metric = loc[-1] == "[key]" and len(loc) > 2 and loc[-3] == "limits"
        hint = _close(loc[-2], values.gateable()) if metric else ""
        return str(context["error"]), hint
    if kind in _EXPECTED:
        return f"expected {_EXPECTED[kind]}, found {_show(value)}", ""
    return f"{_show(value)}: {message[:1].lower()}{message[1:]}", ""


def _choices(expected: str) -> list[str]:
    return [part.strip("' ") for part in expected.replace(" or ", ", ").split(",")]


def _close(value: object, candidates: Iterable[str]) -> str:
    matches = difflib.get_close_matches(str(value), list(candidates), n=1, cutoff=0.6)
    return f"did you mean {matches[0]!r}?" if matches else ""


def _hint_for_key(loc: Loc, root: type[Table]) -> str:
    key = str(loc[-1])
    if key in schema.LATER:
        return "not supported by this version of perfgate; remove it"
    known = schema.names(_table_at(loc[:-1], root))
    elsewhere = sorted((item.path for item in schema.all_keys(root) if item.path[-1] == key), key=len)
    if elsewhere:
        return f"it belongs in {_place(elsewhere[0])}"
    if close := _close(key, known):
        return close
    return f"known here: {', '.join(known)}"


def _place(path: tuple[str, ...]) -> str:
    return f"[{'.'.join(path[:-1])}]" if len(path) > 1 else "the top of the file"


def _table_at(loc: Loc, root: type[Table]) -> type[Table]:
    table = root
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


def _kind_of(loc: Loc, root: type[Table]) -> str:
    """The kind of value that belongs at ``loc``, as the documentation says it."""
    table, kind, between = root, "table", False
    for part in loc:
        if between:
            between = False
            continue
        info = schema.names(table).get(str(part))
        if info is None:
            break
        extra = info.json_schema_extra
        kind = str(extra["kind"]) if isinstance(extra, dict) else kind
        below, between = schema.inner(info)
        if below is None:
            break
        table = below
        # A name and its table are still to come, or the table itself was wrong.
        kind = "table" if len(loc) > loc.index(part) + 1 else kind
    return kind


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
