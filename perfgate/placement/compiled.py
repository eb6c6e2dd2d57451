"""Floor 3, placement. A problem as the search reads it: units, values that may cross a border, limits.

In: :class:`Problem`. Out: :class:`Compiled`: nodes that must stay together are one unit; a value is kept where a unit
other than its maker reads it. Lists of floats rather than arrays: a move touches a handful of them, and there Python's
own numbers are several times faster than numpy's. Pure. :mod:`checked` says what is wrong with a problem.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from perfgate.placement.checked import check, default_target
from perfgate.records.placement import Border, Problem

Row = list[float]
Table = list[Row]


@dataclass(frozen=True, slots=True, kw_only=True)
class Crossing:
    """A value that other units read.

    Attributes:
        node: Index of the node that makes it; ``unit``: of its unit.
        readers: Units that read it, without its own.
        send: Seconds of the sender, [its target][target of the reader]; ``receive``: of the receiver, same indices.
            Both are 0 on the diagonal.
        dear: The dearest send and receive together: how much it may cost to cut it once.
    """

    node: int
    unit: int
    readers: tuple[int, ...]
    send: Table
    receive: Table
    dear: float


@dataclass(frozen=True, kw_only=True)
class Compiled:
    """See the module. U units, T targets, D devices.

    Attributes:
        units: Nodes of each unit, ascending; units in the order of their first nodes. ``unit_of``: of each node.
        seconds: U x T, sums over the nodes; inf where one of them is not supported or fixed elsewhere.
        allowed: Targets of each unit where that is finite.
        memory: Bytes of each unit. ``limits``: of each device, inf where there is none.
        device_of: Of each target. ``default``: index of the default target.
        crossings: Values that may have to cross a border; those that cost nothing on any are left out.
        made, read: Of each unit: indices of ``crossings`` that it makes and reads.
        neighbours: Of each unit: units joined to it by a value, and what cutting it may cost.
    """

    problem: Problem
    units: tuple[tuple[int, ...], ...]
    unit_of: tuple[int, ...]
    seconds: Table
    allowed: tuple[tuple[int, ...], ...]
    memory: Row
    limits: Row
    device_of: tuple[int, ...]
    default: int
    crossings: tuple[Crossing, ...]
    made: tuple[tuple[int, ...], ...]
    read: tuple[tuple[int, ...], ...]

    @property
    def device_count(self) -> int:
        """Number of devices."""
        return len(self.problem.devices)

    @property
    def target_count(self) -> int:
        """Number of targets."""
        return len(self.problem.targets)

    @cached_property
    def limited(self) -> bool:
        """Some device has a limit that all units together, on it, would break."""
        return any(sum(self.memory) > limit for limit in self.limits)

    @cached_property
    def neighbours(self) -> tuple[dict[int, float], ...]:
        """Of each unit: unit joined to it -> seconds that a cut between both may cost."""
        found: list[dict[int, float]] = [{} for _ in self.units]
        for crossing in self.crossings:
            for reader in crossing.readers:
                share = crossing.dear / len(crossing.readers)
                for one, other in ((crossing.unit, reader), (reader, crossing.unit)):
                    found[one][other] = found[one].get(other, 0.0) + share
        return tuple(found)

    @cached_property
    def edges(self) -> tuple[frozenset[int], ...]:
        """Of each node: nodes that read it."""
        found: list[set[int]] = [set() for _ in self.problem.nodes]
        for index, node in enumerate(self.problem.nodes):
            for source in node.sources:
                found[source].add(index)
        return tuple(frozenset(each) for each in found)

    def of_nodes(self, targets: Sequence[int]) -> list[int]:
        """Target of each unit, from one of each node (the unit's first node speaks for it)."""
        return [targets[nodes[0]] for nodes in self.units]

    def of_units(self, targets: Sequence[int]) -> tuple[int, ...]:
        """Target of each node, from one of each unit."""
        return tuple(targets[unit] for unit in self.unit_of)

    def allows(self, targets: Sequence[int]) -> bool:
        """Every unit is on a target that takes it (memory is another question)."""
        return all(self.seconds[unit][target] < math.inf for unit, target in enumerate(targets))


def compiled(problem: Problem) -> Compiled:
    """The problem as the search reads it.

    Raises:
        UsageError: The problem makes no sense; the message names the node, target or border.
    """
    check(problem)
    units, unit_of = _units(problem)
    seconds = _seconds(problem, units)
    crossings = _crossings(problem, unit_of)
    made: list[list[int]] = [[] for _ in units]
    read: list[list[int]] = [[] for _ in units]
    for index, crossing in enumerate(crossings):
        made[crossing.unit].append(index)
        for reader in crossing.readers:
            read[reader].append(index)
    devices = {device.name: index for index, device in enumerate(problem.devices)}
    return Compiled(
        problem=problem,
        units=units,
        unit_of=unit_of,
        seconds=seconds,
        allowed=tuple(tuple(t for t, time in enumerate(row) if time < math.inf) for row in seconds),
        memory=[float(sum(problem.nodes[node].memory_bytes for node in nodes)) for nodes in units],
        limits=[math.inf if one.memory_bytes is None else float(one.memory_bytes) for one in problem.devices],
        device_of=tuple(devices[target.device] for target in problem.targets),
        default=default_target(problem),
        crossings=crossings,
        made=tuple(map(tuple, made)),
        read=tuple(map(tuple, read)),
    )


def _units(problem: Problem) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    groups: dict[str | int, list[int]] = {}
    for index, node in enumerate(problem.nodes):
        groups.setdefault(node.together or index, []).append(index)
    units = tuple(tuple(nodes) for nodes in groups.values())
    unit_of = [0] * len(problem.nodes)
    for unit, members in enumerate(units):
        for index in members:
            unit_of[index] = unit
    return units, tuple(unit_of)


def _seconds(problem: Problem, units: tuple[tuple[int, ...], ...]) -> Table:
    names = [target.name for target in problem.targets]
    table = []
    for nodes in units:
        row = []
        for target, name in enumerate(names):
            total = 0.0
            for node in (problem.nodes[index] for index in nodes):
                time = node.seconds[target]
                total += math.inf if time is None or node.fixed not in {"", name} else time
            row.append(total)
        table.append(row)
    return table


def _crossings(problem: Problem, unit_of: tuple[int, ...]) -> tuple[Crossing, ...]:
    readers: list[set[int]] = [set() for _ in problem.nodes]
    for index, node in enumerate(problem.nodes):
        for source in node.sources:
            if unit_of[source] != unit_of[index]:
                readers[source].add(unit_of[index])
    found = []
    tables: dict[float, tuple[Table, Table]] = {}
    for index, units in enumerate(readers):
        size = float(problem.nodes[index].output_bytes)
        if not units:
            continue
        if size not in tables:
            tables[size] = _tables(problem, size)
        send, receive = tables[size]
        dear = max((s + r for sends, gets in zip(send, receive, strict=True) for s, r in zip(sends, gets, strict=True)))
        if dear:
            found.append(
                Crossing(
                    node=index,
                    unit=unit_of[index],
                    readers=tuple(sorted(units)),
                    send=send,
                    receive=receive,
                    dear=dear,
                )
            )
    return tuple(found)


def _tables(problem: Problem, size: float) -> tuple[Table, Table]:
    """Seconds of sending and of receiving ``size`` bytes between each two targets."""
    index = {target.name: place for place, target in enumerate(problem.targets)}
    count = len(index)
    send, receive = ([[0.0] * count for _ in range(count)] for _ in range(2))
    for border in problem.borders:
        source, target = index[border.source], index[border.target]
        if source != target:
            send[source][target], receive[source][target] = _costs(border, size)
    return send, receive


def _costs(border: Border, size: float) -> tuple[float, float]:
    return (
        border.send_s + size * border.send_s_per_byte,
        border.receive_s + size * border.receive_s_per_byte,
    )
