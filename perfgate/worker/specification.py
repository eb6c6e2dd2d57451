"""Floor 3, worker. The text of one input specification, and the call of a user's ``make_inputs``. No torch.

In: texts like ``int64[batch,128] < 30522``. Out: :class:`Leaf`: dtype's name, sizes, bound.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from perfgate.worker.failures import refuse

# dtype, dimensions, and for integers the first value that must not occur.
_LEAF = re.compile(r"^\s*(?P<dtype>\w+)\s*\[(?P<shape>[^\]]*)\]\s*(?:<\s*(?P<bound>\d+)\s*)?$")
EXAMPLE = "write it as in 'float32[batch,3,224,224]' or 'int64[batch,128] < 30522'"
# Without a bound integers are 0 or 1: valid as an index, a class or a mask nearly everywhere.
DEFAULT_BOUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Leaf:
    """One tensor. ``bound``: the first whole number that must not occur; None where none was written."""

    dtype: str
    shape: tuple[int, ...]
    bound: int | None = None


def parse(text: str, path: str, batch: int) -> Leaf:
    """What ``text``, at ``path`` of the configuration, specifies. Raises WorkerError, ``inputs``."""
    match = _LEAF.match(text)
    if match is None:
        refuse("inputs", "inputs", f"{path}: {text!r} is not an input; {EXAMPLE}")
    parts = [part for part in match["shape"].split(",") if match["shape"].strip()]
    return Leaf(
        dtype=match["dtype"],
        shape=tuple(_dimension(part, path, text, batch) for part in parts),
        bound=int(match["bound"]) if match["bound"] else None,
    )


def _dimension(part: str, path: str, text: str, batch: int) -> int:
    """A number, ``batch``, or a product of them as in ``4*batch``."""
    size = 1
    for factor in part.split("*"):
        word = factor.strip()
        if word == "batch":
            size *= batch
        elif word.isdecimal():
            size *= int(word)
        else:
            refuse("inputs", "inputs", f"{path}: {word!r} in {text!r} is neither a number nor batch; {EXAMPLE}")
    return size


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
