"""Floor 3, worker. The device seam: waiting, peaks and device-side time behind one type.

In: names of devices (``cpu``, ``cuda:0``). Out: :class:`Devices`, which waits for all of them at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any

import torch

from perfgate.worker import process, trees
from perfgate.worker.failures import refuse


class Device(ABC):
    """One device. ``label`` is the name with the hardware's UUID where known: ``cuda:0=GPU-...``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.label = name

    @abstractmethod
    def sync(self) -> None:
        """Return when all queued work is done."""

    @abstractmethod
    def reset_peak(self) -> bool:
        """Forget the memory peak so far; False where that is impossible."""

    @abstractmethod
    def peak_bytes(self) -> int | None:
        """The memory peak since the last reset, in bytes; None where unknown."""

    @abstractmethod
    def begin(self) -> None:
        """Mark the start of a sample in the device's queue."""

    @abstractmethod
    def end(self) -> None:
        """Mark its end."""

    @abstractmethod
    def elapsed_ns(self) -> int | None:
        """Device time between the marks, after :meth:`sync`; None where the device has no clock of its own."""


class CpuDevice(Device):
    """The host: calls return when they are done, memory is the resident set of this process."""

    def sync(self) -> None:
        """Nothing is ever queued."""

    def reset_peak(self) -> bool:
        """See :func:`process.reset_high_water`."""
        return process.reset_high_water()

    def peak_bytes(self) -> int | None:
        """See :func:`process.high_water_bytes`."""
        return process.high_water_bytes()

    def begin(self) -> None:
        """The host has no queue."""

    def end(self) -> None:
        """The host has no queue."""

    def elapsed_ns(self) -> int | None:
        """None: wall time is all there is."""
        return None


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


class Devices:
    """All devices that hold a parameter, buffer, input or output; the first one is the workload's own."""

    def __init__(self, devices: Iterable[Device]) -> None:
        self.all = tuple(devices)
        self._primary = self.all[0]

    @property
    def labels(self) -> tuple[str, ...]:
        """One label each."""
        return tuple(device.label for device in self.all)

    @property
    def names(self) -> tuple[str, ...]:
        """One name each."""
        return tuple(device.name for device in self.all)

    @property
    def has_accelerator(self) -> bool:
        """Whether memory is an allocator's peak (repeatable) or the process's resident one (noisy)."""
        return any(device.name != "cpu" for device in self.all)

    def sync(self) -> None:
        """Wait for every device."""
        for device in self.all:
            device.sync()

    def begin(self) -> None:
        """Mark the start of a sample on the workload's own device."""
        self._primary.begin()

    def end(self) -> None:
        """Mark its end."""
        self._primary.end()

    def elapsed_ns(self) -> int | None:
        """Time between the marks on the workload's own device, or None."""
        return self._primary.elapsed_ns()

    def reset_peak(self) -> bool:
        """Start a new peak; False where one of them cannot."""
        done = [device.reset_peak() for device in self._gated()]
        return all(done)

    def peak_bytes(self) -> int | None:
        """Sum of the accelerators' peaks, or the host's where there is no accelerator; None where unknown."""
        peaks = [device.peak_bytes() for device in self._gated()]
        known = [peak for peak in peaks if peak is not None]
        return sum(known) if len(known) == len(peaks) else None

    def _gated(self) -> tuple[Device, ...]:
        accelerators = tuple(device for device in self.all if device.name != "cpu")
        return accelerators or self.all


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
