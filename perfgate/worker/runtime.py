"""Floor 3, worker. ONNX Runtime itself: whether this interpreter has it, and its import. Standard library only.

In: the interpreter's paths. Out: :class:`Runtime`, or the module in a process that forks no more: its import leaves a
thread alive, so a factory only looks at it through a fork's eyes.
"""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import signal
import sys
from dataclasses import dataclass
from typing import Any

from perfgate.records.protocol import ONNXRUNTIME
from perfgate.worker import process
from perfgate.worker.failures import phase, refuse

_OLDEST = (1, 18)
_NEEDED = (ONNXRUNTIME, "numpy")
_REMEDY = "set python or setup in perfgate.toml"
# Below ORT's own errors: its warnings would only fill the log.
_ERRORS_ONLY = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Runtime:
    """Version and execution providers of the ONNX Runtime that is installed."""

    version: str
    providers: tuple[str, ...]


def look() -> Runtime:
    """What is installed; this process itself imports nothing. Raises WorkerError, ``unsupported`` or ``import``."""
    for name in _NEEDED:
        if importlib.util.find_spec(name) is None:
            message = f"{name} is not installed for {sys.executable}: an .onnx entry needs it to run; {_REMEDY}"
            refuse("unsupported", "import", message)
    answer = _through_a_fork()
    if "error" in answer:
        message = f"onnxruntime cannot be imported by {sys.executable}: {answer['error'][:300]}; {_REMEDY}"
        refuse("import", "import", message)
    version = str(answer["version"])
    release = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in version.split(".")[:2])
    if release < _OLDEST:
        oldest = ".".join(map(str, _OLDEST))
        message = f"onnxruntime {version} is too old: perfgate measures with {oldest} or newer, update it in setup"
        refuse("unsupported", "import", message)
    return Runtime(version=version, providers=tuple(answer["providers"]))


def load(checkout: str) -> Any:
    """The module, in a process that will fork no more. Raises WorkerError, ``import``."""
    with phase("import", checkout, kind="import"):
        runtime: Any = importlib.import_module(ONNXRUNTIME)
        runtime.set_default_logger_severity(_ERRORS_ONLY)
    return runtime


def _through_a_fork() -> dict[str, Any]:
    reading, writing = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        try:
            process.die_with_parent(parent)
            os.write(writing, json.dumps(_imported()).encode())
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        text = pipe.read()
    _, status = os.waitpid(child, 0)
    if text:
        found: dict[str, Any] = json.loads(text)
        return found
    ended = signal.Signals(os.WTERMSIG(status)).name if os.WIFSIGNALED(status) else f"status {os.WEXITSTATUS(status)}"
    return {"error": f"the import ended the process ({ended})"}


def _imported() -> dict[str, Any]:
    try:
        runtime: Any = importlib.import_module(ONNXRUNTIME)
        # A folder of this name in the checkout would be imported too.
        runtime.InferenceSession  # noqa: B018
        return {"version": runtime.__version__, "providers": list(runtime.get_available_providers())}
    except BaseException as error:
        return {"error": " ".join(f"{type(error).__name__}: {error}".split())}
