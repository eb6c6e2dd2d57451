"""Floor 3, worker. The trace of an opened workload.

In: ``Open``, the loaded model and its inputs. Out: ``Trace`` of the step as the gate runs it, but uncompiled and
under ``no_grad`` instead of inference mode, which hides operators.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch

from perfgate.records.graph import Trace
from perfgate.records.protocol import Open
from perfgate.worker import loading, seeds, stepping
from perfgate.worker.inputs import Arguments
from perfgate.worker.loading import Loaded
from perfgate.worker.preparing import Side
from perfgate.worker.stepping import GeneratorStep, Step
from perfgate.worker.tracing import roots
from perfgate.worker.tracing.attempt import Job
from perfgate.worker.tracing.run import run
from perfgate.worker.tracing.tracer import Tracer


def trace(
    request: Open,
    side: Side,
    loaded: Loaded,
    arguments: Arguments,
    *,
    device: str = "",
    weightless: bool = False,
    warm: bool = True,
) -> Trace:
    """One step of a workload. Raises WorkerError where it cannot be made, and whatever it raises on real tensors.

    ``device``: the one that the step is meant for, if not the workload's; ``weightless``: see :func:`run`;
    ``warm``: the model has run before.
    """
    workload = request.workload
    steps: list[Step] = []

    def make(plain: Any, given: Arguments) -> Callable[[Tracer], object]:
        module = plain if isinstance(plain, torch.nn.Module) else None
        model = replace(loaded, model=plain, plain=plain, module=module)
        step = stepping.make_step(request, side, model, given, compiled=False)
        step.inference = False
        steps[:] = [step]
        call = _spanned(step) if isinstance(step, GeneratorStep) else lambda _: step.call()

        def run_step(tracer: Tracer) -> object:
            seeds.set_all(request.seed)
            with step.context():
                return call(tracer)

        return run_step

    job = Job(
        plain=loaded.plain,
        modules=_modules(request, side, loaded),
        arguments=arguments,
        make=make,
        trains=workload.mode != "infer",
        # Optimisers are made anew with every step, and a step of the user's own may do so too.
        warm=warm and workload.mode == "infer",
        device=device or workload.device,
        items=lambda: steps[0].items,
    )
    return run(job, real=request.real, weightless=weightless)


def _modules(request: Open, side: Side, loaded: Loaded) -> dict[str, Any]:
    spec, mode = request.spec, request.workload.mode
    used = [loaded.plain]
    if mode == "step" and spec.step:
        used.append(loading.resolve(spec.step, f"models.{spec.name}.step", side))
    if mode == "train" and spec.loss:
        used.append(loading.resolve(spec.loss, f"models.{spec.name}.loss", side))
    return roots.of(*used)


def _spanned(step: GeneratorStep) -> Callable[[Tracer], object]:
    """A generator step that tells the tracer where its spans end."""
    generate = step._generate

    def call(tracer: Tracer) -> object:
        def told() -> Any:
            generator = generate()
            while True:
                try:
                    name = next(generator)
                except StopIteration as end:
                    return end.value
                tracer.end_span(str(name))
                yield name

        step._generate = told
        return step.call()

    return call
