"""Floor 3, worker. A GPU that ONNX Runtime runs on. No torch.

In: the number of a CUDA device. Out: a :class:`devices.Device`. Steps wait for their own work, so there is nothing to
wait for here, and ONNX Runtime has no counter of device time or of its arena's peak that a process could set back.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from typing import Any

from perfgate.worker.devices import CpuDevice, Device, Devices

_DRIVER = "libcuda.so.1"
_UUID_BYTES = 16


class CudaDevice(Device):
    """``uuid`` is empty where the driver does not tell."""

    def __init__(self, name: str, uuid: str) -> None:
        super().__init__(name)
        if uuid:
            self.label = f"{name}=GPU-{uuid}"

    def sync(self) -> None:
        """Every call has waited for its outputs."""

    def reset_peak(self) -> bool:
        """True, but the peak is not known: see :meth:`peak_bytes`."""
        return True

    def peak_bytes(self) -> int | None:
        """None: the arena's statistics show in a profile only, which a timed process does not take."""
        return None

    def begin(self) -> None:
        """The stream is ONNX Runtime's own."""

    def end(self) -> None:
        """The stream is ONNX Runtime's own."""

    def elapsed_ns(self) -> int | None:
        """None: wall time is all there is."""
        return None


def used(device: str, ordinal: int | None) -> Devices:
    """The one device of a workload."""
    return Devices([CpuDevice(device) if ordinal is None else CudaDevice(device, uuid_of(ordinal))])


def uuid_of(ordinal: int, open_library: Callable[[str], Any] = ctypes.CDLL) -> str:
    """UUID of a CUDA device by the driver's own numbering, as ``8-4-4-4-12`` digits; empty where it is not known."""
    try:
        driver = open_library(_DRIVER)
        read = getattr(driver, "cuDeviceGetUuid", None) or driver.cuDeviceGetUuid_v2
        handle, raw = ctypes.c_int(), (ctypes.c_ubyte * _UUID_BYTES)()
        failed = driver.cuInit(0) or driver.cuDeviceGet(ctypes.byref(handle), ordinal) or read(raw, handle)
    except (OSError, AttributeError):
        return ""
    if failed:
        return ""
    digits = bytes(raw).hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))
