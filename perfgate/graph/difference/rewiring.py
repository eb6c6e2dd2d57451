"""Floor 3, graph. Operators that are the same but read from others.

In: a matching without edits. Out: edits that say where from.
"""

from __future__ import annotations

from perfgate.graph.difference.edits import CHANGED, Edit
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.tensors import ARROW
from perfgate.records.graph import Operator

REWIRED = "reads from others"
CONNECTED = "the same operators are connected differently: views, the order of operands or what is returned differ"
_INPUTS = "the model's inputs"
_NAME = 120


def connected(found: Matching) -> str:
    """The sentence for graphs that differ and have the same operators; with the first place where that can be seen."""
    for i, j in found.pairs():
        one, other = found.base[i], found.head[j]
        # Without a change of their set, sources in another order are operands in another order.
        before = [found.to_head[source] for source in one.sources if 0 <= source < i]
        after = [source for source in other.sources if 0 <= source < j]
        if before != after or _given(one) != _given(other):
            return f"{CONNECTED}, first at {_line(other.name)}"
    return CONNECTED


def _given(operator: Operator) -> list[str]:
    """Inputs of the model by place; weights may be renamed without a change."""
    return [name if name.startswith(("inputs[", "inputs.")) else "" for name in operator.origins]


def _line(name: str) -> str:
    line = " ".join(name.split())
    return line if len(line) <= _NAME else f"{line[: _NAME - 1]}…"


def rewired(found: Matching) -> list[Edit]:
    """One edit for each operator whose sources are not the partners of its partner's sources."""
    edits = []
    for i, j in found.pairs():
        sources = [source for source in found.base[i].sources if 0 <= source < i]
        before = {found.to_head[source] for source in sources}
        after = {source for source in found.head[j].sources if 0 <= source < j}
        if before == after:
            continue
        gone = [found.base[s].name for s in sources if found.to_head[s] not in after]
        come = [found.head[s].name for s in sorted(after - before)]
        operator = found.head[j]
        edits.append(
            Edit(
                what=CHANGED,
                name=operator.name,
                base=(i,),
                head=(j,),
                phase=operator.phase,
                place=j,
                lines=(REWIRED,),
                sizes=(f"{gone[0] if gone else _INPUTS}{ARROW}{come[0] if come else _INPUTS}",),
            )
        )
    return edits
