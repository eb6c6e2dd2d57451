"""Floor 3, placement. In: targets of the first nodes, side by side. Out: the least latency that may come of them.

A bound for branch and bound: nodes with a target run as :mod:`perfgate.placement.timeline` says, but with any number of
lanes; behind them, each other node takes the least of its times and nothing crosses a border. Nodes are in a
topological order, so what is still open never stands before what is placed: a node that later joins a whole target only
makes that end later. Devices with lanes also cannot do more than their work.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from perfgate.placement.compiled import Compiled, Crossing
from perfgate.placement.pieces import readers_of
from perfgate.records.placement import UNLIMITED


class Prefix:
    """Least latencies of the beginnings of one problem; :meth:`least` is the question."""

    def __init__(self, compiled: Compiled) -> None:
        problem = compiled.problem
        self._sources = [tuple(sorted(set(node.sources))) for node in problem.nodes]
        self._readers = readers_of(problem)
        self._seconds = [[time or 0.0 for time in node.seconds] for node in problem.nodes]
        self._whole = [target.whole for target in problem.targets]
        self._piece_s = [target.piece_s for target in problem.targets]
        self._crossings: dict[int, Crossing] = {crossing.node: crossing for crossing in compiled.crossings}
        self._device_of = compiled.device_of
        self._lanes = [device.lanes for device in problem.devices]
        self._shortest = [
            min(self._seconds[node][target] for target in compiled.allowed[unit])
            for node, unit in enumerate(compiled.unit_of)
        ]
        self._from = self._paths()

    @property
    def critical_path_s(self) -> float:
        """The longest path, each node at the least of its times."""
        return max(self._from, default=0.0)

    def least(self, targets: Sequence[int], count: int) -> float:
        """No assignment that gives the first ``count`` nodes these ``targets`` has a smaller latency; inf: a circle."""
        parts = self._parts(targets, count)
        ends = parts.ends()
        if ends is None:
            return math.inf
        latest = 0.0
        for node in range(count):
            behind = max((self._from[reader] for reader in self._readers[node] if reader >= count), default=0.0)
            latest = max(latest, ends[parts.part_of[node]] + behind)
        apart = max((self._from[node] for node in range(count, len(self._from))), default=0.0)
        return max(latest, apart, self._busiest(parts))

    def _paths(self) -> list[float]:
        """From the start of each node, the longest path to an end at the least times."""
        paths = list(self._shortest)
        for node in range(len(paths) - 1, -1, -1):
            paths[node] += max((paths[reader] for reader in self._readers[node]), default=0.0)
        return paths

    def _busiest(self, parts: _Parts) -> float:
        work = [0.0] * len(self._lanes)
        for target, seconds in zip(parts.target, parts.seconds, strict=True):
            work[self._device_of[target]] += seconds
        return max(
            (spent / lanes for spent, lanes in zip(work, self._lanes, strict=True) if lanes != UNLIMITED), default=0.0
        )

    def _parts(self, targets: Sequence[int], count: int) -> _Parts:
        parts = _Parts()
        at: dict[int, int] = {}
        for node in range(count):
            target = targets[node]
            part = at.get(target, -1) if self._whole[target] else -1
            if part < 0:
                begins = self._whole[target] or all(targets[source] != target for source in self._sources[node])
                part = at[target] = parts.new(target, self._piece_s[target] if begins else 0.0)
            parts.part_of.append(part)
            parts.seconds[part] += self._seconds[node][target]
        for node in range(count):
            self._leave(parts, targets, node, count, at)
        return parts

    def _leave(self, parts: _Parts, targets: Sequence[int], node: int, count: int, at: dict[int, int]) -> None:
        """The value of ``node`` goes to its readers among the first ``count`` nodes."""
        source, part = targets[node], parts.part_of[node]
        crossing = self._crossings.get(node)
        sent = 0.0
        arrivals: dict[int, float] = {}
        for target in {targets[reader] for reader in self._readers[node] if reader < count} - {source}:
            receive_s = crossing.receive[source][target] if crossing else 0.0
            sent = max(sent, crossing.send[source][target] if crossing else 0.0)
            if self._whole[target]:
                parts.seconds[at[target]] += receive_s
                receive_s = 0.0
            arrivals[target] = receive_s
        if self._whole[source]:
            parts.seconds[part] += sent
            sent = 0.0
        for reader in self._readers[node]:
            if reader < count and parts.part_of[reader] != part:
                target = targets[reader]
                parts.join(part, parts.part_of[reader], 0.0 if target == source else sent + arrivals[target])


class _Parts:
    """What starts and ends together, and what it waits for."""

    def __init__(self) -> None:
        self.part_of: list[int] = []
        self.target: list[int] = []
        self.seconds: list[float] = []
        self._waiting: list[int] = []
        self._after: list[list[tuple[int, float]]] = []

    def new(self, target: int, seconds: float) -> int:
        self.target.append(target)
        self.seconds.append(seconds)
        self._waiting.append(0)
        self._after.append([])
        return len(self.target) - 1

    def join(self, before: int, after: int, delay_s: float) -> None:
        self._after[before].append((after, delay_s))
        self._waiting[after] += 1

    def ends(self) -> list[float] | None:
        """When each part ends with any number of lanes; None: they wait in a circle."""
        starts = [0.0] * len(self.target)
        ends = [0.0] * len(self.target)
        ready = [part for part, count in enumerate(self._waiting) if not count]
        for part in ready:
            ends[part] = starts[part] + self.seconds[part]
            for after, delay_s in self._after[part]:
                starts[after] = max(starts[after], ends[part] + delay_s)
                self._waiting[after] -= 1
                if not self._waiting[after]:
                    ready.append(after)
        return ends if len(ready) == len(ends) else None
