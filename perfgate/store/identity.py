"""Room ``store``: what makes two records the same one.

In: a record. Out: its canonical text and the SHA-256 of that text, and the record back from both.

The canonical text is what :mod:`perfgate.wire` writes, with keys sorted, no white space, ASCII only,
and without the fields that hold their default. The last rule lets a later release add a field with a
default and keep the identity of every record that is already stored.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
from typing import Any

from perfgate import wire
from perfgate.errors import StoreError
from perfgate.records.baseline import BaselineRecord


def canonical(record: BaselineRecord) -> str:
    """The one JSON text of ``record``. Raises StoreError where it has none (NaN, wrong types)."""
    try:
        # Through the reader once, so that 5 and 5.0 in a float field, or a list and a tuple, are one record.
        clean = wire.from_tree(BaselineRecord, wire.to_tree(record))
        return json.dumps(sparse(clean), sort_keys=True, separators=(",", ":"), allow_nan=False)
    except (ValueError, TypeError, RecursionError) as error:
        msg = f"baseline record of {record.model_key!r} at {record.commit!r}: {error}; it was not recorded"
        raise StoreError(msg) from error


def record_id(record: BaselineRecord) -> str:
    """SHA-256 of the canonical text: 64 hexadecimal digits. Raises StoreError as :func:`canonical` does."""
    return digest(canonical(record))


def digest(text: str) -> str:
    """SHA-256 of a canonical text: 64 hexadecimal digits."""
    return hashlib.sha256(text.encode("ascii")).hexdigest()


def place(record: BaselineRecord, *, each_threads: bool = False) -> tuple[str, str, str, str]:
    """What records are newer or older versions of: model, workload, hardware; ``each_threads``: and threads."""
    threads = record.resources.get("threads", "") if each_threads else ""
    return record.model_key, record.workload.key, record.hardware_id, threads


def decode(identifier: str, text: str, where: str) -> BaselineRecord:
    """The record behind a stored row of the store named ``where``.

    Raises StoreError if the text is not what was hashed, or holds what this release cannot read.
    """
    if not text.isascii() or digest(text) != identifier:
        msg = (
            f"{where}: record {identifier[:12]} was changed after it was stored; "
            "restore the database from a copy, or move it away to begin a new one; nothing was changed"
        )
        raise StoreError(msg)
    try:
        return wire.loads(BaselineRecord, text)
    except wire.WireError as error:
        msg = f"{where}: record {identifier[:12]} cannot be read by this perfgate ({error}); install a newer perfgate"
        raise StoreError(msg) from error


def short_hash(facts: dict[str, str]) -> str:
    """Twelve hexadecimal digits that name a set of facts, whatever their order."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode("ascii")).hexdigest()[:12]


def sparse(record: object) -> dict[str, Any]:
    """JSON tree of a dataclass without the fields that hold their default, at all levels of dataclasses."""
    tree: dict[str, Any] = {}
    for field in dataclasses.fields(record):  # type: ignore[arg-type]
        value = getattr(record, field.name)
        if field.default_factory is not dataclasses.MISSING and value == field.default_factory():
            continue
        if field.default is not dataclasses.MISSING and value == field.default:
            continue
        tree[field.name] = sparse(value) if dataclasses.is_dataclass(value) else wire.to_tree(value)
    return tree
