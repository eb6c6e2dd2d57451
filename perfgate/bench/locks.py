"""Floor 3, bench. One gate at a time on a machine or a GPU: lock files, let go by the kernel when their owner dies."""

from __future__ import annotations

import errno
import fcntl
import os
import time
from collections.abc import Callable, Iterable
from pathlib import Path

from perfgate.errors import MeasuringError

_RETRY_S = 0.5


class Locks:
    """Locks held by one session. Files stay behind on purpose: removing one would let two owners in."""

    def __init__(self, folder: Path, *, wait_s: float, waiting: Callable[[str], None]) -> None:
        self._folder = folder
        self._wait_s = wait_s
        self._waiting = waiting
        self._held: dict[str, int] = {}

    def take(self, gpus: Iterable[str], *, cpu: bool) -> None:
        """Lock the machine and each of ``gpus`` (hashed UUIDs), in a fixed order; what is held already stays.

        CPU workloads need the machine for themselves; GPU workloads share it with gates on other GPUs.
        Raises :class:`MeasuringError` when another gate holds one for longer than the limit.
        """
        self._lock("perfgate-machine.lock", "this machine", exclusive=cpu)
        for gpu in sorted(set(gpus)):
            self._lock(f"perfgate-gpu-{gpu}.lock", "this GPU", exclusive=True)

    def release(self) -> None:
        """Let all go."""
        for descriptor in self._held.values():
            os.close(descriptor)
        self._held.clear()

    def _lock(self, name: str, what: str, *, exclusive: bool) -> None:
        if name in self._held:
            if exclusive:
                self._acquire(self._held[name], name, what, fcntl.LOCK_EX)
            return
        path = self._folder / name
        try:
            descriptor = _open(path)
        except OSError as error:
            msg = f"{path}: the lock cannot be opened ({error.strerror}); set PERFGATE_LOCK_DIR to another folder"
            raise MeasuringError(msg) from None
        self._held[name] = descriptor
        self._acquire(descriptor, name, what, fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH)

    def _acquire(self, descriptor: int, name: str, what: str, kind: int) -> None:
        deadline = time.monotonic() + self._wait_s
        while True:
            try:
                fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
                return
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EINTR):
                    msg = f"{self._folder / name}: cannot be locked ({error.strerror}); set PERFGATE_LOCK_DIR"
                    raise MeasuringError(msg) from None
            if time.monotonic() >= deadline:
                msg = (
                    f"{self._folder / name}: another perfgate has measured on {what} for over {self._wait_s:.0f} s;"
                    " wait for it or end it"
                )
                raise MeasuringError(msg)
            self._waiting(f"waiting for another perfgate on {what}")
            time.sleep(_RETRY_S)


def _open(path: Path) -> int:
    """Descriptor for reading, which is all that flock needs: the file may belong to another user."""
    path.parent.mkdir(parents=True, exist_ok=True)
    flags = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC
    try:
        return os.open(path, flags)
    except FileNotFoundError:
        try:
            return os.open(path, flags | os.O_CREAT | os.O_EXCL, 0o644)
        except FileExistsError:
            return os.open(path, flags)
