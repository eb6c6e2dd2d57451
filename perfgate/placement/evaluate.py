"""Floor 3, placement. In: a problem and a target for each node. Out: the objective's value, and what is against it.

The definition of every objective, plain and slow. The search has faster ways to the same numbers, held against these.

* latency in turn: seconds of all nodes, plus all sends and receives, plus ``piece_s`` for each piece of
  :func:`perfgate.placement.pieces.cut`;
* latency side by side: end of the last part of :func:`perfgate.placement.timeline.timeline`;
* throughput: the largest load of a device, where a load is what the device adds to latency in turn: seconds of its
  nodes, sends and receives by its targets, ``piece_s`` of its pieces. Requests follow one another, so pieces of
  different devices work on different requests and only loads matter; lanes divide nothing;
* memory: the most bytes that nodes of one device hold, with latency (by ``order``) at most ``latency_s``.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.placement.pieces import cut
from perfgate.placement.timeline import timeline
from perfgate.placement.transfers import transfers
from perfgate.records.placement import IN_TURN, LATENCY, THROUGHPUT, Problem

# Sums of the same seconds or bytes in another order differ in their last digits; a limit must not.
ROUNDING = 1e-9


def value(problem: Problem, targets: Sequence[int]) -> float:
    """The objective of ``targets`` (an index for each node): seconds, or bytes for memory; inf: not feasible.

    Feasible: every node supported by its target, the same target for nodes that are together, ``fixed`` kept, no device
    beyond its memory, no circle of whole targets where they work side by side, and latency within ``latency_s`` where
    memory is made least.
    """
    if why(problem, targets):
        return math.inf
    if problem.objective == LATENCY:
        return latency(problem, targets)
    if problem.objective == THROUGHPUT:
        return max(loads(problem, targets).values(), default=0.0)
    return max(held(problem, targets).values(), default=0.0)


def why(problem: Problem, targets: Sequence[int]) -> str:
    """Why ``targets`` is not feasible, the first reason found; empty: it is feasible."""
    return _unsupported(problem, targets) or _apart(problem, targets) or _beyond(problem, targets)


def latency(problem: Problem, targets: Sequence[int]) -> float:
    """Seconds of one request by ``problem.order``; inf: whole targets wait for one another in a circle."""
    if problem.order == IN_TURN:
        return math.fsum(loads(problem, targets).values())
    parts = timeline(problem, targets)
    return math.inf if parts is None else max((part.end_s for part in parts), default=0.0)


def loads(problem: Problem, targets: Sequence[int]) -> dict[str, float]:
    """Seconds that one request keeps each device busy, by its name; all nodes must be supported."""
    spent: dict[int, list[float]] = {index: [] for index in range(len(problem.targets))}
    for node, target in zip(problem.nodes, targets, strict=True):
        spent[target].append(node.seconds[target] or 0.0)
    for transfer in transfers(problem, targets):
        spent[targets[transfer.node]].append(transfer.send_s)
        for target, receive_s in transfer.receive_s.items():
            spent[target].append(receive_s)
    for piece in cut(problem, targets):
        target = targets[piece[0]]
        spent[target].append(problem.targets[target].piece_s)
    return {
        device.name: math.fsum(
            seconds
            for index, target in enumerate(problem.targets)
            if target.device == device.name
            for seconds in spent[index]
        )
        for device in problem.devices
    }


def held(problem: Problem, targets: Sequence[int]) -> dict[str, float]:
    """Bytes that the nodes of each device hold, by its name."""
    return {
        device.name: math.fsum(
            node.memory_bytes
            for node, target in zip(problem.nodes, targets, strict=True)
            if problem.targets[target].device == device.name
        )
        for device in problem.devices
    }


def within(amount: float, limit: float | None) -> bool:
    """``amount`` is at most ``limit`` up to the rounding of a sum; None: no limit."""
    return limit is None or amount <= limit * (1 + ROUNDING)


def _unsupported(problem: Problem, targets: Sequence[int]) -> str:
    """A node whose target does not take it, or is not the one that is fixed."""
    if len(targets) != len(problem.nodes):
        return f"{len(targets)} targets for {len(problem.nodes)} nodes"
    for node, index in zip(problem.nodes, targets, strict=True):
        name = problem.targets[index].name
        if node.seconds[index] is None:
            return f"{node.name}: {name} does not support it"
        if node.fixed and node.fixed != name:
            return f"{node.name}: is on {name}, fixed to {node.fixed}"
    return ""


def _apart(problem: Problem, targets: Sequence[int]) -> str:
    """Two nodes that must be together and are not."""
    seen: dict[str, tuple[str, int]] = {}
    for node, index in zip(problem.nodes, targets, strict=True):
        if node.together:
            first, its = seen.setdefault(node.together, (node.name, index))
            if its != index:
                names = problem.targets[its].name, problem.targets[index].name
                return f"{first} and {node.name} must be together ({node.together}): {names[0]} and {names[1]}"
    return ""


def _beyond(problem: Problem, targets: Sequence[int]) -> str:
    """A limit that is not kept: memory, latency, or no order at all."""
    total = held(problem, targets)
    for device in problem.devices:
        if not within(total[device.name], device.memory_bytes):
            return f"{device.name}: its nodes hold {total[device.name]:.0f} bytes, it has {device.memory_bytes}"
    if problem.objective == THROUGHPUT or (problem.objective == LATENCY and problem.order == IN_TURN):
        return ""
    seconds = latency(problem, targets)
    if math.isinf(seconds):
        return "targets that start with all inputs there wait for one another in a circle"
    if problem.objective != LATENCY and not within(seconds, problem.latency_s):
        return f"latency {seconds:.6g} s, limit {problem.latency_s:.6g} s"
    return ""
