"""What a step costs where: requirements in, configurations and plans out. Money is in US dollars."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.graph import Totals
from perfgate.records.hardware import ON_DEMAND, OWN, Excluded, Offer, Platform, PriceTable

COST = "cost"
UTILISATION = "utilisation"
TIME = "time"
ENERGY = "energy"
OBJECTIVES = (COST, UTILISATION, TIME, ENERGY)

# Parallel forms of one job on the devices of one machine.
SINGLE = "single"  # one device; the machine's others are paid for and idle
DATA = "data"  # a replica on each device
TENSOR = "tensor"  # every weight matrix split over the devices
PIPELINE = "pipeline"  # layers split over the devices
FORMS = (SINGLE, DATA, TENSOR, PIPELINE)

# Where a time comes from, the most trusted first.
MEASURED = "measured"  # on this runner, in this run
ANCHORED = "anchored"  # a measured time, carried over by the ratio of rooflines
ESTIMATED = "estimated"  # the estimator
ROOFLINE = "roofline"  # the calibrated roofline alone

# What limits a step.
COMPUTE_BOUND = "compute"
MEMORY_BOUND = "memory"
LAUNCH_BOUND = "launch"
LINK_BOUND = "link"

STEPS = "steps"
ITEMS = "items"
HOURS_PER_MONTH = 730.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Requirements:
    """What a configuration must meet. None or an empty tuple: no such constraint.

    Attributes:
        max_step_ns: Limit of the step time, met by the upper end of its interval at ``percentile``.
        percentile: Of the step time that the limit is about: 0.5, 0.9, 0.99.
        memory_headroom: Share of a device's memory that stays free.
        min_throughput: Items a second of the whole machine (one replica's rate times the replicas).
        job_items, deadline_s: A job of so many items that ends in time.
        max_usd_per_hour: For one machine. ``max_usd_per_month``: at the declared volume.
        min_utilisation: Least P / pi, as a share.
        devices: Platforms; ``providers``, ``regions``, ``terms``: of offers; ``counts``: devices in a machine.
        unavailable: Offers not to be had: ``aws/p5.48xlarge``, or ``aws`` for a whole provider.
        forms: Parallel forms to consider; empty: all.
        objectives: What is optimised together, at least one of ``OBJECTIVES``.
    """

    max_step_ns: float | None = None
    percentile: float = 0.5
    memory_headroom: float = 0.1
    min_throughput: float | None = None
    job_items: float | None = None
    deadline_s: float | None = None
    max_usd_per_hour: float | None = None
    max_usd_per_month: float | None = None
    min_utilisation: float | None = None
    devices: tuple[str, ...] = ()
    providers: tuple[str, ...] = ()
    regions: tuple[str, ...] = ()
    terms: tuple[str, ...] = (ON_DEMAND, OWN)
    counts: tuple[int, ...] = ()
    unavailable: tuple[str, ...] = ()
    forms: tuple[str, ...] = ()
    objectives: tuple[str, ...] = (COST, UTILISATION)


@dataclass(frozen=True, slots=True, kw_only=True)
class Volume:
    """How much is run in a month: ``amount`` of ``steps`` or ``items``."""

    amount: float
    unit: str = STEPS


@dataclass(frozen=True, slots=True, kw_only=True)
class OwnPrice:
    """A machine of the user's: its price an hour, or what makes one on premises.

    ``usd_per_hour`` None: (``purchase_usd`` / ``lifetime_years`` + yearly power at ``power_w`` and ``usd_per_kwh``)
    over the hours of a year that it is used (``duty``, a share).
    """

    name: str
    platform: str
    count: int = 1
    share: float = 1.0
    usd_per_hour: float | None = None
    region: str = ""
    memory_bytes: int | None = None
    date: str = ""
    purchase_usd: float | None = None
    lifetime_years: float = 4.0
    power_w: float | None = None
    usd_per_kwh: float = 0.0
    duty: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Prices:
    """What the user says of prices. ``factors``: provider, or ``provider/instance`` -> what its price is times."""

    own: tuple[OwnPrice, ...] = ()
    factors: dict[str, float] = field(default_factory=dict)
    egress_usd_per_gib: dict[str, float] = field(default_factory=dict)
    max_age_days: int = 120


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCost:
    """One model's requirements and its volume; None: that of ``CostPolicy``, or nothing declared."""

    requirements: Requirements | None = None
    volume: Volume | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CostPolicy:
    """``[cost]``: read from the base revision, as all policy.

    ``runner``: what this runner costs, as the name of an offer (``aws/g6.xlarge``, ``own/rack``) or a number of
    dollars an hour as text; empty: the cheapest offer of the recognised device, said as an assumption.
    """

    enabled: bool = True
    requirements: Requirements = field(default_factory=Requirements)
    models: dict[str, ModelCost] = field(default_factory=dict)
    prices: Prices = field(default_factory=Prices)
    runner: str = ""

    def of(self, model: str) -> Requirements:
        """The requirements in force for ``model``."""
        own = self.models.get(model)
        return self.requirements if own is None or own.requirements is None else own.requirements


@dataclass(frozen=True, slots=True, kw_only=True)
class Way:
    """One way to run a step, counted: what its time and memory on any platform follow from.

    ``compile`` is ``eager`` or a ``torch.compile`` mode; then kernels are the fused ones. ``peak_bytes``: measured peak
    on an accelerator; None: modelled from ``totals``.
    """

    mode: str
    batch: int
    dtype: str
    compile: str
    totals: Totals
    items: int = 1
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Device:
    """One device as a machine has it: ``share`` of the platform's compute and bandwidth (see ``Offer.share``)."""

    platform: Platform
    share: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class StepTime:
    """Time of one step on one device: ``ns`` with an interval of 90 %, where it comes from, and what limits it.

    ``intensity`` and ``ridge`` in FLOP per byte: I of the step, and I_max = pi / beta of the device in the step's
    dtype. ``flop_per_s``: pi as used.
    """

    ns: float
    low_ns: float
    high_ns: float
    source: str
    bound: str
    intensity: float
    ridge: float
    flop_per_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """One configuration that was judged.

    Attributes:
        offer: The machine. ``devices``: how many of its devices the job uses.
        step_ns, low_ns, high_ns: Step time with its interval, at the asked percentile.
        memory_bytes: What the fullest device holds. ``free_bytes``: what of it may be used (None: unknown).
        utilisation: P / pi over all devices that are paid for.
        items_per_s: Throughput of the machine.
        usd_per_1k_steps, usd_per_1m_items: Of the whole machine's price. A step is one replica's step of ``batch``.
        energy_j_per_item: At thermal design power, an upper bound; None: unknown.
        bound, why: What limits it, in words: ``memory bound at I = 19 < 206 FLOP/B``.
        knee: The best compromise of the front. ``tie``: configurations whose intervals the data cannot tell apart
            share a number; 0: none.
    """

    offer: Offer
    devices: int
    batch: int
    dtype: str
    compile: str
    form: str
    step_ns: float
    low_ns: float
    high_ns: float
    source: str
    memory_bytes: int
    free_bytes: int | None
    utilisation: float
    items_per_s: float
    usd_per_1k_steps: float
    usd_per_1m_items: float
    bound: str
    why: str
    energy_j_per_item: float | None = None
    knee: bool = False
    tie: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Missed:
    """A constraint that the nearest miss breaks: its name, the value, the limit, and both as a text with units."""

    constraint: str
    value: float
    limit: float
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The optimum under the requirements.

    ``front``: the exact Pareto set, the cheapest first. ``cheapest`` None: nothing is feasible; then ``nearest`` breaks
    least, and ``missed`` says what. ``tied``: what cannot be told from the cheapest. ``sources``: where times come
    from, with how many configurations each.
    """

    candidates: int
    feasible: int
    front: tuple[Point, ...] = ()
    cheapest: Point | None = None
    tied: tuple[Point, ...] = ()
    nearest: Point | None = None
    missed: tuple[Missed, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: dict[str, int] = field(default_factory=dict)
    tables: tuple[PriceTable, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineOperator:
    """Equal kernels of a step under the roof: ``flop``, ``bytes`` and ``bound_ns`` of all their calls together."""

    name: str
    kind: str
    dtype: str
    calls: int
    flop: int
    bytes: int
    intensity: float
    bound: str
    bound_ns: float
    share: float


@dataclass(frozen=True, slots=True, kw_only=True)
class RooflineSummary:
    """One side's step under the roof of this runner.

    ``flop_per_s``, ``bandwidth_bytes_per_s``: pi and beta as used; ``measured``: by the probe, else published.
    ``attainable_flop_per_s`` = min(pi, beta I). ``bound_ns``: the least time that the operators allow, one by one.
    ``achieved_flop_per_s`` = F over the measured step; ``share`` of the bound: bound_ns over the measured step time;
    above 1 the published or probed roof is too low. None: nothing was measured.
    """

    device: str
    measured: bool
    flop_per_s: float
    bandwidth_bytes_per_s: float
    ridge: float
    intensity: float
    attainable_flop_per_s: float
    bound: str
    bound_ns: float
    achieved_flop_per_s: float | None = None
    share: float | None = None
    operators: tuple[RooflineOperator, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideCost:
    """One side's money and optimum. ``runner_*``: measured step times the runner's price; None: one is unknown.

    ``usd_per_month``: at the declared volume on the runner; ``cheapest_usd_per_month`` on ``answer.cheapest``.
    """

    answer: Answer
    roofline: RooflineSummary | None = None
    runner_step_ns: float | None = None
    runner_usd_per_1k_steps: float | None = None
    runner_usd_per_1m_items: float | None = None
    usd_per_month: float | None = None
    cheapest_usd_per_month: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadCost:
    """One workload, base against head. ``key`` as in ``Workload.key``.

    ``moved``: the recommendation changed, beyond ties; ``sentence`` says how, without a full stop.
    """

    model: str
    key: str
    base: SideCost | None
    head: SideCost | None
    requirements: Requirements = field(default_factory=Requirements)
    volume: Volume | None = None
    moved: bool = False
    sentence: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CostReport:
    """Dollars beside milliseconds.

    ``runner_usd_per_hour`` with ``runner_price`` (in words, whose price and of which day; or why there is none);
    ``runner_assumed``: nobody declared it. ``runner_price_date``: ``YYYY-MM-DD``, the run's day for a declared number.
    """

    workloads: tuple[WorkloadCost, ...] = ()
    runner_usd_per_hour: float | None = None
    runner_price: str = ""
    runner_assumed: bool = False
    runner_price_date: str = ""
    tables: tuple[PriceTable, ...] = ()
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()
