"""Machines that serve a load together: what is asked, and the plan."""

from __future__ import annotations

from dataclasses import dataclass, field

from perfgate.records.cost import Point


@dataclass(frozen=True, slots=True, kw_only=True)
class Load:
    """What a fleet must serve: ``items_per_s`` all the time, or ``items`` within ``deadline_s``.

    ``egress_bytes_per_item`` leaves the provider's network. ``minimum``, ``maximum``: offer name -> least and most
    machines of it (a quota, or what the user owns). ``spares``: so many machines, any of them, may fail at once and
    the others still serve ``items_per_s``.
    """

    items_per_s: float | None = None
    items: float | None = None
    deadline_s: float | None = None
    egress_bytes_per_item: float = 0.0
    minimum: dict[str, int] = field(default_factory=dict)
    maximum: dict[str, int] = field(default_factory=dict)
    spares: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPart:
    """So many machines of one configuration; ``items_per_s`` and ``usd_per_hour`` of all of them together.

    ``paid_hours``: whole machine-hours that a job with a deadline pays for; None: the load has no end.
    """

    point: Point
    machines: int
    items_per_s: float
    usd_per_hour: float
    paid_hours: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetPlan:
    """The mix of machines that serves a load at least cost.

    ``usd_per_hour`` while all machines run, egress (``egress_usd_per_hour``) included. ``optimal``: proven; else
    ``gap`` is the relative distance to ``bound_usd_per_hour``, the proven lower bound.
    A job with a deadline is optimised for ``usd_total``: ``hours`` until its last machine is done, and the bound is
    that of the total over these hours. Both are None for a load without end.
    """

    parts: tuple[FleetPart, ...]
    items_per_s: float
    usd_per_hour: float
    egress_usd_per_hour: float
    optimal: bool
    gap: float
    bound_usd_per_hour: float
    usd_total: float | None = None
    hours: float | None = None
    warnings: tuple[str, ...] = ()
