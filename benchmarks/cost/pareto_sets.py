"""The optimiser's Pareto set against brute force and against pymoo's sorting, hypervolume and NSGA-II.

``python -m benchmarks.cost.pareto_sets``: random markets, ways, requirements and objectives. Brute force computes every
configuration by the definitions, one by one, and compares each with each. The form ``parts`` asks the optimiser for
each offer, way and parallel form alone, and compares the union's Pareto set with what it finds for all at once: that
covers the forms that brute force does not know. pymoo is optional.
"""

from __future__ import annotations

import argparse
import math
import random
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from benchmarks.cost import random_markets, rival
from benchmarks.cost.random_markets import Problem, feasible, non_dominated, objectives
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.tables import print_table
from perfgate.cost import pareto
from perfgate.cost.optimise import optimise
from perfgate.records.cost import COST, ENERGY, FORMS, SINGLE, TIME, UTILISATION, Answer, Point
from perfgate.records.hardware import Market

PROBLEMS, PARTS, QUICK = 1000, 100, 20
# pymoo sums slices in another order.
SAME_VOLUME = 1e-9
Vector = tuple[float, ...]


@dataclass(slots=True)
class Tally:
    """How many of ``asked`` comparisons came out equal, and over how many configurations and points."""

    what: str
    asked: int = 0
    equal: int = 0
    configurations: int = 0
    points: int = 0

    def add(self, configurations: int, points: int, *, equal: bool) -> None:
        self.asked += 1
        self.equal += equal
        self.configurations += configurations
        self.points += points

    def row(self) -> tuple[str, ...]:
        return (self.what, f"{self.equal} of {self.asked}", spaced(self.configurations), spaced(self.points))


def spaced(count: int) -> str:
    """A whole number in groups of three."""
    return f"{count:,}".replace(",", " ")


def share(part: float) -> str:
    """In percent, to three decimals: hypervolumes differ late."""
    return f"{100 * part:.3f} %"


def solved(given: Problem) -> Answer:
    """The optimiser's answer."""
    return optimise(given.ways, given.market, given.requirements, given.times, platforms=given.platforms)


def vector(point: Point, names: Sequence[str]) -> Vector:
    """The asked objectives of a point, minimised and rounded as brute force does."""
    energy = math.nan if point.energy_j_per_item is None else point.energy_j_per_item
    known = {COST: point.usd_per_1m_items / 1e6, UTILISATION: -point.utilisation, TIME: point.step_ns / 1e9,
             ENERGY: energy}  # fmt: skip
    return tuple(random_markets.rounded(known[name]) for name in names)


def same(found: Sequence[Vector], wanted: Sequence[Vector]) -> bool:
    """Equal up to the last rounded digit, which may fall on either side."""
    if len(found) != len(wanted):
        return False
    pairs = zip(sorted(found), sorted(wanted), strict=True)
    return all(math.isclose(a, b, rel_tol=1e-8) for one, other in pairs for a, b in zip(one, other, strict=True))


def by_parts(given: Problem) -> list[Vector]:
    """Vectors of the fronts of each offer, way and form alone."""
    found: list[Vector] = []
    wanted = given.requirements
    for offer in given.market.offers:
        for way in given.ways:
            for form in FORMS:
                # Names that nobody offers are errors, and here there is one offer.
                alone = replace(wanted, forms=(form,), regions=())
                if wanted.regions and offer.region not in wanted.regions:
                    continue
                part = replace(given, ways=(way,), market=Market(offers=(offer,)), requirements=alone)
                found += [vector(point, wanted.objectives) for point in solved(part).front]
    return found


