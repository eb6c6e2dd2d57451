"""Floor 3, changes. A side made ready to run: its ``setup`` command, then its interpreter.

In: a side's configuration and checkout. Out: the interpreter and the variables for its workers, or, where
*head's* own command is at fault, the failure to report. Base first: head must not be able to disturb it.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import secrets
import shutil
import signal
import string
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfgate import units
from perfgate.changes import classify
from perfgate.errors import CheckoutError, UsageError
from perfgate.records.protocol import Failed
from perfgate.records.workload import SideConfig

OLDEST_PYTHON = (3, 10)
CACHE = "PERFGATE_CACHE_DIR"
MARKER = "PERFGATE_NONCE"  # every process that perfgate starts carries one

_VERSION = "import sys; print('.'.join(map(str, sys.version_info[:3])))"
_TRACE_LINES = 20
_GRACE_S = 2.0
_SWEEPS = 50
_TAIL_BYTES = 64 * 1024
_MESSAGE_CHARS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """``python`` is an absolute path, not resolved: a link into a virtual environment must stay one.

    ``env`` are the variables that this side's workers get besides the usual ones.
    """

    python: str
    version: str
    seconds: float
    env: dict[str, str] = field(default_factory=dict)


def prepare_side(
    side: SideConfig,
    checkout: Path,
    repository: Path,
    *,
    name: str,
    cache_dir: Path,
    log: Path,
    environ: Mapping[str, str] | None = None,
) -> Prepared | Failed:
    """Run ``setup`` in ``checkout`` and find the interpreter.

    ``name`` is ``base`` or ``head``; ``log`` is the file for the command's output. Raises CheckoutError where
    base's ``setup`` fails, UsageError where there is no fit interpreter. Head's failing ``setup`` is a result:
    :class:`Failed` with the command's last words.
    """
    inherited = dict(os.environ if environ is None else environ)
    env: dict[str, str] = {}
    started = time.monotonic()
    if side.setup:
        cache = _cache_folder(side, checkout, cache_dir, name)
        env[CACHE] = str(cache)
        failed = _run_setup(side, checkout, log, {**inherited, **env})
        if failed and name == "base":
            msg = f"base: {failed.message}; correct setup in perfgate.toml"
            raise CheckoutError(msg)
        if failed:
            return failed
    python = _interpreter(side.python, checkout, repository, {**inherited, **env}, name)
    version = _version(python, name)
    return Prepared(python=python, version=version, seconds=time.monotonic() - started, env=env)


def _cache_folder(side: SideConfig, checkout: Path, cache_dir: Path, name: str) -> Path:
    """One folder for each side and each state of what ``setup`` depends on; equally long on both sides.

    Head never shares a folder with base, so a pull request cannot leave anything there for base.
    """
    digest = hashlib.sha256("\0".join((side.setup, side.python, *side.pythonpath)).encode("utf-8", "surrogateescape"))
    for path in sorted([*checkout.iterdir(), *checkout.glob("requirements/*")]):
        if path.is_file() and classify.is_environment(path.relative_to(checkout).as_posix()):
            digest.update(path.name.encode("utf-8", "surrogateescape") + b"\0" + path.read_bytes())
    folder = cache_dir / f"{name}-{digest.hexdigest()[:16]}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        msg = f"the cache folder {folder} cannot be made ({error.strerror}); free its place or make it writable"
        raise CheckoutError(msg) from None
    return folder


def _run_setup(side: SideConfig, checkout: Path, log: Path, environ: Mapping[str, str]) -> Failed | None:
    """Output goes to a file, not to a pipe: what the command leaves running cannot keep us waiting for its end."""
    try:
        with log.open("wb") as output:
            marker = f"{secrets.token_hex(8)}.setup"
            process = subprocess.Popen(
                ["/bin/sh", "-e", "-c", side.setup], cwd=checkout, env={**environ, MARKER: marker},
                stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
            try:
                code: int | None = process.wait(side.setup_timeout_s)
            except subprocess.TimeoutExpired:
                code = None
            finally:
                _end_group(process)
                _end_marked(marker)
    except OSError as error:
        msg = f"setup could not be started ({error.strerror}: {error.filename}); look at the place and its space"
        raise CheckoutError(msg) from None
    if code == 0:
        return None
    lines = [line for line in _tail(log).splitlines() if line.strip()]
    last = f": {_one_line(lines[-1])}" if lines else ", without a word"
    if code is None:
        limit = units.wall_clock(side.setup_timeout_s)
        return _failed("hung", f"setup was stopped after {limit}{last}", lines)
    how = f"was ended by {signal.Signals(-code).name}" if code < 0 else f"ended with exit code {code}"
    return _failed("exited", f"setup {how}{last}", lines)


def _one_line(text: str) -> str:
    """``text`` as part of a message: nothing that a terminal would act on, and the end of what is too long."""
    line = "".join(char if char.isprintable() else "\ufffd" for char in text.strip())
    return line if len(line) <= _MESSAGE_CHARS else f"...{line[-_MESSAGE_CHARS:]}"


def _failed(kind: str, message: str, lines: list[str]) -> Failed:
    return Failed(kind=kind, phase="setup", message=message, trace="\n".join(lines[-_TRACE_LINES:]))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End the command and all that it started, politely first; also what it left behind on success."""
    for number, patience_s in ((signal.SIGTERM, _GRACE_S), (signal.SIGKILL, None)):
        try:
            os.killpg(process.pid, number)
        except (ProcessLookupError, PermissionError):
            break
        try:
            process.wait(patience_s)
        except subprocess.TimeoutExpired:
            continue
    process.wait()


