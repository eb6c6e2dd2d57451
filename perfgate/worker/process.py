"""Floor 3, worker. What this process asks of Linux: life time, processors, threads, memory peaks.

In: numbers from ``Prepare``. Out: settings made, or figures in bytes. No torch. Where a system lacks a
facility the functions say so by their result instead of failing.
"""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

_PR_SET_PDEATHSIG = 1
_STATUS = Path("/proc/self/status")
_CLEAR_REFS = Path("/proc/self/clear_refs")
# Writing 5 sets the resident high-water mark back to what is resident now (proc(5)).
_RESET_HIGH_WATER = "5"

_THREAD_VARIABLES = (
    "OMP_NUM_THREADS",
    "MKL_NUM_THREADS",
    "OPENBLAS_NUM_THREADS",
    "NUMEXPR_NUM_THREADS",
    "VECLIB_MAXIMUM_THREADS",
    # 1 compiles inside this process, so that no helper processes run beside what is timed.
    "TORCHINDUCTOR_COMPILE_THREADS",
)


def die_with_parent(parent: int) -> None:
    """Be killed when the process ``parent`` ends; end at once if it already has.

    The flag does not survive a fork, so each new process calls this.
    """
    try:
        ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL), 0, 0, 0)
    except (OSError, AttributeError):
        return
    if os.getppid() != parent:
        os._exit(0)


def limit_processors(threads: int, cpus: tuple[int, ...] | None) -> int:
    """Set affinity and every thread variable, before torch is imported; returns the threads to use.

    More threads than processors in the mask make OpenMP barriers wait for whole time slices, so the
    number is cut to the mask's size. Raises OSError for processors that do not exist.
    """
    if cpus is not None and hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, cpus)
    count = max(1, min(threads, available_processors()))
    for name in _THREAD_VARIABLES:
        os.environ[name] = str(count)
    # Asks the driver's management library whether a GPU exists, so that merely asking does not make
    # later forks unusable.
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"
    return count


def available_processors() -> int:
    """Processors in this process's affinity mask."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def thread_count() -> int:
    """Threads alive in this process, native ones included; 1 where the system does not tell."""
    return _status_field("Threads") or 1


def reset_high_water() -> bool:
    """Forget the resident peak so far; False where the system does not allow it."""
    try:
        _CLEAR_REFS.write_text(_RESET_HIGH_WATER, encoding="utf-8")
    except OSError:
        return False
    return True


def high_water_bytes() -> int | None:
    """Resident peak (VmHWM) in bytes since start or the last reset; None where unknown.

    Not ``ru_maxrss``: Linux hands that one down from the parent through fork and exec.
    """
    kib = _status_field("VmHWM")
    return None if kib is None else kib * 1024


def resident_bytes() -> int | None:
    """What is resident now (VmRSS), in bytes; None where unknown."""
    kib = _status_field("VmRSS")
    return None if kib is None else kib * 1024


def _status_field(name: str) -> int | None:
    try:
        lines = _STATUS.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    for line in lines:
        if line.startswith(f"{name}:"):
            return int(line.split()[1])
    return None
