"""report.json: the judged result. Derived from measurements.json and a policy by pure code.

``format`` 1. Every number is finite or null.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.cost import CostReport
from perfgate.records.estimate import EstimatorReport
from perfgate.records.evidence import Environment, Revision, RunInfo, Skipped
from perfgate.records.graph import Difference, Totals
from perfgate.records.placement import PlacementReport

FORMAT = 1

# Verdicts of a metric, worst first; a workload, a model and the run take the worst of theirs.
REGRESSION = "regression"
MISSING = "missing"
INVALID = "invalid"
INCONCLUSIVE = "inconclusive"
NO_BASELINE = "no-baseline"
ACCEPTED = "accepted"
NEW = "new"
IMPROVEMENT = "improvement"
PASS = "pass"  # noqa: S105 - a verdict
SHOWN = "shown"

# Verdicts that only a whole run has.
UNCHANGED = "unchanged"
NOT_MEASURED = "not-measured"
ERROR = "error"

SEVERITY = (REGRESSION, MISSING, INVALID, INCONCLUSIVE, NO_BASELINE, ACCEPTED, NEW, IMPROVEMENT, PASS, SHOWN)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricResult:
    """One row. ``base``/``head`` in ``unit``; ``ratio`` = head / base, with a 95 % interval for noisy metrics.

    ``limit`` is the relative limit in force (None: not gated); ``ceiling`` an absolute one.
    ``gated`` False: the verdict is for information. ``mde``: smallest change this comparison could see.
    ``note`` is one sentence that explains the verdict.
    """

    metric: str
    kind: str
    unit: str
    base: float | None
    head: float | None
    ratio: float | None
    ci_low: float | None
    ci_high: float | None
    limit: float | None
    verdict: str
    pairs: int
    gated: bool = False
    enforced: bool = True
    ceiling: float | None = None
    mde: float | None = None
    note: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkloadKey:
    """The cell without the model's name."""

    mode: str
    batch: int
    dtype: str
    device: str
    compile: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """One workload of one model. ``reasons``: causes as far as known, most important first.

    ``base_totals``, ``head_totals``: F, M, I and operators of each side; ``difference``: which operators changed.
    """

    model: str
    key: str
    workload: WorkloadKey
    metrics: tuple[MetricResult, ...]
    reasons: tuple[str, ...] = ()
    verdict: str = PASS
    informative: bool = False
    base_totals: Totals | None = None
    head_totals: Totals | None = None
    difference: Difference | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PolicySummary:
    """What was applied, and from where."""

    source: str
    sha: str | None
    mode: str
    tolerance: float
    false_alarm_rate: float
    comparisons: int
    looks: tuple[int, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """Everything a reader may want, in one frozen object; all outputs are rendered from it.

    ``title`` is the verdict in words, ``why`` the second line. ``exit_code`` follows the policy
    (mode ``report`` never fails; then ``would_fail`` tells). ``check`` is the check run's conclusion.
    """

    format: int
    verdict: str
    base: Revision
    head: Revision
    environment: Environment
    models: tuple[ModelResult, ...]
    title: str
    why: str
    exit_code: int
    check: str
    would_fail: bool
    policy: PolicySummary
    run: RunInfo
    banners: tuple[str, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    notes: tuple[str, ...] = ()
    software: dict[str, str] = field(default_factory=dict)
    estimator: EstimatorReport | None = None
    cost: CostReport | None = None
    placement: PlacementReport | None = None
