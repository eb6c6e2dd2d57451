"""Platforms that a model can run on, what they cost, and what was measured of this runner.

Rates are per second: FLOP (2 x MAC; integer operations for ``int8``) and bytes. Peaks are dense, never with
structured sparsity. Money is in US dollars.
"""

from __future__ import annotations

from dataclasses import dataclass, field

GPU = "gpu"
TPU = "tpu"
ACCELERATOR = "accelerator"
CPU = "cpu"

# Terms of an offer.
ON_DEMAND = "on-demand"
SPOT = "spot"
OWN = "own"  # declared by the user: owned, reserved or negotiated

# Keys of ``Platform.peak_flop_per_s``. ``tf32`` is what a float32 product may use on matrix units where the program
# allows it (``torch.set_float32_matmul_precision("high")``); plain ``float32`` is what products reach without that: the
# vector units' rate, and on AMD's CDNA the matrix units'.
DTYPES = ("float64", "float32", "tf32", "float16", "bfloat16", "fp8", "int8")


@dataclass(frozen=True, slots=True, kw_only=True)
class Platform:
    """One device, or a fixed slice of one (MIG, a fractional virtual GPU).

    Attributes:
        name: Key, lower case: ``h100-sxm``, ``a100-sxm-40gb-mig-1g.5gb``. ``label`` is for people.
        vendor: ``nvidia``, ``amd``, ``intel``, ``google``, ``aws``, ``arm``, ...
        kind: ``gpu``, ``tpu``, ``accelerator`` or ``cpu``.
        peak_flop_per_s: dtype (see ``DTYPES``) -> published dense peak. A dtype that is not there is not supported in
            hardware or not known: never assumed.
        bandwidth_bytes_per_s: Published peak of the device's main memory.
        memory_bytes: Whole memory. None for a CPU: that is the machine's.
        power_w: Thermal design power, or None.
        link_bytes_per_s: To another such device in the same machine, one direction; None: unknown.
        measured_flop_per_s, measured_bandwidth_bytes_per_s: Published measurements, used before peaks.
        cores: Physical cores of a CPU (one socket).
        part_of, share: For a slice the whole device's name, and the slice's share of its compute.
        sources: Field (``float32``, ``bandwidth``, ``memory``, ``power``, ...) -> who says so, two or more where known.
        single_source: Fields that only one source gives, or that are derived. ``note``: disagreements.
        names: Other texts that ``get_device_name`` and price lists use.
    """

    name: str
    label: str
    vendor: str
    kind: str
    peak_flop_per_s: dict[str, float]
    bandwidth_bytes_per_s: float
    memory_bytes: int | None
    power_w: float | None = None
    link_bytes_per_s: float | None = None
    measured_flop_per_s: dict[str, float] = field(default_factory=dict)
    measured_bandwidth_bytes_per_s: float | None = None
    cores: int | None = None
    part_of: str = ""
    share: float = 1.0
    sources: dict[str, tuple[str, ...]] = field(default_factory=dict)
    single_source: tuple[str, ...] = ()
    note: str = ""
    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Offer:
    """One machine that can be had at a price.

    Attributes:
        provider, region, instance: ``aws``, ``us-east-1``, ``g6.xlarge``; for own machines ``own``, the declared
            region (or empty) and the declared name.
        platform: Name of a :class:`Platform`.
        count: Devices of that platform in the machine (1 for a slice, and for a CPU machine).
        share: Part of one device that the machine has: 1 for whole devices (a slice that is a platform of its own has
            1 too); for a CPU machine its physical cores over those of one socket, above 1 for several sockets.
        memory_bytes: Memory of one device (CPU: of the machine); where it is not the platform's, this is the truth.
        vcpus, ram_bytes: Of the host; None: unknown.
        usd_per_hour: For the whole machine, as used here (factors applied).
        terms: ``on-demand``, ``spot`` or ``own``.
        date: Of the price, ``YYYY-MM-DD``. ``source``: who says so.
    """

    provider: str
    region: str
    instance: str
    platform: str
    count: int
    usd_per_hour: float
    terms: str
    date: str
    share: float = 1.0
    memory_bytes: int | None = None
    vcpus: float | None = None
    ram_bytes: int | None = None
    source: str = ""

    @property
    def name(self) -> str:
        """``aws/g6.xlarge``, the form that ``[cost] runner`` takes."""
        return f"{self.provider}/{self.instance}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Excluded:
    """Offers (or platforms) that were left out, how many, and why: nothing vanishes silently."""

    what: str
    reason: str
    count: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceTable:
    """Where prices come from; ``date`` is ``YYYY-MM-DD``, ``offers`` how many of its rows are in use."""

    provider: str
    date: str
    source: str
    offers: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Market:
    """All offers in force, where their prices come from, what was left out, and what a reader should know."""

    offers: tuple[Offer, ...]
    tables: tuple[PriceTable, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredRoofline:
    """Pi and beta that a probe on this runner reached.

    Attributes:
        device: ``cpu`` or ``cuda:N``. ``label``: its name as the driver or the kernel gives it.
        threads: Compute threads of the probing process (0 on an accelerator).
        flop_per_s: dtype -> rate of a large matrix product, on a CPU of a convolution where that is faster. A dtype
            that failed is in ``notes``.
        bandwidth_bytes_per_s: Of ``a = b + s*c`` over arrays of ``probe_bytes`` each, at least four times the
            last-level cache (``cache_bytes``, None: unknown, then of 4 GiB on a CPU and of 2 GiB on an accelerator,
            or of what fits).
        spread: Largest relative difference between repetitions, over all probes.
        software: What it ran with (``torch 2.14.1``). ``measured_at``: UTC, ISO 8601 with ``Z``.
    """

    device: str
    label: str
    flop_per_s: dict[str, float]
    bandwidth_bytes_per_s: float
    probe_bytes: int
    measured_at: str
    cache_bytes: int | None = None
    threads: int = 0
    spread: float = 0.0
    software: str = ""
    notes: tuple[str, ...] = ()
