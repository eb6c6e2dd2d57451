"""A worker that speaks the protocol with scripted behaviour instead of a model.

The script of a workload is its specification's ``inputs`` table:

    step_us     latency of a step; every sample is that, times ``1.08`` in half of the processes if ``bimodal``
    open, time, finish   what happens instead of the reply: raise, eat (memory), exit, kill, hang, garbage, huge,
                unknown, chatter, wrong; with ``once`` (a path) only the first process that comes there does it
    memory      path: only one process at a time finds room, as on a card that holds one copy
    detach      path: a double-forked process in a session of its own writes its id there and burns CPU
    linger      the process does not end after Finish
    peak        peak bytes
    recompiles  of each block; ``items`` of each block as a list
Modules called ``broken``, ``exits`` or ``threads`` fail to import, end the factory, or forbid forking.
"""

from __future__ import annotations

import fcntl
import json
import os
import random
import resource
import signal
import socket
import sys
import time
from pathlib import Path
from typing import Any, NoReturn

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from perfgate import wire
from perfgate.records.protocol import (
    ChildRequest,
    Digest,
    FactoryRequest,
    Failed,
    Finish,
    Finished,
    Fork,
    Forked,
    Open,
    Opened,
    Prepare,
    Prepared,
    Probe,
    Software,
    Time,
    Timed,
)


class Wire:
    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.rest = b""
        self.fds: list[int] = []

    def receive(self, kinds: Any) -> Any:
        while b"\n" not in self.rest:
            data, fds, _, _ = socket.recv_fds(self.sock, 65536, 4)
            self.fds += fds
            if not data:
                os._exit(0)
            self.rest += data
        line, _, self.rest = self.rest.partition(b"\n")
        return wire.loads(kinds, line)

    def send(self, record: object) -> None:
        self.raw(json.dumps(wire.tagged(record)).encode() + b"\n")

    def raw(self, data: bytes) -> None:
        self.sock.sendall(data)


def prepared(request: Prepare) -> object:
    if "exits" in request.modules:
        os.write(1, b"about to exit while importing\n")
        os._exit(7)
    if "broken" in request.modules:
        return Failed(kind="import", phase="import", message="ImportError: broken")
    return Prepared(
        pid=os.getpid(), software=Software(versions={"python": "fake"}), can_fork="threads" not in request.modules,
        reason="2 threads alive after import" if "threads" in request.modules else "", import_ns=1,
    )  # fmt: skip


def misbehave(link: Wire, what: str) -> None:
    match what:
        case "raise":
            link.send(Failed(kind="raised", phase="build", message="ValueError: no such layer"))
        case "exit":
            os.write(1, b"the last words\n")
            os._exit(3)
        case "kill":
            os.kill(os.getpid(), signal.SIGKILL)
        case "hang":
            signal.signal(signal.SIGTERM, signal.SIG_IGN)
            time.sleep(600)
        case "garbage":
            link.raw(b'\xff\xfe{"type": "Opened"\n')
        case "unknown":
            link.raw(b'{"type": "Surprise"}\n')
        case "huge":
            for _ in range(100):
                link.raw(b"x" * 2**20)
        case "wrong":
            link.send(Finished(peak_bytes=1))
        case "chatter":
            link.raw(b'{"type": "Finished", "peak_bytes": 1}\n' * 2)
        case "eat":
            link.send(eat_memory())
        case _:
            raise AssertionError(what)


def eat_memory() -> object:
    resource.setrlimit(resource.RLIMIT_AS, (2**30, 2**30))
    try:
        return Failed(kind="raised", phase="build", message=str(len(bytearray(2**32))))
    except MemoryError:
        return Failed(kind="oom", phase="build", message="MemoryError")


def detach(path: str) -> None:
    if os.fork():
        os.wait()
        return
    os.setsid()
    if os.fork():
        os._exit(0)
    Path(path).write_text(str(os.getpid()), encoding="utf-8")
    while True:
        pass


class Child:
    def __init__(self, link: Wire) -> None:
        self.link = link
        self.script: dict[str, Any] = {}
        self.rng = random.Random(os.urandom(8))
        self.factor = 1.0
        self.calls = 0

    def run(self) -> NoReturn:
        while True:
            request = self.link.receive(ChildRequest)
            if isinstance(request, Open):
                self.script = dict(request.spec.inputs)  # type: ignore[call-overload]
            if not self.bad(request):
                self.link.send(self.answer(request))
            if isinstance(request, Finish):
                if self.script.get("linger"):
                    signal.signal(signal.SIGTERM, signal.SIG_IGN)
                    time.sleep(600)
                os._exit(0)

    def bad(self, request: object) -> bool:
        what = self.script.get(type(request).__name__.lower())
        if not what:
            return False
        once = self.script.get("once")
        if once:
            if Path(once).exists():
                return False
            Path(once).touch()
        misbehave(self.link, what)
        return True

    def answer(self, request: object) -> object:
        if isinstance(request, Prepare):
            return prepared(request)
        if isinstance(request, Open):
            return self.opened(request)
        if isinstance(request, Time):
            return self.timed(request)
        return Finished(peak_bytes=self.script.get("peak", 100 * 2**20))

    def room(self, path: str) -> bool:
        self.held = open(path, "a")  # noqa: SIM115 - held until the process ends
        try:
            fcntl.flock(self.held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def opened(self, request: Open) -> Opened | Failed:
        if self.script.get("memory") and not self.room(self.script["memory"]):
            return Failed(kind="oom", phase="build", message="OutOfMemoryError: no room for a second copy")
        if self.script.get("detach"):
            detach(self.script["detach"])
        if self.script.get("bimodal"):
            self.factor = self.rng.choice((1.0, 1.08))
        step = int(self.script.get("step_us", 1000) * 1000)
        digest = Digest(checksum="0")
        probe = Probe(
            exact={"params": 10.0}, inputs=digest, outputs=digest, files=("model.py",), step_ns=step, first_step_ns=step
        )
        return Opened(
            step_ns=step, first_step_ns=step, warmup_calls=3, settled=True, ready_ns=20_000_000,
            devices=tuple(self.script.get("devices", ["cpu"])),
            probe=probe if request.probe else None,
        )  # fmt: skip

    def timed(self, request: Time) -> Timed:
        step = self.script.get("step_us", 1000) * 1000 * self.factor
        samples = tuple(int(step * self.rng.gauss(1, self.script.get("cv", 0.003))) for _ in range(request.samples))
        items = self.script.get("items", [1])
        self.calls += 1
        time.sleep(self.script.get("sleep", 0))
        return Timed(
            samples_ns=samples, wall_ns=sum(samples) * request.inner, cpu_ns=1, items=items[self.calls % len(items)],
            recompiles=self.script.get("recompiles", 0),
        )  # fmt: skip


def factory(link: Wire) -> NoReturn:
    while True:
        request = link.receive(FactoryRequest)
        if isinstance(request, Prepare):
            link.send(prepared(request))
        elif isinstance(request, Fork):
            sock = socket.socket(fileno=link.fds.pop(0))
            pid = os.fork()
            if pid == 0:
                link.sock.close()
                Child(Wire(sock)).run()
            sock.close()
            link.send(Forked(pid=pid))


if __name__ == "__main__":
    own = Wire(socket.socket(fileno=int(sys.argv[2])))
    if sys.argv[3] == "factory":
        factory(own)
    Child(own).run()
