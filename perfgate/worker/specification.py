"""Floor 3, worker. Input specifications with a worker's errors, and the call of a user's ``make_inputs``. No torch.

In: texts like ``int64[batch,128] < 30522`` and where they stand. Out: ``specification.Leaf``.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from perfgate import specification
from perfgate.specification import Leaf
from perfgate.worker.failures import refuse

# Without a bound integers are 0 or 1: valid as an index, a class or a mask nearly everywhere.
DEFAULT_BOUND = 2


def parse(text: str, path: str, batch: int) -> Leaf:
    """What ``text``, at ``path`` of the configuration, specifies. Raises WorkerError, ``inputs``."""
    try:
        return specification.parse(text, batch)
    except ValueError as error:
        refuse("inputs", "inputs", f"{path}: {error}")


def made_by(make: Callable[..., object], batch: int, device: str) -> object:
    """What the user's function returns, called with those of ``batch=`` and ``device=`` that it accepts."""
    offered: dict[str, Any] = {"batch": batch, "device": device}
    try:
        parameters = inspect.signature(make).parameters
    except (TypeError, ValueError):
        parameters = {}  # type: ignore[assignment]
    takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters.values())
    keywords = {
        name: value
        for name, value in offered.items()
        if takes_all or (name in parameters and parameters[name].kind is not inspect.Parameter.POSITIONAL_ONLY)
    }
    return make(**keywords)
