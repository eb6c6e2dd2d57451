"""Seconds and memory of the optimiser at 10^4, 10^5 and 10^6 configurations of 3 000 offers, each in a fresh process.

``python -m benchmarks.cost.scale``: configurations are offers x batches x dtypes x compile x devices and forms. Once
with offers as they are on the market, where many differ in nothing but seller and price, and once where no two
machines are alike; with times that are given, and with those that the calibrated roofline computes on the way.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.cost import random_markets
from benchmarks.tables import print_table
from perfgate.cost.optimise import optimise
from perfgate.cost.times import RooflineTimes, Times
from perfgate.records.cost import DATA, FORMS, SINGLE, Device, Requirements, StepTime, Way
from perfgate.records.hardware import ON_DEMAND, SPOT

OFFERS, PLATFORMS = 3000, 100
# 25 layers of four kernels.
LAYERS = 25
SIZES = (10_000, 100_000, 1_000_000)
QUICK = (10_000,)
GOAL_S, GOAL_BYTES = 1.0, 2**30
RUNS = 3
GIVEN, CALIBRATED = "given", "calibrated"
AS_RENTED, ALL_DIFFERENT, EVERY_FORM = "as rented", "no two alike", "as rented, all parallel forms"
CASES = ((AS_RENTED, GIVEN), (AS_RENTED, CALIBRATED), (ALL_DIFFERENT, GIVEN), (ALL_DIFFERENT, CALIBRATED),
         (EVERY_FORM, CALIBRATED))  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Run:
    """One call in a process of its own: the highest resident size is the whole process's."""

    candidates: int
    ways: int
    front: int
    seconds: float
    cpu_s: float
    peak_bytes: int


class Given:
    """Times that are known before: what the optimiser itself takes is left."""

    def __init__(self, ways: Sequence[Way], devices: Sequence[Device]) -> None:
        plain = random_markets.PlainTimes({device.platform.name: 1.5 for device in devices})
        names = [device.platform.name for device in devices]
        self._known = {id(way): dict(zip(names, plain(way, devices), strict=True)) for way in ways}

    def __call__(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        known = self._known[id(way)]
        return [known[device.platform.name] for device in devices]


def ways_for(size: int, per_way: int) -> list[Way]:
    """As many ways as make ``size`` configurations: batches, dtypes, with and without compilation."""
    wanted = max(1, math.ceil(size / per_way))
    found: list[Way] = []
    for batch in range(1, wanted + 1):
        for dtype in random_markets.DTYPES[:2]:
            for compiled in (False, True):
                if len(found) == wanted:
                    return found
                found.append(random_markets.way(batch, dtype, layers=LAYERS, compiled=compiled))
    return found


def configurations(count: int, forms: Sequence[str]) -> int:
    """Of one way of inference on a machine with ``count`` devices (a power of two)."""
    powers = count.bit_length() - 1
    return 1 + (count > 1) + (2 * powers if forms == FORMS else 0)


def once(size: int, times: str, machines: str) -> Run:
    """Times one call of the optimiser in this process."""
    forms = FORMS if machines == EVERY_FORM else (SINGLE, DATA)
    market, platforms = random_markets.large(
        random.Random(1), offers=OFFERS, platforms=PLATFORMS, alike=machines != ALL_DIFFERENT
    )
    per_way = sum(configurations(offer.count, forms) for offer in market.offers)
    ways = ways_for(size, per_way)
    source: Times = RooflineTimes()
    if times == GIVEN:
        source = Given(ways, [Device(platform=platform) for platform in platforms.values()])
    requirements = Requirements(forms=forms, terms=(ON_DEMAND, SPOT), max_step_ns=5e8)
    begun, cpu = time.perf_counter(), time.process_time()
    answer = optimise(ways, market, requirements, source, platforms=platforms)
    return Run(
        candidates=answer.candidates, ways=len(ways), front=len(answer.front),
        seconds=time.perf_counter() - begun, cpu_s=time.process_time() - cpu, peak_bytes=highest_resident(),
    )  # fmt: skip


def highest_resident() -> int:
    """VmHWM of this process in bytes."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) * 1024
    return 0


def fresh(size: int, times: str, machines: str) -> Run:
    """The same in a new interpreter."""
    command = [sys.executable, "-m", "benchmarks.cost.scale", "--once", str(size), times, machines]
    found = subprocess.run(command, check=True, capture_output=True, text=True)
    return Run(**json.loads(found.stdout))


def median(runs: Sequence[Run]) -> Run:
    """The run of the middle time, with the highest memory of all."""
    ordered = sorted(runs, key=lambda run: run.seconds)
    middle = ordered[len(ordered) // 2]
    return Run(**{**asdict(middle), "peak_bytes": max(run.peak_bytes for run in runs)})


def exponents(runs: Sequence[Run]) -> list[str]:
    """Of growth in time from each size to the next: 1 is linear."""
    growth = [""]
    for small, big in itertools.pairwise(runs):
        ratio = math.log(big.seconds / small.seconds) / math.log(big.candidates / small.candidates)
        growth.append(f"{ratio:.2f}")
    return growth


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="the smallest size, once")
    parser.add_argument("--once", nargs=3, metavar=("SIZE", "TIMES", "MACHINES"), help="one call, as JSON")
    arguments = parser.parse_args(argv)
    if arguments.once:
        size, times, machines = arguments.once
        print(json.dumps(asdict(once(int(size), times, machines))))
        return 0
    sizes, repeats = (QUICK, 1) if arguments.quick else (SIZES, RUNS)
    rows, missed = [], False
    for machines, times in CASES:
        runs = [median([fresh(size, times, machines) for _ in range(repeats)]) for size in sizes]
        for run, growth in zip(runs, exponents(runs), strict=True):
            holds = run.seconds < GOAL_S and run.peak_bytes < GOAL_BYTES
            missed |= not holds
            rows.append(
                (f"{machines}; {times} times", f"{run.candidates:,}".replace(",", " "), str(run.ways),
                 f"{run.seconds:.3f} s", f"{run.cpu_s:.3f} s", f"{run.peak_bytes / 2**20:.0f} MiB", growth,
                 str(run.front), "holds" if holds else "MISSED")
            )  # fmt: skip
    print(f"{OFFERS} offers of {PLATFORMS} platforms; median of {repeats} fresh processes; goal {GOAL_S:g} s, 1 GiB\n")
    print_table(("machines and times", "configurations", "ways", "seconds", "CPU", "peak", "growth", "front", ""), rows)
    return 1 if missed else 0


if __name__ == "__main__":
    raise SystemExit(main())
