"""Floor 3, bench. How long a block is, in which order blocks run, and the timing of one pair.

In: two open children. Out: a :class:`Pair`, void where something outside the timings spoiled it. At most one side
runs at any time; the other's whole process tree is stopped.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from perfgate.bench.process import Trees
from perfgate.bench.task import BASE, HEAD
from perfgate.bench.telemetry import Watch, disturbance
from perfgate.bench.workers import Child
from perfgate.records.evidence import Block, Pair, SideSamples
from perfgate.records.protocol import Finished, Opened, Time, Timed

LETTERS = {"A": BASE, "B": HEAD}

# A clock read costs some tens of ns and the sync about a µs: below 200 µs a call, calls are grouped to 1 ms.
_GROUP_BELOW_NS = 200_000
_SAMPLE_NS = 1_000_000
_MIN_SAMPLES = 5
_MAX_SAMPLES = 500
_DISCARD_NS = 20_000_000
_DISCARD_CALLS = 2
_SLOW_STEP_NS = 100_000_000
# A stopped process runs no code; what its clock still gains comes from the moment of stopping.
_IDLE_LIMIT_NS = 5_000_000
_HANG_FACTOR = 50


class OutOfTime(Exception):  # noqa: N818 - how a pair ends that the budget does not cover
    """The budget ended inside a pair; the pair is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """Samples of a block, and calls in a sample; equal on both sides, so that medians are of equally many."""

    samples: int
    inner: int
    length_ns: int

    @property
    def request(self) -> Time:
        """What a worker is asked for. Slow steps throw away one call, since two would double the cost."""
        slow = self.length_ns >= self.samples * self.inner * _SLOW_STEP_NS
        calls = 1 if slow else _DISCARD_CALLS
        return Time(samples=self.samples, inner=self.inner, discard_calls=calls, discard_ns=_DISCARD_NS)


def shape(step_ns: int, block_ns: int) -> Shape:
    """Blocks of at least ``block_ns`` and at least 5 samples for a step of ``step_ns``."""
    step = max(1, step_ns)
    inner = 1 if step >= _GROUP_BELOW_NS else math.ceil(_SAMPLE_NS / step)
    samples = max(_MIN_SAMPLES, math.ceil(block_ns / (inner * step)))
    if samples > _MAX_SAMPLES:
        inner = math.ceil(inner * samples / _MAX_SAMPLES)
        samples = max(_MIN_SAMPLES, math.ceil(block_ns / (inner * step)))
    return Shape(samples=samples, inner=inner, length_ns=samples * inner * step)


def draw_order(rng: random.Random, groups: int) -> str:
    """``groups`` times ABBA or BAAB, each drawn: linear drift inside a group cancels, and no side has a fixed place."""
    return "".join(rng.choice(("ABBA", "BAAB")) for _ in range(groups))


@dataclass(slots=True, kw_only=True)
class Seat:
    """One side of a pair while it is measured."""

    side: str
    opened: Opened
    limit_s: float
    blocks: list[Block] = field(default_factory=list)
    items: set[int] = field(default_factory=set)
    recompiles: int = 0
    peaks: list[int | None] = field(default_factory=list)

    def samples(self, inner: int) -> SideSamples:
        """What the pair keeps of this side."""
        known = [peak for peak in self.peaks if peak is not None]
        return SideSamples(
            blocks=tuple(self.blocks),
            first_step_ns=self.opened.first_step_ns,
            peak_bytes=max(known) if len(known) == len(self.peaks) and known else None,
            inner=inner,
            items=max(self.items, default=self.opened.items),
            settled=self.opened.settled,
        )


class Turn:
    """Who may run: one side, or nobody. Remembers how much a stopped side ran all the same."""

    def __init__(self, trees: Trees) -> None:
        self._trees = trees
        self._running = {BASE, HEAD}
        self.strayed_ns = {BASE: 0, HEAD: 0}

    def give(self, side: str) -> None:
        """Stop the other side and let ``side`` run."""
        other = HEAD if side == BASE else BASE
        if other in self._running:
            self._running.discard(other)
            self._trees.pause(other)
        self._let(side)

    def all(self) -> None:
        """Let both run, while nothing is timed."""
        self._let(BASE)
        self._let(HEAD)

    @property
    def complaint(self) -> str:
        """Why the pair does not count, if a stopped side ran; else empty."""
        for side, strayed in self.strayed_ns.items():
            if strayed > _IDLE_LIMIT_NS:
                return f"{side} used {strayed / 1e6:.0f} ms of CPU while it was stopped"
        return ""

    def _let(self, side: str) -> None:
        if side not in self._running:
            self._running.add(side)
            self.strayed_ns[side] = max(self.strayed_ns[side], self._trees.resume(side))


