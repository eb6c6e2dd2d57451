"""Floor 3, bench. The seam to NVIDIA's management library; the only file that loads it, and only when asked.

Whatever a card, a driver, MIG or a virtual machine does not support is None, which is shown as "n/a": never 0, and
never the end of a run.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

# nvml.h, nvmlClocksEventReasons. Idle, application clocks and display settings slow nobody down unexpectedly.
POWER_CAP = "power-cap"
_REASONS = {
    0x04: POWER_CAP,
    0x08: "hw-slowdown",
    0x10: "sync-boost",
    0x20: "sw-thermal",
    0x40: "hw-thermal",
    0x80: "power-brake",
}
# Reasons that come from outside the model under test; a power cap comes from the model itself.
DISTURBING = frozenset({"hw-slowdown", "sw-thermal", "hw-thermal", "power-brake"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Gpu:
    """A card, or a MIG slice of one. ``index`` counts cards by PCI bus, as NVML does, not as CUDA may do."""

    index: int
    uuid: str
    name: str
    memory_bytes: int | None
    mig: bool = False


class Gpus(ABC):
    """What is asked of the cards. All methods take a UUID of :meth:`all` and never raise for what is unsupported."""

    driver: str = ""

    @abstractmethod
    def all(self) -> tuple[Gpu, ...]:
        """Every card of the machine, then its MIG slices."""

    @abstractmethod
    def sm_clock_mhz(self, uuid: str) -> int | None:
        """Clock of the multiprocessors now."""

    @abstractmethod
    def throttle(self, uuid: str) -> tuple[str, ...]:
        """Reasons for which clocks are held down now; empty if none or unknown."""

    @abstractmethod
    def energy_j(self, uuid: str) -> float | None:
        """Energy counter in joules, since the driver was loaded."""

    @abstractmethod
    def processes(self, uuid: str) -> tuple[int, ...] | None:
        """Ids of the processes that compute on the card (of the host's namespace, inside a container)."""

    @abstractmethod
    def used_bytes(self, uuid: str) -> int | None:
        """Memory of the card in use by anyone, the driver's share included."""

    @abstractmethod
    def lock_clocks(self, uuid: str) -> bool:
        """Try to hold the multiprocessors at their default clock; True if that worked (it needs privileges)."""

    @abstractmethod
    def unlock_clocks(self, uuid: str) -> None:
        """Undo :meth:`lock_clocks`."""

    @abstractmethod
    def close(self) -> None:
        """Let the library go."""


class NoGpus(Gpus):
    """A machine without NVIDIA cards, driver or binding. ``why`` says which."""

    def __init__(self, why: str = "") -> None:
        self.why = why

    def all(self) -> tuple[Gpu, ...]:  # noqa: D102 - see Gpus
        return ()

    def sm_clock_mhz(self, uuid: str) -> int | None:  # noqa: ARG002, D102
        return None

    def throttle(self, uuid: str) -> tuple[str, ...]:  # noqa: ARG002, D102
        return ()

    def energy_j(self, uuid: str) -> float | None:  # noqa: ARG002, D102
        return None

    def processes(self, uuid: str) -> tuple[int, ...] | None:  # noqa: ARG002, D102
        return None

    def used_bytes(self, uuid: str) -> int | None:  # noqa: ARG002, D102
        return None

    def lock_clocks(self, uuid: str) -> bool:  # noqa: ARG002, D102
        return False

    def unlock_clocks(self, uuid: str) -> None:  # noqa: D102
        pass

    def close(self) -> None:  # noqa: D102
        pass


class NvmlGpus(Gpus):
    """The real thing, through ``nvidia-ml-py``."""

    def __init__(self, pynvml: Any) -> None:
        self._nvml = pynvml
        self._handles: dict[str, Any] = {}
        self._gpus: list[Gpu] = []
        self.driver = str(self._ask(pynvml.nvmlSystemGetDriverVersion) or "")
        for index in range(self._ask(pynvml.nvmlDeviceGetCount) or 0):
            handle = self._ask(pynvml.nvmlDeviceGetHandleByIndex, index)
            if handle is not None:
                self._add(handle, index, mig=False)
        for gpu in tuple(self._gpus):
            self._add_slices(gpu)

    def all(self) -> tuple[Gpu, ...]:  # noqa: D102
        return tuple(self._gpus)

    def sm_clock_mhz(self, uuid: str) -> int | None:  # noqa: D102
        clock: int | None = self._of(uuid, self._nvml.nvmlDeviceGetClockInfo, self._nvml.NVML_CLOCK_SM)
        return clock

    def throttle(self, uuid: str) -> tuple[str, ...]:  # noqa: D102
        bits = self._of(uuid, self._nvml.nvmlDeviceGetCurrentClocksThrottleReasons)
        if bits is None:  # renamed in newer drivers
            bits = self._of(uuid, self._nvml.nvmlDeviceGetCurrentClocksEventReasons)
        return tuple(name for bit, name in _REASONS.items() if bits is not None and bits & bit)

    def energy_j(self, uuid: str) -> float | None:  # noqa: D102
        millijoule = self._of(uuid, self._nvml.nvmlDeviceGetTotalEnergyConsumption)
        return None if millijoule is None else millijoule / 1000

    def processes(self, uuid: str) -> tuple[int, ...] | None:  # noqa: D102
        found = self._of(uuid, self._nvml.nvmlDeviceGetComputeRunningProcesses)
        return None if found is None else tuple(process.pid for process in found)

    def used_bytes(self, uuid: str) -> int | None:  # noqa: D102
        memory = self._of(uuid, self._nvml.nvmlDeviceGetMemoryInfo)
        return None if memory is None else int(memory.used)

    def lock_clocks(self, uuid: str) -> bool:  # noqa: D102
        clock = self._of(uuid, self._nvml.nvmlDeviceGetDefaultApplicationsClock, self._nvml.NVML_CLOCK_SM)
        if not clock:
            return False
        try:
            self._nvml.nvmlDeviceSetGpuLockedClocks(self._handles[uuid], clock, clock)
        except (self._nvml.NVMLError, ValueError):
            return False
        return True

    def unlock_clocks(self, uuid: str) -> None:  # noqa: D102
        self._of(uuid, self._nvml.nvmlDeviceResetGpuLockedClocks)

    def close(self) -> None:  # noqa: D102
        self._ask(self._nvml.nvmlShutdown)

    def _add(self, handle: Any, index: int, *, mig: bool) -> None:
        uuid = self._ask(self._nvml.nvmlDeviceGetUUID, handle)
        if not uuid:
            return
        memory = self._ask(self._nvml.nvmlDeviceGetMemoryInfo, handle)
        name = self._ask(self._nvml.nvmlDeviceGetName, handle) or "NVIDIA GPU"
        total = None if memory is None else int(memory.total)
        self._handles[str(uuid)] = handle
        self._gpus.append(Gpu(index=index, uuid=str(uuid), name=str(name), memory_bytes=total, mig=mig))

    def _add_slices(self, gpu: Gpu) -> None:
        mode = self._of(gpu.uuid, self._nvml.nvmlDeviceGetMigMode)
        if not mode or not mode[0]:
            return
        for number in range(self._of(gpu.uuid, self._nvml.nvmlDeviceGetMaxMigDeviceCount) or 0):
            handle = self._of(gpu.uuid, self._nvml.nvmlDeviceGetMigDeviceHandleByIndex, number)
            if handle is not None:
                self._add(handle, gpu.index, mig=True)

    def _of(self, uuid: str, function: Callable[..., Any], *arguments: Any) -> Any:
        handle = self._handles.get(uuid)
        return None if handle is None else self._ask(function, handle, *arguments)

    def _ask(self, function: Callable[..., Any], *arguments: Any) -> Any:
        try:
            return function(*arguments)
        except (self._nvml.NVMLError, ValueError):
            return None


def connect() -> Gpus:
    """The machine's cards; :class:`NoGpus` with the reason where there is no binding, driver or card."""
    try:
        import pynvml
    except ImportError:
        return NoGpus("nvidia-ml-py is not installed (pip install 'perfgate[nvml]')")
    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        return NoGpus(f"NVML does not work: {error}")
    return NvmlGpus(pynvml)
