"""Floor 3, placement. In: a problem and a target for each node. Out: what crosses a border, and how long that takes.

A value is sent once, by the target that makes it, at the dearest of its destinations, and received once by each other
target that reads it. Targets on the same device are apart too: two libraries convert.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.placement.pieces import readers_of
from perfgate.records.placement import Border, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Transfer:
    """The output of ``node`` leaves its target: ``send_s`` there, and ``receive_s`` by each target that reads it."""

    node: int
    send_s: float
    receive_s: dict[int, float]


def transfers(problem: Problem, targets: Sequence[int]) -> tuple[Transfer, ...]:
    """Every value that crosses a border, by index of the node that makes it; seconds."""
    borders = by_index(problem)
    found = []
    for index, (node, readers) in enumerate(zip(problem.nodes, readers_of(problem), strict=True)):
        source = targets[index]
        elsewhere = sorted({targets[reader] for reader in readers} - {source})
        if elsewhere:
            crossed = {target: borders.get((source, target), _FREE) for target in elsewhere}
            send_s = max(border.send_s + border.send_s_per_byte * node.output_bytes for border in crossed.values())
            receive_s = {
                target: border.receive_s + border.receive_s_per_byte * node.output_bytes
                for target, border in crossed.items()
            }
            found.append(Transfer(node=index, send_s=send_s, receive_s=receive_s))
    return tuple(found)


def by_index(problem: Problem) -> dict[tuple[int, int], Border]:
    """The borders of a problem by the indices of both targets; those that are missing cost nothing."""
    indices = {target.name: index for index, target in enumerate(problem.targets)}
    return {
        (indices[border.source], indices[border.target]): border
        for border in problem.borders
        if border.source in indices and border.target in indices
    }


_FREE = Border(source="", target="")
