"""Floor 3, worker. From a fresh interpreter to one that has imported what its models run in, and the user's modules.

In: ``Prepare``. Out: a :class:`Side` and ``Prepared``; nothing of the user's is called, no device is touched.
torch is imported here first, after the thread settings that it reads at import, and only where a model needs it.
"""

from __future__ import annotations

import gc
import importlib
import os
import platform
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

from perfgate.records.protocol import ONNXRUNTIME, TORCH, Failed, Prepare, Prepared, Software
from perfgate.worker import process
from perfgate.worker import runtime as onnx_runtime
from perfgate.worker.failures import WorkerError, phase, refuse
from perfgate.worker.imports import ImportGraph
from perfgate.worker.provenance import OpenedFiles, prove
from perfgate.worker.runtime import Runtime
from perfgate.worker.surroundings import Surroundings

_OLDEST_TORCH = (2, 4)


@dataclass(slots=True, kw_only=True)
class Side:
    """What a prepared process knows; children made by fork have it too.

    ``broken`` maps a module that could not be imported to why: only workloads that need it fail.
    ``before`` is torch's global state before any of the user's code ran. ``graph`` tells apart which modules
    were imported for which model. ``threads`` are those to use, at most one for each processor.
    """

    request: Prepare
    opened: OpenedFiles
    before: Surroundings
    threads: int = 1
    broken: dict[str, Failed] = field(default_factory=dict)
    graph: ImportGraph = field(default_factory=ImportGraph)
    proved: set[str] = field(default_factory=set)

    def prove(self) -> None:
        """See :func:`provenance.prove`; modules that passed before are not looked at again."""
        prove(self.request, self.proved)


def prepare(request: Prepare, opened: OpenedFiles) -> tuple[Side, Prepared]:
    """Make this process one side's. Raises WorkerError: ``import``, ``foreign-code``, ``unsupported``, ..."""
    try:
        threads = process.limit_processors(request.threads, request.cpus)
    except OSError as error:
        message = f"processors {list(request.cpus or ())} cannot be used ({error.strerror}): check the runner's CPU set"
        refuse("unsupported", "import", message)
    enter(request)
    started = time.perf_counter_ns()
    # First, since a fork is safe only while this is the one thread.
    runtime = _look_at_onnxruntime(request) if ONNXRUNTIME in request.frameworks else None
    torch = None
    with phase("import", request.checkout, kind="import"):
        # What every child needs is imported once, here.
        if TORCH in request.frameworks:
            torch = _import_torch(threads)
            importlib.import_module("perfgate.worker.opening")
        if isinstance(runtime, Runtime):
            importlib.import_module("perfgate.worker.onnx.opening")
    side = Side(request=request, opened=opened, before=Surroundings.now(), threads=threads)
    _import_modules(side)
    if isinstance(runtime, Failed):
        side.broken[ONNXRUNTIME] = runtime
    software = _software(torch, runtime, request.threads, threads)
    # Of torch's own modules only what a parent lists for speed: they must not change the versions above.
    for name in request.modules if torch is not None else ():
        if _is_torch(name):
            import_module(name, request)
    elapsed = time.perf_counter_ns() - started
    side.prove()
    # Modules live as long as the process: children need not walk over them, nor copy their pages for it.
    gc.collect()
    gc.freeze()
    reason = _why_not_fork(sys.modules.get(TORCH))
    return side, Prepared(pid=os.getpid(), software=software, can_fork=not reason, reason=reason, import_ns=elapsed)


def enter(request: Prepare) -> None:
    """Make the checkout the working folder and put its ``pythonpath`` first. Raises WorkerError, ``import``."""
    checkout = Path(request.checkout)
    if not checkout.is_dir():
        refuse("import", "import", f"{request.side}: there is no folder {checkout}: check out this side again")
    os.chdir(checkout)
    sys.path[:0] = [os.path.realpath(checkout / entry) for entry in request.pythonpath]
    importlib.invalidate_caches()


def _look_at_onnxruntime(request: Prepare) -> Runtime | Failed:
    """Raises WorkerError where no model could run without it."""
    try:
        return onnx_runtime.look()
    except WorkerError as failure:
        if TORCH not in request.frameworks:
            raise
        return failure.failed


def _import_torch(threads: int) -> ModuleType:
    try:
        torch = importlib.import_module("torch")
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        message = f"torch is not installed for {sys.executable}: set python or setup in perfgate.toml"
        refuse("unsupported", "import", message)
    release = tuple(int("".join(filter(str.isdigit, part)) or 0) for part in torch.__version__.split(".")[:2])
    if release < _OLDEST_TORCH:
        message = f"torch {torch.__version__} is too old: perfgate measures with torch 2.4 or newer, update it in setup"
        refuse("unsupported", "import", message)
    # The environment has set it already, and the call itself starts a thread pool, after which forking is unsafe.
    if torch.get_num_threads() != threads:
        torch.set_num_threads(threads)
    torch.set_num_interop_threads(1)
    return torch


