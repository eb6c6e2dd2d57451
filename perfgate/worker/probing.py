"""Floor 3, worker. Everything that is found out about a workload without timing it.

In: an opened, warm workload in a process that is never timed. Out: ``Probe``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfgate.records.protocol import Open, Probe
from perfgate.worker import counting, loading, seeds, stepping, timing
from perfgate.worker.device import Devices
from perfgate.worker.first import First
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.stepping import Step
from perfgate.worker.timing import WarmUp

# The peak of a single call may still contain one-off buffers of libraries.
_PEAK_CALLS = 3


def probe(
    request: Open, side: Side, loaded: Loaded, arguments: Arguments, step: Step, first: First, warm: WarmUp
) -> Probe:
    """Exact metrics, digests, files and notes of one process."""
    module = loaded.module
    exact: dict[str, float] = {}
    missing: list[str] = []
    notes: list[str] = []
    breaks = timing.graph_breaks()
    if breaks is not None and request.workload.compile != "eager":
        exact["graph_breaks"] = breaks
    if first.devices.has_accelerator:
        _keep(exact, missing, "peak_memory", _peak(step, first.devices))
    if module is not None:
        exact["params"] = counting.parameters(module)
        exact["weight_bytes"] = counting.weight_bytes(module)
        notes += _denormals(module)
    elif loaded.plain is not None:
        missing += ["params", "weight_bytes"]
    count, note = _operators(request, side, loaded, arguments)
    _keep(exact, missing, "operators", count)
    notes.append(note)
    flop, note = _flop(request, side, loaded, arguments)
    _keep(exact, missing, "flop", flop)
    notes.append(note)
    if first.outputs.nonfinite:
        notes.append(f"the outputs hold {first.outputs.nonfinite} NaN or infinite values")
    if first.inputs.nonfinite:
        notes.append(f"the inputs hold {first.inputs.nonfinite} NaN or infinite values")
    return Probe(
        exact=exact,
        inputs=first.inputs,
        outputs=first.outputs,
        files=side.opened.used(side.request, lambda name: side.graph.belongs(name, request.spec.modules)),
        not_counted=tuple(missing),
        notes=tuple(note for note in notes if note),
        items=step.items,
        spans=step.spans,
        first_step_ns=first.first_step_ns,
        step_ns=warm.step_ns,
        structure=None if module is None else counting.structure(module),
    )


def _keep(exact: dict[str, float], missing: list[str], name: str, value: int | None) -> None:
    if value is None:
        missing.append(name)
    else:
        exact[name] = value


def _peak(step: Step, devices: Devices) -> int | None:
    if not devices.reset_peak():
        return None
    with timing.quiet_collector(), step.context():
        for _ in range(_PEAK_CALLS):
            step.call()
        devices.sync()
    return devices.peak_bytes()


def _operators(request: Open, side: Side, loaded: Loaded, arguments: Arguments) -> tuple[int | None, str]:
    try:
        with counting.stand_in(loaded.module, meta=False):
            step = _plain_step(request, side, loaded, arguments)
            seeds.set_all(request.seed)
            with step.context():
                return counting.operators(step.call), ""
    except Exception as error:
        return None, f"operator calls could not be counted: {type(error).__name__}"


def _flop(request: Open, side: Side, loaded: Loaded, arguments: Arguments) -> tuple[int | None, str]:
    def call_with(given: Arguments) -> Callable[[], object]:
        def call() -> object:
            step = _plain_step(request, side, loaded, given)
            with step.context():
                return step.call()

        return call

    shapes = arguments.mapped(lambda tensor: torch.empty_like(tensor, device="meta"))
    return counting.count_flop(loaded.module, call_with(shapes), call_with(arguments))


def _plain_step(request: Open, side: Side, loaded: Loaded, arguments: Arguments) -> Step:
    """A step of its own on the stand-in's tensors; no inference mode, which hides composed operators."""
    step = stepping.make_step(request, side, loaded, arguments, compiled=False)
    step.inference = False
    return step


def _denormals(module: Any) -> list[str]:
    """Processors handle numbers below the normal range many times slower than others."""
    count = 0
    for tensor in [*module.parameters(), *module.buffers()]:
        if loading.is_plain_float(tensor):
            tiny = torch.finfo(tensor.dtype).tiny
            values = tensor.detach().abs()
            count += int(((values > 0) & (values < tiny)).sum())
    return [f"denormals in weights: {count} values below the normal range, slow on CPUs"] if count else []
