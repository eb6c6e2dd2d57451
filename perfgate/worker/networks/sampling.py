"""Floor 3, worker. A condition -> a network that has taken its first step, or the trace of one.

In: ``Sample``. Out: ``Sampled``, and a :class:`Session` whose steps can be timed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import torch

from perfgate.records.graph import Trace
from perfgate.records.protocol import Sample, Sampled
from perfgate.records.sampling import Condition
from perfgate.worker import counting, device, loading, process, seeds, trees
from perfgate.worker.devices import Devices
from perfgate.worker.failures import phase, refuse
from perfgate.worker.inputs import Arguments, placed
from perfgate.worker.networks import families
from perfgate.worker.networks.step import make_step
from perfgate.worker.preparing import Side
from perfgate.worker.session import Session
from perfgate.worker.stepping import Step
from perfgate.worker.tracing import building
from perfgate.worker.tracing.attempt import Job
from perfgate.worker.tracing.run import run
from perfgate.worker.tracing.tracer import Tracer


def sample(request: Sample, side: Side) -> tuple[Session, Sampled]:
    """Build, save once to see how large the file is, and take the first step. Raises WorkerError."""
    condition, checkout = request.condition, side.request.checkout
    _check(condition)
    device.check_usable(condition.device)
    resting = process.resident_bytes()
    with phase("build", checkout):
        module, arguments = _made(condition, request.seed)
        model = _compiled(module, condition.compile)
        step = make_step(condition, model, module, arguments)
        disk = _saved_bytes(module)
    devices = device.used(condition.device, module, (arguments.args, arguments.kwargs))
    with phase("first-step", checkout):
        first_ns = _first_step(step, devices)
    sampled = Sampled(
        first_step_ns=first_ns,
        devices=devices.labels,
        params=counting.parameters(module),
        weight_bytes=counting.weight_bytes(module),
        disk_bytes=disk,
        input_bytes=_bytes(arguments),
        resting_bytes=resting,
        reserved_bytes=_reserved_bytes(condition.device),
        structure=counting.structure(module),
    )
    return Session(step, devices, checkout), sampled


def trace(request: Sample, side: Side) -> Sampled:
    """One step on tensors without contents, as ``Count`` traces a model of the user's. Raises WorkerError."""
    condition, checkout = request.condition, side.request.checkout
    _check(condition)
    with phase("probe", checkout):
        with building.without_weights():
            # Nothing runs on the device that the step is meant for, so that none has to be here.
            module, arguments = _made(condition, request.seed, device="cpu")
        traced = _traced(condition, request.seed, module, arguments)
    weights, params = counting.weight_bytes(module), counting.parameters(module)
    return Sampled(
        params=params,
        weight_bytes=weights,
        input_bytes=_bytes(arguments),
        structure=counting.structure(module),
        trace=traced,
        notes=traced.notes,
    )


def _traced(condition: Condition, seed: int, module: Any, arguments: Arguments) -> Trace:
    def make(plain: Any, given: Arguments) -> Callable[[Tracer], object]:
        step = make_step(condition, plain, plain, given)
        step.inference = False

        def run_step(_: Tracer) -> object:
            seeds.set_all(seed)
            with step.context():
                return step.call()

        return run_step

    job = Job(
        plain=module,
        modules={"": module},
        arguments=arguments,
        make=make,
        trains=condition.mode == "train",
        device=condition.device,
        items=lambda: condition.batch,
    )
    return run(job, weightless=True)


def _check(condition: Condition) -> None:
    if condition.mode not in {"infer", "train"}:
        refuse("unsupported", "build", f"sample network: mode {condition.mode!r} is neither infer nor train")
    if condition.accumulation < 1 or condition.batch % condition.accumulation:
        parts = condition.accumulation
        refuse("unsupported", "build", f"sample network: a batch of {condition.batch} has no {parts} equal parts")


def _made(condition: Condition, seed: int, device: str = "") -> tuple[Any, Arguments]:
    """The module in its mode, and the inputs of one forward pass, on the device and in the dtype."""
    where = device or condition.device
    seeds.set_all(seed)
    module = families.build(condition.network)
    arguments = families.arguments(condition.network, condition.batch // condition.accumulation)
    module.train(condition.mode == "train")
    cast = loading.fixed_dtype(condition.dtype)
    module.to(torch.device(where))
    if cast is not None:
        module.to(cast)
    return module, placed(arguments, where, cast)


def _compiled(module: Any, setting: str) -> Any:
    return module if setting == "eager" else torch.compile(module, mode=None if setting == "default" else setting)


def _first_step(step: Step, devices: Devices) -> int:
    before = time.perf_counter_ns()
    with step.context():
        step.call()
        devices.sync()
    return time.perf_counter_ns() - before


class _Counter:
    """A file that only counts what is written to it."""

    def __init__(self) -> None:
        self.size = 0

    def write(self, data: Any) -> int:
        """``data``: anything with a buffer."""
        count = memoryview(data).nbytes
        self.size += count
        return count

    def flush(self) -> None:
        """Nothing is kept."""


def _saved_bytes(module: Any) -> int:
    """Size of the file that ``torch.save`` makes of the weights; nothing is written to a disk."""
    counter = _Counter()
    torch.save(module.state_dict(), counter)
    return counter.size


def _bytes(arguments: Arguments) -> int:
    found = trees.tensors((arguments.args, arguments.kwargs))
    return sum(int(tensor.numel() * tensor.element_size()) for _, tensor in found)


def _reserved_bytes(name: str) -> int | None:
    return int(torch.cuda.memory_reserved(name)) if name.startswith("cuda") else None
