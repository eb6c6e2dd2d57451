"""Allocation against exhaustive search over the shipped catalogue: the same choice, or a proven tie.

``python -m benchmarks.estimator.allocation``: random jobs (rates, amounts of work, deadlines, budgets, confidences) of
random models with random limits. Every configuration of every offer in force is computed in plain Python by the
definitions, and the best of those that meet all limits is compared with what ``allocate`` finds, for ``cheapest`` and
``smallest`` in turn. Both must also agree on how many are feasible, and where none is on the least total violation.
A tie: another machine with the same figures.

Exit status 1 where one differs.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import date

from benchmarks.tables import print_table
from perfgate.cost.allocate import allocate
from perfgate.cost.times import RooflineTimes
from perfgate.hardware import catalogue, offers
from perfgate.records.allocation import CHEAPEST, CHOICES, Allocation
from perfgate.records.cost import Device, Prices, Requirements, Way
from perfgate.records.estimate import Job
from perfgate.records.hardware import Market, Platform
from tests.cost.exhaustive import Exhaustive, Tried, random_job, random_requirements, random_ways

JOBS, QUICK = 1000, 50
# Models: their times are worked out once.
MODELS = 24
# Sums and products in another order.
SAME = 1e-9

SAME_CHOICE, TIE, BOTH_NONE, DIFFERENT = "same choice", "proven tie", "none for both", "different"


def compare(found: Allocation, tried: Sequence[Tried]) -> str:
    """What the two have to do with one another."""
    feasible = [one for one in tried if not one.broken]
    if found.chosen is None or not feasible:
        return BOTH_NONE if found.chosen is None and not feasible and _nearest(found, tried) else DIFFERENT
    best = min(one.key for one in feasible)
    point = found.chosen.point
    own = [
        one
        for one in feasible
        if one.offer == point.offer
        and (one.running.way.batch, one.running.way.dtype) == (point.batch, point.dtype)
        and (one.running.form, one.running.used) == (point.form, point.devices)
    ]
    # The first figure decides, the next ones where it is equal.
    if found.feasible != len(feasible) or not own or not _equal(own[0].key, best):
        return DIFFERENT
    first = min(feasible, key=lambda one: one.key)
    return SAME_CHOICE if first.offer.name == point.offer.name else TIE


def _nearest(found: Allocation, tried: Sequence[Tried]) -> bool:
    """Whether the nearest miss breaks least."""
    known = [sum(one.broken.values()) for one in tried if math.isfinite(sum(one.broken.values()))]
    if found.nearest is None:
        return not known
    total = sum(
        missed.value / missed.limit - 1 if missed.value > missed.limit else missed.limit / missed.value - 1
        for missed in found.missed
    )
    return bool(known) and math.isclose(total, min(known), rel_tol=1e-6)


def _equal(key: Sequence[float], other: Sequence[float]) -> bool:
    return all(a == b or math.isclose(a, b, rel_tol=SAME) for a, b in zip(key, other, strict=True))


def middling(times: RooflineTimes, way: Way, platforms: Mapping[str, Platform]) -> tuple[float, float]:
    """Nanoseconds of a step on an L4, and items a second."""
    found = times(way, [Device(platform=platforms["l4"])])[0]
    assert found is not None
    return found.ns, way.items * 1e9 / found.ns


def known_names(wanted: Requirements, market: Market) -> Requirements:
    """Without numbers of devices that no machine has: they would be warnings, not limits."""
    return replace(wanted, counts=tuple(n for n in wanted.counts if any(offer.count == n for offer in market.offers)))


def run(jobs: int, market: Market, platforms: Mapping[str, Platform], seed: int = 5) -> tuple[Counter[str], int]:
    """Counts of results, and how many configurations were compared in all. Prints a line for every difference."""
    rng = random.Random(seed)
    models = [random_ways(rng) for _ in range(min(MODELS, jobs))]
    times = RooflineTimes()
    second = Exhaustive(times, platforms)
    results: Counter[str] = Counter()
    configurations = 0
    ours, theirs = [], []
    for number in range(jobs):
        ways, choice = models[number % len(models)], CHOICES[number % 2]
        step_ns, rate = middling(times, ways[-1], platforms)
        job: Job = random_job(rng, rate)
        wanted = known_names(random_requirements(rng, step_ns), market)
        begun = time.perf_counter()
        found = allocate(ways, market, wanted, job, times, choice=choice, platforms=platforms)
        between = time.perf_counter()
        tried = list(second.search(ways, market, wanted, job, choice))
        ours.append(between - begun)
        theirs.append(time.perf_counter() - between)
        configurations += len(tried)
        result = compare(found, tried)
        results[f"{choice}: {result}"] += 1
        if result == DIFFERENT:
            print(f"job {number} ({choice}) differs: {job} {wanted}")
    print(f"median {statistics.median(ours):.3f} s a job, exhaustive search {statistics.median(theirs):.3f} s\n")
    return results, configurations


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK} jobs")
    parser.add_argument("--jobs", type=int, default=JOBS)
    arguments = parser.parse_args(argv)
    # Prices of a fixed day: the table is the same tomorrow.
    market = offers.market(Prices(max_age_days=10_000), today=date(2026, 10, 1))
    results, configurations = run(QUICK if arguments.quick else arguments.jobs, market, catalogue.platforms())
    rows = [
        (choice, *(str(results[f"{choice}: {result}"]) for result in (SAME_CHOICE, TIE, BOTH_NONE, DIFFERENT)))
        for choice in (CHEAPEST, *(one for one in CHOICES if one != CHEAPEST))
    ]
    print_table(("choice", SAME_CHOICE, TIE, BOTH_NONE, DIFFERENT), rows)
    print(f"\n{len(market.offers)} offers, {configurations:,} configurations compared".replace(",", " "))
    return int(any(result.endswith(DIFFERENT) for result in results))


if __name__ == "__main__":
    raise SystemExit(main())