def _end_marked(marker: str) -> None:
    """End what has left the command's group: it has inherited the command's marker all the same."""
    entry = f"{MARKER}={marker}".encode()
    for _ in range(_SWEEPS):  # a process may fork while the others are looked through
        pids = [int(path.name) for path in Path("/proc").iterdir() if path.name.isdecimal()]
        found = [pid for pid in pids if entry in _environ(pid)]
        if not found:
            return
        for pid in found:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        time.sleep(0.01)


def _environ(pid: int) -> list[bytes]:
    try:
        return Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    except OSError:
        return []


def _tail(log: Path) -> str:
    with log.open("rb") as file:
        file.seek(max(0, log.stat().st_size - _TAIL_BYTES))
        return file.read().decode("utf-8", "replace")


def _interpreter(python: str, checkout: Path, repository: Path, environ: Mapping[str, str], name: str) -> str:
    search = environ.get("PATH", os.defpath)
    if not python:
        active = Path(environ.get("VIRTUAL_ENV") or "/nonexistent") / "bin" / "python"
        found = (
            str(active)
            if _runs(active)
            else (shutil.which("python3", path=search) or shutil.which("python", path=search))
        )
        if found:
            return found
        msg = f"{name}: no python3 on PATH; name the interpreter with python in perfgate.toml"
        raise UsageError(msg)
    text = string.Template(python).safe_substitute(environ)
    if "/" not in text:
        if found := shutil.which(text, path=search):
            return found
        msg = f"{name}: python = {python!r} is not on PATH; write a path such as '.venv/bin/python'"
        raise UsageError(msg)
    # For an absolute path both candidates are that path.
    candidates = list(dict.fromkeys((checkout / text, repository / text)))
    for candidate in candidates:
        if _runs(candidate):
            return str(candidate)
    places = " or ".join(map(str, candidates))
    msg = f"{name}: python = {python!r}: no program at {places}; correct it, or let setup make it"
    raise UsageError(msg)


def _runs(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)


def _version(python: str, name: str) -> str:
    try:
        done = subprocess.run(
            [python, "-I", "-c", _VERSION], capture_output=True, encoding="utf-8", errors="replace", timeout=120,
            check=False, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        answer, complaint = done.stdout.strip(), done.stderr.strip().splitlines()[-1:]
    except (OSError, subprocess.TimeoutExpired) as error:
        answer, complaint = "", [str(error)]
    parts = answer.split(".")
    if len(parts) != 3 or not all(part.isdigit() for part in parts):
        why = complaint[0] if complaint else f"it printed {answer[:60]!r}"
        msg = f"{name}: {python} is not a Python that runs ({why}); name another one with python in perfgate.toml"
        raise UsageError(msg)
    if (int(parts[0]), int(parts[1])) < OLDEST_PYTHON:
        oldest = ".".join(map(str, OLDEST_PYTHON))
        msg = f"{name}: {python} is Python {answer}, and workers need {oldest} or later; name another one with python"
        raise UsageError(msg)
    return answer
