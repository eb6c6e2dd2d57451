"""Floor 3, placement. In: a compiled problem. Out: a mixed integer linear program that is a bound of it.

Binary x[u, t]: unit u is on target t. For each value that may cross: z, it is sent by target a at the l-th price or a
dearer one; w, it is received by target b at the l-th price or a dearer one. With x whole numbers the least z and w are
what the value costs, so sums of seconds are exact: the program is the problem itself for latency in turn, throughput,
and memory with latency in turn, but for pieces of graphs whose order is not forced (there each target in use starts one
piece at least). Side by side it is a relaxation: a node ends after its sources, its own time, and the least that
crossing costs between both targets; a whole target, and a device with lanes, has all of its work to do.

Equal targets may be merged into one class: crossing between them is free then, and their devices share work and memory.
That is a relaxation as well, much smaller, and often the better bound in little time.

Seconds are scaled so that ``scale`` is 1000, memory so that each limit is: the solver's tolerances are absolute.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import Bounds, LinearConstraint
from scipy.sparse import csr_array

from perfgate.placement.compiled import Compiled, Crossing
from perfgate.records.placement import IN_TURN, LATENCY, MEMORY, THROUGHPUT, UNLIMITED

Terms = dict[int, float]
SCALED = 1000.0
# Rows are let out by this share, more than the solver's tolerance, so that what is just feasible stays feasible.
SLACK = 1e-6


@dataclass(frozen=True, kw_only=True)
class Program:
    """What :func:`scipy.optimize.milp` takes. ``choice``: column of each unit and target class; ``scale`` in the
    objective's own units is ``SCALED`` in the program's.
    """

    cost: NDArray[np.float64]
    integrality: NDArray[np.int64]
    bounds: Bounds
    rows: LinearConstraint
    choice: Mapping[tuple[int, int], int]
    scale: float


def build(compiled: Compiled, class_of: Sequence[int]) -> Program:
    """The program; ``class_of``: for each target, the target that stands for it (itself: nothing is merged)."""
    maker = _Maker(compiled, class_of)
    maker.place()
    maker.cross()
    maker.start_pieces()
    problem = compiled.problem
    if problem.objective == THROUGHPUT:
        maker.level_loads()
    elif problem.objective == LATENCY and problem.order == IN_TURN:
        maker.minimise(maker.all_seconds())
    elif problem.objective == LATENCY:
        maker.side_by_side(maker.column(1.0))
    else:
        maker.level_memory()
        if problem.latency_s is not None:
            limit = problem.latency_s / maker.second * (1 + SLACK)
            if problem.order == IN_TURN:
                maker.row(maker.all_seconds(), high=limit)
            else:
                maker.side_by_side(maker.column(0.0, high=limit))
    return maker.program()


class _Maker:
    """Columns and rows as they are found. ``second``: seconds (or bytes, for memory) that are 1 in the program."""

    def __init__(self, compiled: Compiled, class_of: Sequence[int]) -> None:
        self._compiled = compiled
        self._class_of = class_of
        self._classes = sorted(set(class_of))
        self._allowed = [sorted({class_of[target] for target in allowed}) for allowed in compiled.allowed]
        longest = max((time for row in compiled.seconds for time in row if time < math.inf), default=0.0)
        self.second = max(math.fsum(min(row) for row in compiled.seconds), longest) / SCALED or 1.0
        self._byte = sum(compiled.memory) / SCALED or 1.0
        self._cost: list[float] = []
        self._high: list[float] = []
        self._whole: list[int] = []
        self._rows: list[tuple[Terms, float, float]] = []
        self._choice: dict[tuple[int, int], int] = {}
        # Seconds of each class: of nodes alone, and of all.
        self._own: dict[int, Terms] = {each: {} for each in self._classes}
        self._time: dict[int, Terms] = {each: {} for each in self._classes}
        self._groups = self._device_groups()

    def column(self, cost: float, *, high: float = math.inf, whole: bool = False) -> int:
        """A new variable from 0 to ``high``."""
        self._cost.append(cost)
        self._high.append(high)
        self._whole.append(int(whole))
        return len(self._cost) - 1

    def row(self, terms: Terms, *, low: float = -math.inf, high: float = math.inf) -> None:
        """``low`` <= sum of terms <= ``high``."""
        self._rows.append((terms, low, high))

    def minimise(self, terms: Terms) -> None:
        """These terms are added to the objective."""
        for column, factor in terms.items():
            self._cost[column] += factor

    def all_seconds(self) -> Terms:
        """Seconds of all classes together."""
        return _sum(self._time.values())

    def place(self) -> None:
        """Each unit is on one target; devices keep their memory."""
        compiled = self._compiled
        for unit, allowed in enumerate(self._allowed):
            for each in allowed:
                column = self._choice[unit, each] = self.column(0.0, high=1.0, whole=True)
                seconds = compiled.seconds[unit][each] / self.second
                self._own[each][column] = self._time[each][column] = seconds
            self.row({self._choice[unit, each]: 1.0 for each in allowed}, low=1.0, high=1.0)
        for devices, classes in self._groups:
            limit = sum(compiled.limits[device] for device in devices)
            if limit < sum(compiled.memory):
                self.row(
                    self._held(classes, max(limit, 1.0) / SCALED), high=limit / max(limit, 1.0) * SCALED + 10 * SLACK
                )

    def cross(self) -> None:
        """Sends and receives of each value, once each."""
        for crossing in self._compiled.crossings:
            for source in self._allowed[crossing.unit]:
                self._send(crossing, source)
            for target in sorted({each for reader in crossing.readers for each in self._allowed[reader]}):
                self._receive(crossing, target)

    def start_pieces(self) -> None:
        """Fixed times of pieces: each run where the order is forced, else one for each target in use."""
        compiled = self._compiled
        nodes = compiled.problem.nodes
        forced = all(index - 1 in node.sources for index, node in enumerate(nodes) if index)
        for each in self._classes:
            fixed = compiled.problem.targets[each].piece_s / self.second
            if not fixed:
                continue
            if forced and self._class_of.count(each) == 1:
                for before, unit in zip((-1, *compiled.unit_of), compiled.unit_of, strict=False):
                    if (unit, each) in self._choice and before != unit:
                        self._begin(each, fixed, unit, before)
            else:
                used = self.column(0.0, high=1.0)
                self._time[each][used] = fixed
                for unit in range(len(compiled.units)):
                    if (unit, each) in self._choice:
                        self.row({used: 1.0, self._choice[unit, each]: -1.0}, low=0.0)

    def level_loads(self) -> None:
        """The largest load is the objective; no less than any unit by itself."""
        largest = self.column(1.0)
        for devices, classes in self._groups:
            self.row({largest: float(len(devices)), **_minus(_sum(self._time[each] for each in classes))}, low=0.0)
        for unit, allowed in enumerate(self._allowed):
            own = {self._choice[unit, each]: -self._own[each][self._choice[unit, each]] for each in allowed}
            self.row({largest: 1.0, **own}, low=0.0)

    def level_memory(self) -> None:
        """The most bytes of a device are the objective, in units of all bytes."""
        largest = self.column(1.0)
        for devices, classes in self._groups:
            self.row({largest: float(len(devices)), **_minus(self._held(classes, self._byte))}, low=0.0)

    def side_by_side(self, latest: int) -> None:
        """``latest`` is no less than the end of any node, and than the work of what can do one thing at a time."""
        compiled = self._compiled
        ends = [self.column(0.0) for _ in compiled.unit_of]
        crossings = {crossing.node: crossing for crossing in compiled.crossings}
        for index, (node, unit) in enumerate(zip(compiled.problem.nodes, compiled.unit_of, strict=True)):
            spent = {
                self._choice[unit, each]: -(node.seconds[each] or 0.0) / self.second for each in self._allowed[unit]
            }
            self.row({latest: 1.0, ends[index]: -1.0}, low=0.0)
            self.row({ends[index]: 1.0, **spent}, low=0.0)
            for source in sorted(set(node.sources)):
                delay: Terms = {}
                if source in crossings and compiled.unit_of[source] != unit:
                    delay = _minus(self._delay(crossings[source], unit))
                self.row({ends[index]: 1.0, ends[source]: -1.0, **spent, **delay}, low=0.0)
        self._work(latest)

    def program(self) -> Program:
        """All of it."""
        rows, columns, factors = [], [], []
        for place, (terms, _, _) in enumerate(self._rows):
            for column, factor in terms.items():
                rows.append(place)
                columns.append(column)
                factors.append(factor)
        matrix = csr_array((factors, (rows, columns)), shape=(len(self._rows), len(self._cost)))
        lows, highs = ([row[which] for row in self._rows] for which in (1, 2))
        memory = self._compiled.problem.objective == MEMORY
        return Program(
            cost=np.array(self._cost),
            integrality=np.array(self._whole),
            bounds=Bounds(np.zeros(len(self._high)), np.array(self._high)),
            rows=LinearConstraint(matrix, lows, highs),
            choice=self._choice,
            scale=(self._byte if memory else self.second) * SCALED,
        )

    def _device_groups(self) -> list[tuple[set[int], set[int]]]:
        """Devices that share work and memory, with their classes: those of merged targets together."""
        groups: list[tuple[set[int], set[int]]] = []
        for target, each in enumerate(self._class_of):
            devices, classes = {self._compiled.device_of[target]}, {each}
            apart = []
            for group in groups:
                if group[0] & devices or group[1] & classes:
                    devices, classes = devices | group[0], classes | group[1]
                else:
                    apart.append(group)
            groups = [*apart, (devices, classes)]
        idle = set(range(self._compiled.device_count)).difference(*(group[0] for group in groups))
        return [*groups, *(({device}, set[int]()) for device in idle)]

    def _held(self, classes: Iterable[int], unit: float) -> Terms:
        kept = set(classes)
        return {column: self._compiled.memory[of] / unit for (of, each), column in self._choice.items() if each in kept}

    def _send(self, crossing: Crossing, source: int) -> None:
        """``source`` sends at the dearest of the readers' targets: a step for each dearer price."""
        reachable = {each for reader in crossing.readers for each in self._allowed[reader]} - {source}
        prices = sorted({crossing.send[source][each] for each in reachable} - {0.0})
        for low, price in zip((0.0, *prices), prices, strict=False):
            sent = self.column(0.0, high=1.0)
            self._time[source][sent] = (price - low) / self.second
            for reader in crossing.readers:
                cheaper = [t for t in self._allowed[reader] if t == source or crossing.send[source][t] < price]
                terms = {sent: 1.0, self._choice[crossing.unit, source]: -1.0}
                self.row({**terms, **{self._choice[reader, each]: 1.0 for each in cheaper}}, low=0.0)

    def _receive(self, crossing: Crossing, target: int) -> None:
        """``target`` receives once, at the price of the target that sends."""
        senders = self._allowed[crossing.unit]
        prices = sorted({crossing.receive[each][target] for each in senders if each != target} - {0.0})
        for low, price in zip((0.0, *prices), prices, strict=False):
            received = self.column(0.0, high=1.0)
            self._time[target][received] = (price - low) / self.second
            cheaper = [each for each in senders if each == target or crossing.receive[each][target] < price]
            for reader in crossing.readers:
                if (reader, target) in self._choice:
                    terms = {received: 1.0, self._choice[reader, target]: -1.0}
                    self.row({**terms, **{self._choice[crossing.unit, each]: 1.0 for each in cheaper}}, low=0.0)

    def _begin(self, each: int, fixed: float, unit: int, before: int) -> None:
        """A piece begins where ``unit`` is on ``each`` and the one before it is not."""
        begun = self.column(0.0, high=1.0)
        self._time[each][begun] = fixed
        stays = self._choice.get((before, each))
        self.row({begun: 1.0, self._choice[unit, each]: -1.0, **({} if stays is None else {stays: 1.0})}, low=0.0)

    def _delay(self, crossing: Crossing, reader: int) -> Terms:
        """The least that crossing to ``reader`` takes: for each sender, what its cheapest way costs."""
        terms: Terms = {}
        for source in self._allowed[crossing.unit]:
            send, receive = crossing.send[source], crossing.receive[source]
            cheapest = min(
                (send[each] + receive[each] for each in self._allowed[reader] if each != source), default=0.0
            )
            if cheapest:
                left = self.column(0.0, high=1.0)
                terms[left] = cheapest / self.second
                stays = self._choice.get((reader, source))
                row = {left: 1.0, self._choice[crossing.unit, source]: -1.0}
                self.row({**row, **({} if stays is None else {stays: 1.0})}, low=0.0)
        return terms

    def _work(self, latest: int) -> None:
        """Whole targets do all they do in sequence; a device does as much at a time as it has lanes."""
        problem = self._compiled.problem
        for each in self._classes:
            if problem.targets[each].whole:
                count = float(self._class_of.count(each))
                self.row({latest: count, **_minus(self._time[each])}, low=0.0)
        for devices, classes in self._groups:
            lanes = [problem.devices[device].lanes for device in devices]
            if UNLIMITED not in lanes:
                work = _sum(self._time[each] if problem.targets[each].whole else self._own[each] for each in classes)
                self.row({latest: float(sum(lanes)), **_minus(work)}, low=0.0)


def _sum(parts: Iterable[Terms]) -> Terms:
    total: Terms = {}
    for part in parts:
        for column, factor in part.items():
            total[column] = total.get(column, 0.0) + factor
    return total


def _minus(terms: Terms) -> Terms:
    return {column: -factor for column, factor in terms.items()}
