"""Floor 3, worker. Inputs of a model: from the configuration's texts or from the user's function.

In: ``ModelSpec.inputs`` or ``make_inputs``, batch, device, seed. Out: :class:`Arguments` on the device.
The values of each input depend on the seed and the input's own path only, so that one more input does
not change the others.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from perfgate.worker import trees
from perfgate.worker.failures import refuse
from perfgate.worker.seeds import derive

# dtype, dimensions, and for integers the first value that must not occur.
_LEAF = re.compile(r"^\s*(?P<dtype>\w+)\s*\[(?P<shape>[^\]]*)\]\s*(?:<\s*(?P<bound>\d+)\s*)?$")
_EXAMPLE = "write it as in 'float32[batch,3,224,224]' or 'int64[batch,128] < 30522'"
# Without a bound integers are 0 or 1: valid as an index, a class or a mask nearly everywhere.
_DEFAULT_BOUND = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class Arguments:
    """What a step is called with."""

    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, value: object) -> Arguments:
        """A tuple is positional, a dict with names as keys is keywords, anything else is one argument."""
        if isinstance(value, tuple) and not hasattr(value, "_fields"):
            return cls(args=value)
        if type(value) is dict and all(isinstance(key, str) for key in value):
            return cls(kwargs=value)
        return cls(args=(value,))

    def mapped(self, function: Callable[[Any], Any]) -> Arguments:
        """The same with each tensor replaced; tensors shared between arguments stay shared."""
        args, kwargs = trees.map_tensors(function, (self.args, self.kwargs))
        return Arguments(args=args, kwargs=kwargs)


def from_specification(tree: object, batch: int, seed: int) -> Arguments:
    """Random inputs on the CPU. Raises WorkerError, kind ``inputs``, naming the place."""
    if isinstance(tree, dict):
        return Arguments(kwargs={key: _build(item, f"inputs.{key}", batch, seed) for key, item in tree.items()})
    if isinstance(tree, (list, tuple)):
        return Arguments(args=tuple(_build(item, f"inputs[{n}]", batch, seed) for n, item in enumerate(tree)))
    return Arguments(args=(_build(tree, "inputs", batch, seed),))


def _build(tree: object, path: str, batch: int, seed: int) -> Any:
    if isinstance(tree, dict):
        return {key: _build(item, f"{path}.{key}", batch, seed) for key, item in tree.items()}
    # The codec reads lists as tuples; models are given lists, as the configuration says.
    if isinstance(tree, (list, tuple)):
        return [_build(item, f"{path}[{n}]", batch, seed) for n, item in enumerate(tree)]
    if isinstance(tree, str):
        return tensor_from_text(tree, path, batch, seed)
    return tree


def tensor_from_text(text: str, path: str, batch: int, seed: int) -> Any:
    """The tensor that ``text`` specifies: normal floats, integers in ``[0, bound)``, or fair booleans."""
    match = _LEAF.match(text)
    if match is None:
        refuse("inputs", "inputs", f"{path}: {text!r} is not an input; {_EXAMPLE}")
    dtype = getattr(torch, match["dtype"], None)
    if not isinstance(dtype, torch.dtype):
        refuse("inputs", "inputs", f"{path}: torch has no dtype {match['dtype']!r}; {_EXAMPLE}")
    shape = [_dimension(part, path, text, batch) for part in match["shape"].split(",") if match["shape"].strip()]
    generator = torch.Generator().manual_seed(derive(seed, path))
    if dtype.is_floating_point or dtype.is_complex:
        if match["bound"]:
            refuse("inputs", "inputs", f"{path}: {text!r} has a bound, which only integers can have; {_EXAMPLE}")
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(shape, generator=generator, dtype=wide, device="cpu").to(dtype)
    bound = 2 if dtype is torch.bool else int(match["bound"] or _DEFAULT_BOUND)
    if bound < 1:
        refuse("inputs", "inputs", f"{path}: {text!r} leaves no value; the bound has to be at least 1")
    return torch.randint(0, bound, shape, generator=generator, device="cpu").to(dtype)


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
            refuse("inputs", "inputs", f"{path}: {word!r} in {text!r} is neither a number nor batch; {_EXAMPLE}")
    return size


def from_function(make: Callable[..., object], batch: int, device: str) -> Arguments:
    """What the user's ``make_inputs`` returns, called with those of ``batch=`` and ``device=`` it accepts."""
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
    return Arguments.of(make(**keywords))


def placed(arguments: Arguments, device: str, cast: Any) -> Arguments:
    """On ``device``; floating-point tensors as ``cast`` where that is a dtype and not None."""

    def move(tensor: Any) -> Any:
        dtype = cast if cast is not None and tensor.dtype is torch.float32 else tensor.dtype
        return tensor.to(device=device, dtype=dtype)

    return arguments.mapped(move)
