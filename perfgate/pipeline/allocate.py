"""The machine for one job: what ``perfgate allocate`` does. The model is counted, nothing is timed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.cost import allocate as search
from perfgate.cost import jobs
from perfgate.pipeline.cost_search import CostRequest, posed
from perfgate.pipeline.request import Ports
from perfgate.records.allocation import CHEAPEST, Allocation
from perfgate.records.cost import Requirements, Way
from perfgate.records.estimate import Job


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocateRequest:
    """``what``: model and requirements as of ``perfgate cost``, without a fleet's load.

    A ``job`` without work takes items and deadline of the configuration. ``peak_bytes``: what a step was measured to
    hold on one device; None: modelled.
    """

    what: CostRequest
    job: Job
    choice: str = CHEAPEST
    peak_bytes: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocated:
    """``requirements`` as they were in force, without the job's own; ``ways`` what was counted."""

    model: str
    allocation: Allocation
    requirements: Requirements
    ways: tuple[Way, ...]


def allocate(request: AllocateRequest, ports: Ports) -> Allocated:
    """The smallest or cheapest machine. Raises UsageError, ConfigError and MeasuringError."""
    # Before minutes are spent on counting.
    jobs.check(request.job)
    problem = posed(request.what, ports)
    job, requirements = _job(request.job, problem.requirements)
    ways = _measured(problem.ways, request.peak_bytes)
    ports.progress.step("Searching", 0, 0, None)
    found = search.allocate(ways, problem.market, requirements, job, problem.times, choice=request.choice)
    found = replace(found, warnings=(*problem.warnings, *found.warnings))
    return Allocated(model=request.what.count.entry, allocation=found, requirements=requirements, ways=ways)


def _job(given: Job, requirements: Requirements) -> tuple[Job, Requirements]:
    """The job with what the configuration says of it, and the requirements without."""
    rest = replace(requirements, job_items=None, deadline_s=None)
    if jobs.ends(given) or given.items_per_s is not None or requirements.job_items is None:
        return given, rest
    deadline = requirements.deadline_s if given.deadline_s is None else given.deadline_s
    return replace(given, items=requirements.job_items, deadline_s=deadline), rest


def _measured(ways: Sequence[Way], peak_bytes: int | None) -> tuple[Way, ...]:
    return tuple(ways) if peak_bytes is None else tuple(replace(way, peak_bytes=peak_bytes) for way in ways)
