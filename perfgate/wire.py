"""Floor 2. The one JSON codec: frozen records in, strict JSON out, and back.

Standard library only, since the worker speaks it too. What is written is UTF-8 JSON without
NaN or infinity; what is read must match the record exactly: unknown keys, wrong types,
non-finite numbers and over-long texts are errors that name the place.

Supported field types: dataclasses, ``tuple[X, ...]``, ``dict[str, X]``, ``Literal``,
``X | None``, unions of dataclasses (told apart by a ``"type"`` key), ``float``, ``int``, ``str``,
``bool``, and ``object`` for a free JSON tree (lists, objects, finite numbers, strings, null).
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
import types
import typing
from typing import Any, Literal, TypeVar, Union

T = TypeVar("T")

MAX_TEXT = 65_536
MAX_DEPTH = 40


class WireError(ValueError):
    """The document does not fit the record; the message starts with the path to the place."""

    def __init__(self, path: str, reason: str) -> None:
        self.path = path or "$"
        self.reason = reason
        super().__init__(f"{self.path}: {reason}")


def dumps(record: object, *, indent: int | None = None) -> str:
    """JSON text of a record. Raises ValueError on NaN or infinity: a producer must say ``None``.

    Lone surrogates (undecodable bytes of a file name), which UTF-8 cannot hold, become JSON's own ``\\udXXX``.
    """
    text = json.dumps(to_tree(record), ensure_ascii=False, allow_nan=False, indent=indent)
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def loads(cls: type[T], text: str | bytes) -> T:
    """The ``cls`` record written in ``text``. Raises :class:`WireError`."""
    try:
        tree = json.loads(text, parse_constant=_refuse_constant, object_pairs_hook=_unique_keys)
    except WireError:
        raise
    except (ValueError, RecursionError) as error:
        raise WireError("", f"not JSON: {error}") from None
    return from_tree(cls, tree)


def to_tree(value: object, *, lean: bool = False) -> Any:
    """Plain JSON tree (dict, list, scalar) of a record; ``lean`` leaves fields at their default value away."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        kept = ((f, getattr(value, f.name)) for f in dataclasses.fields(value))
        return {f.name: to_tree(item, lean=lean) for f, item in kept if not (lean and _is_default(f, item))}
    if isinstance(value, dict):
        return {str(key): to_tree(item, lean=lean) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [to_tree(item, lean=lean) for item in value]
    if value is None or isinstance(value, (str, bool, int, float)):
        return value
    msg = f"{type(value).__name__} has no JSON form"
    raise TypeError(msg)


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        return bool(value == field.default_factory())
    # 1 == True == 1.0 in Python, not in JSON.
    return field.default is not dataclasses.MISSING and type(value) is type(field.default) and value == field.default


def tagged(record: object, *, lean: bool = False) -> Any:
    """Tree of a record with its class name under ``"type"``, for members of a union; ``lean`` as in :func:`to_tree`."""
    tree: dict[str, Any] = {"type": type(record).__name__}
    tree.update(to_tree(record, lean=lean))
    return tree


def from_tree(cls: type[T], tree: object) -> T:
    """A ``cls`` from a plain JSON tree. Raises :class:`WireError`."""
    value: T = _read(cls, tree, "", 0)
    return value


def _refuse_constant(text: str) -> None:
    raise WireError("", f"{text} is not a number that JSON allows")


def _unique_keys(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    tree = dict(pairs)
    if len(tree) != len(pairs):
        raise WireError("", "an object has the same key twice")
    return tree


@functools.cache
def _hints(cls: type) -> dict[str, Any]:
    return typing.get_type_hints(cls)


def _read(hint: Any, tree: object, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise WireError(path, "nested too deeply")
    origin = typing.get_origin(hint)
    if hint is object or hint is Any:
        return _read_free(tree, path, depth)
    if origin in (Union, types.UnionType):
        return _read_union(typing.get_args(hint), tree, path, depth)
    if origin is Literal:
        if tree not in typing.get_args(hint) or isinstance(tree, bool):
            raise WireError(path, f"{_show(tree)} is none of {', '.join(map(repr, typing.get_args(hint)))}")
        return tree
    if origin is tuple:
        if not isinstance(tree, list):
            raise WireError(path, f"expected a list, found {_show(tree)}")
        item = typing.get_args(hint)[0]
        return tuple(_read(item, value, f"{path}[{index}]", depth + 1) for index, value in enumerate(tree))
    if origin is dict:
        if not isinstance(tree, dict):
            raise WireError(path, f"expected an object, found {_show(tree)}")
        item = typing.get_args(hint)[1]
        return {_text(key, path): _read(item, value, f"{path}.{key}", depth + 1) for key, value in tree.items()}
    if dataclasses.is_dataclass(hint):
        return _read_record(typing.cast("type", hint), tree, path, depth)
    return _read_scalar(hint, tree, path)


def _read_record(cls: type, tree: object, path: str, depth: int) -> Any:
    if not isinstance(tree, dict):
        raise WireError(path, f"expected an object, found {_show(tree)}")
    hints = _hints(cls)
    known = {f.name: f for f in dataclasses.fields(cls)}
    for key in tree:
        if key not in known:
            raise WireError(f"{path}.{key}" if path else str(key), f"unknown key of {cls.__name__}")
    values = {}
    for name, field in known.items():
        where = f"{path}.{name}" if path else name
        if name in tree:
            values[name] = _read(hints[name], tree[name], where, depth + 1)
        elif field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING:
            raise WireError(where, "missing")
    try:
        return cls(**values)
    except ValueError as error:
        raise WireError(path, str(error)) from None


def _read_union(members: tuple[Any, ...], tree: object, path: str, depth: int) -> Any:
    if tree is None and type(None) in members:
        return None
    rest = [member for member in members if member is not type(None)]
    if len(rest) == 1:
        return _read(rest[0], tree, path, depth)
    records = {typing.cast("type", m).__name__: m for m in rest if dataclasses.is_dataclass(m)}
    if isinstance(tree, dict) and records:
        name = tree.get("type")
        if name not in records:
            raise WireError(path, f"type {_show(name)} is none of {', '.join(records)}")
        return _read(records[name], {k: v for k, v in tree.items() if k != "type"}, path, depth)
    for member in rest:
        if not dataclasses.is_dataclass(member):
            try:
                return _read(member, tree, path, depth)
            except WireError:
                continue
    raise WireError(path, f"{_show(tree)} has the wrong type")


def _read_free(tree: object, path: str, depth: int) -> Any:
    if depth > MAX_DEPTH:
        raise WireError(path, "nested too deeply")
    if isinstance(tree, dict):
        return {_text(k, path): _read_free(v, f"{path}.{k}", depth + 1) for k, v in tree.items()}
    if isinstance(tree, list):
        return tuple(_read_free(v, f"{path}[{i}]", depth + 1) for i, v in enumerate(tree))
    if isinstance(tree, float) and not math.isfinite(tree):
        raise WireError(path, "not a finite number")
    return _text(tree, path) if isinstance(tree, str) else tree


def _read_scalar(hint: Any, tree: object, path: str) -> Any:
    if hint is str and isinstance(tree, str):
        return _text(tree, path)
    if hint is bool and isinstance(tree, bool):
        return tree
    if hint is int and isinstance(tree, int) and not isinstance(tree, bool):
        if abs(tree) >= 2**63:
            raise WireError(path, "integer out of range")
        return tree
    if hint is float and isinstance(tree, (int, float)) and not isinstance(tree, bool):
        try:
            value = float(tree)
        except OverflowError:
            value = math.inf
        if not math.isfinite(value):
            raise WireError(path, "not a finite number")
        return value
    name = getattr(hint, "__name__", str(hint))
    raise WireError(path, f"expected {name}, found {_show(tree)}")


def _text(value: object, path: str) -> str:
    if not isinstance(value, str) or len(value) > MAX_TEXT:
        raise WireError(path, f"text longer than {MAX_TEXT} characters")
    return value


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def schema(cls: type, *, title: str) -> dict[str, Any]:
    """JSON Schema (draft 2020-12) that accepts exactly what :func:`loads` accepts for ``cls``."""
    definitions: dict[str, Any] = {}
    root = _schema_of(cls, definitions)
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": title, **root, "$defs": definitions}


def _schema_of(hint: Any, definitions: dict[str, Any]) -> dict[str, Any]:
    origin = typing.get_origin(hint)
    if hint is object or hint is Any:
        return {}
    if origin in (Union, types.UnionType):
        members = typing.get_args(hint)
        records = [m for m in members if dataclasses.is_dataclass(m)]
        options = []
        for member in members:
            option = {"type": "null"} if member is type(None) else _schema_of(member, definitions)
            options.append(_with_tag(member, definitions) if len(records) > 1 and member in records else option)
        return {"anyOf": options}
    if origin is Literal:
        return {"enum": list(typing.get_args(hint))}
    if origin is tuple:
        return {"type": "array", "items": _schema_of(typing.get_args(hint)[0], definitions)}
    if origin is dict:
        return {"type": "object", "additionalProperties": _schema_of(typing.get_args(hint)[1], definitions)}
    if dataclasses.is_dataclass(hint):
        cls = typing.cast("type", hint)
        if cls.__name__ not in definitions:
            definitions[cls.__name__] = {}
            definitions[cls.__name__] = _record_schema(cls, definitions)
        return {"$ref": f"#/$defs/{cls.__name__}"}
    if hint is str:
        return {"type": "string", "maxLength": MAX_TEXT}
    return {"type": {bool: "boolean", int: "integer", float: "number"}[hint]}


def _record_schema(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    hints = _hints(cls)
    fields = dataclasses.fields(cls)
    missing = dataclasses.MISSING
    return {
        "type": "object",
        "additionalProperties": False,
        "properties": {f.name: _schema_of(hints[f.name], definitions) for f in fields},
        "required": [f.name for f in fields if f.default is missing and f.default_factory is missing],
    }


def _with_tag(cls: type, definitions: dict[str, Any]) -> dict[str, Any]:
    body = _record_schema(cls, definitions)
    body["properties"] = {"type": {"const": cls.__name__}, **body["properties"]}
    body["required"] = ["type", *body["required"]]
    return body