class PairTimer:
    """Times the blocks of one pair; the laboratory opens and ends the children."""

    def __init__(self, turn: Turn, watch: Watch, *, block_ns: int, rng: random.Random, block_hang_s: float) -> None:
        self._turn = turn
        self._watch = watch
        self._block_ns = block_ns
        self._rng = rng
        self._block_hang_s = block_hang_s

    def restarted(self, turn: Turn) -> PairTimer:
        """The same timer with another account of who may run."""
        return PairTimer(turn, self._watch, block_ns=self._block_ns, rng=self._rng, block_hang_s=self._block_hang_s)

    def shape(self, seats: Iterable[Seat]) -> Shape:
        """From the faster side, so that both get blocks of at least the planned length."""
        return shape(min(seat.opened.step_ns for seat in seats), self._block_ns)

    def time(self, child: Child, seat: Seat, shape_: Shape) -> None:
        """One block of ``seat``; the other side is stopped. Raises WorkerFailed."""
        self._turn.give(seat.side)
        if self._block_ns >= _SAMPLE_NS * 1000:
            # Energy is read from a counter with a period of its own: come at it in a different phase each time.
            time.sleep(self._rng.uniform(0, 0.1))
        predicted_s = shape_.samples * shape_.inner * seat.opened.step_ns / 1e9
        before, start = self._watch.mark(), time.perf_counter_ns()
        limit_s = min(max(self._block_hang_s, _HANG_FACTOR * predicted_s), seat.limit_s)
        timed = child.time(shape_.request, limit_s)
        elapsed = time.perf_counter_ns() - start
        seat.blocks.append(self._watch.complete(_block(timed), before, elapsed))
        seat.items.add(timed.items)
        seat.recompiles += timed.recompiles

    def run(
        self, children: Mapping[str, Child], seats: Mapping[str, Seat], order: str, late: Callable[[], bool]
    ) -> Shape:
        """All blocks of ``order`` with both children alive. Raises WorkerFailed and OutOfTime."""
        chosen = self.shape(seats.values())
        for letter in order:
            if late():
                raise OutOfTime
            side = LETTERS[letter]
            self.time(children[side], seats[side], chosen)
        return chosen

    def finish(self, child: Child, seat: Seat) -> Finished:
        """Read the peak of ``seat``'s child, the other side stopped. Raises WorkerFailed."""
        self._turn.give(seat.side)
        finished = child.finish()
        seat.peaks.append(finished.peak_bytes)
        return finished


def void_reason(seats: Mapping[str, Seat], turn: Turn, watch: Watch, foreign: str) -> str:
    """Why a complete pair does not count, from facts outside the timings; empty: it counts."""
    if turn.complaint:
        return turn.complaint
    for seat in seats.values():
        if seat.recompiles:
            return f"{seat.side} compiled again inside a timed block"
        if len(seat.items) > 1:
            return f"{seat.side} handled different numbers of items in its blocks"
    return foreign or disturbance(seats[BASE].blocks, seats[HEAD].blocks, locked=watch.locked)


def make_pair(seats: Mapping[str, Seat], inner: int, *, index: int, number: int, order: str, void: str) -> Pair:
    """The record of a complete pair."""
    return Pair(
        index=index,
        round=number,
        order=order,
        base=seats[BASE].samples(inner),
        head=seats[HEAD].samples(inner),
        void=void,
    )


def _block(timed: Timed) -> Block:
    return Block(
        samples_ns=timed.samples_ns,
        spans_ns=timed.spans_ns,
        device_ns=timed.device_ns,
        cpu_ns=timed.cpu_ns,
        wall_ns=timed.wall_ns,
    )
