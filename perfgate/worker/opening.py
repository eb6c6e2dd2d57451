"""Floor 3, worker. ``Open`` -> a model that is built, fed, stepped once and warm.

In: ``Open`` and the prepared side. Out: a :class:`Session` and ``Opened``. Order matters: everything that
could change what is timed (proof, digests, counts) happens before or after, never inside.
"""

from __future__ import annotations

import time

from perfgate.records.protocol import Open, Opened
from perfgate.worker import device, first, loading, probing, seeds, stepping, timing
from perfgate.worker.failures import phase
from perfgate.worker.preparing import Side
from perfgate.worker.session import Session
from perfgate.worker.surroundings import Surroundings


def open_workload(request: Open, side: Side) -> tuple[Session, Opened]:
    """Raises WorkerError with the phase in which the user's code failed."""
    began = time.perf_counter_ns()
    checkout = side.request.checkout
    device.check_usable(request.workload.device)
    loaded = loading.load(request, side)
    arguments = loading.make_arguments(request, side)
    notes = list(loaded.notes)
    with phase("build", checkout):
        notes += loading.materialise(request, loaded, arguments)
    step = stepping.make_step(request, side, loaded, arguments)
    side.prove()
    seeds.set_all(request.seed)
    with phase("first-step", checkout):
        seen = first.first_step(request, step, loaded, arguments)
    with phase("warm-up", checkout):
        warm = timing.warm_up(step, seen.devices, request)
    side.prove()
    ready_ns = time.perf_counter_ns() - began
    notes += seen.notes
    notes += side.before.changes(Surroundings.now())
    if warm.asynchronous:
        notes.append("asynchronous: calls return long before their work is done; times include the wait")
    notes += [f"the model's code looked for {host} on the network" for host in sorted(side.opened.hosts)]
    probe = None
    if request.probe:
        with phase("probe", checkout):
            probe = probing.probe(request, side, loaded, arguments, step, seen, warm)
    session = Session(step, seen.devices, checkout)
    return session, Opened(
        step_ns=warm.step_ns,
        first_step_ns=seen.first_step_ns,
        warmup_calls=warm.calls,
        settled=warm.settled,
        items=step.items,
        spans=step.spans,
        devices=seen.devices.labels,
        ready_ns=ready_ns,
        probe=probe,
        notes=tuple(dict.fromkeys(notes)),
    )
