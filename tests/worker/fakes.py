"""Clocks and devices under the test's control, on the worker's own types. Needs torch."""

from __future__ import annotations

from collections.abc import Callable

from perfgate.worker.device import Device, Devices
from perfgate.worker.stepping import Step


class FakeClock:
    """Time in ns that passes only when told to."""

    def __init__(self) -> None:
        self.now = 0

    def __call__(self) -> int:
        return self.now

    def sleep(self, ns: int) -> None:
        self.now += ns


class FakeDevice(Device):
    """A device whose queue takes ``sync_ns`` to drain; memory is ``live`` and the peak of it."""

    def __init__(self, name: str, clock: FakeClock, *, sync_ns: int = 0, resets: bool = True) -> None:
        super().__init__(name)
        self.clock = clock
        self.sync_ns = sync_ns
        self.resets = resets
        self.syncs = 0
        self.live = 0
        self.peak = 0
        self._begun = 0
        self._ended = 0

    def allocate(self, count: int) -> None:
        self.live += count
        self.peak = max(self.peak, self.live)

    def free(self, count: int) -> None:
        self.live -= count

    def sync(self) -> None:
        self.syncs += 1
        self.clock.sleep(self.sync_ns)

    def reset_peak(self) -> bool:
        if self.resets:
            self.peak = self.live
        return self.resets

    def peak_bytes(self) -> int | None:
        return self.peak if self.resets else None

    def begin(self) -> None:
        self._begun = self.clock.now

    def end(self) -> None:
        self._ended = self.clock.now

    def elapsed_ns(self) -> int | None:
        return None if self.name == "cpu" else self._ended - self._begun


def make_step(call: Callable[[], object], *, items: int = 1) -> Step:
    return Step(call, items=items, no_grad=False, dtype="float32", device="cpu")


def make_devices(clock: FakeClock, *names: str, sync_ns: int = 0) -> Devices:
    return Devices(FakeDevice(name, clock, sync_ns=sync_ns) for name in names or ("cpu",))
