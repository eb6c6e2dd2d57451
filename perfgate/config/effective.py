"""Floor 2, config. The configuration in force, each value with where it came from.

In: the raw tables of one file. Out: rows ``(key, value, source)``; ``source`` is the file or ``default``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from perfgate.config import problems, schema
from perfgate.records.metrics import METRICS, SHOWN
from perfgate.units import share

DEFAULT = "default"
_PLACEHOLDER = frozenset(schema.PLACEHOLDERS.values())


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """One key as users write it, its value as in TOML, and where it was read."""

    key: str
    value: str
    source: str


def settings(tree: dict[str, Any], source: str) -> tuple[Setting, ...]:
    """All keys that were given, and all that have a default, in the order of the documentation."""
    rows = []
    for key in schema.all_keys():
        for place, given, value in _expand(tree, key.path, ()):
            if given or key.default not in (None, "", []):
                shown = value if given else key.default
                rows.append(
                    Setting(key=problems.dotted(place), value=_text(shown), source=source if given else DEFAULT)
                )
    return (*rows, *_limits(tree))


def _expand(tree: object, path: tuple[str, ...], place: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], bool, Any]]:
    """Every place that ``path`` stands for in ``tree``: (place, whether given, value)."""
    if not path:
        yield place, True, tree
        return
    first, rest = path[0], path[1:]
    table = tree if isinstance(tree, dict) else {}
    if first in _PLACEHOLDER:
        for name, item in table.items():
            yield from _expand(item, rest, (*place, name))
    elif first in table:
        yield from _expand(table[first], rest, (*place, first))
    elif not _PLACEHOLDER & set(rest):
        yield (*place, first, *rest), False, None


def _limits(tree: dict[str, Any]) -> Iterator[Setting]:
    given = tree.get("gate", {}).get("limits", {})
    for name, metric in METRICS.items():
        if name in given or metric.kind == SHOWN:
            continue
        if metric.default_limit is None:
            value = "false"
        else:
            # Latency and energy follow [gate] tolerance: see Policy.tolerance.
            value = "as gate.tolerance" if name in ("latency", "energy") else share(metric.default_limit)
        yield Setting(key=f"gate.limits.{name}", value=value, source=DEFAULT)


def _text(value: object) -> str:
    # TOML has dates, which JSON has not.
    return json.dumps(value, ensure_ascii=False, default=str)
