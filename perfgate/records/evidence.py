"""measurements.json: what was measured, by pair and block. Facts only: verdicts are derived.

``format`` 1. Written by ``run`` and ``measure``; ``report``, ``publish``, ``compare`` and ``merge``
start from it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.estimate import EstimatorReport
from perfgate.records.graph import Difference, Totals
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.placement import PlacementReport
from perfgate.records.policy import Acceptance, Plan, Policy
from perfgate.records.protocol import Failed, Probe, Software
from perfgate.records.workload import Workload

FORMAT = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Revision:
    """A commit: 40 hexadecimal digits, and how the user named it. ``sha`` is empty for an uncommitted tree."""

    sha: str
    name: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class CiRun:
    """Which run of which workflow measured, and for which pull request (None: none)."""

    repository: str
    run_id: str
    attempt: int
    workflow: str
    event: str
    pull_request: int | None = None
    ref: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunInfo:
    """``nonce`` is new for each run and attempt; times are UTC ISO 8601 with ``Z``."""

    nonce: str
    perfgate: str
    started_at: str
    finished_at: str = ""
    duration_s: float = 0.0
    ci: CiRun | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Environment:
    """The runner, without host name, user or path.

    ``hardware``: stable facts (CPU model, cores, memory bytes, GPU name ...) behind ``hardware_id``;
    ``conditions``: what may change from run to run (governor, load before, clocks locked, driver).
    """

    hardware_id: str
    hardware: dict[str, str] = field(default_factory=dict)
    conditions: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Block:
    """One timed block: samples in ns per call, in time order. Clocks and power are read outside of it."""

    samples_ns: tuple[int, ...]
    spans_ns: dict[str, tuple[int, ...]] = field(default_factory=dict)
    device_ns: tuple[int, ...] = ()
    cpu_ns: int = 0
    wall_ns: int = 0
    energy_j: float | None = None
    sm_clock_mhz: int | None = None
    throttle: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class SideSamples:
    """One process's part of a pair. ``inner`` calls make one sample; ``items`` is items per call."""

    blocks: tuple[Block, ...]
    first_step_ns: int
    peak_bytes: int | None = None
    inner: int = 1
    items: int = 1
    settled: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class Pair:
    """Base and head alive together, timed in ``order`` (``A`` = base, ``B`` = head, e.g. ``ABBABAAB``).

    ``round`` numbers the parent processes: pairs with equal rounds share them.
    ``void`` is the reason seen outside the timings for which the pair does not count; empty: it counts.
    """

    index: int
    round: int
    order: str
    base: SideSamples
    head: SideSamples
    void: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class SideEvidence:
    """One side of a workload.

    ``status``: ``ok``, ``failed`` (see ``failure``), ``absent`` (this side's configuration has no
    such workload). ``probes`` holds one entry per probing process, at least two where status is ok.
    ``totals`` is what the first of them counted.
    """

    status: str
    probes: tuple[Probe, ...] = ()
    failure: Failed | None = None
    software: Software | None = None
    totals: Totals | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadEvidence:
    """All that is known of one workload.

    ``end``: why measuring stopped: ``decided``, ``n_max``, ``budget``, ``unstable``, ``failed``,
    ``not-begun``, ``interrupted``, or ``recorded`` (one side only, nothing to compare).
    ``informative`` True: a second look with the pull request's own bench code; never judged.
    ``needed_s``: predicted seconds to the first look, where it was not begun for lack of budget.
    ``difference``: which operators changed, None where the two sides could not be compared.
    """

    workload: Workload
    base: SideEvidence
    head: SideEvidence
    pairs: tuple[Pair, ...] = ()
    end: str = "decided"
    informative: bool = False
    needed_s: float | None = None
    difference: Difference | None = None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Skipped:
    """A model that was not measured, and why."""

    model: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """What the pull request touches, as far as it matters for judging.

    ``environment`` names changes of lock files, requirements, ``setup``, ``python`` that head makes itself;
    ``banners`` are sentences to put above the table (policy changed, models' configuration differs, ...).
    """

    files: int = 0
    environment: tuple[str, ...] = ()
    banners: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RunError:
    """Measuring ended in an error of the given exit code; verdict is "not judged"."""

    exit_code: int
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Measurements:
    """The whole file. ``policy`` is the one measured under; the publish stage reads its own from base.

    ``unmeasured`` is the reason for which nothing was measured on purpose (a fork, the kill switch); empty: it was.
    ``rooflines``: pi and beta of this runner's devices, as probed here before. ``estimator``: what was fitted on the
    database after measuring, and what it says of these workloads; ``placement``: where operators belong, where that was
    searched. Both are shown, never judged.
    """

    format: int
    run: RunInfo
    base: Revision
    head: Revision
    environment: Environment
    policy: Policy
    plan: Plan | None = None
    changes: Changes = field(default_factory=Changes)
    workloads: tuple[WorkloadEvidence, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    accepted: tuple[Acceptance, ...] = ()
    notes: tuple[str, ...] = ()
    unmeasured: str = ""
    error: RunError | None = None
    rooflines: tuple[MeasuredRoofline, ...] = ()
    estimator: EstimatorReport | None = None
    placement: PlacementReport | None = None
