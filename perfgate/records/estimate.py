"""What the time estimator learns from and answers: examples, estimates, and the job that an allocation is for."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.graph import KernelGroup

# Targets, and their units.
STEP_TIME = "step_time"  # ns of one step
PEAK_MEMORY = "peak_memory"  # byte
ENERGY = "energy"  # joule of one step
UTILISATION = "utilisation"  # share
TARGETS = (STEP_TIME, PEAK_MEMORY, ENERGY, UTILISATION)

# Where an estimate comes from, the most trusted first.
ANCHORED = "anchored"  # a measured relative, times a modelled ratio
FITTED = "fitted"  # the fitted model
TRANSFERRED = "transferred"  # fitted on other hardware, carried over by rates and calibration models


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A device as an estimator sees it: rates in FLOP/s and bytes/s, 0 where unknown.

    ``name``: of the platform, or the hardware id of a machine that the catalogue does not know. ``kind``: ``gpu``,
    ``cpu``, ... ``flop_per_s`` by dtype as in ``hardware.Platform``.
    """

    name: str
    kind: str
    flop_per_s: dict[str, float] = field(default_factory=dict)
    bandwidth_bytes_per_s: float = 0.0
    memory_bytes: int = 0
    clock_mhz: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """One step that ran, or is asked about.

    Attributes:
        model: Name; ``group``: what is held out together in cross-validation (a family, a sample network's kind).
        mode, dtype, compile, batch, items: As in ``Workload``; ``items`` of one step.
        machine, threads, software: Where it runs; ``software`` as ``torch 2.14.1``. ``threads`` 0 on accelerators.
        kernels: The step's kernels as groups (``Totals.eager_kernels``, or the fused ones where it compiles).
        weight_bytes, peak_activation_bytes: Counted.
        hyper_parameters: ``optimizer``, ``precision``, ``accumulation``, ... as text.
        targets: Target -> measured value; empty for a question. ``resources``: what else was recorded of the run
            (``cache_bytes``, ``disk_bytes``, ``input_bytes``, ...).
        recorded_at: UTC ISO 8601, or empty.
    """

    model: str
    group: str
    mode: str
    dtype: str
    compile: str
    batch: int
    items: int
    machine: Machine
    kernels: tuple[KernelGroup, ...]
    threads: int = 0
    software: str = ""
    weight_bytes: int = 0
    peak_activation_bytes: int | None = None
    hyper_parameters: dict[str, str] = field(default_factory=dict)
    targets: dict[str, float] = field(default_factory=dict)
    resources: dict[str, float] = field(default_factory=dict)
    recorded_at: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Term:
    """A part of an estimate: ``convolution FLOP``, ``launches``, ... and its value in the target's unit."""

    name: str
    value: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Estimate:
    """An answer with its interval at ``coverage`` (0.9 = 90 %).

    ``novel``: why it may be out of distribution, one sentence each (unknown operator, unseen hardware, software
    version absent); then the interval is wider. ``anchor``: the measured relative that it starts from, or empty.
    """

    target: str
    value: float
    low: float
    high: float
    coverage: float
    source: str
    terms: tuple[Term, ...] = ()
    novel: tuple[str, ...] = ()
    anchor: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Accuracy:
    """Of one target on held-out groups: ``n`` examples of ``groups`` groups.

    ``median_ape``, ``mean_ape``: absolute error over the true value. ``within_10``, ``within_20``: shares.
    ``coverage``: of the intervals; ``width``: median of high over low.
    """

    target: str
    n: int
    groups: int
    median_ape: float
    mean_ape: float
    within_10: float
    within_20: float
    coverage: float
    width: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Job:
    """What hardware is wanted for: either a rate without end, or an amount of work by a deadline.

    ``epochs`` passes over ``dataset_items``, or ``items``; ``items_per_s`` for serving. Other limits are those of
    ``cost.Requirements``. ``confidence``: of the interval whose upper end has to meet the limits. ``start_up_s``:
    until a machine is there, has its image and its data, and does the first item; it is paid for.
    """

    items: float | None = None
    dataset_items: float | None = None
    epochs: float | None = None
    items_per_s: float | None = None
    deadline_s: float | None = None
    budget_usd: float | None = None
    confidence: float = 0.9
    start_up_s: float = 300.0


@dataclass(frozen=True, slots=True, kw_only=True)
class DeviceEstimate:
    """One step on a platform that is asked about. ``memory`` None: not estimated; ``fits`` None: nobody can say."""

    platform: str
    step_time: Estimate
    memory: Estimate | None = None
    fits: bool | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEstimate:
    """One side of a workload: measured against what its structure explains on this runner.

    ``runner`` rests on other models and conditions, never on this run's own measurement of this model. ``surprise``:
    what is out of its interval, as a sentence without a full stop; empty where nothing is.
    """

    runner: Estimate | None = None
    measured_ns: float | None = None
    devices: tuple[DeviceEstimate, ...] = ()
    surprise: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadEstimate:
    """Base and head of one workload; ``key`` as in ``Workload.key``. None: that side was not counted."""

    model: str
    key: str
    base: SideEstimate | None = None
    head: SideEstimate | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class EstimatorReport:
    """The estimator of a run: fitted again on ``examples`` of ``groups`` groups, and what it says.

    ``used`` False: nothing of it counts; ``reason`` says why (too few examples, or what went wrong).
    ``accuracy`` is on held-out groups. ``content``: hash of what it was fitted on; ``seconds``: what that took.
    """

    used: bool
    reason: str = ""
    examples: int = 0
    groups: int = 0
    content: str = ""
    seconds: float = 0.0
    accuracy: tuple[Accuracy, ...] = ()
    workloads: tuple[WorkloadEstimate, ...] = ()
    notes: tuple[str, ...] = ()
