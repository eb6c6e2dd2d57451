"""Floor 3, graph. An ONNX file read in a process of its own.

In: the arguments of ``read.trace`` and a time limit. Out: its trace. A file from a pull request may be broken on
purpose: what it does to the parser (a crash, endless work, all memory) ends here in one error. The process gets no
secrets: of the environment only what an interpreter needs.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import perfgate
from perfgate import wire
from perfgate.errors import MeasuringError, UsageError
from perfgate.graph.onnx.exchange import Reply, Request
from perfgate.records.graph import Trace

TIMEOUT_S = 120.0

_MODULE = "perfgate.graph.onnx"
_KEPT = ("HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "PATH", "SYSTEMROOT", "TEMP", "TMP", "TMPDIR", "VIRTUAL_ENV")
_REMEDY = "check the file with onnx.checker.check_model(path), and whether this machine has memory left"
_SHOWN = 300


def trace(
    path: Path, inputs: object = None, *, batch: int = 1, root: Path | None = None, timeout_s: float = TIMEOUT_S
) -> Trace:
    """What one inference of the model in ``path`` does; see ``read.trace`` for the arguments.

    Raises UsageError where the file or the inputs are wrong, MeasuringError where reading crashed or took longer than
    ``timeout_s`` seconds.
    """
    request = Request(path=str(path), inputs=inputs, batch=batch, root="" if root is None else str(root))
    try:
        done = subprocess.run(
            [sys.executable, "-P", "-m", _MODULE],
            input=wire.dumps(request).encode(),
            capture_output=True,
            timeout=timeout_s,
            env=environment(),
            check=False,
        )
    except subprocess.TimeoutExpired:
        msg = f"{path}: reading it took longer than {timeout_s:g} s; {_REMEDY}"
        raise MeasuringError(msg) from None
    except OSError as error:
        msg = f"{path}: the interpreter {sys.executable} that should read it does not start: {error.strerror}"
        raise MeasuringError(msg) from None
    try:
        reply = wire.loads(Reply, done.stdout)
    except wire.WireError:
        raise MeasuringError(f"{path}: {ending(done)}; {_REMEDY}") from None  # noqa: EM102
    if reply.error:
        raise UsageError(reply.error)
    if reply.trace is None:
        msg = f"{path}: reading it gave nothing; {_REMEDY}"
        raise MeasuringError(msg)
    return reply.trace


def environment() -> dict[str, str]:
    """Of a process that reads a file: what starting Python takes, and one thread."""
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    # The child has to find the same perfgate, also where it runs from a source tree.
    own = str(Path(perfgate.__file__).resolve().parent.parent)
    paths = [own, os.environ.get("PYTHONPATH", "")]
    # Libraries that NumPy loads set memory aside for every core, and nothing here needs more than one.
    single = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    return {**kept, **single, "PYTHONPATH": os.pathsep.join(filter(None, paths)), "PYTHONIOENCODING": "utf-8"}


def ending(done: subprocess.CompletedProcess[bytes]) -> str:
    """How a process ended that gave no answer, as a part of a sentence."""
    last = done.stderr.decode("utf-8", "replace").strip().splitlines()[-1:]
    said = f" ({last[0][:_SHOWN]})" if last else ""
    if done.returncode < 0:
        try:
            name = signal.Signals(-done.returncode).name
        except ValueError:
            name = f"signal {-done.returncode}"
        return f"reading it was ended by {name}{said}"
    if done.returncode:
        return f"reading it failed with exit code {done.returncode}{said}"
    return "reading it gave no answer that can be understood"
