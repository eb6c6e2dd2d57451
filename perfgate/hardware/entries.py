"""Floor 2, hardware. What the catalogue's file says beyond a ``Platform``: families, claims of sources, memory chips.

In: nothing. Out: the records that reading, names and check share. Quantities are in FLOP/s, byte/s, bytes and watts.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.hardware import Platform

BANDWIDTH = "bandwidth"
MEMORY = "memory"
POWER = "power"
LINK = "link"
MEASURED = "measured_"  # before a dtype or ``bandwidth``

# Fields that run on matrix units where a family has such.
MATRIX = ("tf32", "float16", "bfloat16", "fp8", "int8")

# Sources that say the same within this are taken to agree, and a table's value to be right.
TOLERANCE = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Family:
    """What holds for every device of one architecture and market.

    Attributes:
        ratio: dtype -> its rate over that of ``base``; a dtype that is not there is not supported (``float64`` apart).
        fitted: ``ratio`` was read off a member's data sheet and not off its units.
        sparse: The matrix units have structured sparsity, so a doubled figure is in circulation.
        vector_half: float16 rate of the vector units over float32; 0: none or unknown.
        vector_share: dtype -> rate of the vector units over the platform's, where that is the matrix units' and more.
        half_accumulate: The matrix rate doubles with float16 accumulation, so that figure is in circulation too.
        cycle, efficiency_cycle: CPUs: dtype -> operations a cycle of a core, of an efficiency core.
        link: Byte/s to another device, one direction; None: unknown.
    """

    name: str
    vendor: str
    kind: str
    base: str = "float32"
    ratio: dict[str, float] = field(default_factory=dict)
    fitted: bool = False
    sparse: bool = False
    vector_half: float = 0.0
    vector_share: dict[str, float] = field(default_factory=dict)
    half_accumulate: bool = False
    cycle: dict[str, float] = field(default_factory=dict)
    efficiency_cycle: dict[str, float] = field(default_factory=dict)
    link: float | None = None
    note: str = ""

    def supports(self, dtype: str) -> bool:
        """Whether the hardware has instructions for ``dtype`` (``float64`` and ``float32``: always)."""
        return dtype in {"float64", "float32", self.base} or dtype in self.ratio or dtype in self.cycle


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """One platform of the catalogue with what only checks need.

    Attributes:
        claims: Field -> source -> what it states, also where that is not what the catalogue takes.
        unlike_family: dtypes whose ratio differs from the family's on purpose; ``platform.note`` says why.
        bus_bits, memory_type: Width of the memory interface and kind of chips (``gddr6``, ``hbm3``); 0 and empty:
            unknown.
    """

    platform: Platform
    family: Family
    claims: dict[str, dict[str, float]] = field(default_factory=dict)
    unlike_family: tuple[str, ...] = ()
    bus_bits: int = 0
    memory_type: str = ""

    def values(self) -> dict[str, float]:
        """Every field that the platform states, as ``values(platform)``."""
        return values(self.platform)


def values(platform: Platform) -> dict[str, float]:
    """Field -> value of all that ``platform`` states: dtypes, bandwidth, memory, power, link and ``measured_*``."""
    found = dict(platform.peak_flop_per_s)
    found |= {MEASURED + dtype: rate for dtype, rate in platform.measured_flop_per_s.items()}
    optional = {
        BANDWIDTH: platform.bandwidth_bytes_per_s,
        MEMORY: platform.memory_bytes,
        POWER: platform.power_w,
        LINK: platform.link_bytes_per_s,
        MEASURED + BANDWIDTH: platform.measured_bandwidth_bytes_per_s,
    }
    return found | {name: float(value) for name, value in optional.items() if value is not None}


def near(value: float, other: float, tolerance: float = TOLERANCE) -> bool:
    """Whether ``value`` is within the relative ``tolerance`` of ``other``."""
    return abs(value - other) <= tolerance * abs(other)
