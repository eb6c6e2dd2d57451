"""Evidence while it is being collected: the one mutable object of a run.

Whatever ends a run (a fault, Ctrl-C), what is in the draft by then becomes measurements.json.
"""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime
from pathlib import Path

from perfgate import __version__
from perfgate.records.evidence import (
    FORMAT,
    Changes,
    CiRun,
    Environment,
    Measurements,
    Revision,
    RunError,
    RunInfo,
    Skipped,
    WorkloadEvidence,
)
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.placement import PlacementReport
from perfgate.records.policy import Plan, Policy


class Draft:
    """Fields of :class:`Measurements`, set one by one as they become known."""

    def __init__(self, *, base: Revision, head: Revision, ci: CiRun | None) -> None:
        self.base = base
        self.head = head
        self.environment = Environment(hardware_id="unknown")
        self.policy = Policy(source="defaults")
        self.plan: Plan | None = None
        self.changes = Changes()
        self.workloads: tuple[WorkloadEvidence, ...] = ()
        self.skipped: tuple[Skipped, ...] = ()
        self.notes: tuple[str, ...] = ()
        self.rooflines: tuple[MeasuredRoofline, ...] = ()
        # (workload key, metric) -> limit of each gated noisy comparison.
        self.tolerances: dict[tuple[str, str], float] = {}
        self.root: Path | None = None  # top level of the repository, once it is found
        # Not part of the evidence: an address may hold a password.
        self.store_url = ""
        self.unmeasured = ""
        self.placement: PlacementReport | None = None
        self._ci = ci
        self._nonce = secrets.token_hex(8)
        self._started_at = utc_now()
        self._started = time.monotonic()

    def measurements(self, error: RunError | None = None) -> Measurements:
        """The frozen record of what is known now."""
        run = RunInfo(
            nonce=self._nonce,
            perfgate=__version__,
            started_at=self._started_at,
            finished_at=utc_now(),
            duration_s=round(time.monotonic() - self._started, 1),
            ci=self._ci,
        )
        return Measurements(
            format=FORMAT,
            run=run,
            base=self.base,
            head=self.head,
            environment=self.environment,
            policy=self.policy,
            plan=self.plan,
            changes=self.changes,
            workloads=self.workloads,
            skipped=self.skipped,
            notes=self.notes,
            unmeasured=self.unmeasured,
            error=error,
            rooflines=self.rooflines,
            placement=self.placement,
        )


def utc_now() -> str:
    """Seconds-precise UTC time, ISO 8601 with ``Z``."""
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
