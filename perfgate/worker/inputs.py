"""Floor 3, worker. Inputs of a model: from the configuration's texts or from the user's function.

In: ``ModelSpec.inputs`` or ``make_inputs``, batch, device, seed. Out: :class:`Arguments` on the device.
The values of each input depend on the seed and the input's own path only, so that one more input does
not change the others.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch

from perfgate.specification import EXAMPLE
from perfgate.worker import specification, trees
from perfgate.worker.failures import refuse
from perfgate.worker.seeds import derive
from perfgate.worker.specification import DEFAULT_BOUND


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
    leaf = specification.parse(text, path, batch)
    dtype = getattr(torch, leaf.dtype, None)
    if not isinstance(dtype, torch.dtype):
        refuse("inputs", "inputs", f"{path}: torch has no dtype {leaf.dtype!r}; {EXAMPLE}")
    generator = torch.Generator().manual_seed(derive(seed, path))
    if dtype.is_floating_point or dtype.is_complex:
        if leaf.bound is not None:
            refuse("inputs", "inputs", f"{path}: {text!r} has a bound, which only integers can have; {EXAMPLE}")
        wide = torch.complex64 if dtype.is_complex else torch.float32
        return torch.randn(leaf.shape, generator=generator, dtype=wide, device="cpu").to(dtype)
    bound = DEFAULT_BOUND if leaf.bound is None or dtype is torch.bool else leaf.bound
    if bound < 1:
        refuse("inputs", "inputs", f"{path}: {text!r} leaves no value; the bound has to be at least 1")
    return torch.randint(0, bound, leaf.shape, generator=generator, device="cpu").to(dtype)


def from_function(make: Callable[..., object], batch: int, device: str) -> Arguments:
    """What the user's ``make_inputs`` returns, called with those of ``batch=`` and ``device=`` it accepts."""
    return Arguments.of(specification.made_by(make, batch, device))


def placed(arguments: Arguments, device: str, cast: Any) -> Arguments:
    """On ``device``; floating-point tensors as ``cast`` where that is a dtype and not None."""

    def move(tensor: Any) -> Any:
        dtype = cast if cast is not None and tensor.dtype is torch.float32 else tensor.dtype
        return tensor.to(device=device, dtype=dtype)

    return arguments.mapped(move)
