"""Floor 3, placement. In: a problem and a target for each node. Out: when each part runs, side by side.

Two ways in which a target runs its nodes:

* ``whole``: one sub-graph, one part. It starts when all inputs of all of its nodes have been sent; then it starts the
  piece, receives, computes and sends, in sequence; all of its outputs are there at its end. (The published latency
  model of device placement: Tarnawski and others, NeurIPS 2020.)
* node by node: each node is a part, and lasts its own seconds, plus the target's ``piece_s`` where it reads nothing of
  its own target and so begins a piece. Values cross while others compute: one that another target reads leaves
  ``send_s`` after its node's end, and is there for all of that target's nodes ``receive_s`` after it left.

A device with lanes runs that many parts at a time: whenever one is free, the part with the smallest index (of its
first node) of those whose inputs are there starts. With any number of lanes (0), each part starts when its inputs are
there.
"""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate.placement.transfers import Transfer, transfers
from perfgate.records.placement import UNLIMITED, Problem


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """What starts and ends together on ``target``: ``nodes`` by index, from ``start_s`` to ``end_s``."""

    target: int
    nodes: tuple[int, ...]
    start_s: float
    end_s: float


def timeline(problem: Problem, targets: Sequence[int]) -> tuple[Part, ...] | None:
    """All parts by their first node, or None: whole targets wait for one another in a circle.

    Every node must be supported by its target (``seconds`` not None there); :mod:`perfgate.placement.evaluate` checks.
    """
    tasks = _tasks(problem, targets)
    clock = _Clock(problem, tasks)
    clock.run()
    if len(clock.ended) < len(tasks):
        return None
    return tuple(
        Part(target=task.target, nodes=task.nodes, start_s=clock.started[first], end_s=clock.ended[first])
        for first, task in sorted(tasks.items())
    )


@dataclass(slots=True, kw_only=True)
class _Task:
    """A part before it has a time. ``after``: first node of each part it waits for -> seconds from that one's end."""

    target: int
    nodes: tuple[int, ...]
    seconds: float
    after: dict[int, float]


def _tasks(problem: Problem, targets: Sequence[int]) -> dict[int, _Task]:
    """The parts, each by its first node."""
    first_of: list[int] = []
    members: dict[int, list[int]] = {}
    firsts: dict[int, int] = {}
    for index, target in enumerate(targets):
        first = firsts.setdefault(target, index) if problem.targets[target].whole else index
        first_of.append(first)
        members.setdefault(first, []).append(index)
    crossing = {transfer.node: transfer for transfer in transfers(problem, targets)}
    return {
        first: _Task(
            target=targets[first],
            nodes=tuple(nodes),
            seconds=_seconds(problem, targets, nodes, crossing),
            after=_after(problem, targets, nodes, first_of, crossing),
        )
        for first, nodes in members.items()
    }


def _seconds(problem: Problem, targets: Sequence[int], nodes: Sequence[int], crossing: dict[int, Transfer]) -> float:
    """How long the part of ``nodes`` lasts."""
    target = targets[nodes[0]]
    seconds = sum(problem.nodes[node].seconds[target] or 0.0 for node in nodes)
    if problem.targets[target].whole:
        received = sum(transfer.receive_s.get(target, 0.0) for transfer in crossing.values())
        sent = sum(crossing[node].send_s for node in nodes if node in crossing)
        return problem.targets[target].piece_s + received + seconds + sent
    begins = all(targets[source] != target for source in problem.nodes[nodes[0]].sources)
    return seconds + (problem.targets[target].piece_s if begins else 0.0)


def _after(
    problem: Problem,
    targets: Sequence[int],
    nodes: Sequence[int],
    first_of: Sequence[int],
    crossing: dict[int, Transfer],
) -> dict[int, float]:
    """Parts that the part of ``nodes`` waits for: first node -> seconds from its end to its last value's arrival."""
    target = targets[nodes[0]]
    after: dict[int, float] = {}
    for source in {source for node in nodes for source in problem.nodes[node].sources}:
        if first_of[source] == first_of[nodes[0]]:
            continue
        delay = 0.0
        if targets[source] != target:
            if not problem.targets[targets[source]].whole:
                delay += crossing[source].send_s
            if not problem.targets[target].whole:
                delay += crossing[source].receive_s[target]
        after[first_of[source]] = max(after.get(first_of[source], 0.0), delay)
    return after


class _Clock:
    """Runs tasks in time. Times of events are taken one after another; all of the same time before anything starts."""

    def __init__(self, problem: Problem, tasks: dict[int, _Task]) -> None:
        self._tasks = tasks
        self._devices = [_device(problem, target.device) for target in problem.targets]
        self._free = [device.lanes for device in problem.devices]
        self._limited = [device.lanes != UNLIMITED for device in problem.devices]
        self._waiting = {first: len(task.after) for first, task in tasks.items()}
        self._followers: dict[int, list[int]] = {first: [] for first in tasks}
        for first, task in tasks.items():
            for before in task.after:
                self._followers[before].append(first)
        self._arrived = dict.fromkeys(tasks, 0.0)
        self._ready: list[list[int]] = [[] for _ in problem.devices]
        self._events: list[tuple[float, bool, int]] = []
        self.started: dict[int, float] = {}
        self.ended: dict[int, float] = {}

    def run(self) -> None:
        """Until nothing happens any more; parts in a circle, and those behind it, have not started then."""
        for first, count in self._waiting.items():
            if not count:
                heapq.heappush(self._events, (0.0, False, first))
        while self._events:
            now = self._events[0][0]
            while self._events and self._events[0][0] == now:
                _, done, first = heapq.heappop(self._events)
                if done:
                    self._end(first, now)
                else:
                    heapq.heappush(self._ready[self._device_of(first)], first)
            for device, ready in enumerate(self._ready):
                while ready and (self._free[device] or not self._limited[device]):
                    self._start(heapq.heappop(ready), device, now)

    def _device_of(self, first: int) -> int:
        return self._devices[self._tasks[first].target]

    def _start(self, first: int, device: int, now: float) -> None:
        self._free[device] -= self._limited[device]
        self.started[first] = now
        heapq.heappush(self._events, (now + self._tasks[first].seconds, True, first))

    def _end(self, first: int, now: float) -> None:
        self.ended[first] = now
        device = self._device_of(first)
        self._free[device] += self._limited[device]
        for follower in self._followers[first]:
            self._arrived[follower] = max(self._arrived[follower], now + self._tasks[follower].after[first])
            self._waiting[follower] -= 1
            if not self._waiting[follower]:
                heapq.heappush(self._events, (self._arrived[follower], False, follower))


def _device(problem: Problem, name: str) -> int:
    return next(index for index, device in enumerate(problem.devices) if device.name == name)
