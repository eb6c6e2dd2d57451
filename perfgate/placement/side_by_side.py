"""Floor 3, placement. Latency where targets work side by side, as :mod:`perfgate.placement.timeline` has it, faster.

In: a compiled problem; then a target for each unit and the load of each target. Out: seconds. Where lanes never make a
part wait, ends follow in one pass over nodes and edges; the pass is over nodes that are not in a whole sub-graph and
over edges that leave one. Where lanes do, the definition itself is asked.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from perfgate.placement.compiled import Compiled, Crossing
from perfgate.placement.timeline import timeline
from perfgate.records.placement import UNLIMITED


@dataclass(slots=True, kw_only=True)
class _Run:
    """One pass: ``missing`` edges into each whole target, ``leaving`` ones by node, and ``waiting`` sources of each
    node; when inputs have ``arrived`` at a node, and when a whole target may ``start``; ``ready``: nodes, or
    -1 - a whole target. ``parts``: nodes and whole targets that have to run.
    """

    of_node: list[int]
    leaving: list[dict[int, list[int]]]
    missing: list[int]
    waiting: list[int]
    arrived: list[float]
    start: list[float]
    ready: list[int]
    parts: int


class SideBySide:
    """See the module."""

    def __init__(self, compiled: Compiled) -> None:
        self._compiled = compiled
        problem = compiled.problem
        self._whole = [target.whole for target in problem.targets]
        self._piece = [target.piece_s for target in problem.targets]
        self._waiting = [len(set(node.sources)) for node in problem.nodes]
        self._first = np.flatnonzero(np.array(self._waiting) == 0)
        self._readers = [tuple(sorted(readers)) for readers in compiled.edges]
        self._sources = [tuple(sorted(set(node.sources))) for node in problem.nodes]
        self._seconds = [[time or 0.0 for time in node.seconds] for node in problem.nodes]
        self._crossing = {crossing.node: crossing for crossing in compiled.crossings}
        # Targets that pay for sending it.
        self._senders = {
            crossing.node: frozenset(target for target, row in enumerate(crossing.send) if any(row))
            for crossing in compiled.crossings
        }
        edges = [(source, reader) for source, readers in enumerate(self._readers) for reader in readers]
        self._edges = np.array(edges, dtype=np.int64).reshape(-1, 2).T
        self._unit_of = np.array(compiled.unit_of)
        self._is_whole = np.array(self._whole)
        self._free = all(_never_waits(compiled, device) for device in range(compiled.device_count))

    def seconds(self, targets: Sequence[int], load: Sequence[float]) -> float:
        """End of the last part; inf: whole targets wait for one another. ``load``: seconds of each target."""
        if not self._free:
            parts = timeline(self._compiled.problem, self._compiled.of_units(targets))
            return math.inf if parts is None else max((part.end_s for part in parts), default=0.0)
        return self._pass(self._begin(targets), load)

    def _pass(self, run: _Run, load: Sequence[float]) -> float:
        latest, done = 0.0, 0
        while run.ready:
            place = run.ready.pop()
            done += 1
            if place < 0:
                source = -1 - place
                end = run.start[source] + self._piece[source] + load[source]
                for node, readers in run.leaving[source].items():
                    self._leave(run, node, readers, end)
            else:
                source = run.of_node[place]
                end = run.arrived[place] + self._seconds[place][source]
                if self._piece[source]:
                    end += self._begins(place, source, run.of_node)
                self._leave(run, place, self._readers[place], end)
            if end > latest:
                latest = end
        return latest if done == run.parts else math.inf

    def _begin(self, targets: Sequence[int]) -> _Run:
        """Before anything has run. Whole targets know the edges that enter and leave them, by arrays over all edges."""
        sources, readers = self._edges
        placed = np.asarray(targets)[self._unit_of]
        whole = self._is_whole[placed]
        crossing = placed[sources] != placed[readers]
        entering = np.bincount(placed[readers[crossing & whole[readers]]], minlength=len(self._whole))
        out = crossing & whole[sources]
        of_node: list[int] = placed.tolist()
        leaving: list[dict[int, list[int]]] = [{} for _ in self._whole]
        for source, reader in zip(sources[out].tolist(), readers[out].tolist(), strict=True):
            leaving[of_node[source]].setdefault(source, []).append(reader)
        used = [target for target in set(targets) if self._whole[target]]
        missing: list[int] = entering.tolist()
        ready: list[int] = self._first[~whole[self._first]].tolist()
        ready += [-1 - target for target in used if not missing[target]]
        return _Run(
            of_node=of_node,
            leaving=leaving,
            missing=missing,
            waiting=self._waiting.copy(),
            arrived=[0.0] * len(of_node),
            start=[0.0] * len(self._whole),
            ready=ready,
            parts=len(of_node) - int(np.count_nonzero(whole)) + len(used),
        )

    def _leave(self, run: _Run, node: int, readers: Sequence[int], end: float) -> None:
        """``node`` has ended: its value goes to ``readers``, and what has all inputs is ready."""
        of_node, whole = run.of_node, self._whole
        source = of_node[node]
        inside = whole[source]
        crossing = self._crossing.get(node)
        left = end
        if not inside and crossing is not None and source in self._senders[node]:
            left += self._send(crossing, source, of_node)
        for reader in readers:
            target = of_node[reader]
            if whole[target]:
                if left > run.start[target]:
                    run.start[target] = left
                run.missing[target] -= 1
                if not run.missing[target]:
                    run.ready.append(-1 - target)
                continue
            at = end
            if target != source:
                at = left if crossing is None else left + crossing.receive[source][target]
            if at > run.arrived[reader]:
                run.arrived[reader] = at
            run.waiting[reader] -= 1
            if not run.waiting[reader]:
                run.ready.append(reader)

    def _send(self, crossing: Crossing, source: int, of_node: list[int]) -> float:
        """Seconds until a value has left its target for the dearest one that reads it."""
        send = crossing.send[source]
        return max([send[of_node[reader]] for reader in self._readers[crossing.node]])

    def _begins(self, node: int, target: int, of_node: list[int]) -> float:
        """``piece_s`` where a node reads nothing of its own target."""
        fixed = self._piece[target]
        if fixed and any(of_node[source] == target for source in self._sources[node]):
            return 0.0
        return fixed


def _never_waits(compiled: Compiled, device: int) -> bool:
    """No part on the device ever waits for a lane: there is any number, or one for each of its whole targets."""
    lanes = compiled.problem.devices[device].lanes
    mine = [
        target for target, place in zip(compiled.problem.targets, compiled.device_of, strict=True) if place == device
    ]
    return lanes == UNLIMITED or (all(target.whole for target in mine) and len(mine) <= lanes)
