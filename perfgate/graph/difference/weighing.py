"""Floor 3, graph. What operators weigh against one another where nothing was measured.

In: operators. Out: an estimate of their time, good for an order and not for more; the one that matters most.
"""

from __future__ import annotations

from collections.abc import Sequence

from perfgate.graph.difference.opnames import is_passing
from perfgate.graph.operators.definition import RANDOM, SYNC
from perfgate.records.graph import Operator

# A machine that exists nowhere: FLOP and bytes of a nanosecond, and what a launch takes.
_FLOP_NS = 5000.0
_BYTES_NS = 200.0
_CALL_NS = 3000.0
# An operator that moves this part of what the largest moves is as large as it.
_AS_LARGE = 0.3


def moved(operator: Operator) -> int:
    """Eager traffic in bytes of one step."""
    return (operator.read_bytes + operator.written_bytes) * operator.repeat


def worked(operator: Operator) -> int:
    """FLOP of one step."""
    return (operator.flop or 0) * operator.repeat


def estimate(operator: Operator) -> float:
    """A time in ns of one step: work or traffic, whichever is longer, and the launches."""
    return max(worked(operator) / _FLOP_NS, moved(operator) / _BYTES_NS) + _CALL_NS * operator.repeat


def main(operators: Sequence[Operator]) -> Operator:
    """The operator that others are there for: one that the host waits for, else the most work, else what begins it."""
    for waits in operators:
        if waits.kind == SYNC:
            return waits
    heaviest = max(operators, key=worked)
    if worked(heaviest):
        return heaviest
    for draws in operators:
        if draws.kind == RANDOM:
            return draws
    solid = [operator for operator in operators if not is_passing(operator.op)] or operators
    most = max(map(moved, solid))
    return next(operator for operator in solid if moved(operator) >= _AS_LARGE * most)
