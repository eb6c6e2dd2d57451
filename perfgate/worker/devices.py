"""Floor 3, worker. The device seam: waiting, peaks and device-side time behind one type. No torch.

In: devices of whatever framework. Out: :class:`Devices`, which waits for all of them at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable

from perfgate.worker import process


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
