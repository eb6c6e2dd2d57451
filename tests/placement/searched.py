"""What the tests of the search go through: every objective, one node after another and side by side."""

from __future__ import annotations

from perfgate.records.placement import IN_TURN, LATENCY, MEMORY, SIDE_BY_SIDE, THROUGHPUT

KINDS = [
    (LATENCY, IN_TURN),
    (THROUGHPUT, IN_TURN),
    (MEMORY, IN_TURN),
    (LATENCY, SIDE_BY_SIDE),
    (MEMORY, SIDE_BY_SIDE),
]
