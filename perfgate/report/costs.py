"""Floor 3, report. ``Answer``, ``RooflineSummary`` and ``FleetPlan`` in; configurations, roofs and plans as text out.

All texts are raw (not escaped): names of machines may come from the user's configuration.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from perfgate import units
from perfgate.hardware import catalogue, short_names
from perfgate.records import cost
from perfgate.records.cost import Answer, Point, Requirements, RooflineOperator, RooflineSummary
from perfgate.records.fleet import FleetPlan
from perfgate.records.hardware import OWN, Offer
from perfgate.report import filters

# Where a time comes from, in words that fit behind a number.
SOURCES = {
    cost.MEASURED: "measured on this runner",
    cost.ANCHORED: "carried over from this runner by the ratio of rooflines",
    cost.ESTIMATED: "by the estimator",
    cost.ROOFLINE: "by the calibrated roofline",
}

_FORMS = {
    cost.SINGLE: "one device",
    cost.DATA: "data parallel",
    cost.TENSOR: "tensor parallel",
    cost.PIPELINE: "pipeline parallel",
}

# Counts and times may come from a file that somebody uploaded: a part past this is none.
_LARGEST_SHARE = 1e6

# Kinds of things that ``Excluded.what`` counts; any other text names them.
COUNTED = ("offers", "configurations")

CHEAPEST = "cheapest"
KNEE = "knee"


@dataclass(frozen=True, slots=True, kw_only=True)
class PointRow:
    """One configuration. ``marks``: ``cheapest``, ``knee``, ``≈ 1`` (points with one number cannot be told apart).

    ``platform`` says what is used of which machine (``2 × L40S``), ``machine`` is ``gcp/g2-standard-24``.
    """

    marks: tuple[str, ...]
    platform: str
    machine: str
    region: str
    terms: str
    price: str
    date: str
    batch: str
    dtype: str
    compile: str
    form: str
    step: str
    interval: str
    source: str
    memory: str
    utilisation: str
    throughput: str
    per_1k_steps: str
    per_1m_items: str
    energy: str
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One fact with its name."""

    label: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RoofRow:
    """Equal kernels of a step under the roof; ``flop``, ``bytes`` and ``time`` of all their calls together."""

    name: str
    kind: str
    dtype: str
    calls: str
    flop: str
    bytes: str
    intensity: str
    bound: str
    time: str
    share: str


@dataclass(frozen=True, slots=True, kw_only=True)
class FleetRow:
    """So many machines of one configuration; throughput and price of all of them together.

    ``hours``: machine-hours that a job pays for; empty for a load without end.
    """

    machines: str
    platform: str
    machine: str
    region: str
    terms: str
    throughput: str
    price: str
    hours: str
    per_1m_items: str
    why: str


def rows(answer: Answer) -> list[PointRow]:
    """The Pareto front, the cheapest first; a cheapest configuration that is not in it comes before."""
    return [row(point, answer) for point in points(answer)]


def points(answer: Answer) -> tuple[Point, ...]:
    """The configurations of :func:`rows`."""
    if answer.cheapest is None or any(same(point, answer.cheapest) for point in answer.front):
        return answer.front
    return (answer.cheapest, *answer.front)


def row(point: Point, answer: Answer | None = None) -> PointRow:
    """One configuration; ``answer`` tells whether it is the cheapest."""
    offer = point.offer
    free = f" of {units.size(point.free_bytes)}" if point.free_bytes is not None else ""
    return PointRow(
        marks=marks(point, answer),
        platform=device(point),
        machine=offer.name,
        region=offer.region or filters.NOTHING,
        terms=offer.terms,
        price=hourly(offer.usd_per_hour),
        date=offer.date or filters.NOTHING,
        batch=f"b{point.batch}",
        dtype=point.dtype,
        compile=point.compile,
        form=_FORMS.get(point.form, point.form),
        step=units.duration(point.step_ns),
        interval=interval(point),
        source=SOURCES.get(point.source, point.source),
        memory=units.size(point.memory_bytes) + free,
        utilisation=share(point.utilisation),
        throughput=units.rate(point.items_per_s),
        per_1k_steps=units.money(point.usd_per_1k_steps),
        per_1m_items=units.money(point.usd_per_1m_items),
        energy=units.energy(point.energy_j_per_item),
        why=point.why or words(point.bound),
    )


def marks(point: Point, answer: Answer | None = None) -> tuple[str, ...]:
    """What is special about a configuration."""
    cheapest = answer is not None and answer.cheapest is not None and same(point, answer.cheapest)
    found = (CHEAPEST if cheapest else "", KNEE if point.knee else "", f"≈ {point.tie}" if point.tie else "")
    return tuple(text for text in found if text)


