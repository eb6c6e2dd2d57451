"""Drives real worker processes over their socket, as the parent does."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from perfgate import wire
from perfgate.records.protocol import (
    ChildReply,
    FactoryReply,
    Fork,
    Forked,
    Open,
    Opened,
    Prepare,
    Prepared,
)
from perfgate.records.workload import ModelSpec, Workload

_REPLY_TIMEOUT_S = 90
SEED = 1234


def write_files(root: Path, files: Mapping[str, str]) -> Path:
    """Files of a checkout; texts are dedented."""
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(textwrap.dedent(text), encoding="utf-8")
    return root


@dataclass
class Peer:
    """The parent's end of one worker's socket."""

    sock: socket.socket
    replies: Any
    pid: int
    _buffer: bytes = b""

    def send(self, message: object, fds: tuple[int, ...] = ()) -> None:
        line = wire.dumps(wire.tagged(message)).encode() + b"\n"
        if fds:
            socket.send_fds(self.sock, [line], list(fds))
        else:
            self.sock.sendall(line)

    def receive(self) -> Any:
        """The next reply; None where the worker ended."""
        self.sock.settimeout(_REPLY_TIMEOUT_S)
        while b"\n" not in self._buffer:
            try:
                data = self.sock.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return wire.loads(self.replies, line)

    def ask(self, message: object, fds: tuple[int, ...] = ()) -> Any:
        self.send(message, fds)
        return self.receive()

    def close(self) -> None:
        self.sock.close()


@dataclass
class Started(Peer):
    """A worker started as a program."""

    process: subprocess.Popen[bytes] = field(kw_only=True)
    log: Path = field(kw_only=True)
    children: list[Peer] = field(default_factory=list)

    def fork(self, name: str = "child") -> Peer:
        """A child of this factory."""
        ours, theirs = socket.socketpair()
        reply = self.ask(Fork(child=name), (theirs.fileno(),))
        theirs.close()
        child = Peer(ours, ChildReply, -1)
        self.children.append(child)
        assert isinstance(reply, Forked), reply
        child.pid = reply.pid
        return child


@contextmanager
def started(
    shim: Path, log: Path, *, role: str = "factory", python: str = sys.executable, env=None
) -> Iterator[Started]:
    """A worker process; killed at the end if closing its socket does not end it."""
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    with log.open("ab") as output:
        process = subprocess.Popen(
            [python, str(shim), "--socket", str(fd), role],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            pass_fds=(fd,),
            start_new_session=True,
            env={**os.environ, **(env or {})},
        )
    theirs.close()
    worker = Started(ours, FactoryReply if role == "factory" else ChildReply, process.pid, process=process, log=log)
    try:
        yield worker
    finally:
        for peer in (worker, *worker.children):
            peer.close()
        try:
            process.wait(20)
        finally:
            process.kill()
            process.wait()


def prepare(checkout: Path, *modules: str, **changes: Any) -> Prepare:
    """Prepare for a checkout whose repository is a sibling folder that does not matter."""
    values: dict[str, Any] = {
        "side": "head",
        "checkout": str(checkout),
        "repository": str(checkout),
        "pythonpath": (".",),
        "modules": modules,
        "tracked": {},
        "threads": 1,
    }
    return Prepare(**{**values, **changes})


def make_open(
    entry: str = "",
    inputs: object = ("float32[batch,4]",),
    *,
    mode: str = "infer",
    batch: int = 2,
    dtype: str = "float32",
    device: str = "cpu",
    compile_: str = "eager",
    probe: bool = False,
    seed: int = SEED,
    **spec: Any,
) -> Open:
    """Open with a warm-up of milliseconds."""
    workload = Workload(model="net", mode=mode, batch=batch, dtype=dtype, device=device, compile=compile_)
    return Open(
        workload=workload,
        spec=ModelSpec(name="net", entry=entry, inputs=inputs, **spec),
        seed=seed,
        probe=probe,
        warmup_min_ns=1_000_000,
        warmup_agree=10.0,
        warmup_cap_ns=2_000_000_000,
    )


def opened(factory: Started, request: Open) -> tuple[Peer, Any]:
    """A new child and its answer to ``request``."""
    child = factory.fork(request.workload.model)
    return child, child.ask(request)


def must_open(factory: Started, request: Open) -> Opened:
    """The answer of a new child that has to open; the child is let go."""
    child, reply = opened(factory, request)
    child.close()
    assert isinstance(reply, Opened), reply
    return reply


def must_prepare(worker: Started, request: Prepare) -> Prepared:
    reply = worker.ask(request)
    assert isinstance(reply, Prepared), (reply, worker.log.read_text(encoding="utf-8", errors="replace"))
    return reply
