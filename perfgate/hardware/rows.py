"""Floor 2, hardware. One row of any table of devices, and what can be wrong with it.

In: nothing. Out: ``Row``, ``Problem`` and the names of diagnoses that rules, diagnosis and check share.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.hardware.entries import BANDWIDTH, LINK, MATRIX, MEASURED, MEMORY, POWER, Entry, Family
from perfgate.records.hardware import DTYPES, Platform

# Diagnoses, as ``Problem.what``.
SPARSE = "sparse"  # twice the dense rate, by structured sparsity
ACCUMULATION = "accumulation"  # twice the rate, by summing in float16
HALF = "half"  # half the rate: a multiply-add counted as one operation
VECTOR = "vector"  # the vector units' rate, where the matrix units do more
COLUMN = "column"  # another column's value of the same device
DEVICE = "device"  # another device's value
UNIT = "unit"  # a factor of 1 000: another unit
BINARY = "binary"  # thousands of 1 024
BOARD = "board"  # of a board or machine with several devices
DIE = "die"  # of one die or one GPU of several
UNSUPPORTED = "unsupported"  # a rate for what the hardware lacks
IMPLAUSIBLE = "implausible"  # outside of what its chips or its power allow
RATIO = "ratio"  # does not fit the other rates of the row, cause unknown
DIFFERS = "differs"  # from the catalogue, cause unknown
NUMBER = "number"  # not a positive number
SOURCE = "source"  # nobody says so, or sources disagree without a note
SLICE = "slice"  # does not fit the whole device


# How far from a factor of 1 000 a value may be and still be one in another unit.
THOUSAND_TOLERANCE = 0.15


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One value that is wrong: of which platform, in which field, the diagnosis, and a sentence with figures."""

    platform: str
    field: str
    what: str
    text: str

    def __str__(self) -> str:
        return f"{self.platform}: {self.field}: {self.text}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """What some table says of one device.

    Attributes:
        name: As the table has it. ``platform``: its name in the catalogue, where it has one.
        values: Field (a dtype, ``bandwidth``, ``memory``, ``power``, ``link``, ``measured_*``) -> FLOP/s, byte/s,
            bytes, watts.
        family: The architecture, where known; ``unlike_family``: dtypes that differ from it on purpose.
        bus_bits, memory_type: See ``Entry``.
    """

    name: str
    values: dict[str, float]
    platform: str = ""
    family: Family | None = None
    unlike_family: tuple[str, ...] = ()
    bus_bits: int = 0
    memory_type: str = ""

    def problem(self, name: str, what: str, text: str) -> Problem:
        """``text`` about the field ``name``, with the value put before it."""
        return Problem(
            platform=self.name, field=name, what=what, text=f"{shown(name, self.values.get(name, 0.0))}: {text}"
        )


def of_entry(entry: Entry) -> Row:
    """The row of one platform of the catalogue."""
    return Row(
        name=entry.platform.name,
        values=entry.values(),
        platform=entry.platform.name,
        family=entry.family,
        unlike_family=entry.unlike_family,
        bus_bits=entry.bus_bits,
        memory_type=entry.memory_type,
    )


def row(
    name: str,
    platform: str = "",
    *,
    bandwidth_gb_s: float | None = None,
    memory_gib: float | None = None,
    power_w: float | None = None,
    **tflops: float,
) -> Row:
    """A row in the units that tables print: GB/s, GiB, W, and dtype=TFLOPS."""
    unknown = [dtype for dtype in tflops if dtype not in DTYPES]
    if unknown:
        message = f"unknown dtype {unknown[0]!r}; known are {', '.join(DTYPES)}"
        raise ValueError(message)
    found = {dtype: rate * 1e12 for dtype, rate in tflops.items()}
    optional = {BANDWIDTH: (bandwidth_gb_s, 1e9), MEMORY: (memory_gib, 2.0**30), POWER: (power_w, 1.0)}
    found |= {key: value * scale for key, (value, scale) in optional.items() if value is not None}
    return Row(name=name, values=found, platform=platform)


@dataclass(frozen=True, slots=True, kw_only=True)
class Reference:
    """What rows are compared with: entries by name, in the order in which likenesses are looked for."""

    entries: dict[str, Entry] = field(default_factory=dict)

    def of(self, item: Row) -> Entry | None:
        """The entry that ``item`` is about."""
        return self.entries.get(item.platform)


def is_matrix(name: str, platform: Platform) -> bool:
    """Whether ``name`` is a rate of matrix units on ``platform``: one well beyond its float32."""
    peaks = platform.peak_flop_per_s
    return name in MATRIX and name in peaks and peaks[name] > 1.5 * peaks.get("float32", 0.0)


def shown(name: str, value: float) -> str:
    """``value`` with the unit of the field ``name``: ``989.5 TFLOPS``, ``3350 GB/s``, ``80 GiB``, ``700 W``."""
    if name in (BANDWIDTH, LINK, MEASURED + BANDWIDTH):
        return f"{_digits(value / 1e9)} GB/s"
    if name == MEMORY:
        return f"{_digits(value / 2**30)} GiB"
    if name == POWER:
        return f"{_digits(value)} W"
    return f"{_digits(value / 1e12)} {'TOPS' if name.endswith('int8') else 'TFLOPS'}"


def _digits(value: float) -> str:
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"
