"""Floor 3, worker. One step of a sample network, and the optimiser in it.

In: a module, the inputs of one forward pass, a condition. Out: a :class:`~perfgate.worker.stepping.Step`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

from perfgate.records.sampling import Condition
from perfgate.worker import loading, stepping
from perfgate.worker.failures import refuse
from perfgate.worker.inputs import Arguments
from perfgate.worker.stepping import Step

_RATE = 1e-3

_OPTIMIZERS: dict[str, Callable[[Any], Any]] = {
    "sgd": lambda parameters: torch.optim.SGD(parameters, lr=_RATE),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=_RATE, momentum=0.9),
    "adam": lambda parameters: torch.optim.Adam(parameters, lr=_RATE),
    "adamw": lambda parameters: torch.optim.AdamW(parameters, lr=_RATE),
}


def make_step(condition: Condition, model: Any, module: Any, arguments: Arguments) -> Step:
    """The step of ``model`` (compiled or not), whose parameters are those of ``module``.

    ``arguments`` hold a share of the batch: ``condition.batch`` over ``condition.accumulation`` items. The loss is the
    mean of the outputs' squares. Raises WorkerError, ``unsupported``, for an optimiser that is not known.
    """
    options: dict[str, Any] = {"items": condition.batch, "device": condition.device}

    def forward() -> Any:
        return model(*arguments.args, **arguments.kwargs)

    if condition.mode == "infer":
        return Step(forward, no_grad=True, dtype=condition.dtype, **options)
    make = _OPTIMIZERS.get(condition.optimizer)
    if make is None:
        message = f"sample network: there is no optimiser {condition.optimizer!r}; known are {', '.join(_OPTIMIZERS)}"
        refuse("unsupported", "build", message)
    optimizer = make(list(module.parameters()))

    def call() -> object:
        optimizer.zero_grad(set_to_none=True)
        loss = None
        for _ in range(condition.accumulation):
            with loading.autocast(condition.dtype, condition.device):
                loss = stepping.default_loss(forward())
            (loss / condition.accumulation if condition.accumulation > 1 else loss).backward()
        optimizer.step()
        return loss

    # Backward passes belong outside of autocast, so the step enters it around the forward pass itself.
    return Step(call, no_grad=False, dtype="float32", **options)
