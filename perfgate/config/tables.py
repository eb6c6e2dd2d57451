"""Floor 2, config. What every table of the file has in common.

In: nothing. Out: :class:`Table`, the base of all pydantic tables, and :func:`key`, one documented key.
"""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

REQUIRED: Any = ...


def key(default: Any, kind: str, meaning: str, *, alias: str | None = None, **bounds: Any) -> Any:
    """A field whose kind and meaning are for the documentation; ``bounds`` are pydantic's (``ge``, ``max_length``)."""
    return Field(default, description=meaning, json_schema_extra={"kind": kind}, alias=alias, **bounds)


class Table(BaseModel):
    """Unknown keys and values of another type are errors; nothing is converted silently."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, validate_default=True)
