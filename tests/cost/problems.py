"""Small problems for the optimiser: platforms, offers, ways, times that a table gives, and a slow second opinion."""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from perfgate.cost import memory
from perfgate.cost.optimise import optimise
from perfgate.records.cost import COST, ENERGY, ROOFLINE, TIME, UTILISATION, Device, Requirements, StepTime, Way
from perfgate.records.graph import KernelGroup, Totals, Traffic
from perfgate.records.hardware import GPU, ON_DEMAND, Market, Offer, Platform

GIB = 2**30


def make_platform(name: str, **changes) -> Platform:
    """A GPU of 100 TFLOP/s, 1 TB/s, 16 GiB and 100 W."""
    given: dict[str, Any] = {
        "label": name.upper(),
        "vendor": "nvidia",
        "kind": GPU,
        "peak_flop_per_s": {"float16": 100e12, "float32": 50e12},
        "bandwidth_bytes_per_s": 1e12,
        "memory_bytes": 16 * GIB,
        "power_w": 100.0,
    }
    return Platform(name=name, **(given | changes))


def make_offer(platform: str, usd: float, **changes) -> Offer:
    """One device on demand at a provider called cloud."""
    given: dict[str, Any] = {
        "provider": "cloud",
        "region": "r1",
        "instance": f"{platform}.x",
        "count": 1,
        "terms": ON_DEMAND,
    }
    return Offer(platform=platform, usd_per_hour=usd, date="2026-01-01", **(given | changes))


def make_way(batch: int = 1, *, dtype: str = "float16", mode: str = "infer", **changes) -> Way:
    """10 GFLOP and 1 GB an item in ten matrix products, 1 GB of weights, 0.1 GB of activations an item."""
    groups = (
        KernelGroup(
            name="fc", kind="matmul", dtype=dtype, flop=10**9 * batch, bytes=10**8 * (1 + batch), calls=10,
            written_bytes=10**7 * batch, weight_bytes=10**8,
        ),
    )  # fmt: skip
    totals = Totals(
        source="meta", flop=10**10 * batch, params=5 * 10**8, weight_bytes=10**9,
        traffic=Traffic(eager=10**9 * (1 + batch), fused=10**9 * (1 + batch), min=10**9), kernels=10,
        fingerprint=f"f{batch}", peak_activation_bytes=10**8 * batch, batch=batch, eager_kernels=groups,
    )  # fmt: skip
    given: dict[str, Any] = {
        "mode": mode,
        "batch": batch,
        "dtype": dtype,
        "compile": "eager",
        "totals": totals,
        "items": batch,
    }
    return Way(**(given | changes))


def make_time(ns: float, sigma: float = 0.0, **changes) -> StepTime:
    """A time with an interval of 90 % for this spread of its logarithm."""
    factor = math.exp(1.6448536269514722 * sigma)
    given: dict[str, Any] = {
        "ns": ns, "low_ns": ns / factor, "high_ns": ns * factor, "source": ROOFLINE, "bound": "memory",
        "intensity": 19.0, "ridge": 206.0, "flop_per_s": 100e12,
    }  # fmt: skip
    return StepTime(**(given | changes))


