"""Cutting a view to a size limit: whole rows only, the least important part first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from perfgate.report.view import Part, View

# First to go: what the full report shows as well. Last to go: the worst rows of the first table.
CUT_ORDER = ("everything", "skipped", "notes", "facts", "findings", "banners", "rows")

# No line of any part takes fewer bytes in Markdown; more items than this can never fit and need not be rendered.
_SHORTEST_LINE = 12


def size(text: str) -> int:
    """Bytes in UTF-8; at least as many as characters in any way of counting those."""
    return len(text.encode("utf-8"))


def fit(view: View, render: Callable[[View], str], limit: int) -> str | None:
    """``render``'s text of as much of ``view`` as takes ``limit`` bytes; None if even nothing of its lists does."""
    for name in CUT_ORDER:
        part = _part(view, name)
        view = _with(view, name, part.cut(limit // _SHORTEST_LINE))
    text = render(view)
    for name in CUT_ORDER:
        if size(text) <= limit:
            return text
        view, text = _cut_part(view, name, text, render, limit)
    return text if size(text) <= limit else None


def _cut_part(view: View, name: str, text: str, render: Callable[[View], str], limit: int) -> tuple[View, str]:
    """Keep as many items of one part as fit: estimated from the mean length, then corrected downwards."""
    part = _part(view, name)
    count = len(part.items)
    if not count:
        return view, text
    without = _with(view, name, part.cut(0))
    without_text = render(without)
    room = limit - size(without_text)
    if room <= 0:
        return without, without_text
    keep = min(count - 1, math.floor(count * room / max(1, size(text) - size(without_text))))
    while keep > 0:
        candidate = _with(view, name, part.cut(keep))
        candidate_text = render(candidate)
        if size(candidate_text) <= limit:
            return candidate, candidate_text
        keep -= max(1, keep // 16)
    return without, without_text


def _part(view: View, name: str) -> Part[object]:
    part: Part[object] = getattr(view, name)
    return part


def _with(view: View, name: str, part: Part[object]) -> View:
    changed: View = replace(view, **{name: part})  # type: ignore[arg-type]
    return changed
