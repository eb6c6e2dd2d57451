"""The machine for one job, as ``perfgate allocate`` chooses it."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.cost import Missed, Point
from perfgate.records.estimate import Job
from perfgate.records.hardware import Excluded, PriceTable

# What is chosen among all machines that do a job.
CHEAPEST = "cheapest"  # least money
SMALLEST = "smallest"  # least memory, then least peak rate, then least price
CHOICES = (CHEAPEST, SMALLEST)


@dataclass(frozen=True, slots=True, kw_only=True)
class Assignment:
    """A machine for a job, and how the job runs on it. Of ``point`` the step's interval is that at ``Job.confidence``.

    Attributes:
        slow_items_per_s: Throughput at the upper end of the time's interval.
        job_s, slow_job_s: The whole job with its start-up, at the estimate and at that end; None: it has no end.
        usd, slow_usd: Price of the whole job, alike.
        memory_bytes: Of all devices of the machine together (of a CPU machine its main memory); None: unknown.
        peak_flop_per_s: Of all devices together, the largest published dense rate of 16 bits or more.
        host_bytes: Main memory that the job asks for.
    """

    point: Point
    slow_items_per_s: float
    memory_bytes: int | None
    peak_flop_per_s: float
    host_bytes: int
    job_s: float | None = None
    slow_job_s: float | None = None
    usd: float | None = None
    slow_usd: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Allocation:
    """The smallest or cheapest machine for a job.

    Attributes:
        choice: One of ``CHOICES``.
        chosen: None: no machine does it; then ``nearest`` breaks least, and ``missed`` says what.
        alternatives: The best configuration of each other machine that does it, in the order of the choice. Those with
            the ``tie`` number of the chosen cannot be told from it by price.
        several: Each machine is too slow, and several of them together might do it.
        excluded, warnings, sources, tables: As in :class:`Answer`.
    """

    job: Job
    choice: str
    candidates: int
    feasible: int
    chosen: Assignment | None = None
    alternatives: tuple[Assignment, ...] = ()
    nearest: Assignment | None = None
    missed: tuple[Missed, ...] = ()
    several: bool = False
    excluded: tuple[Excluded, ...] = ()
    warnings: tuple[str, ...] = ()
    sources: dict[str, int] = field(default_factory=dict)
    tables: tuple[PriceTable, ...] = ()