def _import_modules(side: Side) -> None:
    request = side.request
    users = [name for name in dict.fromkeys(request.modules) if not _is_torch(name)]
    side.graph.install()
    for name in users:
        try:
            import_module(name, request)
        except WorkerError as failure:
            side.broken[name] = failure.failed
    side.graph.remove()
    side.graph.settle(users)
    if side.broken and len(side.broken) == len(users):
        # Foreign code explains many import errors (a module that only the other checkout has): say that first.
        side.prove()
        raise WorkerError(next(iter(side.broken.values())))


def _is_torch(name: str) -> bool:
    return name.partition(".")[0] == "torch"


def import_module(name: str, request: Prepare) -> ModuleType:
    """Module ``name`` of the user. Raises WorkerError, kind ``import`` unless it exits or lacks memory."""
    with phase("import", request.checkout, kind="import"):
        try:
            return importlib.import_module(name)
        except ModuleNotFoundError as error:
            if error.name is None or not f"{name}.".startswith(f"{error.name}."):
                raise
            places = ", ".join(request.pythonpath) or "(empty)"
            message = (
                f"ModuleNotFoundError: no module named {error.name!r} (wanted for {name}) in {request.side}: "
                f"pythonpath is {places}; set pythonpath or setup in perfgate.toml"
            )
            refuse("import", "import", message)


def resolve(path: str, key: str, side: Side) -> Callable[..., Any]:
    """The callable that ``module:name`` of configuration key ``key`` names. Raises WorkerError, ``import``."""
    module_name, _, attribute = path.partition(":")
    if not module_name or not attribute:
        refuse("import", "import", f"{key} = {path!r} in perfgate.toml: write it as 'package.module:name'")
    if module_name in side.broken:
        raise WorkerError(side.broken[module_name])
    found: Any = import_module(module_name, side.request)
    with phase("import", side.request.checkout, kind="import"):
        for name in attribute.split("."):
            if not hasattr(found, name):
                message = f"{key} = {path!r} in perfgate.toml: {module_name} has no {attribute!r}; check the name"
                refuse("import", "import", message)
            found = getattr(found, name)
    if not callable(found):
        refuse(
            "import", "import", f"{key} = {path!r} in perfgate.toml: {attribute!r} cannot be called; name a function"
        )
    return found  # type: ignore[no-any-return]


def _why_not_fork(torch: ModuleType | None) -> str:
    """Why children must be started fresh; empty where forking is safe. ``torch`` None: nobody has imported it.

    A fork copies the calling thread only, so locks held by others stay locked. A trial fork also lets
    libraries that end their own thread pools at a fork do so, and shows whether a child could use CUDA.
    """
    if torch is not None and torch.cuda.is_initialized():
        return "CUDA was initialised while the modules were imported"
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os._exit(1 if torch is not None and torch.cuda._is_in_bad_fork() else 0)
    _, status = os.waitpid(child, 0)
    if status != 0:
        return "CUDA was touched while the modules were imported, so forked children could not use it"
    threads = process.thread_count()
    if threads > 1:
        return f"{threads} threads are alive after the import"
    return ""


def _software(torch: ModuleType | None, runtime: Runtime | Failed | None, asked: int, threads: int) -> Software:
    versions = {"python": platform.python_version(), "implementation": platform.python_implementation()}
    for name, module in sorted(sys.modules.items()):
        # vars(): a module-level __getattr__ may import or warn.
        version = vars(module).get("__version__") if isinstance(module, ModuleType) else None
        if "." not in name and not name.startswith("_") and isinstance(version, str) and _third_party(module):
            versions[name] = version[:100]
    flags = {"processors": str(process.available_processors())}
    if isinstance(runtime, Runtime):
        versions[ONNXRUNTIME] = runtime.version
        flags["onnxruntime_providers"] = ", ".join(runtime.providers)
    if threads != asked:
        flags["threads_asked"] = str(asked)
    if torch is None:
        return Software(versions=versions, threads=threads, interop_threads=1, flags=flags)
    versions["torch"] = str(torch.__version__)
    if torch.version.cuda:
        versions["cuda"] = str(torch.version.cuda)
    flags |= {
        "cpu_capability": str(torch.backends.cpu.get_cpu_capability()),
        "mkldnn": str(torch.backends.mkldnn.is_available()),
        "float32_matmul_precision": str(torch.get_float32_matmul_precision()),
    }
    return Software(
        versions=versions,
        threads=int(torch.get_num_threads()),
        interop_threads=int(torch.get_num_interop_threads()),
        flags=flags,
    )


def _third_party(module: ModuleType) -> bool:
    parts = Path(str(vars(module).get("__file__") or "")).parts
    return bool({"site-packages", "dist-packages"}.intersection(parts))
