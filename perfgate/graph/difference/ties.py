"""Floor 3, graph. Weights that several operators share on one side and not on the other.

In: matched operators with the names of what they read. Out: for a pair of operators what happened to its weight.
"""

from __future__ import annotations

from collections import defaultdict

from perfgate.graph.difference.alignment import Pair
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.tensors import ARROW
from perfgate.records.graph import FORWARD

OWN = "own weight"


def ties(found: Matching) -> dict[Pair, tuple[str, ...]]:
    """Lines such as ``weight of embedding → own weight`` for pairs in which a weight was untied or tied."""
    forth: dict[str, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    back: dict[str, dict[str, list[Pair]]] = defaultdict(lambda: defaultdict(list))
    for i, j in found.pairs():
        one, other = found.base[i], found.head[j]
        if one.phase != FORWARD or len(one.origins) != len(other.origins):
            continue
        for before, after in zip(one.origins, other.origins, strict=True):
            if before and after:
                forth[before][after].append((i, j))
                back[after][before].append((i, j))
    told: dict[Pair, tuple[str, ...]] = {}
    for name, pair in _split(forth, back):
        told[pair] = (f"{name}{ARROW}{OWN}",)
    for name, pair in _split(back, forth):
        told[pair] = (f"{OWN}{ARROW}{name}",)
    return told


Uses = dict[str, dict[str, list[Pair]]]


def _split(forth: Uses, back: Uses) -> list[tuple[str, Pair]]:
    """One name that became several: (the shared name, a pair that reads another one now)."""
    found: list[tuple[str, Pair]] = []
    for name, parts in forth.items():
        # Where the way back is not clear either, operators were matched crosswise: nothing is known then.
        if len(parts) < 2 or any(len(back[part]) > 1 for part in parts):
            continue
        first = name if name in parts else min(parts, key=lambda part: parts[part])
        found += [(name, pair) for part, pairs in parts.items() if part != first for pair in pairs]
    return found
