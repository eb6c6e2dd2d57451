"""What the arithmetic of published figures reads from a counted graph."""

from __future__ import annotations

import re
from collections.abc import Iterable

from perfgate.records.graph import Graph, Operator


def rounds_to(gmac: float, flop: float) -> bool:
    """Whether ``flop`` comes to ``gmac``, which is published with three digits."""
    return round(flop / 2e9, 3) == round(gmac, 3)


def sizes(text: str) -> tuple[int, ...]:
    """Sizes in the text of a tensor: ``float32[1,64,56,56]``."""
    match = re.search(r"\[([\d,]*)\]", text)
    return tuple(int(size) for size in match[1].split(",") if size) if match else ()


def flop(operators: Iterable[Operator]) -> int:
    """FLOP of all calls."""
    return sum((operator.flop or 0) * operator.repeat for operator in operators)


def channels_normalised(graph: Graph, below: str = "") -> int:
    """Channels of all batch norms in modules whose path begins with ``below``."""
    norms = (op for op in graph.operators if "batch_norm" in op.op and op.module.startswith(below))
    return sum(sizes(norm.outputs[0])[1] * norm.repeat for norm in norms)
