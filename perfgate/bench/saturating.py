"""Floor 3, bench. Parent side of the roofline probe: how large a stream must be, and which rates to ask for.

In: a device. Out: :class:`Saturate`; the worker's answer as :class:`MeasuredRoofline`.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime
from pathlib import Path

from perfgate import units
from perfgate.bench import machine
from perfgate.errors import MeasuringError
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.protocol import Prepared, Saturate, Saturated

_ROOT = Path("/")
_CPU_DTYPES = ("float32", "float64", "bfloat16", "float16", "int8")
_GPU_DTYPES = ("float32", "tf32", "float16", "bfloat16", "int8")

# A stream in arrays of four times the last-level cache measures memory and not the cache.
_CACHES = 4
_LEAST_BYTES = 256 * 2**20
# Where the cache is unknown: more than four times any cache known today.
_UNKNOWN_CACHE_BYTES = 4 * 2**30
_ARRAYS = 3
_SHARE_OF_FREE = 0.5
_SIZE = re.compile(r"(\d+)([KMG]?)")
_PREFIX = {"": 1, "K": 2**10, "M": 2**20, "G": 2**30}


def request(device: str, *, root: Path = _ROOT) -> Saturate:
    """What to ask a worker for. Raises MeasuringError where memory is too small for a stream that exceeds the cache."""
    if device != "cpu":
        return Saturate(device=device, dtypes=_GPU_DTYPES, stream_bytes=_LEAST_BYTES)
    cache = cache_bytes(root)
    wanted = max(_LEAST_BYTES, _CACHES * cache) if cache else _UNKNOWN_CACHE_BYTES
    available = machine.available_bytes(root)
    free = int(available * _SHARE_OF_FREE) // _ARRAYS
    needed = _CACHES * cache if cache else _LEAST_BYTES
    if free < needed:
        why = "four times the last-level cache" if cache else "since the size of the cache is not known"
        msg = (
            f"the bandwidth probe needs {_ARRAYS} arrays of {units.size(needed)}, {why}, and {units.size(available)} "
            "of memory are free; free some"
        )
        raise MeasuringError(msg)
    return Saturate(device=device, dtypes=_CPU_DTYPES, stream_bytes=min(wanted, free))


def cache_bytes(root: Path = _ROOT) -> int | None:
    """All last-level caches of the CPUs that this process may use, together; None where the kernel does not tell."""
    found: dict[str, tuple[int, int]] = {}
    for cpu in (root / "sys/devices/system/cpu").glob("cpu[0-9]*"):
        for index in (cpu / "cache").glob("index[0-9]*"):
            level, size = machine.read_text(index / "level"), _SIZE.match(machine.read_text(index / "size"))
            if level.isdigit() and size:
                shared = machine.read_text(index / "shared_cpu_list") or cpu.name
                found[f"{level}/{machine.read_text(index / 'type')}/{shared}"] = (
                    int(level), int(size[1]) * _PREFIX[size[2]]
                )  # fmt: skip
    if not found:
        return None
    last = max(level for level, _ in found.values())
    return sum(size for level, size in found.values() if level == last)


def reached(
    asked: Saturate, answer: Saturated, prepared: Prepared, *, label: str, cache: int | None
) -> MeasuredRoofline:
    """The record of a probe. Raises MeasuringError where no product ran."""
    if not answer.flop_per_s:
        msg = f"{asked.device}: no matrix product could be run ({'; '.join(answer.notes)}); install a working torch"
        raise MeasuringError(msg)
    versions = prepared.software.versions
    on_cpu = asked.device == "cpu"
    return MeasuredRoofline(
        device=asked.device,
        label=label if on_cpu else answer.label,
        flop_per_s=answer.flop_per_s,
        bandwidth_bytes_per_s=answer.bandwidth_bytes_per_s,
        probe_bytes=answer.stream_bytes,
        measured_at=datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        cache_bytes=cache if on_cpu else answer.cache_bytes,
        threads=prepared.software.threads if on_cpu else 0,
        spread=answer.spread,
        software=f"torch {versions['torch']}" if "torch" in versions else "",
        notes=answer.notes,
    )
