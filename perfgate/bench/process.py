"""Floor 3, bench. Process trees: start, stop, continue, CPU time, end. In: a command of one side; out: none left.

A child can leave its process group and its session, and can be orphaned on purpose. So a tree is found by three
signs: descent (orphans come to this process, which is their subreaper), the environment marker that every worker
inherits, and having been seen before in the tree. An orphan without any sign is nobody's and is ended with the rest:
while a session is open, nothing else in this process may start children in sessions of their own. Linux only.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import subprocess
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

import psutil

MARKER = "PERFGATE_NONCE"
_NOBODY = "nobody"
_PR_SET_CHILD_SUBREAPER = 36
_PR_GET_CHILD_SUBREAPER = 37
_STOP_LIMIT_S = 1.0
_KILL_LIMIT_S = 10.0
# The kernel's out-of-memory killer takes a worker first, never this process or the runner's agent.
_OOM_SCORE = "700"

Identity = tuple[int, float]  # process id and start time: an id alone may be used again


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """A process that this room started. ``log`` takes its standard output and error."""

    popen: subprocess.Popen[bytes]
    side: str
    log: Path


def cpu_time_ns(pid: int) -> int | None:
    """CPU time of all threads of ``pid`` since its start; None if it is gone.

    Read from the process's own CPU clock (``clock_getcpuclockid(3)``): exact to the microsecond, where
    ``/proc/PID/stat`` counts ticks of 10 ms.
    """
    try:
        return time.clock_gettime_ns(((~pid) << 3) | 2)
    except OSError:
        return None


def wait_gone(pids: Iterable[int], timeout_s: float) -> tuple[int, ...]:
    """Those of ``pids`` that still run after ``timeout_s``; a zombie does not run. Sleeps meanwhile."""
    watched: dict[int, int] = {}
    poll = select.poll()
    try:
        for pid in pids:
            with contextlib.suppress(OSError, OverflowError):
                descriptor = os.pidfd_open(pid)
                watched[descriptor] = pid
                poll.register(descriptor, select.POLLIN)
        deadline = time.monotonic() + timeout_s
        alive = dict(watched)
        while alive:
            ready = poll.poll(max(0.0, deadline - time.monotonic()) * 1000)
            for descriptor, _ in ready:
                poll.unregister(descriptor)
                alive.pop(descriptor, None)
            if not ready and time.monotonic() >= deadline:
                break
        return tuple(alive.values())
    finally:
        for descriptor in watched:
            os.close(descriptor)


class Trees:
    """The process trees of a session's sides. Not for use from several threads."""

    def __init__(self, nonce: str, *, niceness: int = 0) -> None:
        self._nonce = nonce
        self._niceness = niceness
        self._roots: dict[int, Started] = {}
        self._seen: dict[Identity, str] = {}
        self._idle: dict[str, dict[Identity, int]] = {}
        self._before = {_identity(child) for child in psutil.Process().children()}
        self._libc = ctypes.CDLL(None, use_errno=True)
        self._was_subreaper = self._subreaper()
        self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)

    def marker(self, side: str) -> str:
        """Value of the environment variable :data:`MARKER` in every process of ``side``."""
        return f"{self._nonce}.{side}"

    def start(
        self, command: list[str], *, side: str, cwd: Path, env: Mapping[str, str], fds: tuple[int, ...], log: Path
    ) -> Started:
        """Start ``command`` in a session of its own. Raises OSError where it cannot be started."""
        with log.open("ab") as output:
            popen = subprocess.Popen(
                command,
                cwd=cwd,
                env={**env, MARKER: self.marker(side)},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                pass_fds=fds,
                start_new_session=True,
            )
        started = Started(popen=popen, side=side, log=log)
        self._roots[popen.pid] = started
        with contextlib.suppress(OSError):  # a negative value needs privileges
            os.setpriority(os.PRIO_PROCESS, popen.pid, self._niceness)
        with contextlib.suppress(OSError):
            Path(f"/proc/{popen.pid}/oom_score_adj").write_text(_OOM_SCORE, encoding="utf-8")
        return started

    def members(self, side: str | None = None) -> list[psutil.Process]:
        """Living processes of ``side`` (None: of every side), parents before children."""
        table: dict[int, list[psutil.Process]] = {}
        for process in psutil.process_iter(["ppid"]):
            table.setdefault(process.info["ppid"], []).append(process)
        found: list[psutil.Process] = []
        for child in table.get(os.getpid(), ()):
            owner = self._owner(child)
            if owner is None or (side is not None and owner != side):
                continue
            found += [process for process in self._descent(child, table, owner) if _runs(process)]
        return found

    def pause(self, side: str) -> None:
        """Stop every process of ``side`` and note its CPU time. Returns when all have stopped, or after a second."""
        stopped: dict[Identity, psutil.Process] = {}
        for _ in range(5):  # a process may fork while its tree is walked
            fresh = [process for process in self.members(side) if _identity(process) not in stopped]
            for process in fresh:
                with contextlib.suppress(psutil.Error):
                    process.suspend()
            stopped.update((_identity(process), process) for process in fresh)
            if not fresh:
                break
        deadline = time.monotonic() + _STOP_LIMIT_S
        while time.monotonic() < deadline and any(_moves(process) for process in stopped.values()):
            time.sleep(0.0002)
        self._idle[side] = self._cpu(stopped.values())

    def resume(self, side: str) -> int:
        """Let ``side`` go on; CPU time in ns that its tree used since :meth:`pause` (0 if it was not paused)."""
        before = self._idle.pop(side, None)
        if before is None:
            return 0
        members = self.members(side)
        now = self._cpu(members)
        for process in members:
            with contextlib.suppress(psutil.Error):
                process.resume()
        return sum(value - before.get(identity, 0) for identity, value in now.items())

    def left_behind(self, side: str, keep: Iterable[int]) -> list[psutil.Process]:
        """Processes of ``side``, and nobody's, other than ``keep``: what a worker started and did not end."""
        kept = set(keep)
        return [process for process in self.members(side) + self.members(_NOBODY) if process.pid not in kept]

    def end(self, processes: Iterable[psutil.Process], grace_s: float) -> None:
        """SIGTERM, and SIGKILL for whatever still runs after ``grace_s``."""
        targets = list(processes)
        for process in targets:
            with contextlib.suppress(psutil.Error):
                process.terminate()
                process.resume()
        alive = set(wait_gone([process.pid for process in targets], grace_s))
        for process in targets:
            if process.pid in alive:
                with contextlib.suppress(psutil.Error):
                    process.kill()
        wait_gone(alive, _KILL_LIMIT_S)
        self._reap()

    def end_side(self, side: str | None = None, *, grace_s: float = 0.0) -> tuple[int, ...]:
        """End every process of ``side`` (None: of all sides); pids that even SIGKILL did not end, normally none."""
        self._idle = {name: cpu for name, cpu in self._idle.items() if side not in (None, name)}
        self.end(self.members(side), grace_s)
        deadline = time.monotonic() + _KILL_LIMIT_S
        while (rest := self.members(side)) and time.monotonic() < deadline:
            self.end(rest, 0.0)  # what was forked while the others were ended
        self._reap()
        return tuple(process.pid for process in rest)

    def close(self) -> tuple[int, ...]:
        """End everything, also what only the marker gives away; stop adopting orphans."""
        rest = self.end_side()
        strays = [process for process in psutil.process_iter() if _marker(process).startswith(f"{self._nonce}.")]
        self.end(strays, 0.0)
        if not self._was_subreaper:
            self._libc.prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)
        return rest

    def status(self, pid: int) -> int | None:
        """How ``pid`` ended: exit status, or minus the signal; None while it runs or where nobody can tell."""
        if pid in self._roots:
            return self._roots[pid].popen.poll()
        # A forked worker is its factory's child; its zombie shows the status until the factory collects it.
        try:
            fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        except OSError:
            return None
        if fields[0] != "Z":
            return None
        return os.waitstatus_to_exitcode(int(fields[49]))

    def _owner(self, child: psutil.Process) -> str | None:
        """The side of a direct child of this process; None: not a worker of this session."""
        if child.pid in self._roots:
            return self._roots[child.pid].side
        marker = _marker(child)
        if marker.startswith(f"{self._nonce}."):
            return marker.partition(".")[2]
        known = self._seen.get(_identity(child))
        if known or marker or _identity(child) in self._before:
            return known
        try:
            return _NOBODY if os.getsid(child.pid) != os.getsid(0) else None
        except OSError:
            return None

    def _descent(
        self, root: psutil.Process, table: dict[int, list[psutil.Process]], owner: str
    ) -> list[psutil.Process]:
        found, queue = [], [root]
        while queue:
            process = queue.pop(0)
            self._seen[_identity(process)] = owner
            found.append(process)
            queue += table.get(process.pid, ())
        return found

    def _reap(self) -> None:
        """Collect ended workers and adopted orphans, so that no zombie is left."""
        for pid, started in list(self._roots.items()):
            if started.popen.poll() is not None:
                del self._roots[pid]
        for process in psutil.Process().children():
            # Only what is known by id and start time: another room's child must keep its exit status.
            if process.pid not in self._roots and _identity(process) in self._seen and not _runs(process):
                with contextlib.suppress(ChildProcessError):
                    os.waitpid(process.pid, os.WNOHANG)

    def _cpu(self, processes: Iterable[psutil.Process]) -> dict[Identity, int]:
        times = {_identity(process): cpu_time_ns(process.pid) for process in processes}
        return {identity: value for identity, value in times.items() if value is not None}

    def _subreaper(self) -> bool:
        value = ctypes.c_int(0)
        self._libc.prctl(_PR_GET_CHILD_SUBREAPER, ctypes.byref(value), 0, 0, 0)
        return bool(value.value)


def _identity(process: psutil.Process) -> Identity:
    # psutil keeps both from when it first saw the process, so this costs no look at /proc.
    return process.pid, process.create_time()


def _marker(process: psutil.Process) -> str:
    try:
        return str(process.environ().get(MARKER, ""))
    except (psutil.Error, OSError):
        return ""


def _status(process: psutil.Process) -> str:
    try:
        return str(process.status())
    except psutil.Error:
        return psutil.STATUS_DEAD


def _runs(process: psutil.Process) -> bool:
    return _status(process) not in (psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)


def _moves(process: psutil.Process) -> bool:
    return _status(process) not in (psutil.STATUS_STOPPED, psutil.STATUS_ZOMBIE, psutil.STATUS_DEAD)
