"""Floor 3, worker. Imports once, then forks one child for each workload.

In: ``Prepare`` and ``Fork`` (with the child's socket beside it). Out: ``Prepared``, ``Forked``, ``Failed``.
The end of the socket ends the factory and its children.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from types import FrameType
from typing import NoReturn

from perfgate.records.protocol import FactoryRequest, Failed, Fork, Forked, Prepare
from perfgate.wire import WireError
from perfgate.worker import child, process
from perfgate.worker.channel import Channel
from perfgate.worker.failures import WorkerError
from perfgate.worker.preparing import Side, prepare
from perfgate.worker.provenance import OpenedFiles


class Factory:
    """State of the factory process: its side once prepared, and the children alive."""

    def __init__(self, channel: Channel, opened: OpenedFiles) -> None:
        self._channel = channel
        self._opened = opened
        self._side: Side | None = None
        self._children: dict[int, str] = {}

    def run(self) -> NoReturn:
        """Answer requests until the socket ends."""
        signal.signal(signal.SIGCHLD, self._reap)
        while True:
            try:
                request = self._channel.receive(FactoryRequest)
            except WireError as error:
                self._channel.send(_protocol(f"the factory cannot read a request: {error}"))
                continue
            if request is None:
                break
            self._channel.send(self._answer(request))
        self._end_children()
        leave()

    def _answer(self, request: object) -> object:
        if isinstance(request, Prepare):
            if self._side is not None:
                return _protocol("this factory is prepared already: start a new one")
            try:
                self._side, reply = prepare(request, self._opened)
            except WorkerError as failure:
                return failure.failed
            # The user's modules may have installed a handler of their own.
            signal.signal(signal.SIGCHLD, self._reap)
            return reply
        if isinstance(request, Fork):
            fd = self._channel.take_fd()
            if fd is None:
                return _protocol(f"Fork {request.child} came without a socket")
            return self._fork(request.child, fd)
        return _protocol(f"a factory does not understand {type(request).__name__}")

    def _fork(self, name: str, fd: int) -> Forked | Failed:
        if self._side is None:
            os.close(fd)
            return _protocol("Fork came before Prepare")
        parent = os.getpid()
        sys.stdout.flush()
        sys.stderr.flush()
        try:
            pid = os.fork()
        except OSError as error:
            os.close(fd)
            return Failed(kind="oom", phase="build", message=f"no process for {name} can be started: {error.strerror}")
        if pid == 0:
            self._become_child(parent, fd)
        os.close(fd)
        self._children[pid] = name
        # A child that ended between the fork and the line above was not yet known to the handler.
        self._reap()
        return Forked(pid=pid)

    def _become_child(self, parent: int, fd: int) -> NoReturn:
        try:
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            process.die_with_parent(parent)
            self._channel.close()
            child.run(Channel(socket.socket(fileno=fd)), self._opened, self._side)
            leave()
        finally:
            # Only after an error, or in a copy that user code forked: the factory's loop must not go on here.
            leave(1)

    def _reap(self, _signal: int = 0, _frame: FrameType | None = None) -> None:
        # By process id: the user's modules may have children of their own and wait for them.
        for pid, name in list(self._children.items()):
            try:
                done, status = os.waitpid(pid, os.WNOHANG)
            except ChildProcessError:
                done, status = pid, 0
            if done == 0 or self._children.pop(pid, None) is None:
                continue
            if os.WIFSIGNALED(status):
                print(f"perfgate: child {pid} ({name}) ended by signal {os.WTERMSIG(status)}", file=sys.stderr)  # noqa: T201
            elif os.WEXITSTATUS(status):
                print(f"perfgate: child {pid} ({name}) ended with {os.WEXITSTATUS(status)}", file=sys.stderr)  # noqa: T201

    def _end_children(self) -> None:
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        for pid in self._children:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                continue


def _protocol(message: str) -> Failed:
    return Failed(kind="protocol", phase="import", message=message)


def leave(code: int = 0) -> NoReturn:
    """End without exit handlers: the user's may hang, and a fork would run them once too often."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError, AttributeError):
            continue
    os._exit(code)