def same(one: Point, other: Point) -> bool:
    """True for one configuration, whatever was found out about it."""
    return _identity(one) == _identity(other)


def device(point: Point) -> str:
    """What a configuration runs on: ``L4``, ``2 × L40S``, ``1 of 8 × H100 SXM``, ``50 % of one A10``."""
    offer = point.offer
    name = _shared(offer)
    if point.devices != offer.count:
        return f"{point.devices} of {offer.count} × {name}"
    return f"{offer.count} × {name}" if offer.count > 1 else name


def platform(point: Point) -> str:
    """What kind of device it is, however many there are of it: ``L40S``, ``50 % of one A10``, ``Graviton4``."""
    known = catalogue.platforms().get(point.offer.platform)
    one = short_names.short(point.offer.platform)
    return one if known is not None and known.cores else _shared(point.offer)


def named(point: Point) -> str:
    """A configuration with all that is needed to rent it: machine, region, price and its date."""
    offer = point.offer
    price = f"{hourly(offer.usd_per_hour)}{f' of {offer.date}' if offer.date else ''}"
    terms = offer.terms if offer.terms not in {"on-demand", OWN} else ""
    parts = (offer.name, offer.region, terms, price)
    return f"{device(point)} ({', '.join(part for part in parts if part)})"


def left_out(what: str, reason: str, count: int) -> str:
    """Why something was left out, with how many: ``493 offers: spot: not one of the asked terms``."""
    many = units.quantity(count, "count")
    if what in COUNTED:
        return f"{many} {what.removesuffix('s') if count == 1 else what}: {reason}"
    return f"{many} × {what}: {reason}"


def hourly(usd: float | None) -> str:
    """``$2.10/h``; ``n/a`` for None."""
    return units.NOT_AVAILABLE if usd is None else f"{units.money(usd)}/h"


def interval(point: Point) -> str:
    """The step time's interval: ``12.1 ms to 14.9 ms``; empty where it has none."""
    if point.low_ns >= point.high_ns:
        return ""
    return f"{units.duration(point.low_ns)} to {units.duration(point.high_ns)}"


def factor(point: Point) -> float | None:
    """How far the step time may be off, as a factor of at least 1; None where that is not known."""
    if not (0 < point.low_ns <= point.step_ns <= point.high_ns):
        return None
    return max(point.high_ns / point.step_ns, point.step_ns / point.low_ns)


def limits(requirements: Requirements) -> tuple[str, ...]:
    """What a configuration must meet, as it stands behind "meets": ``20 ms at p99``, ``500 items/s``."""
    time, per_hour, per_month = requirements.max_step_ns, requirements.max_usd_per_hour, requirements.max_usd_per_month
    percentile = "" if requirements.percentile == 0.5 else f" at p{100 * requirements.percentile:.4g}"
    job = requirements.job_items
    within = "" if requirements.deadline_s is None else f" within {units.wall_clock(requirements.deadline_s)}"
    found = (
        "" if time is None else f"{short(units.duration(time))}{percentile}",
        "" if requirements.min_throughput is None else short(units.rate(requirements.min_throughput)),
        "" if job is None else f"{short(units.decimal(job, ''))} items{within}",
        "" if per_hour is None else f"{units.money(per_hour)} an hour",
        "" if per_month is None else f"{units.money(per_month)} a month",
        "" if requirements.min_utilisation is None else f"a utilisation of {units.share(requirements.min_utilisation)}",
    )
    return tuple(text for text in found if text)


def listed(texts: Sequence[str]) -> str:
    """``a``, ``a and b``, ``a, b and c``."""
    return " and ".join(part for part in (", ".join(texts[:-1]), *texts[-1:]) if part)


def capital(text: str) -> str:
    """``text`` as the beginning of a sentence."""
    return text[:1].upper() + text[1:]


def words(bound: str) -> str:
    """``memory bound`` for ``memory``; nothing for nothing."""
    return f"{bound} bound" if bound else ""


def bound(summary: RooflineSummary) -> str:
    """``memory bound at I = 19.1 < 206 FLOP/B``; what launches limit has no intensity to compare."""
    sign = {cost.MEMORY_BOUND: "<", cost.COMPUTE_BOUND: "≥"}.get(summary.bound, "")
    below = summary.intensity < summary.ridge
    if not sign or below != (sign == "<"):
        return words(summary.bound)
    return f"{words(summary.bound)} at I = {units.significant(summary.intensity)} {sign} {ratio(summary.ridge)}"


