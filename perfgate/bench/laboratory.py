"""Floor 3, bench. Pairs from real workers: factories, forks, fresh starts, and what goes wrong with them.

In: works and a plan. Out: :class:`Measured` pairs. Nothing that a round started outlives it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import groupby

from perfgate.bench.blocks import LETTERS, OutOfTime, PairTimer, Seat, Turn, draw_order, make_pair, void_reason
from perfgate.bench.rounds import Measured
from perfgate.bench.task import SIDES, Side, Work
from perfgate.bench.telemetry import ENERGY_BLOCK_NS, Watch
from perfgate.bench.workers import Child, Factory, FreshChild, Place, WorkerFailed
from perfgate.records.policy import Plan
from perfgate.records.workload import ModelSpec, Workload

SHARED = ""
# A worker says itself how long its steps are; no block may take longer than this many of the model's time limits.
_TIMEOUTS = 4
_MAX_LOG_BYTES = 16 * 2**20

DYNAMO = "torch._dynamo"


@dataclass(slots=True, kw_only=True)
class Experience:
    """What a session has learned about its sides; kept from probing to comparing.

    ``apart``: models are imported in factories of their own, since together they fail or cannot be forked.
    ``fresh``: model -> why its children are started anew. ``alone``: workloads whose two copies do not fit in memory.
    ``devices``: workload -> device names that its processes used. ``import_s`` and ``open_s`` are for predictions.
    """

    apart: bool = False
    fresh: dict[str, str] = field(default_factory=dict)
    alone: set[str] = field(default_factory=set)
    devices: dict[str, tuple[str, ...]] = field(default_factory=dict)
    import_s: dict[str, float] = field(default_factory=dict)
    open_s: dict[tuple[str, str], float] = field(default_factory=dict)


class Laboratory:
    """Makes rounds from the session's sides."""

    def __init__(self, where: Place, sides: dict[str, Side], watch: Watch, plan: Plan, known: Experience) -> None:
        self.where = where
        self.sides = sides
        self.watch = watch
        self.plan = plan
        self.known = known

    @property
    def round_s(self) -> float:
        """Both sides import at the same time, and may have to share the processors for it."""
        return sum(self.known.import_s.values())

    @contextmanager
    def open_round(self, works: Sequence[Work], number: int) -> Iterator[PairMaker]:
        """Parents start when the first pair needs them; all processes of both sides end with the context."""
        maker = PairMaker(self, works, number)
        try:
            yield maker
        finally:
            maker.close()


