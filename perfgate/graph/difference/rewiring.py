"""Floor 3, graph. Operators that are the same but read from others.

In: a matching without edits. Out: edits that say where from.
"""

from __future__ import annotations

from perfgate.graph.difference.edits import CHANGED, Edit
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.tensors import ARROW

REWIRED = "reads from others"
_INPUTS = "the model's inputs"


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
