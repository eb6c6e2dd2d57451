"""Floor 3, worker. The very first step, timed apart.

In: a step that has never run. Out: its time, the devices it uses, and digests of what went in and came out.
"""

from __future__ import annotations

import inspect
import time
from dataclasses import dataclass, field

from perfgate.records.protocol import Digest, Open
from perfgate.worker import device
from perfgate.worker.device import Devices
from perfgate.worker.digest import digest
from perfgate.worker.failures import refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.stepping import GeneratorStep, Step


@dataclass(slots=True, kw_only=True)
class First:
    """What the first step showed; digests are empty outside of a probe."""

    devices: Devices
    first_step_ns: int
    inputs: Digest
    outputs: Digest
    notes: list[str] = field(default_factory=list)


def first_step(request: Open, step: Step, loaded: Loaded, arguments: Arguments) -> First:
    """The very first call, compilation included; the devices of its output join those known before."""
    given = digest((arguments.args, arguments.kwargs)) if request.probe else Digest(checksum="")
    own = request.workload.device
    known = device.used(own, loaded.module, (arguments.args, arguments.kwargs))
    if isinstance(step, GeneratorStep):
        step.sync = known.sync
    notes: list[str] = []
    try:
        output, elapsed, devices = _timed_call(step, known, own)
    except RuntimeError as error:
        if not step.refused_inference_mode(error):
            raise
        notes.append("the model refuses inference mode and was measured under no_grad")
        output, elapsed, devices = _timed_call(step, known, own)
    if isinstance(step, GeneratorStep):
        step.sync = devices.sync
    elif inspect.isgenerator(output) or inspect.isawaitable(output) or inspect.isasyncgen(output):
        # Its body has not run, so that what would be timed is the making of an empty promise.
        made = type(output).__name__
        message = (
            f"the call returned a {made}, of which nothing has run; set step to a function that runs it to its end"
        )
        refuse("unsupported", "first-step", message)
    outputs = digest(output) if request.probe else Digest(checksum="")
    return First(devices=devices, first_step_ns=elapsed, inputs=given, outputs=outputs, notes=notes)


def _timed_call(step: Step, known: Devices, own: str) -> tuple[object, int, Devices]:
    with step.context():
        before = time.perf_counter_ns()
        output = step.call()
        known.sync()
        elapsed = time.perf_counter_ns() - before
    added = [name for name in device.names_of(own, output) if name not in known.names]
    if not added:
        return output, elapsed, known
    devices = Devices([*known.all, *map(device.make_device, added)])
    devices.sync()
    return output, time.perf_counter_ns() - before, devices
