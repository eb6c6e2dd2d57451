"""Floor 3, worker. What an ONNX model takes: names, dtypes and dimensions, and whether given tensors fit them.

In: an ``InferenceSession``. Out: one :class:`Slot` for each input, or ``WorkerError`` that names input and dimension.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NoReturn

from perfgate.worker.failures import refuse

# ONNX Runtime's names of element types that numpy has too.
_DTYPES = {
    "float": "float32", "double": "float64", "float16": "float16", "bool": "bool",
    "int8": "int8", "int16": "int16", "int32": "int32", "int64": "int64",
    "uint8": "uint8", "uint16": "uint16", "uint32": "uint32", "uint64": "uint64",
}  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Slot:
    """One input. A dimension is a size, the name of a symbolic size, or None where it is not even named."""

    name: str
    dtype: str
    dims: tuple[int | str | None, ...]

    @property
    def text(self) -> str:
        """``float32[N,3,224,224]``."""
        return f"{self.dtype}[{','.join('?' if dim is None else str(dim) for dim in self.dims)}]"


def slots(session: Any) -> tuple[Slot, ...]:
    """The model's inputs in order. Raises WorkerError, ``unsupported``, for what cannot be made from numpy."""
    return tuple(_slot(given) for given in session.get_inputs())


def _slot(given: Any) -> Slot:
    inner = given.type.removeprefix("tensor(").removesuffix(")")
    if not given.type.startswith("tensor("):
        message = f"the model's input {given.name!r} is {given.type}, not a tensor; export it with tensors as inputs"
        refuse("unsupported", "inputs", message)
    if inner not in _DTYPES:
        message = (
            f"the model's input {given.name!r} has the dtype {inner}, which numpy does not have; export it with one "
            f"of {', '.join(_DTYPES.values())}"
        )
        refuse("unsupported", "inputs", message)
    # Older releases tell an unknown size as -1.
    dims = tuple(None if dim in (None, "", -1) else dim for dim in given.shape)
    return Slot(name=given.name, dtype=_DTYPES[inner], dims=dims)


class Bindings:
    """Sizes of the model's symbolic dimensions, each with the input that set it."""

    def __init__(self) -> None:
        self._sizes: dict[str, tuple[int, str]] = {}

    def size(self, dim: int | str | None) -> int | None:
        """Size of a dimension, as far as it is known."""
        if isinstance(dim, str):
            return self._sizes[dim][0] if dim in self._sizes else None
        return dim

    def check(self, slot: Slot, dtype: str, shape: Iterable[int], where: str) -> None:
        """Raise WorkerError, ``inputs``, where a tensor given at ``where`` does not fit ``slot``."""
        sizes = tuple(shape)
        given = f"{dtype}[{','.join(map(str, sizes))}]"
        if dtype != slot.dtype:
            _misfit(slot, where, f"{given} has another dtype; give {slot.dtype}")
        if len(sizes) != len(slot.dims):
            _misfit(slot, where, f"{given} has {len(sizes)} dimensions; give {len(slot.dims)}")
        for place, (size, dim) in enumerate(zip(sizes, slot.dims, strict=True)):
            if isinstance(dim, int) and dim != size:
                remedy = "correct it, or export the model with a dynamic dimension there"
                _misfit(slot, where, f"dimension {place} is {dim} in the file and {size} in {given}; {remedy}")
            if isinstance(dim, str):
                known, setter = self._sizes.setdefault(dim, (size, where))
                if known != size:
                    _misfit(slot, where, f"dimension {place} ({dim}) is {size}, but {setter} made it {known}")


def _misfit(slot: Slot, where: str, why: str) -> NoReturn:
    refuse("inputs", "inputs", f"{where}: the model's input {slot.name!r} is {slot.text}: {why}")


def assigned(given: Mapping[str, Any] | tuple[Any, ...], all_slots: tuple[Slot, ...], where: str) -> dict[str, Any]:
    """Input name -> what is given for it, by name or by position. Raises WorkerError, ``inputs``."""
    names = [slot.name for slot in all_slots]
    if isinstance(given, Mapping):
        unknown = [name for name in given if name not in names]
        if unknown:
            refuse("inputs", "inputs", f"{where}: the model has no input {unknown[0]!r}; it has {', '.join(names)}")
        return dict(given)
    if len(given) > len(names):
        count = f"{len(given)} inputs are given and the model takes {len(names)} ({', '.join(names)})"
        refuse("inputs", "inputs", f"{where}: {count}; leave out the others")
    return dict(zip(names, given, strict=False))
