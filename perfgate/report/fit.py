"""Cutting a view to a size limit: whole rows only, the least important part first."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from perfgate.report.view import Part, View

# First to go: what the full report shows as well. Last to go: the worst rows of the first table. The number is
# what a step leaves of a part, so that a thousand rows do not push out the few lines on how they were measured.
CUT_STEPS = (
    ("fronts", 0),
    ("counts", 0),
    ("everything", 0),
    ("skipped", 10),
    ("notes", 5),
    ("cost_facts", 6),
    ("estimates", 20),
    ("placements", 10),
    ("findings", 30),
    ("operators", 3),
    ("costs", 20),
    ("rows", 100),
    ("skipped", 0),
    ("notes", 0),
    ("findings", 8),
    ("facts", 0),
    ("placements", 0),
    ("estimates", 0),
    ("estimator_facts", 0),
    ("costs", 0),
    ("cost_facts", 0),
    ("operators", 0),
    ("findings", 0),
    ("banners", 0),
    ("rows", 0),
)

# No line of any part takes fewer bytes in Markdown; more items than this can never fit and need not be rendered.
_SHORTEST_LINE = 12


def size(text: str) -> int:
    """Bytes in UTF-8; at least as many as characters in any way of counting those."""
    return len(text.encode("utf-8"))


def fit(view: View, render: Callable[[View], str], limit: int) -> str | None:
    """``render``'s text of as much of ``view`` as takes ``limit`` bytes; None if even nothing of its lists does."""
    for name, _ in CUT_STEPS:
        part = _part(view, name)
        view = _with(view, name, part.cut(limit // _SHORTEST_LINE))
    text = render(view)
    for name, least in CUT_STEPS:
        if size(text) <= limit:
            return text
        view, text = _cut_part(view, name, least, text, render, limit)
    return text if size(text) <= limit else None


def _cut_part(
    view: View, name: str, least: int, text: str, render: Callable[[View], str], limit: int
) -> tuple[View, str]:
    """Keep as many items of one part as fit, at least ``least``: estimated from the mean length, then corrected."""
    part = _part(view, name)
    count = len(part.items)
    if count <= least:
        return view, text
    fewest = _with(view, name, part.cut(least))
    fewest_text = render(fewest)
    mean = max(1, size(text) - size(fewest_text)) / (count - least)
    keep = min(count - 1, least + math.floor((limit - size(fewest_text)) / mean))
    while keep > least:
        candidate = _with(view, name, part.cut(keep))
        candidate_text = render(candidate)
        if size(candidate_text) <= limit:
            return candidate, candidate_text
        keep -= max(1, (keep - least) // 16)
    return fewest, fewest_text


def _part(view: View, name: str) -> Part[object]:
    part: Part[object] = getattr(view, name)
    return part


def _with(view: View, name: str, part: Part[object]) -> View:
    changed: View = replace(view, **{name: part})  # type: ignore[arg-type]
    return changed