class PairMaker:
    """One round: at most one factory for each side and group of models."""

    def __init__(self, lab: Laboratory, works: Sequence[Work], number: int) -> None:
        self._lab = lab
        self._trees = lab.where.trees
        self._works = works
        self._number = number
        self._factories: dict[str, dict[str, Factory]] = {}

    def close(self) -> None:
        """End the factories and whatever they left."""
        self._drop()
        for log in self._lab.where.run_dir.glob("worker-*.log"):
            log.unlink(missing_ok=True)

    def pair(self, work: Work, *, index: int, late: Callable[[], bool]) -> Measured:
        """One pair of ``work``. Raises WorkerFailed and OutOfTime, after ending all of the round's processes."""
        attempt = _Attempt(self, self._lab, work, index, self._number, late)
        try:
            return self._alone_or_together(attempt)
        except (WorkerFailed, OutOfTime):
            self._drop()
            raise

    def _alone_or_together(self, attempt: _Attempt) -> Measured:
        key = attempt.work.workload.key
        if key not in self._lab.known.alone:
            try:
                return attempt.together()
            except WorkerFailed as lost:
                if lost.failure.kind != "oom" or not attempt.both_alive:
                    raise
                # Each copy fitted alone when it was probed; the two together do not.
                self._drop()
                self._lab.known.alone.add(key)
        return attempt.apart()

    def children(self, work: Work, sides: Iterable[str]) -> dict[str, Child]:
        """A new child of each of ``sides``, not opened yet. Raises WorkerFailed."""
        factories = self._group(work)
        if factories is not None:
            return {side: factories[side].fork(work.workload.key) for side in sides}
        fresh = {
            side: FreshChild(self._lab.where, self._lab.sides[side], work.spec(side), work.spec(side).modules)
            for side in sides
        }
        for process in fresh.values():
            process.prepared()
        return {side: process.child() for side, process in fresh.items()}

    def clean(self, side: str) -> str:
        """End what a child of ``side`` has left behind; a sentence about it, or empty."""
        factories = [pair[side].started for pair in self._factories.values() if side in pair]
        for started in factories:
            if started.log.stat().st_size > _MAX_LOG_BYTES:
                # Opened for appending, so the writer goes on at the new end.
                with started.log.open("r+b") as log:
                    log.truncate(0)
        left = self._trees.left_behind(side, [started.popen.pid for started in factories])
        if not left:
            return ""
        self._trees.end(left, self._lab.where.options.grace_s)
        return f"{side} left processes behind; they were ended"

    def _group(self, work: Work) -> dict[str, Factory] | None:
        """The factories for ``work``, started if need be; None where its children must be started fresh."""
        known = self._lab.known
        group = work.workload.model if known.apart else SHARED
        if work.workload.model in known.fresh:
            return None
        if group in self._factories:
            return self._factories[group]
        forkable = [each for each in self._works if each.workload.model not in known.fresh]
        works = [each for each in forkable if group in (SHARED, each.workload.model)]
        several = len({each.workload.model for each in works}) > 1
        try:
            factories, reason = self._start(works)
        except WorkerFailed:
            if not several:
                raise
            factories, reason = {}, "together they cannot be imported"
        if not reason:
            self._factories[group] = factories
            return factories
        self._drop()
        if several:
            known.apart = True
            return self._group(work)
        known.fresh[work.workload.model] = reason
        return None

    def _start(self, works: Sequence[Work]) -> tuple[dict[str, Factory], str]:
        """A factory for each side, in random order, importing at the same time; why they cannot fork, or empty."""
        lab, begun = self._lab, time.monotonic()
        order = list(SIDES)
        random.Random(f"{lab.plan.seed}/factories/{self._number}").shuffle(order)  # noqa: S311 - repeatable
        factories = {}
        for side in order:
            specs = [work.spec(side) for work in works]
            modules = (*modules_of_all(specs), *late_modules([work.workload for work in works]))
            factories[side] = Factory(lab.where, lab.sides[side], specs, modules)
        reasons = [reply.reason or "unknown" for side in order if not (reply := factories[side].prepared()).can_fork]
        spent = time.monotonic() - begun
        lab.known.import_s = dict.fromkeys(SIDES, spent / len(SIDES))
        return factories, reasons[0] if reasons else ""

    def _drop(self) -> None:
        self._lab.where.end()
        self._factories.clear()


