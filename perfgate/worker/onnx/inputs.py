"""Floor 3, worker. Inputs of an ONNX model: from the configuration's texts, from the user's function, or from the file.

In: ``ModelSpec.inputs`` or ``make_inputs``, batch, seed, and the model's slots. Out: :class:`Feeds` of numpy arrays.
The values of each input depend on the seed and the input's own path only.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from perfgate.specification import EXAMPLE
from perfgate.worker import specification
from perfgate.worker.failures import refuse
from perfgate.worker.onnx.signature import Bindings, Slot, assigned
from perfgate.worker.seeds import derive
from perfgate.worker.specification import DEFAULT_BOUND

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Feeds:
    """``arrays``: input name -> contents, in the model's order. ``paths``: input name -> where it came from."""

    arrays: dict[str, Array]
    paths: dict[str, str]


def from_specification(tree: object, slots: tuple[Slot, ...], batch: int, seed: int) -> Feeds:
    """Random inputs as ``tree`` says; of an input that it leaves out the file or the others must tell every size.

    Raises WorkerError, kind ``inputs``, naming the place.
    """
    # The codec reads lists as tuples.
    listed = not isinstance(tree, Mapping)
    given = assigned(tree if isinstance(tree, Mapping) else _positional(tree), slots, "inputs")
    bindings, arrays = Bindings(), {}
    paths = {slot.name: f"inputs[{n}]" if listed else f"inputs.{slot.name}" for n, slot in enumerate(slots)}
    # Those that are written down first: they tell sizes that others share.
    for slot in sorted(slots, key=lambda slot: slot.name not in given):
        path = paths[slot.name]
        if slot.name in given:
            array = _made(given[slot.name], slot, path, batch, seed)
        else:
            array = _own(slot, path, seed, bindings)
        bindings.check(slot, str(array.dtype), array.shape, path)
        arrays[slot.name] = array
    return Feeds(arrays={slot.name: arrays[slot.name] for slot in slots}, paths=paths)


def from_function(make: Callable[..., object], slots: tuple[Slot, ...], batch: int, device: str) -> Feeds:
    """What the user's function returns: a tuple by position, a dict by name, or one array; numpy's or torch's.

    Raises WorkerError, kind ``inputs``; whatever the function raises passes.
    """
    made = specification.made_by(make, batch, device)
    where = "make_inputs"
    given = assigned(made if isinstance(made, Mapping) else _positional(made), slots, where)
    bindings, feeds = Bindings(), Feeds(arrays={}, paths={})
    for place, slot in enumerate(slots):
        path = f"{where}.{slot.name}" if isinstance(made, Mapping) else f"{where}[{place}]"
        if slot.name not in given:
            refuse("inputs", "inputs", f"{where} returned nothing for the model's input {slot.name!r}; add it")
        array = _array(given[slot.name], slot, path)
        bindings.check(slot, str(array.dtype), array.shape, path)
        feeds.arrays[slot.name], feeds.paths[slot.name] = array, path
    return feeds


def _positional(value: object) -> tuple[Any, ...]:
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def _made(leaf: object, slot: Slot, path: str, batch: int, seed: int) -> Array:
    if isinstance(leaf, str):
        wanted = specification.parse(leaf, path, batch)
        # Before anything is drawn, which may be large.
        Bindings().check(slot, wanted.dtype, wanted.shape, f"{path} = {leaf!r}")
        return _random(slot, wanted.shape, wanted.bound, leaf, path, seed)
    if not isinstance(leaf, (bool, int, float)):
        refuse("inputs", "inputs", f"{path}: an ONNX model takes tensors, and this is a {_kind(leaf)}; {EXAMPLE}")
    if any(isinstance(dim, int) and dim != 1 for dim in slot.dims):
        message = f"{path}: the model's input {slot.name!r} is {slot.text}, not a single number; {EXAMPLE}"
        refuse("inputs", "inputs", message)
    if not slot.dtype.startswith("float") and leaf != int(leaf):
        refuse("inputs", "inputs", f"{path}: the model's input {slot.name!r} is {slot.dtype}, and {leaf} is not whole")
    return np.full((1,) * len(slot.dims), leaf, dtype=slot.dtype)


def _own(slot: Slot, path: str, seed: int, bindings: Bindings) -> Array:
    """An input of which nothing is written: what the file and the other inputs say of it, if that is enough."""
    sizes = [bindings.size(dim) for dim in slot.dims]
    if None in sizes:
        place = sizes.index(None)
        parts = [str(size or ("SIZE" if n else "batch")) for n, size in enumerate(sizes)]
        message = (
            f"{path}: dimension {place} ({slot.dims[place] or '?'}) of the model's input {slot.name!r} has no size; "
            f"write it in perfgate.toml, as in inputs = {{{_key(slot.name)} = '{slot.dtype}[{','.join(parts)}]'}}"
        )
        refuse("inputs", "inputs", message)
    return _random(slot, tuple(size or 0 for size in sizes), None, slot.text, path, seed)


def _random(slot: Slot, shape: tuple[int, ...], bound: int | None, text: str, path: str, seed: int) -> Array:
    """Normal floats, whole numbers in ``[0, bound)``, or fair booleans."""
    generator = np.random.Generator(np.random.PCG64(derive(seed, path)))
    dtype = np.dtype(slot.dtype)
    if dtype.kind == "f":
        if bound is not None:
            refuse("inputs", "inputs", f"{path}: {text!r} has a bound, which only integers can have; {EXAMPLE}")
        return generator.standard_normal(shape, dtype=np.float32).astype(dtype)
    if dtype.kind == "b":
        return generator.integers(0, 2, shape, dtype=np.uint8).astype(dtype)
    most = int(np.iinfo(dtype).max) + 1
    top = DEFAULT_BOUND if bound is None else bound
    if not 1 <= top <= most:
        refuse("inputs", "inputs", f"{path}: the bound of {text!r} has to be from 1 to {most}")
    return generator.integers(0, top, shape, dtype=dtype)


def _array(value: object, slot: Slot, path: str) -> Array:
    tensor: Any = value
    if hasattr(tensor, "detach") and hasattr(tensor, "cpu"):
        # torch's; numpy has no bfloat16, which is told below by its dtype.
        if str(tensor.dtype) == "torch.bfloat16":
            refuse("inputs", "inputs", f"{path}: numpy has no bfloat16; return {slot.dtype}")
        tensor = tensor.detach().cpu().numpy()
    if not isinstance(tensor, (np.ndarray, np.generic)):
        message = f"{path} is a {_kind(value)}; return numpy arrays or tensors, a dict by input name or a tuple"
        refuse("inputs", "inputs", message)
    # Whoever made it may change it later.
    return np.array(tensor, order="C", copy=True)


def _key(name: str) -> str:
    """An input's name as a key of TOML: exporters use dots and colons in names."""
    return name if re.fullmatch(r"[A-Za-z0-9_-]+", name) else f'"{name}"'


def _kind(value: object) -> str:
    if isinstance(value, (tuple, list)):
        return "list"
    return "table" if isinstance(value, Mapping) else type(value).__name__
