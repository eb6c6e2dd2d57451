"""Random markets, ways to run a step and times, and their optimum by definition: nothing of the optimiser's is used.

The steps are those of a small transformer whose kernels grow with the batch. Times follow the plain roofline with a
launch time and one factor a platform, so that parts of a step (a share of its products, a micro-batch) have times too.
"""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from dataclasses import dataclass, replace

from perfgate.records.cost import (
    COST,
    DATA,
    ENERGY,
    MEMORY_BOUND,
    ROOFLINE,
    SINGLE,
    TIME,
    UTILISATION,
    Device,
    Requirements,
    StepTime,
    Way,
)
from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER, KernelGroup, Totals, Traffic
from perfgate.records.hardware import GPU, ON_DEMAND, SPOT, Market, Offer, Platform

GIB = 2**30
TERA = 1e12
HOUR_S = 3600.0
DTYPES = ("float32", "float16", "bfloat16")
OBJECTIVES = (COST, UTILISATION, TIME, ENERGY)
# Figures whose first digits agree are equal: the optimiser may multiply in another order.
DIGITS = 9


def way(batch: int, dtype: str, *, layers: int = 4, mode: str = "infer", compiled: bool = False) -> Way:
    """A step of ``layers`` distinct layers, each with four kernels, 100 MB of weights and some 20 GFLOP an item."""
    width = 4 if dtype == "float32" else 2
    groups = []
    for layer in range(layers):
        flop, weights, moved = 10**10 + layer * 10**7, 5 * 10**7, 2 * 10**6 * width + layer
        for name, kind, part in (("qkv", "matmul", 0.6), ("attn", "attention", 0.2), ("mlp", "matmul", 1.2)):
            held = 0 if kind == "attention" else int(weights * part) * width // 2
            groups.append(
                KernelGroup(
                    name=f"{name}{layer}", kind=kind, dtype=dtype, flop=int(flop * part) * batch,
                    bytes=held + moved * batch, written_bytes=moved * batch // 2, weight_bytes=held,
                )
            )  # fmt: skip
        groups.append(
            KernelGroup(name=f"norm{layer}", kind="norm", dtype=dtype, flop=10**6 * batch, bytes=moved * batch,
                        calls=1 if compiled else 3, written_bytes=moved * batch // 2)
        )  # fmt: skip
    if mode == "train":
        # Each product has two in the backward pass; the optimiser reads and writes weights, gradients and two moments.
        held = sum(group.weight_bytes for group in groups)
        groups += [
            replace(group, flop=2 * group.flop, bytes=2 * group.bytes, phase=BACKWARD) for group in tuple(groups)
        ]
        groups.append(
            KernelGroup(name="adam", kind="elementwise", dtype="float32", flop=held, bytes=5 * held,
                        written_bytes=2 * held, weight_bytes=5 * held, phase=OPTIMIZER)
        )  # fmt: skip
    flop = sum(group.flop * group.calls for group in groups)
    moved = sum(group.bytes * group.calls for group in groups)
    held = sum(group.weight_bytes for group in groups if group.phase == FORWARD)
    totals = Totals(
        source="meta", flop=flop, params=held // width, weight_bytes=held,
        traffic=Traffic(eager=moved, fused=moved, min=held), kernels=sum(group.calls for group in groups),
        fingerprint=f"{batch}{dtype}{layers}{mode}", peak_activation_bytes=10**7 * batch, batch=batch,
        eager_kernels=tuple(groups), fused_kernels=tuple(groups),
    )  # fmt: skip
    return Way(
        mode=mode, batch=batch, dtype=dtype, compile="default" if compiled else "eager", totals=totals, items=batch
    )


@dataclass(frozen=True, slots=True)
class PlainTimes:
    """t = factor of the platform x sum of max(F / pi, M / beta) + launch, no interval; None without a rate."""

    factors: dict[str, float]
    launch_ns: float = 4000.0

    def __call__(self, way: Way, devices: Sequence[Device]) -> list[StepTime | None]:
        """One time for each device."""
        # On every device of one dtype the same sums: only pi and beta differ.
        groups = [(group.flop, group.bytes, group.calls) for group in way.totals.eager_kernels]
        return [self._one(way, device, groups) for device in devices]

    def _one(self, way: Way, device: Device, groups: Sequence[tuple[int, int, int]]) -> StepTime | None:
        platform = device.platform
        rate = platform.peak_flop_per_s.get(way.dtype)
        if rate is None:
            return None
        rate, beta = rate * device.share, platform.bandwidth_bytes_per_s * device.share
        factor = self.factors[platform.name] * 1e9
        ns = sum(calls * (factor * max(flop / rate, size / beta) + self.launch_ns) for flop, size, calls in groups)
        return StepTime(
            ns=ns, low_ns=ns, high_ns=ns, source=ROOFLINE, bound=MEMORY_BOUND, intensity=1.0, ridge=rate / beta,
            flop_per_s=rate,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Problem:
    """What the optimiser is given."""

    ways: tuple[Way, ...]
    market: Market
    requirements: Requirements
    times: PlainTimes
    platforms: dict[str, Platform]


def problem(rng: random.Random, *, forms: tuple[str, ...] = (SINGLE, DATA), most_offers: int = 24) -> Problem:
    """Up to 24 offers of up to six platforms, with equal prices and regions at times, and up to six ways."""
    platforms = {f"p{index}": _platform(f"p{index}", rng) for index in range(rng.randint(1, 6))}
    offers = tuple(_offer(rng, index, platforms) for index in range(rng.randint(min(4, most_offers), most_offers)))
    mode = "infer" if set(forms) <= {SINGLE, DATA} else rng.choice(("infer", "train"))
    ways = {
        (batch, dtype): way(batch, dtype, layers=rng.choice((1, 3)), mode=mode)
        for batch, dtype in ((rng.choice((1, 2, 4, 8, 64)), rng.choice(DTYPES)) for _ in range(rng.randint(1, 6)))
    }
    requirements = Requirements(
        max_usd_per_hour=rng.choice((None, None, 8.0)),
        # Where each replica works alone the time is known to the digit; forms of several devices add a spread.
        max_step_ns=rng.choice((None, 30e6)) if forms == (SINGLE,) else None,
        terms=rng.choice(((ON_DEMAND,), (ON_DEMAND, SPOT))),
        regions=rng.choice(((), (), ("r1", "r2"), ("r2", "r3")))
        if {"r1", "r2", "r3"} <= {o.region for o in offers}
        else (),
        forms=forms,
        objectives=tuple(rng.sample(OBJECTIVES, rng.randint(1, 4))),
    )
    return Problem(
        ways=tuple(ways.values()), market=Market(offers=offers), requirements=requirements,
        times=PlainTimes({name: rng.choice((1.2, 1.5, 2.0)) for name in platforms}), platforms=platforms,
    )  # fmt: skip


def _platform(name: str, rng: random.Random) -> Platform:
    pi = rng.choice((10, 50, 65, 120, 300)) * TERA
    rates = {"float32": pi / 4, "float16": pi, "bfloat16": pi}
    if rng.random() < 0.3:
        del rates["bfloat16"]
    return Platform(
        name=name, label=name.upper(), vendor="nvidia", kind=GPU, peak_flop_per_s=rates,
        bandwidth_bytes_per_s=rng.choice((0.3, 0.9, 2.0)) * TERA,
        # Next to nothing fits, or everything.
        memory_bytes=rng.choice((GIB // 16, 64 * GIB, 80 * GIB, 141 * GIB)), power_w=rng.choice((70.0, 300.0, 700.0)),
        link_bytes_per_s=rng.choice((None, 32e9, 300e9)),
    )  # fmt: skip


def _offer(rng: random.Random, index: int, platforms: dict[str, Platform]) -> Offer:
    name, count = rng.choice(sorted(platforms)), rng.choice((1, 1, 2, 4, 8))
    price = count * rng.choice((0.5, 1.0, 1.0, 2.0, round(rng.uniform(0.1, 5.0), 4)))
    return Offer(
        provider=rng.choice(("aws", "gcp")), region=rng.choice(("r1", "r2", "r3")), instance=f"i{index}", platform=name,
        count=count, usd_per_hour=price, terms=rng.choice((ON_DEMAND, ON_DEMAND, SPOT)), date="2026-08-01",
        share=rng.choice((1.0, 1.0, 1.0, 0.5)) if count == 1 else 1.0,
    )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class Tried:
    """One feasible configuration: (cost in USD an item, minus utilisation, seconds a step, joule an item)."""

    offer: Offer
    way: Way
    devices: int
    values: tuple[float, ...]


def feasible(given: Problem) -> list[Tried]:
    """Every feasible configuration of inference on one device or on all of a machine's, one by one."""
    found = []
    wanted = given.requirements
    for offer in given.market.offers:
        platform = given.platforms[offer.platform]
        if offer.terms not in wanted.terms or (wanted.regions and offer.region not in wanted.regions):
            continue
        if wanted.max_usd_per_hour is not None and offer.usd_per_hour > wanted.max_usd_per_hour:
            continue
        if (platform.memory_bytes or 0) < GIB:
            continue
        for one in given.ways:
            time = given.times(one, [Device(platform=platform, share=offer.share)])[0]
            if time is None or (wanted.max_step_ns is not None and time.ns > wanted.max_step_ns):
                continue
            found += [
                Tried(offer=offer, way=one, devices=devices, values=values(offer, platform, one, devices, time))
                for devices in sorted({1, offer.count})
                if (SINGLE if devices == 1 else DATA) in wanted.forms
            ]
    return found


def values(offer: Offer, platform: Platform, one: Way, devices: int, time: StepTime) -> tuple[float, ...]:
    """The four objectives, by their definitions, all to be minimised."""
    seconds = time.ns / 1e9
    rate = devices * one.items / seconds
    watt = (platform.power_w or math.nan) * offer.share * offer.count
    use = devices * one.totals.flop / seconds / (time.flop_per_s * offer.count)
    return (offer.usd_per_hour / HOUR_S / rate, -use, seconds, watt / rate)


def rounded(value: float) -> float:
    """To so many digits that another order of factors does not show."""
    return float(f"{value:.{DIGITS}e}")


def objectives(found: Sequence[tuple[float, ...]], names: Sequence[str]) -> list[tuple[float, ...]]:
    """Of all four values those asked for, rounded."""
    places = [OBJECTIVES.index(name) for name in names]
    return [tuple(rounded(one[place]) for place in places) for one in found]


def non_dominated(vectors: Sequence[tuple[float, ...]]) -> set[tuple[float, ...]]:
    """The Pareto set by its definition, each vector against each other."""
    distinct = sorted(set(vectors))
    return {
        one
        for one in distinct
        if not any(other != one and all(a <= b for a, b in zip(other, one, strict=True)) for other in distinct)
    }


def large(rng: random.Random, *, offers: int, platforms: int, alike: bool = True) -> tuple[Market, dict[str, Platform]]:
    """A market of the size of the real one; not ``alike``: no two offers have machines with the same memory."""
    known = {f"p{index}": _platform(f"p{index}", rng) for index in range(platforms)}
    names = sorted(known)
    rented = []
    for index in range(offers):
        count = rng.choice((1, 1, 1, 2, 4, 8))
        rented.append(
            Offer(
                provider=rng.choice(("aws", "gcp", "azure", "oci")), region=f"r{rng.randint(1, 12)}",
                instance=f"i{index}", platform=rng.choice(names), count=count,
                usd_per_hour=round(count * rng.uniform(0.3, 6.0), 4), terms=rng.choice((ON_DEMAND, SPOT)),
                date="2026-08-01", memory_bytes=(24 * GIB if alike else 24 * GIB + index * 2**20),
            )
        )  # fmt: skip
    return Market(offers=tuple(rented)), known