def roofline_lines(summary: RooflineSummary) -> tuple[Line, ...]:
    """A step under the roof of this runner, fact by fact; what was not measured is ``n/a``."""
    origin = "measured by the probe" if summary.measured else "published"
    texts = (
        ("Device", f"{short_names.short(summary.device)}, π and β {origin}"),
        ("π", units.decimal(summary.flop_per_s, "FLOP/s")),
        ("β", units.decimal(summary.bandwidth_bytes_per_s, "B/s")),
        ("I_max = π / β", ratio(summary.ridge)),
        ("I of the step", ratio(summary.intensity)),
        ("Attainable P", units.decimal(summary.attainable_flop_per_s, "FLOP/s")),
        ("Achieved P", units.decimal(summary.achieved_flop_per_s, "FLOP/s")),
        ("Bound", bound(summary)),
        ("Least time by the operators", units.duration(summary.bound_ns)),
        ("Share of the bound", share(summary.share)),
    )
    return tuple(Line(label=label, text=text) for label, text in texts if text)


def roof_rows(summary: RooflineSummary, most: int | None = None) -> list[RoofRow]:
    """The operators under the roof, the most time first, at most ``most``."""
    ordered = sorted(summary.operators, key=lambda operator: -operator.bound_ns)
    return [_roof_row(operator) for operator in ordered[:most]]


def fleet_rows(plan: FleetPlan) -> list[FleetRow]:
    """The machines of a plan."""
    return [
        FleetRow(
            machines=str(part.machines),
            platform=device(part.point),
            machine=part.point.offer.name,
            region=part.point.offer.region or filters.NOTHING,
            terms=part.point.offer.terms,
            throughput=units.rate(part.items_per_s),
            price=hourly(part.usd_per_hour),
            hours="" if part.paid_hours is None else units.quantity(part.paid_hours, "count"),
            per_1m_items=units.money(part.point.usd_per_1m_items),
            why=part.point.why or words(part.point.bound),
        )
        for part in plan.parts
    ]


def fleet_lines(plan: FleetPlan) -> tuple[Line, ...]:
    """What a plan comes to, and how good it is known to be."""
    egress = plan.egress_usd_per_hour
    least = hourly(plan.bound_usd_per_hour)
    if plan.usd_total is not None and plan.hours is not None:
        least = units.money(plan.bound_usd_per_hour * plan.hours)
    not_proven = f"not proven: no mix costs less than {least}, {share(plan.gap)} below"
    texts = (
        ("Throughput", units.rate(plan.items_per_s)),
        ("Price", hourly(plan.usd_per_hour) + (f", of which egress {hourly(egress)}" if egress else "")),
        ("Whole job", "" if plan.usd_total is None else units.money(plan.usd_total)),
        ("Takes", "" if plan.hours is None else units.wall_clock(3600 * plan.hours)),
        ("Cheapest mix", "proven" if plan.optimal else not_proven),
        *(("Warning", text) for text in plan.warnings),
    )
    return tuple(Line(label=label, text=text) for label, text in texts if text)


def share(value: float | None) -> str:
    """A utilisation or another part: ``58.1 %``; ``n/a`` for None and for what no part can be."""
    return units.percent(value) if value is not None and abs(value) < _LARGEST_SHARE else units.NOT_AVAILABLE


def ratio(value: float) -> str:
    """An intensity: ``19.1 FLOP/B``; ``n/a`` where nothing is moved."""
    return f"{units.significant(value)} FLOP/B" if math.isfinite(value) else units.NOT_AVAILABLE


def _roof_row(operator: RooflineOperator) -> RoofRow:
    return RoofRow(
        name=operator.name,
        kind=operator.kind,
        dtype=operator.dtype,
        calls=units.quantity(operator.calls, "count"),
        flop=units.decimal(operator.flop, "FLOP") if operator.flop else filters.NOTHING,
        bytes=units.size(operator.bytes),
        intensity=ratio(operator.intensity) if operator.flop else filters.NOTHING,
        bound=operator.bound,
        time=units.duration(operator.bound_ns),
        share=share(operator.share),
    )


def _shared(offer: Offer) -> str:
    name = short_names.short(offer.platform)
    if offer.share == 1:
        return name
    known = catalogue.platforms().get(offer.platform)
    if known is not None and known.cores and not offer.share.is_integer():
        cores = round(offer.share * known.cores)
        return f"{cores} core{'' if cores == 1 else 's'} of {name}"
    return f"{100 * offer.share:.3g} % of one {name}" if offer.share < 1 else f"{offer.share:.3g} × {name}"


def _identity(point: Point) -> tuple[object, ...]:
    offer = point.offer
    machine = (offer.name, offer.region, offer.terms, offer.platform, offer.count, offer.share, offer.usd_per_hour)
    return (*machine, point.devices, point.batch, point.dtype, point.compile, point.form)


def short(text: str) -> str:
    """A limit as people write it: ``20 ms`` for ``20.0 ms``."""
    number, blank, unit = text.partition(" ")
    return f"{number.rstrip('0').rstrip('.') if '.' in number else number}{blank}{unit}"
