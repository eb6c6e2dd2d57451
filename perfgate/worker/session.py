"""Floor 3, worker. A workload that is open and warm, and is timed block by block.

In: ``Time`` and ``Finish``. Out: ``Timed`` and ``Finished``. No torch.
"""

from __future__ import annotations

import gc

from perfgate.records.protocol import Finished, Time, Timed
from perfgate.worker import timing
from perfgate.worker.devices import Devices
from perfgate.worker.failures import phase
from perfgate.worker.timing import Step


class Session:
    """Made at the end of warm-up: from here on the memory peak counts."""

    def __init__(self, step: Step, devices: Devices, checkout: str) -> None:
        self._step = step
        self._devices = devices
        self._checkout = checkout
        gc.collect()
        gc.freeze()
        self._peak_is_fresh = devices.reset_peak()

    def time(self, request: Time) -> Timed:
        """One block. Raises WorkerError where the step fails in it."""
        with phase("timing", self._checkout):
            return timing.time_block(self._step, self._devices, request)

    def finish(self) -> Finished:
        """The memory peak since warm-up."""
        if not self._peak_is_fresh:
            return Finished(
                peak_bytes=None, notes=("no memory peak: this system does not let a process reset its high-water mark",)
            )
        with phase("finish", self._checkout):
            peak = self._devices.peak_bytes()
        return Finished(peak_bytes=peak, notes=() if peak is not None else ("no memory peak: it cannot be read here",))
