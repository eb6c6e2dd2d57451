"""Floor 3, worker. Everything that is found out about a workload without timing it.

In: an opened, warm workload in a process that is never timed. Out: ``Probe``.
"""

from __future__ import annotations

from typing import Any

import torch

from perfgate.records.graph import Trace
from perfgate.records.protocol import Open, Probe
from perfgate.worker import counting, graph_breaks, loading, profiling, timing, tracing
from perfgate.worker.device import Devices
from perfgate.worker.failures import describe
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
    if first.devices.has_accelerator:
        _keep(exact, missing, "peak_memory", _peak(step, first.devices))
    if module is not None:
        exact["params"] = counting.parameters(module)
        exact["weight_bytes"] = counting.weight_bytes(module)
        notes += _denormals(module)
    elif loaded.plain is not None:
        missing += ["params", "weight_bytes"]
    traced = _trace(request, side, loaded, arguments, missing, notes)
    if first.outputs.nonfinite:
        notes.append(f"the outputs hold {first.outputs.nonfinite} NaN or infinite values")
    if first.inputs.nonfinite:
        notes.append(f"the inputs hold {first.inputs.nonfinite} NaN or infinite values")
    # Last, for both leave the process unlike a measured one.
    profile = profiling.profile_workload(request, side, loaded, arguments, step, first.devices, warm, notes)
    breaks = graph_breaks.find(request, side, loaded, arguments, step, first.devices, notes)
    if breaks.count is not None:
        exact["graph_breaks"] = breaks.count
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
        breaks=breaks.sentences,
        trace=traced,
        profile=profile,
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


def _trace(
    request: Open, side: Side, loaded: Loaded, arguments: Arguments, missing: list[str], notes: list[str]
) -> Trace | None:
    """The step's operators, from which the parent counts; a step that cannot be traced is measured all the same."""
    try:
        traced = tracing.trace(request, side, loaded, arguments)
    except Exception as error:
        missing += ["flop", "traffic", "operators"]
        notes.append(f"the step could not be traced: {describe(error, 'probe', side.request.checkout).message}")
        return None
    notes += traced.notes
    return traced


def _denormals(module: Any) -> list[str]:
    """Processors handle numbers below the normal range many times slower than others."""
    count = 0
    for tensor in [*module.parameters(), *module.buffers()]:
        if loading.is_plain_float(tensor):
            tiny = torch.finfo(tensor.dtype).tiny
            values = tensor.detach().abs()
            count += int(((values > 0) & (values < tiny)).sum())
    return [f"denormals in weights: {count} values below the normal range, slow on CPUs"] if count else []
