"""Floor 3, worker. Devices as torch knows them.

In: names of devices (``cpu``, ``cuda:0``), modules and trees of tensors. Out: :class:`devices.Devices`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import torch

from perfgate.worker import trees
from perfgate.worker.devices import CpuDevice, Device, Devices
from perfgate.worker.failures import refuse

__all__ = ["CpuDevice", "CudaDevice", "Device", "Devices", "check_usable", "make_device", "names_of", "used"]


class CudaDevice(Device):
    """One GPU by torch's numbering; memory is what torch's allocator has handed out."""

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._device = torch.device(name)
        uuid = getattr(torch.cuda.get_device_properties(self._device), "uuid", None)
        if uuid is not None:
            self.label = f"{name}=GPU-{uuid}"
        with torch.cuda.device(self._device):
            self._start = torch.cuda.Event(enable_timing=True)
            self._stop = torch.cuda.Event(enable_timing=True)

    def sync(self) -> None:
        """Wait for every stream of this GPU, whichever is current."""
        torch.cuda.synchronize(self._device)

    def reset_peak(self) -> bool:
        """Start a new peak at what is allocated now."""
        torch.cuda.reset_peak_memory_stats(self._device)
        return True

    def peak_bytes(self) -> int | None:
        """Peak of live tensors, not of the pool that the allocator keeps."""
        return int(torch.cuda.max_memory_allocated(self._device))

    def begin(self) -> None:
        """Record the first event on the GPU's current stream."""
        self._start.record(torch.cuda.current_stream(self._device))

    def end(self) -> None:
        """Record the second event."""
        self._stop.record(torch.cuda.current_stream(self._device))

    def elapsed_ns(self) -> int | None:
        """Resolution about 0.5 us."""
        return int(self._start.elapsed_time(self._stop) * 1e6)


def make_device(name: str) -> Device:
    """The device called ``name``. Raises WorkerError, ``unsupported``, where it cannot be used."""
    if name == "cpu":
        return CpuDevice(name)
    if torch.device(name).type != "cuda":
        refuse("unsupported", "build", f"device {name}: perfgate measures on cpu and cuda:N")
    return CudaDevice(name)


def check_usable(name: str) -> None:
    """Raise WorkerError, ``unsupported``, where a workload asks for a device that is not here."""
    try:
        wanted = torch.device(name)
    except RuntimeError:
        refuse("unsupported", "build", f"device {name}: write cpu or cuda:N")
    if wanted.type == "cuda":
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if (wanted.index or 0) >= count:
            message = f"device {name}: torch {torch.__version__} sees {count} CUDA devices here; choose another runner"
            refuse("unsupported", "build", message)


def names_of(own: str, *things: object) -> tuple[str, ...]:
    """Names of the devices that hold any tensor of ``things`` (modules or trees), ``own`` first."""
    names = {_canonical(torch.device(own)): None}
    for thing in things:
        for tensor in _tensors(thing):
            names.setdefault(_canonical(tensor.device), None)
    return tuple(name for name in names if name != "meta")


def used(own: str, *things: object, make: Callable[[str], Device] = make_device) -> Devices:
    """Devices of a workload on ``own`` whose modules, inputs and outputs are ``things``."""
    return Devices(make(name) for name in names_of(own, *things))


def _canonical(device: Any) -> str:
    # "cuda" means the current one, so it and its number are one device.
    if device.type == "cuda" and device.index is None:
        return f"cuda:{torch.cuda.current_device()}"
    return "cpu" if device.type == "cpu" else str(device)


def _tensors(thing: object) -> Iterable[Any]:
    if isinstance(thing, torch.nn.Module):
        yield from thing.parameters()
        yield from thing.buffers()
        return
    for _, tensor in trees.tensors(thing):
        yield tensor
