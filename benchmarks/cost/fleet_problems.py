"""Random loads and offers for the fleet plan, and its answer by trying every fleet: nothing of the plan's is used."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from perfgate.records.cost import SINGLE, Point
from perfgate.records.fleet import Load
from perfgate.records.hardware import ON_DEMAND, Offer

PROVIDERS = ("aws", "gcp", "lambda")
GIB = 2.0**30
HOUR_S = 3600.0
# A problem with more fleets than this is drawn anew.
MOST_FLEETS = 60_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """One load, the configurations to serve it with, and prices of egress by provider."""

    points: tuple[Point, ...]
    load: Load
    egress: dict[str, float]


def point(instance: str, usd_per_hour: float, items_per_s: float, *, provider: str = "aws", batch: int = 1) -> Point:
    """A configuration with what a fleet plan reads of one, and its other figures consistent with that."""
    offer = Offer(
        provider=provider, region="r1", instance=instance, platform="l4", count=1, usd_per_hour=usd_per_hour,
        terms=ON_DEMAND, date="2026-08-01",
    )  # fmt: skip
    step_ns = batch / items_per_s * 1e9 if items_per_s > 0 else math.inf
    per_item = usd_per_hour / HOUR_S / items_per_s if items_per_s > 0 else math.inf
    return Point(
        offer=offer, devices=1, batch=batch, dtype="float32", compile="eager", form=SINGLE, step_ns=step_ns,
        low_ns=step_ns, high_ns=step_ns, source="measured", memory_bytes=0, free_bytes=None, utilisation=0.5,
        items_per_s=items_per_s, usd_per_1k_steps=per_item * batch * 1e3, usd_per_1m_items=per_item * 1e6,
        bound="memory", why="",
    )  # fmt: skip


def problem(rng: random.Random) -> Problem:
    """A load of one of the forms (rate, spares, job) on up to five machines, with egress and limits at times."""
    while True:
        drawn = _draw(rng)
        if math.prod(bound + 1 for bound in _bounds(drawn)) <= MOST_FLEETS:
            return drawn


def _draw(rng: random.Random) -> Problem:
    points: list[Point] = []
    for index in range(rng.randint(1, 5)):
        rate = float(rng.randint(3, 40))
        price = round(rate * rng.uniform(0.05, 0.12), rng.choice((0, 1, 2, 4)))
        # The same machine twice at times: in two regions, or with two batches.
        name = points[-1].offer.instance if points and rng.random() < 0.15 else f"m{index}"
        provider = points[-1].offer.provider if points and name != f"m{index}" else rng.choice(PROVIDERS)
        points.append(point(name, price, rate, provider=provider, batch=index + 1))
    names = sorted({one.offer.name for one in points})
    limited = rng.random() < 0.4
    maximum = {name: rng.randint(1, 5) for name in names if limited and rng.random() < 0.7}
    minimum = {name: rng.randint(1, min(2, maximum.get(name, 2))) for name in names if rng.random() < 0.15}
    egress = {provider: round(rng.uniform(0, 0.2), 2) for provider in PROVIDERS if rng.random() < 0.7}
    sent = rng.choice((0.0, 0.0, 2e5, 2e6))
    form = rng.choice(("rate", "rate", "spares", "job"))
    if form == "job":
        load = Load(items=rng.uniform(2e4, 4e5), deadline_s=rng.choice((1200.0, 3600.0, 5400.0, 7200.0, 12600.0)),
                    egress_bytes_per_item=sent, minimum=minimum, maximum=maximum)  # fmt: skip
    else:
        load = Load(items_per_s=rng.choice((float(rng.randint(5, 120)), rng.uniform(5, 120))),
                    egress_bytes_per_item=sent, minimum=minimum, maximum=maximum,
                    spares=rng.randint(1, 2) if form == "spares" else 0)  # fmt: skip
    return Problem(points=tuple(points), load=load, egress=egress)


def _bounds(problem: Problem) -> list[int]:
    """Most units (machines; of a job, paid machine-hours) of each point that an optimum can have."""
    load, bounds = problem.load, []
    for one in problem.points:
        name = one.offer.name
        least, most = load.minimum.get(name, 0), load.maximum.get(name, math.inf)
        if load.items is not None and load.deadline_s is not None:
            needed = math.ceil(load.items / (one.items_per_s * min(load.deadline_s, HOUR_S)))
            # Whole hours suffice, unless the number of machines is limited: then the cut last hour may be needed too.
            limited = most * math.ceil(load.deadline_s / HOUR_S)
            bounds.append(max(needed, least) if math.isinf(most) else int(limited))
        else:
            rate = load.items_per_s or 0.0
            bounds.append(int(min(max(math.ceil(rate / one.items_per_s) + load.spares, least), most)))
    return bounds


def cheapest(problem: Problem) -> float | None:
    """The least cost (USD an hour; of a job, USD) over all fleets, None where none serves the load."""
    best = math.inf
    for units in itertools.product(*(range(bound + 1) for bound in _bounds(problem))):
        cost = sum(count * one.offer.usd_per_hour for count, one in zip(units, problem.points, strict=True))
        if cost < best:
            best = min([best, *(cost + extra for extra in _ways(problem, units))])
    return None if math.isinf(best) else best


def _ways(problem: Problem, units: Sequence[int]) -> Iterator[float]:
    """Costs of egress of the allowed ways to use these units that serve the load."""
    load = problem.load
    if load.items is None or load.deadline_s is None:
        if _within(problem, units) and _survives(problem, units):
            rates = [count * one.items_per_s for count, one in zip(units, problem.points, strict=True)]
            yield _egress(problem, rates, load.items_per_s or 0.0) * HOUR_S
        return
    # Paid hours, split over machines in every way that matters: with as few cut hours as that number has.
    deadline = load.deadline_s
    whole = max(int(deadline // HOUR_S), 1)
    last = deadline / HOUR_S - whole if deadline > HOUR_S else 0.0
    per_machine = whole + (1 if last > 0 else 0)
    counts = [range(math.ceil(hours / per_machine), hours + 1) for hours in units]
    for machines in itertools.product(*(_few(count, problem, index) for index, count in enumerate(counts))):
        if not _within(problem, machines):
            continue
        served = []
        for hours, count, one in zip(units, machines, problem.points, strict=True):
            cut = max(0, hours - count * whole)
            served.append((hours - cut + cut * last) * one.items_per_s * min(deadline, HOUR_S))
        if sum(served) >= load.items * (1 - 1e-9):
            yield _egress(problem, served, load.items)


def _few(count: range, problem: Problem, index: int) -> Sequence[int]:
    """All numbers of machines where the name is limited, else as many as there are hours: nobody counts them."""
    name = problem.points[index].offer.name
    if name in problem.load.maximum:
        return [number for number in count if number <= problem.load.maximum[name]]
    return [count[-1]]


def _within(problem: Problem, machines: Sequence[int]) -> bool:
    sums: dict[str, int] = {}
    for count, one in zip(machines, problem.points, strict=True):
        sums[one.offer.name] = sums.get(one.offer.name, 0) + count
    return all(sums.get(name, 0) >= least for name, least in problem.load.minimum.items()) and all(
        sums.get(name, 0) <= most for name, most in problem.load.maximum.items()
    )


def _survives(problem: Problem, units: Sequence[int]) -> bool:
    """The rate is reached without the fastest machines, as many as there are spares."""
    rates = sorted(rate for count, one in zip(units, problem.points, strict=True) for rate in [one.items_per_s] * count)
    left = rates[: len(rates) - problem.load.spares] if problem.load.spares else rates
    return sum(left) >= (problem.load.items_per_s or 0.0) * (1 - 1e-9)


def _egress(problem: Problem, served: Sequence[float], demand: float) -> float:
    """USD for one second's, or the job's, items: the cheapest networks first."""
    left, cost = demand, 0.0
    pairs = zip(served, problem.points, strict=True)
    for price, amount in sorted((problem.egress.get(one.offer.provider, 0.0), amount) for amount, one in pairs):
        taken = min(left, amount)
        cost += taken * price * problem.load.egress_bytes_per_item / GIB
        left -= taken
    return cost


def markets(count: int, rng: random.Random) -> list[Point]:
    """``count`` offers of some forty kinds of machine, with rates and prices as scattered as rented ones are."""
    kinds = [(rng.lognormvariate(5, 1.2), rng.uniform(0.7, 1.4)) for _ in range(40)]
    points = []
    for index in range(count):
        rate, dearness = rng.choice(kinds)
        devices = rng.choice((1, 1, 2, 4, 8))
        price = 0.02 * (rate * devices) ** 0.8 * dearness * rng.uniform(0.7, 1.6)
        points.append(
            point(f"m{index}", round(price, 4), rate * devices * rng.uniform(0.97, 1.0), provider=rng.choice(PROVIDERS))
        )
    return points
