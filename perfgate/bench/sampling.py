"""Floor 3, bench. Sample workloads from real workers: a factory for each number of threads, a fork for each condition.

In: conditions. Out: :class:`Taken`, traces, or why there are none. Of N + 1 steps the first is kept apart; N follows
from how long the second one takes. A block in which the worker had to wait for a processor is taken again: the reason
is seen outside of the timings, which decide nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from perfgate.bench import machine
from perfgate.bench.laboratory import DYNAMO
from perfgate.bench.nvml import Gpus
from perfgate.bench.task import Side
from perfgate.bench.telemetry import ENERGY_BLOCK_NS, Watch
from perfgate.bench.visible import find
from perfgate.bench.workers import Child, Factory, FreshChild, Place, WorkerFailed
from perfgate.records.evidence import Block
from perfgate.records.graph import Trace
from perfgate.records.protocol import Failed, Prepared, Sample, Sampled, Software, Time, Timed
from perfgate.records.sampling import Condition
from perfgate.records.workload import ModelSpec

# Long enough for an average, short enough for hundreds of conditions in ten minutes.
_BLOCK_NS = 200_000_000
_GPU_BLOCK_NS = 500_000_000
_LEAST_STEPS = 2
_MOST_SAMPLES = 64
# As in the gate: below 200 us a call, calls are grouped to 1 ms.
_GROUP_BELOW_NS = 200_000
_SAMPLE_NS = 1_000_000
_TIMEOUT_S = 120.0
_COMPILE_TIMEOUT_S = 900.0
_BLOCK_LIMIT_S = 60.0
# A worker that waited for more than this share of its time was disturbed; blocks up to so long are taken again.
_DISTURBED = 0.05
_AGAIN_NS = 1_000_000_000
_MOST_BLOCKS = 3

_PROCESSES = Path("/proc")

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Taken:
    """What one condition showed: blocks in time order; block k took ``inners[k]`` steps together for each sample.

    ``peak_bytes`` since the first step; ``spent_s`` is what all of it took, starting and ending the process included.
    ``waited_share``: time that the worker's threads were ready and had no processor, over wall time and threads; None
    where the kernel does not tell.
    """

    condition: Condition
    sampled: Sampled
    blocks: tuple[Block, ...]
    inners: tuple[int, ...]
    peak_bytes: int | None
    software: Software
    spent_s: float
    waited_share: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def steps(self) -> int:
        """N: steps after the first one."""
        return sum(len(block.samples_ns) * inner for block, inner in zip(self.blocks, self.inners, strict=True))

    @property
    def step_ns(self) -> float:
        """Mean of steps 2 to N + 1."""
        pairs = zip(self.blocks, self.inners, strict=True)
        return sum(sum(block.samples_ns) * inner for block, inner in pairs) / self.steps


@dataclass(frozen=True, slots=True, kw_only=True)
class _Parent:
    """``factory`` None: forking is unsafe there, so that children are started fresh."""

    factory: Factory | None
    prepared: Prepared
    where: Place


class Sampler:
    """Runs conditions one after the other. Workers wait between them, and end with the session."""

    def __init__(self, where: Place, side: Side, watch: Watch) -> None:
        self._where = where
        self._side = side
        self._watch = watch
        self._parents: dict[int, _Parent] = {}

    def software(self, threads: int) -> Software | Failed:
        """What runs the conditions with so many threads."""
        return self._tried(lambda: self._parent(threads).prepared.software)

    def trace(self, condition: Condition, seed: int = 0) -> Trace | Failed:
        """One step of ``condition``, traced without running it."""

        def ask() -> Trace:
            child = self._child(condition)
            request = Sample(condition=condition, seed=seed, trace=True)
            sampled = child.sample(request, _TIMEOUT_S)
            child.close()
            if sampled.trace is None:
                failure = Failed(kind="protocol", phase="probe", message="the worker answered without a trace")
                raise WorkerFailed(self._side.name, failure, told=False)
            return sampled.trace

        return self._tried(ask)

    def take(self, condition: Condition, seed: int = 0) -> Taken | Failed:
        """N + 1 steps of ``condition`` in a process of its own."""
        begun = time.monotonic()

        def ask() -> Taken:
            child = self._child(condition)
            limit_s = _TIMEOUT_S if condition.compile == "eager" else _COMPILE_TIMEOUT_S
            sampled = child.sample(Sample(condition=condition, seed=seed), limit_s)
            self._watch.use(sampled.devices)
            blocks, inners, waited = self._blocks(child, condition)
            finished = child.finish()
            child.close()
            return Taken(
                condition=condition,
                sampled=sampled,
                blocks=blocks,
                inners=inners,
                peak_bytes=finished.peak_bytes,
                software=self._parent(condition.threads).prepared.software,
                spent_s=time.monotonic() - begun,
                waited_share=waited,
                notes=(*sampled.notes, *finished.notes, *self._watch.notes(blocks)),
            )

        return self._tried(ask)

    def _tried(self, ask: Callable[[], T]) -> T | Failed:
        try:
            return ask()
        except WorkerFailed as lost:
            self._clean()
            return lost.failure

    def _blocks(self, child: Child, condition: Condition) -> tuple[tuple[Block, ...], tuple[int, ...], float | None]:
        """The second step and those after it, the steps in each sample, and the share of time spent waiting."""
        second, second_waited = self._watched(child, condition, Time(samples=1, discard_calls=0, discard_ns=0))
        wanted_ns = self._block_ns(condition)
        request = rest(second.samples_ns[0], wanted_ns)
        more, waited = self._watched(child, condition, request)
        if more.wall_ns < wanted_ns // 2:
            # The second step took longer than those after it: what followed was too few.
            request = rest(more.wall_ns // (request.samples * request.inner), wanted_ns)
            more, waited = self._watched(child, condition, request)
        for _ in range(_MOST_BLOCKS - 1):
            if waited is None or waited <= _DISTURBED or more.wall_ns > _AGAIN_NS:
                break
            again, less = self._watched(child, condition, request)
            if less is not None and less < waited:
                more, waited = again, less
        if second_waited is not None and second_waited > _DISTURBED:
            return (more,), (request.inner,), waited
        return (second, more), (1, request.inner), waited

    def _watched(self, child: Child, condition: Condition, request: Time) -> tuple[Block, float | None]:
        before = waited_ns(child.pid)
        block = self._block(child, request)
        after = waited_ns(child.pid)
        if before is None or after is None or not block.wall_ns:
            return block, None
        return block, max(0, after - before) / (block.wall_ns * condition.threads)

    def _block(self, child: Child, request: Time) -> Block:
        mark, begun = self._watch.mark(), time.monotonic_ns()
        timed: Timed = child.time(request, _BLOCK_LIMIT_S)
        elapsed = time.monotonic_ns() - begun
        block = Block(
            samples_ns=timed.samples_ns,
            device_ns=timed.device_ns,
            cpu_ns=timed.cpu_ns,
            wall_ns=timed.wall_ns,
        )
        return self._watch.complete(block, mark, elapsed)

    def _block_ns(self, condition: Condition) -> int:
        if condition.device == "cpu":
            return _BLOCK_NS
        counters = self._watch.mark().energy_j
        counted = bool(counters) and all(value is not None for value in counters)
        return ENERGY_BLOCK_NS * 6 // 10 if counted else _GPU_BLOCK_NS

    def _child(self, condition: Condition) -> Child:
        parent = self._parent(condition.threads)
        if parent.factory is not None:
            return parent.factory.fork(condition.key)
        process = FreshChild(parent.where, self._side, _spec(condition.device), ())
        process.prepared()
        return process.child()

    def _parent(self, threads: int) -> _Parent:
        """The factory for so many threads, started where there is none."""
        known = self._parents.get(threads)
        if known is not None:
            return known
        where = replace(self._where, options=replace(self._where.options, threads=threads, cpus=None))
        # Optimisers and compiled models import it: the factory does so once for all.
        factory = Factory(where, self._side, (_spec("cpu"),), (DYNAMO,))
        prepared = factory.prepared()
        usable = factory if prepared.can_fork else None
        self._parents[threads] = parent = _Parent(factory=usable, prepared=prepared, where=where)
        return parent

    def _clean(self) -> None:
        """After a failure: end what is left of it, and forget factories that are gone."""
        alive = {
            threads: parent
            for threads, parent in self._parents.items()
            if parent.factory is None or parent.factory.started.popen.poll() is None
        }
        self._parents = alive
        keep = [parent.factory.started.popen.pid for parent in alive.values() if parent.factory is not None]
        self._where.trees.end(self._where.trees.left_behind(self._side.name, keep), self._where.options.grace_s)


def rest(step_ns: int, block_ns: int) -> Time:
    """The steps that follow one of ``step_ns``: at least 2, and as many as fill ``block_ns``."""
    step = max(1, step_ns)
    inner = 1 if step >= _GROUP_BELOW_NS else math.ceil(_SAMPLE_NS / step)
    samples = math.ceil(block_ns / (inner * step))
    if samples > _MOST_SAMPLES:
        inner = math.ceil(block_ns / (_MOST_SAMPLES * step))
        samples = _MOST_SAMPLES
    return Time(samples=max(_LEAST_STEPS, samples), inner=inner, discard_calls=0, discard_ns=0)


def waited_ns(pid: int, root: Path = _PROCESSES) -> int | None:
    """Time in ns that all threads of ``pid`` were ready to run and had no processor; None where it is not known."""
    total = 0
    found = False
    for file in (root / str(pid) / "task").glob("*/schedstat"):
        fields = machine.read_text(file).split()
        if len(fields) >= 2 and fields[1].isdigit():
            total += int(fields[1])
            found = True
    return total if found else None


def free_bytes(devices: Iterable[str], gpus: Gpus, environ: dict[str, str]) -> dict[str, int]:
    """Memory that is free now, by device; on the CPU also within the control group's limit. Unknown is absent."""
    found: dict[str, int] = {}
    for device in devices:
        if device == "cpu":
            found[device] = machine.available_bytes()
            continue
        gpu = find(device, gpus.all(), environ)
        used = None if gpu is None else gpus.used_bytes(gpu.uuid)
        if gpu is not None and gpu.memory_bytes is not None and used is not None:
            found[device] = max(0, gpu.memory_bytes - used)
    return found


def _spec(device: str) -> ModelSpec:
    """What a worker is started for, as far as its start needs to know."""
    return ModelSpec(name="sample", device=(device,), timeout_s=_TIMEOUT_S)
