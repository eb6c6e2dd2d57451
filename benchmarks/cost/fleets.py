"""The fleet plan against every fleet there is on small problems, and its time and gap with 3 000 offers.

``python -m benchmarks.cost.fleets``: loads are rates, rates with spare machines, and jobs with a deadline, with egress
and with least and most numbers of machines at times.
"""

from __future__ import annotations

import argparse
import math
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.cost.fleet_problems import Problem, cheapest, markets, problem
from benchmarks.tables import print_table
from perfgate.cost.fleet import plan
from perfgate.errors import UsageError
from perfgate.records.fleet import FleetPlan, Load

PROBLEMS, QUICK = 300, 30
OFFERS, SEEDS = 3000, 5
GOAL_S = 2.0
EGRESS = {"aws": 0.09, "gcp": 0.12, "lambda": 0.0}

RATE = Load(items_per_s=2000.0)
JOB = Load(items=1e9, deadline_s=8 * 3600.0)
STRESS = "at most"
LOADS = {
    "50 items/s": replace(RATE, items_per_s=50.0),
    "2 000 items/s": RATE,
    "100 000 items/s": replace(RATE, items_per_s=1e5),
    "2 000 items/s, 0.1 MB of egress each": replace(RATE, egress_bytes_per_item=1e5),
    "2 000 items/s, at least 3 of two machines": replace(RATE, minimum={"aws/m": 3, "gcp/m": 3}),
    "2 000 items/s, one spare": replace(RATE, spares=1),
    "10^9 items in 8 h": JOB,
    "2 000 items/s, at most 2 of each machine": RATE,
    "10^9 items in 8 h, at most 2 of each machine": JOB,
}


def kind(given: Problem) -> str:
    """What a small problem's load is."""
    if given.load.items is not None:
        return "job with a deadline"
    return "rate with spare machines" if given.load.spares else "rate"


def planned(given: Problem) -> FleetPlan | None:
    """The plan, or None where it says that the limits leave too few machines."""
    try:
        return plan(given.points, given.load, egress_usd_per_gib=given.egress)
    except UsageError as error:
        if "raise a maximum" in str(error):
            return None
        raise


def small(problems: int) -> bool:
    """Prints how many of the small problems are solved to the least cost; whether all are."""
    tally: dict[str, list[int]] = {}
    for seed in range(problems):
        given = problem(random.Random(seed))
        found, least = planned(given), cheapest(given)
        if found is None or least is None:
            equal = found is None and least is None
        else:
            cost = found.usd_per_hour if found.usd_total is None else found.usd_total
            equal = found.optimal and math.isclose(cost, least, rel_tol=1e-9)
        counts = tally.setdefault(kind(given), [0, 0, 0, 0])
        counts[0] += equal
        counts[1] += 1
        counts[2] += found is not None and len(found.parts) > 1
        counts[3] += found is None
    rows = [
        (name, f"{equal} of {asked}", str(mixed), str(none))
        for name, (equal, asked, mixed, none) in sorted(tally.items())
    ]
    print_table(("load", "equal to exhaustive search", "mixes of machines", "infeasible"), rows)
    return all(equal == asked for equal, asked, *_ in tally.values())


def large(offers: int, seeds: int) -> bool:
    """Prints seconds and gaps with many offers; whether every plan took less than the goal."""
    rows, hold = [], True
    for title, load in LOADS.items():
        seconds, cpu, found = [], [], []
        for seed in range(seeds):
            points = markets(offers, random.Random(seed))
            names = [point.offer.name for point in points]
            maximum = dict.fromkeys(names, 2) if STRESS in title else {}
            # Any machine of that provider.
            minimum = {next(name for name in names if name.startswith(start)): n for start, n in load.minimum.items()}
            begun, used = time.perf_counter(), time.process_time()
            found.append(plan(points, replace(load, minimum=minimum, maximum=maximum), egress_usd_per_gib=EGRESS))
            seconds.append(time.perf_counter() - begun)
            cpu.append(time.process_time() - used)
        holds = max(seconds) < GOAL_S
        # A limit on each of the offers leaves nothing to leave out: said, not promised.
        promised = STRESS not in title
        hold &= holds or not promised
        rows.append(
            (title, f"{min(seconds):.2f} to {max(seconds):.2f} s", f"{max(cpu):.2f} s",
             f"{sum(one.optimal for one in found)} of {seeds}", f"{100 * max(one.gap for one in found):.2g} %",
             " to ".join(str(pick(len(one.parts) for one in found)) for pick in (min, max)),
             ("holds" if holds else "MISSED") if promised else "no goal")
        )  # fmt: skip
    print(f"\n{offers} offers of 40 kinds of machine at three providers, {seeds} markets; goal {GOAL_S:g} s\n")
    print_table(("load", "time", "CPU, most", "proven", "largest gap", "kinds of machine", ""), rows)
    return hold


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="a few problems")
    arguments = parser.parse_args(argv)
    equal = small(QUICK if arguments.quick else PROBLEMS)
    hold = large(200 if arguments.quick else OFFERS, 1 if arguments.quick else SEEDS)
    return 0 if equal and hold else 1


if __name__ == "__main__":
    raise SystemExit(main())
