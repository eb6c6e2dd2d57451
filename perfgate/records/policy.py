"""What is decided: limits and how evidence is judged. Always read from the base revision."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.cost import CostPolicy
from perfgate.records.placement import PlacementPolicy

ENFORCE = "enforce"
REPORT = "report"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Overrides for one model, or one hardware of it; None or an absent key inherits.

    ``relative``: metric -> share (0.03 = 3 %); a value of None means "shown, not gated".
    ``ceilings``: metric -> absolute maximum in the metric's unit (ns, bytes, ...).
    ``metric_modes``: metric -> ``enforce`` or ``report``.
    """

    mode: str | None = None
    relative: dict[str, float | None] = field(default_factory=dict)
    ceilings: dict[str, float] = field(default_factory=dict)
    metric_modes: dict[str, str] = field(default_factory=dict)
    hardware: dict[str, Limits] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Policy:
    """The gate's rules.

    Attributes:
        source: Where it was read, for people: ``perfgate.toml at a04be77 (base)`` or ``defaults``.
        sha: The revision that it was read from; None for defaults.
        has_base: False if base has no policy: then ``report`` only, "gating starts after merge".
        mode: ``enforce`` or ``report``.
        tolerance: One relative limit for latency and energy, and every metric without its own.
        false_alarm_rate: Chance of one false red per run, over all gated noisy comparisons.
        budget_s: Wall-clock seconds for measuring.
        limits: Default limits (metric -> share or None) and ceilings.
        models: Model name -> overrides.
        fail_on: Verdicts, beside regression and missing, that make the exit code 1.
        on_inconclusive: ``pass`` or ``block`` (check conclusion ``action_required``).
        harness: Globs of files that belong to the bench code and come from base on both sides.
        looks: Pair counts at which a decision is tried; the last is n_max.
        pairs_per_round: Pairs of a workload that share their parent processes.
        independent_pairs: True treats pairs of one round as independent, which ``calibrate`` must have shown
            (between-round component under 10 % of the variance); False averages each round first.
        block_ns: Length of one timed block. groups: ABBA groups in one pair.
        cost: ``[cost]``: what configurations must meet, prices and volumes. placement: ``[placement]``.
    """

    source: str
    sha: str | None = None
    has_base: bool = True
    mode: str = ENFORCE
    tolerance: float = 0.03
    false_alarm_rate: float = 0.01
    budget_s: float = 600.0
    limits: Limits = field(default_factory=Limits)
    models: dict[str, Limits] = field(default_factory=dict)
    fail_on: tuple[str, ...] = ()
    on_inconclusive: str = "pass"
    harness: tuple[str, ...] = ()
    self_accept: bool = False
    looks: tuple[int, ...] = (5, 8, 12, 16, 20)
    pairs_per_round: int = 1
    independent_pairs: bool = False
    block_ns: int = 50_000_000
    groups: int = 2
    cost: CostPolicy = field(default_factory=CostPolicy)
    placement: PlacementPolicy = field(default_factory=PlacementPolicy)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """The test that is fixed before measuring; written into the evidence and never changed.

    ``comparisons`` (M) counts all gated noisy comparisons of the whole run, over all shards.
    ``alpha`` = false_alarm_rate / M is spent on one comparison over ``looks``.
    """

    comparisons: int
    alpha: float
    looks: tuple[int, ...]
    pairs_per_round: int
    block_ns: int
    groups: int
    seed: int
    independent_pairs: bool = False

    @property
    def pairs_per_unit(self) -> int:
        """Pairs that make one independent unit of evidence."""
        return 1 if self.independent_pairs else self.pairs_per_round


@dataclass(frozen=True, slots=True, kw_only=True)
class Acceptance:
    """A regression accepted on purpose, up to a bound, by someone allowed to.

    ``target`` is ``MODEL/MODE/METRIC``; ``bound`` a share: 0.09 = up to 9 % worse.
    """

    target: str
    bound: float
    reason: str
    by: str
    source: str