class _Attempt:
    """One pair in the making."""

    def __init__(
        self, maker: PairMaker, lab: Laboratory, work: Work, index: int, number: int, late: Callable[[], bool]
    ) -> None:
        self.work = work
        self._maker = maker
        self._lab = lab
        self._index = index
        self._number = number
        self._late = late
        self._key = work.workload.key
        seed = f"{lab.plan.seed}/{self._key}/{work.informative}/{index}"
        self._rng = random.Random(seed)  # noqa: S311 - repeatable on purpose
        self._turn = Turn(lab.where.trees)
        self._seats: dict[str, Seat] = {}
        self._used: dict[str, None] = {}
        energy = "energy" in work.tolerances
        block_ns = max(lab.plan.block_ns, ENERGY_BLOCK_NS) if energy else lab.plan.block_ns
        self._timer = PairTimer(
            self._turn, lab.watch, block_ns=block_ns, rng=self._rng, block_hang_s=lab.where.options.block_hang_s
        )
        self._devices = lab.known.devices.get(self._key, (work.workload.device,))
        lab.watch.survey(self._devices)

    @property
    def both_alive(self) -> bool:
        """One side was open when the other failed, or both were."""
        return bool(self._seats)

    def together(self) -> Measured:
        """Both children alive, one running at a time."""
        children = self._maker.children(self.work, SIDES)
        for side in self._drawn():
            self._open(side, children[side])
        order = draw_order(self._rng, self._lab.plan.groups)
        chosen = self._timer.run(children, self._seats, order, self._late)
        foreign = self._lab.watch.foreign(self._pids())
        for side in self._drawn():
            self._timer.finish(children[side], self._seats[side])
        self._turn.all()
        notes = self._close(children.values())
        return self._measured(chosen.inner, order, foreign, notes)

    def apart(self) -> Measured:
        """A process for each run of equal letters, since two do not fit: only one is alive at a time."""
        self._seats.clear()
        self._turn = Turn(self._lab.where.trees)
        self._timer = self._timer.restarted(self._turn)
        order = draw_order(self._rng, self._lab.plan.groups)
        chosen, foreign, notes = None, "", []
        for letter, repeats in groupby(order):
            if self._late():
                raise OutOfTime
            side = LETTERS[letter]
            child = self._maker.children(self.work, (side,))[side]
            self._open(side, child)
            chosen = chosen or self._timer.shape(self._seats.values())
            for _ in repeats:
                self._timer.time(child, self._seats[side], chosen)
            foreign = foreign or self._lab.watch.foreign(self._pids())
            self._timer.finish(child, self._seats[side])
            self._turn.all()
            notes += self._close((child,))
        if chosen is None:
            raise AssertionError(order)
        notes.append("base and head do not fit in memory together: each was alive alone")
        return self._measured(chosen.inner, order, foreign, notes)

    def _open(self, side: str, child: Child) -> None:
        self._turn.give(side)
        opened = child.open(self.work.workload, self.work.spec(side))
        self._used.update(dict.fromkeys(opened.devices))
        self._lab.watch.use(self._used)
        self._lab.known.devices[self._key] = tuple(self._used)
        if side in self._seats:
            seat = self._seats[side]
            seat.opened = replace(seat.opened, settled=seat.opened.settled and opened.settled)
        else:
            limit_s = _TIMEOUTS * self.work.spec(side).timeout_s
            self._seats[side] = Seat(side=side, opened=opened, limit_s=limit_s)

    def _close(self, children: Iterable[Child]) -> list[str]:
        for child in children:
            child.close()
        return [note for side in SIDES if (note := self._maker.clean(side))]

    def _measured(self, inner: int, order: str, foreign: str, notes: Sequence[str]) -> Measured:
        watch = self._lab.watch
        void = void_reason(self._seats, self._turn, watch, foreign)
        blocks = [block for seat in self._seats.values() for block in seat.blocks]
        fresh = self._lab.known.fresh.get(self.work.workload.model)
        said = [*notes, *watch.notes(blocks)]
        if fresh:
            said.append(f"processes were started anew for each pair: {fresh}")
        said += [note for seat in self._seats.values() for note in seat.opened.notes]
        pair = make_pair(self._seats, inner, index=self._index, number=self._number, order=order, void=void)
        return Measured(pair=pair, notes=tuple(said))

    def _drawn(self) -> list[str]:
        sides = list(SIDES)
        self._rng.shuffle(sides)
        return sides

    def _pids(self) -> list[int]:
        return [process.pid for process in self._lab.where.trees.members()]


def late_modules(workloads: Sequence[Workload]) -> tuple[str, ...]:
    """Parts of torch that it imports when they are first used, for seconds: the factory pays that once for all."""
    late = any(workload.mode == "train" or workload.compile != "eager" for workload in workloads)
    return (DYNAMO,) if late else ()


def modules_of_all(specs: Iterable[ModelSpec]) -> tuple[str, ...]:
    """Modules of all ``specs``, in order, each once."""
    return tuple(dict.fromkeys(module for spec in specs for module in spec.modules))