def compare(problems: int, parts: int, *, pymoo: bool) -> list[Tally]:
    """All comparisons of sets and volumes."""
    brute, whole = Tally("optimise = brute force"), Tally("optimise = union of its parts, all parallel forms")
    sorting, volume = Tally("front = pymoo's non-dominated sorting"), Tally("hypervolume = pymoo's indicator")
    for seed in range(problems):
        rng = random.Random(seed)
        given = random_markets.problem(rng, forms=(SINGLE,)) if seed % 4 == 0 else random_markets.problem(rng)
        names = given.requirements.objectives
        vectors = objectives([one.values for one in feasible(given)], names)
        wanted, answer = sorted(non_dominated(vectors)), solved(given)
        front = [vector(point, names) for point in answer.front]
        brute.add(len(vectors), len(wanted), equal=same(front, wanted) and answer.feasible == len(vectors))
        if pymoo and vectors:
            table = np.array(vectors)
            ours, theirs = pareto.front(table), rival.non_dominated(table)
            sorting.add(len(table), len(ours), equal=sorted(ours.tolist()) == sorted(theirs))
            reference = table.max(axis=0) + np.abs(table).max(axis=0) * 0.1
            ours_volume = pareto.hypervolume(table, reference)
            volume.add(len(table), len(ours),
                       equal=math.isclose(ours_volume, rival.hypervolume(table[ours], reference), rel_tol=SAME_VOLUME),
            )  # fmt: skip
    for seed in range(parts):
        given = random_markets.problem(random.Random(10_000 + seed), forms=FORMS, most_offers=8)
        front = [vector(point, given.requirements.objectives) for point in solved(given).front]
        vectors = by_parts(given)
        whole.add(len(vectors), len(front), equal=same(front, sorted(non_dominated(vectors))))
    return [brute, whole, *([sorting, volume] if pymoo else [])]


def race(offers: int, evaluations: Sequence[int], seeds: int) -> None:
    """Prints NSGA-II's hypervolume and time on one large market next to ours."""
    rng = random.Random(5)
    market, platforms = random_markets.large(rng, offers=offers, platforms=60)
    ways = tuple(
        random_markets.way(batch, dtype) for batch in (1, 2, 4, 8, 16, 32, 64) for dtype in random_markets.DTYPES
    )
    template = random_markets.problem(random.Random(0))
    rows = []
    for names in ((COST, UTILISATION), (COST, UTILISATION, TIME)):
        given = replace(
            template, ways=ways, market=market, platforms=platforms,
            times=random_markets.PlainTimes({name: rng.choice((1.2, 1.5, 2.0)) for name in platforms}),
            requirements=replace(template.requirements, objectives=names, max_usd_per_hour=None, regions=(),
                                 terms=("on-demand", "spot"), max_step_ns=None),
        )  # fmt: skip
        begun = time.perf_counter()
        answer = solved(given)
        seconds = time.perf_counter() - begun
        task = rival.Task.of(given, names)
        ideal = task.volume(np.array(sorted(task.front)))
        ours = task.hypervolume(np.array([vector(point, names) for point in answer.front]))
        title = " and ".join([", ".join(names[:-1]), names[-1]])
        found = f"{len(answer.front)} of {len(task.front)}"
        rows.append((f"{title}: perfgate", spaced(task.configurations), share(ours / ideal), found, f"{seconds:.3f} s"))
        for budget in evaluations:
            runs = [task.nsga2(budget, seed) for seed in range(1, seeds + 1)]
            rows.append(
                (f"{title}: NSGA-II", spaced(budget),
                 share(statistics.median(run.hypervolume for run in runs) / ideal),
                 f"{statistics.median(run.found for run in runs):g} of {len(task.front)}",
                 f"{statistics.median(run.seconds for run in runs):.2f} s")
            )  # fmt: skip
    print(f"\nNSGA-II of pymoo {version('pymoo')}, population 100, median of {seeds} seeds, on a table of known "
          f"objectives; perfgate computes them. {offers} offers, {len(ways)} ways.\n")  # fmt: skip
    print_table(("objectives and method", "evaluated", "hypervolume", "points of the front", "time"), rows)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few problems")
    arguments = parser.parse_args(argv)
    lacking = missing("pymoo")
    problems, parts = (QUICK, 3) if arguments.quick else (PROBLEMS, PARTS)
    tallies = compare(problems, parts, pymoo=not lacking)
    print_table(("comparison", "equal", "configurations", "points of fronts"), [tally.row() for tally in tallies])
    if lacking:
        print("\n" + how_to_get(lacking, "sorting, hypervolume and NSGA-II of others"))
    elif arguments.quick:
        race(200, (2_000,), 1)
    else:
        race(3000, (10_000, 50_000, 200_000), 5)
    return 1 if any(tally.equal < tally.asked for tally in tallies) else 0


if __name__ == "__main__":
    raise SystemExit(main())
