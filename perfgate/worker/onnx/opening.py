"""Floor 3, worker. ``Open`` of an ONNX model -> a session that is fed, stepped once and warm.

In: ``Open`` and the prepared side. Out: a :class:`session.Session` and ``Opened``, as for a torch model. Order
matters: everything that could change what is timed happens before or after, never inside.
"""

from __future__ import annotations

import time
from typing import Any

from perfgate.records.protocol import ONNXRUNTIME, Open, Opened
from perfgate.worker import runtime, seeds, timing
from perfgate.worker.failures import WorkerError, phase, refuse
from perfgate.worker.onnx import devices, inputs, probing, signature, source, steps
from perfgate.worker.onnx.inputs import Feeds
from perfgate.worker.onnx.probing import Found
from perfgate.worker.onnx.sessions import Maker
from perfgate.worker.preparing import Side, resolve
from perfgate.worker.session import Session
from perfgate.worker.surroundings import Surroundings

_SEEDS = 2**63


def open_workload(request: Open, side: Side) -> tuple[Session, Opened]:
    """Raises WorkerError with the phase in which the file, ONNX Runtime or the user's code failed."""
    began = time.perf_counter_ns()
    checkout = side.request.checkout
    _check_setting(request)
    if ONNXRUNTIME in side.broken:
        raise WorkerError(side.broken[ONNXRUNTIME])
    with phase("build", checkout):
        located = source.locate(request.spec, side.request)
    maker = _maker(request, side, located)
    session = maker.make()
    feeds = _feeds(request, side, session)
    with phase("build", checkout):
        step = steps.make(maker.runtime, session, feeds, maker.ordinal, items=request.workload.batch, checkout=checkout)
        used = devices.used(request.workload.device, maker.ordinal)
    side.prove()
    with phase("first-step", checkout):
        before = time.perf_counter_ns()
        result = step.call()
        first_ns = time.perf_counter_ns() - before
        outputs = step.fetch(result) if request.probe else []
        del result
    with phase("warm-up", checkout):
        warm = timing.warm_up(step, used, request)
    side.prove()
    ready_ns = time.perf_counter_ns() - began
    probe = None
    if request.probe:
        found = Found(maker=maker, session=session, feeds=feeds, outputs=outputs, first_step_ns=first_ns, warm=warm)
        with phase("probe", checkout):
            probe = probing.probe(request, side, found)
    notes = [*side.before.changes(Surroundings.now())]
    notes += [f"the model's code looked for {host} on the network" for host in sorted(side.opened.hosts)]
    opened = Opened(
        step_ns=warm.step_ns,
        first_step_ns=first_ns,
        warmup_calls=warm.calls,
        settled=warm.settled,
        items=step.items,
        devices=used.labels,
        ready_ns=ready_ns,
        probe=probe,
        notes=tuple(notes),
    )
    return Session(step, used, checkout), opened


def _check_setting(request: Open) -> None:
    """The configuration says so already; a file fixes its dtypes, and neither learns nor is compiled by torch."""
    workload = request.workload
    wanted = {"modes": (workload.mode, "infer"), "dtype": (workload.dtype, "float32")}
    wanted["compile"] = (workload.compile, "eager")
    for key, (value, only) in wanted.items():
        if value != only:
            message = f"models.{workload.model}.{key} = {value!r}: an ONNX model runs as {only} only; remove it"
            refuse("unsupported", "build", message)


def _maker(request: Open, side: Side, located: source.Source) -> Maker:
    module = runtime.load(side.request.checkout)
    # Operators that draw random numbers draw the same ones on both sides.
    module.set_seed(seeds.derive(request.seed, "operators") % _SEEDS)
    return Maker(
        runtime=module,
        source=located,
        key=f"models.{request.spec.name}.entry = {request.spec.entry!r}",
        device=request.workload.device,
        threads=side.threads,
        checkout=side.request.checkout,
    )


def _feeds(request: Open, side: Side, session: Any) -> Feeds:
    spec, workload = request.spec, request.workload
    make = resolve(spec.make_inputs, f"models.{spec.name}.make_inputs", side) if spec.make_inputs else None
    with phase("inputs", side.request.checkout):
        slots = signature.slots(session)
        if make is None:
            return inputs.from_specification(spec.inputs, slots, workload.batch, request.seed)
        seeds.set_all(seeds.derive(request.seed, "inputs"))
        return inputs.from_function(make, slots, workload.batch, workload.device)
