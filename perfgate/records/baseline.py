"""One immutable row of the baseline database: one side of one workload in one run."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.workload import Workload

NAMESPACE_BASE = "base"


@dataclass(frozen=True, slots=True, kw_only=True)
class BaselineRecord:
    """Fields that nobody fills yet are None. ``record_id`` is the SHA-256 of the rest, given by the store.

    ``model_key`` is repository-relative (``owner/name:model`` or ``model``). ``namespace`` is ``base`` (on the default
    branch), ``pr/N``, ``unmerged`` (elsewhere in CI), ``local`` (outside CI) or ``sample`` (sample workloads).
    ``samples`` holds metric -> raw samples, capped. ``metrics`` holds metric -> value in ``units[metric]``. Times are
    UTC ISO 8601 with ``Z``.
    """

    model_key: str
    workload: Workload
    namespace: str
    commit: str
    hardware_id: str
    software_id: str
    run_nonce: str
    recorded_at: str
    metrics: dict[str, float] = field(default_factory=dict)
    units: dict[str, str] = field(default_factory=dict)
    samples: dict[str, tuple[float, ...]] = field(default_factory=dict)
    hardware: dict[str, str] = field(default_factory=dict)
    software: dict[str, str] = field(default_factory=dict)
    fingerprint: str | None = None
    structure: object = None
    input_bytes: int | None = None
    input_checksum: str | None = None
    output_checksum: str | None = None
    hyper_parameters: dict[str, str] = field(default_factory=dict)
    resources: dict[str, str] = field(default_factory=dict)
    utilisation: float | None = None
    files: tuple[str, ...] = ()
    price_usd_per_hour: float | None = None
    price_date: str | None = None
    repository: str | None = None
    run_id: str | None = None
    attempt: int | None = None
    workflow: str | None = None
    event: str | None = None
    pull_request: int | None = None
