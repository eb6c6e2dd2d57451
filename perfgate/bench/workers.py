"""Floor 3, bench. One factory, one child: requests, replies, and every way in which they can fail, in words.

In: a side, a workload. Out: ``Prepared``, ``Opened``, ``Timed``, ``Finished``, or :class:`WorkerFailed` that says whose
fault it was. A worker's log is the only place where the user's own output goes.
"""

from __future__ import annotations

import contextlib
import itertools
import re
import signal
import socket
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from perfgate.bench import channel
from perfgate.bench.channel import Channel, ChannelError, ClosedError, SilentError
from perfgate.bench.process import Started, Trees, wait_gone
from perfgate.bench.task import Options, Side
from perfgate.records.protocol import (
    ONNXRUNTIME,
    TORCH,
    ChildReply,
    Count,
    Counted,
    FactoryReply,
    Failed,
    Finish,
    Finished,
    Fork,
    Forked,
    Open,
    Opened,
    Prepare,
    Prepared,
    Sample,
    Sampled,
    Saturate,
    Saturated,
    Time,
    Timed,
)
from perfgate.records.workload import ModelSpec, Workload

_FORK_LIMIT_S = 60.0
_FINISH_LIMIT_S = 60.0
_CUDA_WARMUP_NS = 500_000_000
_TAIL_BYTES = 8_000
_TAIL_LINES = 20
_MESSAGE_CHARS = 500


