"""Floor 3, graph. Added operators that only do again what the model does already.

In: a matching and an edit. Out: a line that says so: ``the same as layer2``, ``once more``.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence

from perfgate.graph.difference.edits import ADDED, Edit
from perfgate.graph.difference.matching import Matching, key
from perfgate.records.graph import Operator

ONCE_MORE = "once more"
THE_SAME_AS = "the same as "


def tell(found: Matching, edits: Sequence[Edit]) -> None:
    """Gives added edits that repeat something their line."""
    added = [edit for edit in edits if edit.what == ADDED and not edit.passing]
    if not added:
        return
    known = Counter[tuple[str, Hashable]]()
    children: dict[tuple[str, str], dict[str, list[Hashable]]] = defaultdict(lambda: defaultdict(list))
    parents = {(edit.phase, _parent(edit.name)) for edit in added if edit.region}
    for operator, partner in zip(found.head, found.to_base, strict=True):
        if partner >= 0:
            known[(operator.module, key(operator))] += 1
        for parent, child in _levels(operator):
            if (operator.phase, parent) in parents:
                children[(operator.phase, parent)][child].append(key(operator))
    for edit in added:
        own = [found.head[j] for j in edit.head]
        if edit.region:
            beside = children[(edit.phase, _parent(edit.name))]
            mine = beside.get(edit.name, [])
            twin = next((name for name, keys in beside.items() if name != edit.name and keys == mine), "")
            if twin:
                edit.lines = (f"{THE_SAME_AS}{twin}",)
        elif all(known[(operator.module, key(operator))] for operator in own):
            edit.lines = (ONCE_MORE,)


def _parent(path: str) -> str:
    return path.rpartition(".")[0]


def _levels(operator: Operator) -> list[tuple[str, str]]:
    """(container, module in it) on the way to an operator's module."""
    found = []
    path = operator.module
    while path:
        found.append((_parent(path), path))
        path = _parent(path)
    return found
