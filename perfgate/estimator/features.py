"""Floor 3, estimator. What a step does, as a row of physical quantities: FLOP, bytes and calls by class of kernels.

In: :class:`Example`. Out: a matrix with a fixed set of columns, and what each is called.

Every column grows, or stays, with F, with bytes, with calls and with the batch, so that a model with non-negative
coefficients is never faster for more of them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from operator import attrgetter

import numpy as np

from perfgate.estimator.classes import CLASSES, PRODUCTS, Codes, Figures, Floats, Mask, classes
from perfgate.records.estimate import Example, Machine
from perfgate.records.graph import KernelGroup

FLOP = "flop"
BYTES = "bytes"
CALLS = "calls"
STEP = "step"
# A fused kernel is of the kind that it begins with, which need not be that of the product inside.
OTHER = "other"
# Words after a class's name in a column's name, and the column's unit. Halves (16 bits and less an element) and wider
# elements move at different shares of a device's bandwidth, and of wider ones what is read and written does as well.
_HALF, _READ_WIDE, _WRITTEN_WIDE = "half bytes", "wide bytes read", "wide bytes written"
# Weights that stay in no cache from one step to the next.
_LARGE = "large weight bytes"
# What calls move beyond a cache's size, of all products together and of all other kernels: their classes' shares of the
# bandwidth fall alike once nothing is found in a cache any more.
_UNCACHED = "uncached bytes"
_TOGETHER = ("product", OTHER)
_MOVED = (_HALF, _READ_WIDE, _WRITTEN_WIDE)
_UNITS = {"FLOP": FLOP, **dict.fromkeys(_MOVED, BYTES), _LARGE: BYTES, _UNCACHED: BYTES, "calls": CALLS}
NAMES = (
    *(f"{name} FLOP" for name in (*PRODUCTS, OTHER)),
    *(f"{name} {words}" for words in _MOVED for name in CLASSES),
    *(f"{name} {_LARGE}" for name in (*PRODUCTS, OTHER)),
    *(f"{name} {_UNCACHED}" for name in _TOGETHER),
    *(f"{name} calls" for name in CLASSES),
    STEP,
)
COMPOSITION_NAMES = (
    *(f"{name} share of FLOP" for name in (*PRODUCTS, OTHER)),
    *(f"{name} share of bytes" for name in CLASSES),
    *(f"{name} share of calls" for name in CLASSES),
    "log FLOP per byte",
    "log calls",
)
MEMORY_NAMES = ("weights", "activations", "written", STEP)

_BITS = {"float16": 16, "bfloat16": 16, "int16": 16, "int8": 8, "uint8": 8, "bool": 8, "float64": 64, "int64": 64}
# Bytes of one call, and of its weights, that count as large where they go beyond.
_CACHED_BYTES = 8e6
_CACHED_SHARE = 1 / 3
# FLOP per byte at which both rates of that mean are equal on common devices: only units follow from it.
_REUSE = 75.0
_FIELDS = attrgetter("kind", "phase", "dtype", "calls", "flop", "bytes", "written_bytes", "weight_bytes")
# Rates of a device that is not known, FLOP/s and bytes/s: only the ratio of columns then means something.
NOMINAL_FLOP_PER_S = 1e13
NOMINAL_BYTES_PER_S = 5e11


def element_bytes(dtype: str) -> float:
    """Bytes of an element; four where the type is not known."""
    return _BITS.get(dtype, 32) / 8


def unit(name: str) -> str:
    """``flop``, ``bytes``, ``calls`` or ``step``: of a column of :func:`matrix`. Raises KeyError for another name."""
    return _PARTS[name][1]


def kernel_class(name: str) -> str:
    """The class of kernels that a column is of, ``step`` for that column. Raises KeyError for another name."""
    return _PARTS[name][0]


def matrix(examples: Sequence[Example]) -> tuple[Floats, tuple[str, ...]]:
    """One row an example, one column a name of :data:`NAMES`: FLOP, bytes and calls of one step, and 1 in ``step``."""
    return _matrix(examples, [None] * len(examples)), NAMES


def ideal_seconds(examples: Sequence[Example]) -> tuple[Floats, tuple[str, ...]]:
    """As :func:`matrix`, FLOP and bytes as the seconds that each example's machine needs for them at its full rates.

    FLOP at the rate of the dtype that the kernel computes in, bytes at the bandwidth, those of products at a rate
    between that and the one of caches; calls and step as they are.
    Unknown rates are nominal ones.
    """
    return _matrix(examples, [example.machine for example in examples]), NAMES


def composition(examples: Sequence[Example]) -> tuple[Floats, tuple[str, ...]]:
    """What a step is made of, free of scale: shares of classes in FLOP, in bytes and in calls, and two logarithms.

    Nothing of it depends on the batch: bytes here are without weights. So a factor that follows from it alone leaves a
    time that grows with the batch growing.
    """
    steps, place = _distinct([example.kernels for example in examples])
    return _compositions(_table(steps))[place], COMPOSITION_NAMES


def memory(examples: Sequence[Example]) -> tuple[Floats, tuple[str, ...]]:
    """Bytes that a step's peak memory follows from, columns :data:`MEMORY_NAMES`.

    Where the peak of activations is not counted it is the bytes of the largest kernel.
    """
    rows = np.ones((len(examples), len(MEMORY_NAMES)))
    for number, example in enumerate(examples):
        largest = max((one.bytes - one.weight_bytes for one in example.kernels), default=0)
        peak = example.peak_activation_bytes
        rows[number, :3] = (
            example.weight_bytes,
            largest if peak is None else peak,
            max((one.written_bytes for one in example.kernels), default=0),
        )
    return rows, MEMORY_NAMES


def present(example: Example) -> tuple[str, ...]:
    """The classes of kernels that an example has, in the order of ``CLASSES``."""
    row = _matrix([example], [None])[0]
    return tuple(name for name in CLASSES if row[_COLUMNS[f"{name} calls"]] > 0)


def pi(machine: Machine, dtype: str) -> float:
    """FLOP/s of a machine in ``dtype``; where that is not known of its next wider type, at last the nominal rate."""
    rates = machine.flop_per_s
    for name in (dtype, "bfloat16" if dtype == "float16" else "float16", "tf32", "float32"):
        if name == "float16" and dtype not in {"bfloat16", "float16"}:
            continue
        if rates.get(name, 0) > 0:
            return rates[name]
    return next((rate for rate in rates.values() if rate > 0), NOMINAL_FLOP_PER_S)


def beta(machine: Machine) -> float:
    """Bytes/s of a machine, nominal where unknown."""
    return machine.bandwidth_bytes_per_s or NOMINAL_BYTES_PER_S


def _beta_of_products(machine: Machine, dtype: str) -> float:
    """Bytes/s at which operands of products move: many blocks read them again, most of it from caches.

    Caches' rate grows with cores and clocks, as pi does, so it is taken as beta^(2/3) (pi / ``_REUSE``)^(1/3). The
    exponent is one that carries times of an RTX 3090 over to an RTX 4090 (0.25 and 0.33 do alike, 0 and 0.5 worse).
    """
    return float(beta(machine) ** (1 - _CACHED_SHARE) * (pi(machine, dtype) / _REUSE) ** _CACHED_SHARE)


_COLUMNS = {name: number for number, name in enumerate(NAMES)}
_FIRST = {words: next(number for name, number in _COLUMNS.items() if name.endswith(f" {words}")) for words in _UNITS}
_PARTS = {f"{name} {words}": (name, found) for words, found in _UNITS.items() for name in (*CLASSES, *_TOGETHER)} | {
    STEP: (STEP, STEP)
}
_PARTS = {name: _PARTS[name] for name in NAMES}


@dataclass(frozen=True, slots=True)
class _Table:
    """Groups of kernels of ``steps`` steps one after the other, as columns. Figures are of one call; ``dtype`` numbers
    the names in ``types``, ``which`` the class.
    """

    steps: int
    step: Codes
    which: Codes
    dtype: Codes
    types: tuple[str, ...]
    half: Mask
    calls: Floats
    flop: Floats
    bytes: Floats
    written: Floats
    weight: Floats

    def sums(self, places: Codes, columns: int, values: Floats) -> Floats:
        """Sums of ``values`` by step and column."""
        flat = np.bincount(self.step * columns + places, values, self.steps * columns).astype(np.float64)
        return flat.reshape(self.steps, columns)


def _table(steps: Sequence[Sequence[KernelGroup]]) -> _Table:
    fields = [_FIELDS(group) for step in steps for group in step]
    kinds, phases, dtypes, *figures = zip(*fields, strict=True) if fields else [()] * 8
    calls, flop, size, written, weight = (np.array(column, dtype=np.float64) for column in figures)
    pairs: dict[tuple[str, str], int] = {}
    code = [pairs.setdefault(pair, len(pairs)) for pair in zip(kinds, phases, strict=True)]
    types: dict[str, int] = {}
    dtype = np.array([types.setdefault(name, len(types)) for name in dtypes], dtype=np.intp)
    width = np.array([_BITS.get(name, 32) / 8 for name in types], dtype=np.float64)[dtype]
    which = classes(
        Figures(
            pairs=tuple(pairs),
            code=np.array(code, dtype=np.intp),
            flop=flop,
            moved=size / width,
            read=np.maximum(size - written - weight, 0.0) / width,
            written=written / width,
            weight=weight / width,
        )
    )
    return _Table(
        steps=len(steps),
        step=np.repeat(np.arange(len(steps)), [len(step) for step in steps]),
        which=which,
        dtype=dtype,
        types=tuple(types),
        half=width <= 2,
        calls=calls,
        flop=flop,
        bytes=size,
        written=written,
        weight=weight,
    )


def _distinct(steps: Sequence[tuple[KernelGroup, ...]]) -> tuple[list[tuple[KernelGroup, ...]], Codes]:
    """Each tuple once, and which of them each step has: a model on several machines is read once."""
    found = {id(kernels): kernels for kernels in steps}
    number = {key: row for row, key in enumerate(found)}
    place: Codes = np.array([number[id(kernels)] for kernels in steps], dtype=np.intp)
    return list(found.values()), place


def _matrix(examples: Sequence[Example], machines: Sequence[Machine | None]) -> Floats:
    out = np.zeros((len(examples), len(NAMES)))
    # A dtype's rate is the machine's: each machine has rows of its own.
    by_machine: dict[int, list[int]] = {}
    for number, machine in enumerate(machines):
        by_machine.setdefault(id(machine), []).append(number)
    for numbers in by_machine.values():
        steps, place = _distinct([examples[number].kernels for number in numbers])
        out[numbers] = _rows(_table(steps), machines[numbers[0]])[place]
    return out


def _rows(table: _Table, machine: Machine | None) -> Floats:
    per_flop = np.array([1.0 if machine is None else 1 / pi(machine, name) for name in table.types])
    per_byte = np.ones(len(table.types))
    per_byte_of_products = per_byte
    if machine is not None:
        per_byte = per_byte / beta(machine)
        per_byte_of_products = np.array([1 / _beta_of_products(machine, name) for name in table.types])
    dtype, in_product = table.dtype, table.which < len(PRODUCTS)
    moved = table.calls * np.where(in_product, per_byte_of_products[dtype], per_byte[dtype])
    read, written = (table.bytes - table.written) * moved, table.written * moved
    product = np.minimum(table.which, len(PRODUCTS))
    out = np.zeros((table.steps, len(NAMES)))
    for words, places, values in (
        ("FLOP", product, table.flop * table.calls * per_flop[table.dtype]),
        (_HALF, table.which, np.where(table.half, read + written, 0.0)),
        (_READ_WIDE, table.which, np.where(table.half, 0.0, read)),
        (_WRITTEN_WIDE, table.which, np.where(table.half, 0.0, written)),
        (_LARGE, product, np.maximum(table.weight - _CACHED_BYTES, 0.0) * moved),
        (_UNCACHED, np.where(in_product, 0, 1), np.maximum(table.bytes - _CACHED_BYTES, 0.0) * moved),
        ("calls", table.which, table.calls),
    ):
        out += table.sums(_FIRST[words] + places, len(NAMES), values)
    out[:, -1] = 1
    return out


def _compositions(table: _Table) -> Floats:
    moved = np.maximum(table.bytes - table.weight, 0.0) * table.calls
    product = np.minimum(table.which, len(PRODUCTS))
    flop = table.sums(product, len(PRODUCTS) + 1, table.flop * table.calls)
    size = table.sums(table.which, len(CLASSES), moved)
    calls = table.sums(table.which, len(CLASSES), table.calls)
    totals = [np.maximum(part.sum(1, keepdims=True), 1.0) for part in (flop, size, calls)]
    found: Floats = np.hstack(
        [
            *(part / total for part, total in zip((flop, size, calls), totals, strict=True)),
            np.log(totals[0] / totals[1]),
            np.log(totals[2]),
        ]
    )
    return found
