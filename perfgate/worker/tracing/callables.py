"""Floor 3, worker. The trace of a plain call, without a configuration.

In: a module or any callable, and its arguments. Out: the trace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfgate.records.graph import Trace
from perfgate.worker import stepping
from perfgate.worker.inputs import Arguments
from perfgate.worker.tracing import roots
from perfgate.worker.tracing.attempt import Job
from perfgate.worker.tracing.run import run
from perfgate.worker.tracing.tracer import Tracer


def trace_callable(
    module: Any,
    args: tuple[Any, ...] = (),
    kwargs: dict[str, Any] | None = None,
    *,
    train: bool = False,
    real: bool = False,
) -> Trace:
    """Trace one call of ``module`` under ``no_grad``; ``train``: with loss, backward pass and SGD instead.

    The module's mode (``train()``, ``eval()``) stays as it is. ``real``: on real tensors in any case.
    """
    modules = roots.of(module)

    def make(model: Any, given: Arguments) -> Callable[[Tracer], object]:
        owners = [model] if isinstance(model, torch.nn.Module) else modules.values()
        trained = [p for owner in owners for p in owner.parameters() if p.requires_grad] if train else []
        optimizer = torch.optim.SGD(trained, lr=1e-3) if train else None

        def step(_: Tracer) -> object:
            torch.manual_seed(0)
            if optimizer is None:
                with torch.no_grad():
                    return model(*given.args, **given.kwargs)
            optimizer.zero_grad(set_to_none=True)
            loss = stepping.default_loss(model(*given.args, **given.kwargs))
            loss.backward()
            optimizer.step()
            return loss

        return step

    arguments = Arguments(args=tuple(args), kwargs=dict(kwargs or {}))
    return run(Job(plain=module, modules=modules, arguments=arguments, make=make, trains=train), real=real)