class WorkerFailed(Exception):  # noqa: N818 - a fact about the user's code, not an error of ours
    """A side's worker did not do what was asked. ``told`` True: the worker itself said why."""

    def __init__(self, side: str, failure: Failed, *, told: bool) -> None:
        self.side = side
        self.failure = failure
        self.told = told
        super().__init__(f"{side}: {failure.message}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """What all workers of a session share: where they run and how they are started."""

    trees: Trees
    shim: Path
    run_dir: Path
    options: Options
    environments: dict[str, dict[str, str]]
    numbers: Iterator[int]
    channels: dict[str, list[Channel]]

    def limit_s(self, wished_s: float) -> float:
        """Seconds to wait for a reply that may take ``wished_s``."""
        bound = self.options.hang_s
        return wished_s if bound is None else min(wished_s, bound)

    def connect(self, side: str) -> tuple[Channel, socket.socket]:
        """A channel to a process of ``side``, closed by :meth:`end` at the latest, and that process's socket."""
        own, theirs = channel.pair()
        self.channels.setdefault(side, []).append(own)
        return own, theirs

    def end(self, side: str | None = None) -> None:
        """End every process of ``side`` (None: of all) and hang up."""
        for name in [side] if side else list(self.channels):
            for own in self.channels.pop(name, ()):
                own.close()
        self.trees.end_side(side)


def place(trees: Trees, shim: Path, run_dir: Path, options: Options, environments: dict[str, dict[str, str]]) -> Place:
    """A :class:`Place` with log numbers from 1."""
    return Place(
        trees=trees,
        shim=shim,
        run_dir=run_dir,
        options=options,
        environments=environments,
        numbers=itertools.count(1),
        channels={},
    )


class Worker:
    """A process started by this room: what factory and fresh child have in common."""

    def __init__(
        self, where: Place, side: Side, role: str, specs: Iterable[ModelSpec], modules: tuple[str, ...]
    ) -> None:
        """Start the process and send ``Prepare``; does not wait. Raises :class:`WorkerFailed`."""
        self.side = side
        self._where = where
        specs = tuple(specs)
        self._limit_s = where.limit_s(max(spec.timeout_s for spec in specs))
        self._channel, theirs = where.connect(side.name)
        log = where.run_dir / f"worker-{side.name}-{next(where.numbers):04d}.log"
        try:
            self.started: Started = where.trees.start(
                [side.python, str(where.shim), "--socket", str(theirs.fileno()), role],
                side=side.name,
                cwd=side.checkout,
                env=where.environments[side.name],
                fds=(theirs.fileno(),),
                log=log,
            )
        except OSError as error:
            program = error.filename or side.python
            message = f"{program}: cannot be started ({error.strerror}); set python in perfgate.toml"
            raise WorkerFailed(side.name, Failed(kind="import", phase="import", message=message), told=False) from None
        finally:
            theirs.close()
        self._link = Link(self._channel, side.name, self.started.popen.pid, self.started, where.trees)
        request = Prepare(
            side=side.name,
            checkout=str(side.checkout),
            repository=str(side.repository),
            pythonpath=side.config.pythonpath,
            modules=modules,
            tracked=side.tracked,
            threads=where.options.threads,
            cpus=where.options.cpus,
            frameworks=tuple(sorted({ONNXRUNTIME if spec.is_onnx else TORCH for spec in specs})),
        )
        self._link.send(request, phase="import")

    def prepared(self) -> Prepared:
        """Wait until torch and the user's modules are imported. Raises :class:`WorkerFailed`."""
        reply: Prepared = self._link.receive(FactoryReply, Prepared, self._limit_s, phase="import")
        return reply


class Factory(Worker):
    """Imports once and forks children; its own process never touches a device."""

    def __init__(self, where: Place, side: Side, specs: Iterable[ModelSpec], modules: tuple[str, ...]) -> None:
        super().__init__(where, side, "factory", tuple(specs), modules)

    def fork(self, name: str) -> Child:
        """A child of this factory. Raises :class:`WorkerFailed`."""
        ours, theirs = self._where.connect(self.side.name)
        try:
            self._link.send(Fork(child=name), fds=(theirs,), phase="build")
            reply: Forked = self._link.receive(FactoryReply, Forked, self._where.limit_s(_FORK_LIMIT_S), phase="build")
        finally:
            theirs.close()
        return Child(Link(ours, self.side.name, reply.pid, self.started, self._where.trees), self._where)


class FreshChild(Worker):
    """A child started from nothing, where forking is unsafe."""

    def __init__(self, where: Place, side: Side, spec: ModelSpec, modules: tuple[str, ...]) -> None:
        super().__init__(where, side, "child", (spec,), modules)

    def child(self) -> Child:
        """The child to open, once :meth:`prepared` has returned."""
        return Child(self._link, self._where)


class Child:
    """A process of one workload."""

    def __init__(self, link: Link, where: Place) -> None:
        self._link = link
        self._where = where
        self.pid = link.pid
        self.side = link.side

    def count(self, workload: Workload, spec: ModelSpec) -> Counted:
        """Trace one step, without weights where possible. Raises :class:`WorkerFailed`."""
        request = Count(workload=workload, spec=spec, seed=self._where.options.seed)
        counted: Counted = self._link.ask(request, Counted, self._where.limit_s(spec.timeout_s), phase="probe")
        return counted

    def saturate(self, request: Saturate, limit_s: float) -> Saturated:
        """Reach the device's roofs. Raises :class:`WorkerFailed`."""
        reached: Saturated = self._link.ask(request, Saturated, self._where.limit_s(limit_s), phase="timing")
        return reached

    def sample(self, request: Sample, limit_s: float) -> Sampled:
        """Build a sample network and take its first step, or trace one. Raises :class:`WorkerFailed`."""
        phase = "probe" if request.trace else "warm-up"
        sampled: Sampled = self._link.ask(request, Sampled, self._where.limit_s(limit_s), phase=phase)
        return sampled

    def place(self, request: object, limit_s: float, *, phase: str) -> object:
        """One request of :mod:`perfgate.records.placing`. Raises :class:`WorkerFailed`."""
        self._link.send(request, phase=phase)
        return self._link.receive(ChildReply, object, self._where.limit_s(limit_s), phase=phase)

    def open(self, workload: Workload, spec: ModelSpec, *, probe: bool = False, real: bool = False) -> Opened:
        """Build, and warm up. Raises :class:`WorkerFailed`."""
        options = self._where.options
        floor = options.warmup_min_ns if workload.device == "cpu" else max(options.warmup_min_ns, _CUDA_WARMUP_NS)
        request = Open(
            workload=workload,
            spec=spec,
            seed=options.seed,
            probe=probe,
            real=real,
            warmup_min_ns=floor,
            warmup_cap_ns=options.warmup_cap_ns,
        )
        phase = "probe" if probe else "warm-up"
        opened: Opened = self._link.ask(request, Opened, self._where.limit_s(spec.timeout_s), phase=phase)
        if probe and opened.probe is None:
            failure = Failed(kind="protocol", phase=phase, message="the worker answered without the facts asked for")
            raise WorkerFailed(self.side, failure, told=False)
        return opened

    def time(self, request: Time, limit_s: float) -> Timed:
        """One timed block; this process sleeps meanwhile. Raises :class:`WorkerFailed`."""
        timed: Timed = self._link.ask(request, Timed, self._where.limit_s(limit_s), phase="timing")
        lengths = {len(timed.samples_ns), *(len(span) for span in timed.spans_ns.values())}
        if lengths != {request.samples} or min(timed.samples_ns) <= 0:
            count = len(timed.samples_ns)
            message = f"the worker sent {count} samples where {request.samples} above 0 ns were asked for"
            raise WorkerFailed(self.side, Failed(kind="protocol", phase="timing", message=message), told=False)
        return timed

    def finish(self) -> Finished:
        """The memory peak; the child ends by itself afterwards. Raises :class:`WorkerFailed`."""
        limit = self._where.limit_s(_FINISH_LIMIT_S)
        finished: Finished = self._link.ask(Finish(), Finished, limit, phase="finish")
        return finished

    def close(self) -> bool:
        """Let the child end; False if it did not within the grace period (whoever ends the tree will see to it)."""
        self._link.channel.close()
        return not wait_gone((self.pid,), self._where.options.grace_s)


class Link:
    """A channel to one process, and how that process's death is told."""

    def __init__(self, own: Channel, side: str, pid: int, started: Started, trees: Trees) -> None:
        self.channel = own
        self.side = side
        self.pid = pid
        self._started = started
        self._trees = trees
        self._oom_before = _oom_kills()

    def ask(self, request: object, wanted: type, limit_s: float, *, phase: str) -> Any:
        """One request of a child and its reply."""
        self.send(request, phase=phase)
        return self.receive(ChildReply, wanted, limit_s, phase=phase)

    def send(self, request: object, *, phase: str, fds: tuple[socket.socket, ...] = ()) -> None:
        """Write a request. Raises :class:`WorkerFailed`."""
        try:
            self.channel.send(request, tuple(sock.fileno() for sock in fds))
        except ChannelError as error:
            raise self._failed(error, phase, 0.0) from None

    def receive(self, replies: Any, wanted: type, limit_s: float, *, phase: str) -> Any:
        """The reply, which must be a ``wanted``. Raises :class:`WorkerFailed`."""
        try:
            reply = self.channel.receive(replies, limit_s)
        except ChannelError as error:
            raise self._failed(error, phase, limit_s) from None
        if isinstance(reply, Failed):
            raise WorkerFailed(self.side, _clipped(reply), told=True)
        if not isinstance(reply, wanted):
            message = f"the worker answered {type(reply).__name__} where {wanted.__name__} was due"
            raise WorkerFailed(self.side, Failed(kind="protocol", phase=phase, message=message), told=False)
        return reply

    def _failed(self, error: ChannelError, phase: str, limit_s: float) -> WorkerFailed:
        doing = _DOING[phase]
        if isinstance(error, SilentError):
            kind, message = "hung", f"hung: no answer within {limit_s:.0f} s while {doing}"
        elif isinstance(error, ClosedError):
            kind, message = self._death(doing)
        else:
            kind, message = "protocol", f"the worker {error} while {doing}"
        failure = Failed(kind=kind, phase=phase, message=message, trace=tail(self._started.log))
        return WorkerFailed(self.side, failure, told=False)

    def _death(self, doing: str) -> tuple[str, str]:
        wait_gone((self.pid,), 1.0)
        status = self._status()
        if _oom_kills() > self._oom_before and status in (None, -signal.SIGKILL):
            return "oom", f"killed by the system for lack of memory while {doing}"
        if status is None:
            return "exited", f"the process ended without an answer while {doing}"
        if status >= 0:
            return "exited", f"the process exited with status {status} while {doing}"
        name = signal.Signals(-status).name if -status in set(signal.Signals) else f"signal {-status}"
        hint = " (often for lack of memory)" if status == -signal.SIGKILL else ""
        return "killed", f"the process was killed by {name}{hint} while {doing}"

    def _status(self) -> int | None:
        if self.pid == self._started.popen.pid:
            return self._started.popen.poll()
        status = self._trees.status(self.pid)
        if status is not None:
            return status
        # Its factory has collected it and has written how it ended.
        ended = re.search(rf"^perfgate: child {self.pid} .*ended (by signal|with) (\d+)", tail(self._started.log), re.M)
        if ended is None:
            return None
        return -int(ended[2]) if ended[1] == "by signal" else int(ended[2])


_DOING = {
    "import": "importing",
    "build": "being started",
    "probe": "building and running once",
    "warm-up": "building and warming up",
    "timing": "being timed",
    "finish": "finishing",
}


def _clipped(failure: Failed) -> Failed:
    """``failure`` as short as it is meant to be, whoever wrote it: one line, and the end of the trace."""
    message = " ".join(failure.message.split())[:_MESSAGE_CHARS]
    return replace(failure, message=message, trace=failure.trace[-_TAIL_BYTES:])


def tail(log: Path) -> str:
    """The last lines that a worker wrote to its standard streams; empty where there are none."""
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, log.stat().st_size - _TAIL_BYTES))
            text = stream.read(_TAIL_BYTES).decode("utf-8", errors="replace")
    except OSError:
        return ""
    printable = "".join(char if char.isprintable() or char == "\n" else "\ufffd" for char in text)
    return "\n".join(printable.splitlines()[-_TAIL_LINES:])


def _oom_kills() -> int:
    """How often the kernel killed for lack of memory since it started; 0 where it does not tell."""
    with contextlib.suppress(OSError, ValueError):
        for line in Path("/proc/vmstat").read_text(encoding="utf-8").splitlines():
            if line.startswith("oom_kill "):
                return int(line.split()[1])
    return 0
