"""Floor 3, bench. What this runner is, how many threads a worker gets, and who else uses it.

Out: :class:`Environment` without host name, user, path or serial number.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from pathlib import Path

import psutil

from perfgate import units
from perfgate.bench import nvml
from perfgate.bench.nvml import Gpus
from perfgate.bench.visible import hashed, visible
from perfgate.records.evidence import Environment

_ROOT = Path("/")
_BUSY_SHARE = 0.15
_GPU_MEMORY_SHARE = 0.05


def environment(
    environ: Mapping[str, str] | None = None, *, root: Path = _ROOT, gpus: Gpus | None = None
) -> Environment:
    """The runner as far as it bears on speed. ``root`` and ``gpus`` are for tests."""
    environ = os.environ if environ is None else environ
    cards = nvml.connect() if gpus is None else gpus
    try:
        seen = visible(cards.all(), environ.get("CUDA_VISIBLE_DEVICES"))
        hardware = {
            "cpu": _cpu_model(root),
            "architecture": platform.machine(),
            "physical_cores": str(len(physical_cores(root=root))),
            "logical_cpus": str(len(os.sched_getaffinity(0))),
            # Whole GiB: what the kernel reserves differs by kernel, not by machine.
            "memory": f"{round(psutil.virtual_memory().total / 2**30)} GiB",
        }
        quota = cpu_quota(root)
        if quota is not None:
            hardware["cpu_quota"] = f"{quota:g}"
        for number, gpu in enumerate(seen):
            hardware[f"gpu{number}"] = gpu.name
            if gpu.memory_bytes is not None:
                hardware[f"gpu{number}_memory"] = units.size(gpu.memory_bytes)
        conditions = _conditions(root)
        conditions.update({f"gpu{number}_id": hashed(gpu.uuid) for number, gpu in enumerate(seen)})
        if cards.driver:
            conditions["nvidia_driver"] = cards.driver
        if seen:
            counted = all(cards.energy_j(gpu.uuid) is not None for gpu in seen)
            conditions["energy"] = "counter" if counted else units.NOT_AVAILABLE
    finally:
        if gpus is None:
            cards.close()
    text = json.dumps(hardware, sort_keys=True).encode()
    return Environment(hardware_id=hashlib.sha256(text).hexdigest()[:16], hardware=hardware, conditions=conditions)


def physical_cores(*, root: Path = _ROOT, mask: frozenset[int] | None = None) -> tuple[int, ...]:
    """One logical CPU for each physical core in the affinity mask (or ``mask``), ascending."""
    first: dict[str, int] = {}
    for cpu in sorted(os.sched_getaffinity(0) if mask is None else mask):
        topology = root / f"sys/devices/system/cpu/cpu{cpu}/topology"
        package, core = read_text(topology / "physical_package_id"), read_text(topology / "core_id")
        first.setdefault(f"{package}/{core}" if core else f"cpu{cpu}", cpu)
    return tuple(sorted(first.values()))


def cpu_quota(root: Path = _ROOT) -> float | None:
    """CPUs that the control group grants (``cpu.max``, or ``cpu.cfs_quota_us`` of version 1); None: no limit."""
    quota, _, period = read_text(root / "sys/fs/cgroup/cpu.max").partition(" ")
    if not quota:
        quota = read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_quota_us")
        period = read_text(root / "sys/fs/cgroup/cpu/cpu.cfs_period_us")
    try:
        granted = int(quota) / int(period)
    except (ValueError, ZeroDivisionError):
        return None
    return granted if granted > 0 else None


def available_bytes(root: Path = _ROOT) -> int:
    """Memory that a process here can still have: of the machine, or of the container that it runs in."""
    free: int = psutil.virtual_memory().available
    for most, used in (
        ("memory.max", "memory.current"),
        ("memory/memory.limit_in_bytes", "memory/memory.usage_in_bytes"),
    ):
        limit, now = (read_text(root / "sys/fs/cgroup" / name) for name in (most, used))
        if limit.isdigit() and now.isdigit():
            free = min(free, max(0, int(limit) - int(now)))
    return free


def default_threads(*, root: Path = _ROOT, mask: frozenset[int] | None = None) -> int:
    """Compute threads of a worker: the physical cores it may use, less one for everything else on the machine.

    Never more than the mask or the quota holds: threads that wait for a core at a barrier cost milliseconds.
    """
    cores = len(physical_cores(root=root, mask=mask))
    quota = cpu_quota(root)
    usable = cores if quota is None else min(cores, int(quota))
    return max(1, usable - 1)


def default_cpus(
    threads: int | None = None, *, root: Path = _ROOT, mask: frozenset[int] | None = None
) -> tuple[int, ...] | None:
    """Logical CPUs to pin both sides' workers to: the last cores, since the first ones serve most interrupts.

    None (no pinning) where there is one core, or where the mask has fewer cores than ``threads``.
    """
    cores = physical_cores(root=root, mask=mask)
    count = default_threads(root=root, mask=mask) if threads is None else threads
    return cores[-count:] if 0 < count < len(cores) else None


def check(environ: Mapping[str, str] | None = None, *, root: Path = _ROOT, gpus: Gpus | None = None) -> tuple[str, ...]:
    """Sentences about what may disturb a measurement here, before it starts: foreign load, power saving.

    Takes a quarter of a second.
    """
    environ = os.environ if environ is None else environ
    notes = []
    busy = psutil.cpu_percent(interval=0.25) / 100
    if busy > _BUSY_SHARE:
        notes.append(f"other processes used {units.percent(busy)} of this machine's CPUs before measuring")
    governor = read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor == "powersave":
        notes.append("the CPU frequency governor is powersave; performance gives steadier times")
    cards = nvml.connect() if gpus is None else gpus
    try:
        for number, gpu in enumerate(visible(cards.all(), environ.get("CUDA_VISIBLE_DEVICES"))):
            used = cards.used_bytes(gpu.uuid)
            if cards.processes(gpu.uuid):
                notes.append(f"another process computes on GPU {number} ({gpu.name})")
            elif used is not None and gpu.memory_bytes and used > _GPU_MEMORY_SHARE * gpu.memory_bytes:
                notes.append(f"{units.size(used)} of GPU {number} ({gpu.name}) are in use before measuring")
    finally:
        if gpus is None:
            cards.close()
    return tuple(notes)


def _conditions(root: Path) -> dict[str, str]:
    conditions = {
        "kernel": platform.release(),
        "load_before": f"{os.getloadavg()[0]:.2f}",
    }
    governor = read_text(root / "sys/devices/system/cpu/cpu0/cpufreq/scaling_governor")
    if governor:
        conditions["governor"] = governor
    turbo = read_text(root / "sys/devices/system/cpu/intel_pstate/no_turbo")
    if turbo:
        conditions["turbo"] = "off" if turbo == "1" else "on"
    return conditions


def _cpu_model(root: Path) -> str:
    """``model name`` of x86; elsewhere what the kernel calls the processor."""
    for line in read_text(root / "proc/cpuinfo").splitlines():
        name, _, value = line.partition(":")
        if name.strip() in {"model name", "Model", "Hardware"}:
            return " ".join(value.split())
    return platform.processor() or platform.machine()


def read_text(path: Path) -> str:
    """The text of a file without surrounding space; empty where it cannot be read."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
