"""Floor 3, worker. ``Open`` -> a model that is built, fed, stepped once and warm.

In: ``Open`` and the prepared side. Out: a :class:`Session` and ``Opened``. Order matters: everything that
could change what is timed (proof, digests, counts) happens before or after, never inside.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from perfgate.records.protocol import Digest, Open, Opened
from perfgate.worker import device, inputs, loading, probing, seeds, stepping, timing
from perfgate.worker.device import Devices
from perfgate.worker.digest import digest
from perfgate.worker.failures import phase
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.session import Session
from perfgate.worker.stepping import GeneratorStep, Step
from perfgate.worker.surroundings import Surroundings


@dataclass(slots=True, kw_only=True)
class First:
    """What the first step showed; digests are empty outside of a probe."""

    devices: Devices
    first_step_ns: int
    inputs: Digest
    outputs: Digest
    notes: list[str] = field(default_factory=list)


def open_workload(request: Open, side: Side) -> tuple[Session, Opened]:
    """Raises WorkerError with the phase in which the user's code failed."""
    checkout = side.request.checkout
    device.check_usable(request.workload.device)
    loaded = loading.load(request, side)
    arguments = make_arguments(request, side)
    notes = list(loaded.notes)
    if loaded.module is not None:
        with phase("build", checkout):
            forward = _forward(request, loaded, arguments)
            notes += loading.materialise(loaded.module, forward, request.seed)
    step = stepping.make_step(request, side, loaded, arguments)
    side.prove()
    seeds.set_all(request.seed)
    with phase("first-step", checkout):
        first = _first_step(request, step, loaded, arguments)
    with phase("warm-up", checkout):
        warm = timing.warm_up(step, first.devices, request)
    side.prove()
    notes += first.notes
    notes += side.before.changes(Surroundings.now())
    if warm.asynchronous:
        notes.append("asynchronous: calls return long before their work is done; times include the wait")
    notes += [f"the model's code looked for {host} on the network" for host in sorted(side.opened.hosts)]
    probe = None
    if request.probe:
        with phase("probe", checkout):
            probe = probing.probe(request, side, loaded, arguments, step, first, warm)
    session = Session(step, first.devices, checkout)
    return session, Opened(
        step_ns=warm.step_ns,
        first_step_ns=first.first_step_ns,
        warmup_calls=warm.calls,
        settled=warm.settled,
        items=step.items,
        spans=step.spans,
        devices=first.devices.labels,
        probe=probe,
        notes=tuple(dict.fromkeys(notes)),
    )


def make_arguments(request: Open, side: Side) -> Arguments:
    """Inputs on the workload's device, in its dtype."""
    spec, workload = request.spec, request.workload
    make = loading.resolve(spec.make_inputs, f"models.{spec.name}.make_inputs", side) if spec.make_inputs else None
    with phase("inputs", side.request.checkout):
        if make is not None:
            seeds.set_all(seeds.derive(request.seed, "inputs"))
            arguments = inputs.from_function(make, workload.batch, workload.device)
        else:
            arguments = inputs.from_specification(spec.inputs, workload.batch, request.seed)
        return inputs.placed(arguments, workload.device, loading.fixed_dtype(workload.dtype))


def _forward(request: Open, loaded: Loaded, arguments: Arguments) -> Any:
    def forward() -> object:
        with loading.autocast(request.workload.dtype, request.workload.device):
            return loaded.plain(*arguments.args, **arguments.kwargs)

    return forward


def _first_step(request: Open, step: Step, loaded: Loaded, arguments: Arguments) -> First:
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
