"""Floor 3, placement. What is wrong with a problem: one message that names the place and the remedy. Pure.

In: :class:`Problem`. Out: nothing, or :class:`UsageError`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence

from perfgate.errors import UsageError
from perfgate.records.placement import IN_TURN, OBJECTIVES, SIDE_BY_SIDE, Node, Problem


def check(problem: Problem) -> None:
    """Refuses what cannot be placed.

    Raises:
        UsageError: With the first fault found.
    """
    for fault in _faults(problem):
        raise UsageError(fault)


def check_assignment(problem: Problem, targets: Sequence[int]) -> None:
    """Refuses an assignment to start from that is not one of this problem.

    Raises:
        UsageError: Wrong length, or an index that is no target's.
    """
    if len(targets) != len(problem.nodes):
        msg = f"start: {len(targets)} targets for {len(problem.nodes)} nodes; give one target for each node"
        raise UsageError(msg)
    for node, target in zip(problem.nodes, targets, strict=True):
        if not 0 <= target < len(problem.targets):
            msg = f"start: node {node.name}: target {target} is not one of 0 to {len(problem.targets) - 1}"
            raise UsageError(msg)


def default_target(problem: Problem) -> int:
    """Index of the target that takes what no other takes and wins ties: the one marked, else the first."""
    marked = [index for index, target in enumerate(problem.targets) if target.default]
    return marked[0] if marked else 0


def _faults(problem: Problem) -> Iterator[str]:
    yield from _names(problem)
    yield from _kind(problem)
    yield from _borders(problem)
    for index, node in enumerate(problem.nodes):
        yield from _node(problem, index, node)
    yield from _groups(problem)


def _names(problem: Problem) -> Iterator[str]:
    if not problem.targets:
        yield "no targets: a placement needs at least one target"
    if not problem.nodes:
        yield "no nodes: there is nothing to place"
    devices = [device.name for device in problem.devices]
    names = [target.name for target in problem.targets]
    for what, found in (("device", devices), ("target", names)):
        for name in found:
            if found.count(name) > 1:
                yield f"{what} {name}: named twice; give each {what} a name of its own"
    for target in problem.targets:
        if target.device not in devices:
            yield f"target {target.name}: unknown device {target.device}; known: {', '.join(devices) or 'none'}"
        if not _cost(target.piece_s):
            yield f"target {target.name}: piece_s is {target.piece_s}; it must be a number of seconds from 0"
    if sum(target.default for target in problem.targets) > 1:
        yield "several targets are the default; mark one"


def _kind(problem: Problem) -> Iterator[str]:
    if problem.objective not in OBJECTIVES:
        yield f"unknown objective {problem.objective}; known: {', '.join(OBJECTIVES)}"
    if problem.order not in {IN_TURN, SIDE_BY_SIDE}:
        yield f"unknown order {problem.order}; known: {IN_TURN}, {SIDE_BY_SIDE}"
    if problem.latency_s is not None and not _cost(problem.latency_s):
        yield f"latency_s is {problem.latency_s}; it must be a number of seconds from 0"
    for device in problem.devices:
        if device.memory_bytes is not None and not _cost(device.memory_bytes):
            yield f"device {device.name}: memory_bytes is {device.memory_bytes}; give bytes, or None for no limit"
        if device.lanes < 0:
            yield f"device {device.name}: lanes is {device.lanes}; give a number from 1, or 0 for any number"


def _borders(problem: Problem) -> Iterator[str]:
    names = {target.name for target in problem.targets}
    seen: set[tuple[str, str]] = set()
    for border in problem.borders:
        where = f"border {border.source} -> {border.target}"
        for name in (border.source, border.target):
            if name not in names:
                yield f"{where}: unknown target {name}; known: {', '.join(sorted(names))}"
        costs = (border.send_s, border.send_s_per_byte, border.receive_s, border.receive_s_per_byte)
        if not all(map(_cost, costs)):
            yield f"{where}: costs {costs}; they must be numbers from 0"
        if (border.source, border.target) in seen:
            yield f"{where}: given twice; keep one"
        seen.add((border.source, border.target))


def _node(problem: Problem, index: int, node: Node) -> Iterator[str]:
    where = f"node {node.name}"
    if len(node.seconds) != len(problem.targets):
        yield f"{where}: {len(node.seconds)} times for {len(problem.targets)} targets; give one for each, None: cannot"
    for source in node.sources:
        if not 0 <= source < index:
            yield (
                f"{where} (number {index}): reads number {source}, which is not before it; list nodes in an order of "
                "execution, and cut loops first"
            )
    for time in node.seconds:
        if time is not None and not _cost(time):
            yield f"{where}: time {time}; it must be a number of seconds from 0, or None where it is not supported"
    if not (_cost(node.output_bytes) and _cost(node.memory_bytes)):
        yield f"{where}: {node.output_bytes} bytes of output and {node.memory_bytes} of memory; give bytes from 0"
    names = [target.name for target in problem.targets]
    if node.fixed and node.fixed not in names:
        yield f"{where}: fixed on unknown target {node.fixed}; known: {', '.join(names)}"
    elif all(time is None for time in node.seconds):
        marked = [target.name for target in problem.targets if target.default]
        remedy = (
            f"give its time on the default, {marked[0]}" if marked else "mark a default target and give its time there"
        )
        yield f"{where}: no target supports it; {remedy}"
    elif node.fixed and node.seconds[names.index(node.fixed)] is None:
        yield f"{where}: fixed on {node.fixed}, which does not support it; fix it elsewhere or leave it free"


def _groups(problem: Problem) -> Iterator[str]:
    """Nodes that stay together without a target that takes them all."""
    names = [target.name for target in problem.targets]
    common: dict[str, tuple[set[str], list[str]]] = {}
    for node in problem.nodes:
        if node.together:
            mine = {
                name
                for name, time in zip(names, node.seconds, strict=True)
                if time is not None and node.fixed in {"", name}
            }
            left, members = common.setdefault(node.together, (set(names), []))
            left &= mine
            members.append(node.name)
    for text, (left, members) in common.items():
        if not left:
            shown = ", ".join(members[:5]) + (", ..." if len(members) > 5 else "")
            yield (
                f"nodes {shown}: they stay together ({text}), but no target takes all of them; give each its time on "
                "one common target"
            )


def _cost(number: float) -> bool:
    return 0 <= number < math.inf