@dataclass
class FakeTimes:
    """Times by platform: ns an item of F 10 GFLOP, in proportion to the way's F; None: it cannot run anything.

    ``calls`` notes what was asked.
    """

    ns: Mapping[str, float | None]
    sigma: float = 0.0
    dtypes: dict[str, tuple[str, ...]] = field(default_factory=dict)
    calls: list[tuple[Way, tuple[str, ...]]] = field(default_factory=list)

    def __call__(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        self.calls.append((way, tuple(device.platform.name for device in devices)))
        return [self._one(way, device) for device in devices]

    def _one(self, way: Way, device: Device) -> StepTime | None:
        name = device.platform.name
        ns = self.ns[name]
        if ns is None or way.dtype not in self.dtypes.get(name, (way.dtype,)):
            return None
        return make_time(
            ns * max(way.totals.flop, 1) / 1e10 / device.share, self.sigma, flop_per_s=100e12 * device.share
        )


A, B = make_platform("a"), make_platform("b")
PLATFORMS = {"a": A, "b": B}
# a: 1 ms an item at $1, b: 2 ms at $0.4.
TIMES = {"a": 1e6, "b": 2e6}
MARKET = Market(offers=(make_offer("a", 1.0), make_offer("b", 0.4)))


def solve(*, ways=None, market=MARKET, times=None, platforms=None, sigma=0.0, volume=None, tail=None, **requirements):
    """The optimum of the small market, or of what is given instead."""
    return optimise(
        ways or [make_way()],
        market,
        Requirements(**requirements),
        times or FakeTimes(TIMES, sigma),
        volume=volume,
        platforms=platforms or PLATFORMS,
        tail=tail,
    )


@dataclass(frozen=True)
class Tried:
    """One configuration of the second opinion, single device or one replica on each."""

    offer: Offer
    way: Way
    devices: int
    values: dict[str, float]
    feasible: bool


def brute(
    ways: Sequence[Way], market: Market, requirements: Requirements, times: FakeTimes, platforms: dict[str, Platform]
) -> list[Tried]:
    """Every configuration in plain Python, for inference in the forms single and data, without ties or explanations."""
    found = []
    for offer, way in itertools.product(market.offers, ways):
        platform = platforms[offer.platform]
        time = times(way, [Device(platform=platform, share=offer.share)])[0]
        for used in sorted({1, offer.count}):
            if time is None:
                continue
            # The interval of the form "data" is wider by a spread of its own.
            spread = math.hypot(times.sigma, 0.05 if used > 1 else 0.0)
            high = time.ns * math.exp(1.6448536269514722 * spread)
            rate, slow = used * way.items * 1e9 / time.ns, used * way.items * 1e9 / high
            pi = time.flop_per_s * offer.count
            values = {
                COST: offer.usd_per_hour / 3600 / rate,
                UTILISATION: -way.totals.flop * used * 1e9 / time.ns / pi,
                TIME: time.ns,
                ENERGY: (platform.power_w or math.nan) * offer.share * offer.count / rate,
            }
            need = memory.bytes_needed(way, "single" if used == 1 else "data", used)
            size = offer.memory_bytes or platform.memory_bytes or 0
            tests = [
                need <= int(size * (1 - requirements.memory_headroom)),
                requirements.max_step_ns is None or high <= requirements.max_step_ns,
                requirements.min_throughput is None or slow >= requirements.min_throughput,
                requirements.max_usd_per_hour is None or offer.usd_per_hour <= requirements.max_usd_per_hour,
                requirements.min_utilisation is None
                or way.totals.flop * used * 1e9 / high / pi >= requirements.min_utilisation,
                offer.terms in requirements.terms,
            ]
            found.append(Tried(offer, way, used, values, all(tests)))
    return found


def non_dominated(vectors: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """By definition, pair by pair."""
    distinct = set(vectors)
    return {
        one
        for one in distinct
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in distinct)
    }


def random_problem(
    seed: int,
) -> tuple[list[Way], Market, Requirements, FakeTimes, dict[str, Platform]]:
    """A market of a few platforms with equal prices, several regions and boxes, some ways, and some requirements."""
    rng = random.Random(seed)
    names = [f"p{number}" for number in range(rng.randint(1, 5))]
    platforms = {
        name: make_platform(name, memory_bytes=rng.choice([2, 4, 16]) * GIB, power_w=rng.choice([70.0, 300.0]))
        for name in names
    }
    offers = []
    for number in range(rng.randint(1, 20)):
        name = rng.choice(names)
        count = rng.choice([1, 1, 2, 4, 3])
        price = count * rng.choice([0.5, 1.0, 1.0, 2.0, round(rng.uniform(0.1, 5), 3)])
        offers.append(
            make_offer(
                name, price, count=count, instance=f"i{number}", region=rng.choice(["r1", "r2"]),
                terms=rng.choice(["on-demand", "spot"]),
            )
        )  # fmt: skip
    ways = [make_way(batch) for batch in sorted(rng.sample([1, 2, 4, 8, 16], rng.randint(1, 4)))]
    times = FakeTimes({name: rng.choice([1e6, 2e6, 5e5, 3e6, None]) for name in names}, sigma=rng.choice([0.0, 0.2]))
    requirements = Requirements(
        max_step_ns=rng.choice([None, 5e6, 2e6]),
        min_throughput=rng.choice([None, 500.0, 3000.0]),
        max_usd_per_hour=rng.choice([None, 2.0]),
        min_utilisation=rng.choice([None, 0.03]),
        forms=("single", "data"),
        terms=("on-demand", "spot") if rng.random() < 0.5 else ("on-demand",),
        objectives=tuple(rng.sample([COST, UTILISATION, TIME, ENERGY], rng.randint(1, 4))),
    )
    return ways, Market(offers=tuple(offers)), requirements, times, platforms


def changed(times: Sequence[StepTime | None], **changes) -> list[StepTime | None]:
    """The same times with other fields."""
    return [None if time is None else replace(time, **changes) for time in times]


def with_kernels(way: Way, *groups: KernelGroup, fused: tuple[KernelGroup, ...] = (), peak: int | None = None) -> Way:
    """The way with these kernels and their F; ``peak``: of activations, where another is wanted."""
    totals = replace(way.totals, eager_kernels=groups, fused_kernels=fused)
    if groups:
        totals = replace(totals, flop=sum(group.flop * group.calls for group in groups))
    return replace(way, totals=totals if peak is None else replace(totals, peak_activation_bytes=peak))
