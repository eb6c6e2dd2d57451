"""The best machine for a job by definition: every configuration of every offer, one after the other, in plain Python.

A second opinion for ``allocate``. It follows ``docs/cost.md`` and ``docs/allocate.md`` in scalars; of perfgate it takes
only what is tested elsewhere: parts of counted ways, memory, and times.
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import NormalDist

from perfgate.cost import memory
from perfgate.cost import ways as parts
from perfgate.cost.times import Times
from perfgate.records.allocation import CHEAPEST
from perfgate.records.cost import DATA, PIPELINE, SINGLE, TENSOR, Device, Requirements, StepTime, Way
from perfgate.records.estimate import Job
from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER, KernelGroup, Totals, Traffic
from perfgate.records.hardware import Market, Offer, Platform

Z90 = NormalDist().inv_cdf(0.95)
RATES = ("float64", "float32", "tf32", "float16", "bfloat16")
# ns, low, high
Time = tuple[float, float, float]


@dataclass(frozen=True, slots=True)
class Running:
    """One configuration on one kind of machine: what is the same for every offer of it."""

    way: Way
    form: str
    used: int
    need: int
    high_ns: float
    items_per_s: float
    slow_items_per_s: float
    slow_utilisation: float
    job_s: float | None
    slow_job_s: float | None


@dataclass(frozen=True, slots=True)
class Tried:
    """One configuration of one offer. ``broken``: limit -> by how much, relative; infinite: not known."""

    offer: Offer
    running: Running
    key: tuple[float, ...]
    broken: dict[str, float]


@dataclass(slots=True)
class Exhaustive:
    """All configurations; times are asked for once for each way and device."""

    times: Times
    platforms: Mapping[str, Platform]
    known: dict[tuple[int, str, float], StepTime | None] = field(default_factory=dict)
    made: dict[tuple[int, str, int], Way | None] = field(default_factory=dict)
    kept: list[Way] = field(default_factory=list)

    def search(
        self, ways: Sequence[Way], market: Market, wanted: Requirements, job: Job, choice: str
    ) -> Iterator[Tried]:
        """Every configuration that has a time and whose memory is known, feasible or not."""
        machines: dict[tuple[str, float, int], list[Running]] = {}
        for offer in market.offers:
            if not passes(offer, wanted):
                continue
            platform = self.platforms[offer.platform]
            key = (offer.platform, offer.share, offer.count)
            if key not in machines:
                device = Device(platform=platform, share=offer.share)
                machines[key] = [one for way in ways for one in self._runs(way, device, offer.count, wanted, job)]
            for running in machines[key]:
                yield self._tried(offer, platform, running, wanted, job, choice)

    def _runs(self, way: Way, device: Device, count: int, wanted: Requirements, job: Job) -> Iterator[Running]:
        base = self._time(way, device)
        if base is None:
            return
        training, link = parts.trains(way), device.platform.link_bytes_per_s
        for form in wanted.forms or (SINGLE, DATA, TENSOR, PIPELINE):
            for used in (1,) if form == SINGLE else counts(count):
                if form == DATA and not training and used != count:
                    continue
                if link is None and form != SINGLE and (form != DATA or training):
                    continue
                found = self._step(way, device, base, form, used)
                if found is None:
                    continue
                step, period, done = found
                yield self._running(way, base, device, count, form, used, step, period, done, job)

    def _running(
        self, way: Way, base: StepTime, device: Device, count: int, form: str, used: int,
        step: Time, period: Time, done: float, job: Job,
    ) -> Running:  # fmt: skip
        wider = NormalDist().inv_cdf((1 + job.confidence) / 2) / Z90
        rate, slow_90 = (done * way.items * 1e9 / ns for ns in (period[0], period[2]))
        slow = rate * (slow_90 / rate) ** wider
        use = way.totals.flop * rate / way.items / (base.flop_per_s * count)
        likely_s, slow_s = (whole_job_s(job, way, used if form == DATA else 1, per_s) for per_s in (rate, slow))
        return Running(
            way=way, form=form, used=used, need=memory.bytes_needed(way, form, used, kind=device.platform.kind),
            high_ns=step[0] * (step[2] / step[0]) ** wider, items_per_s=rate, slow_items_per_s=slow,
            slow_utilisation=use * slow / rate, job_s=likely_s, slow_job_s=slow_s,
        )  # fmt: skip

    def _step(self, way: Way, device: Device, base: StepTime, form: str, used: int) -> tuple[Time, Time, float] | None:
        """A step, the time from the end of one to the end of the next, and how many end then."""
        training, link = parts.trains(way), device.platform.link_bytes_per_s or math.inf
        alone = (base.ns, base.low_ns, base.high_ns)
        if form == SINGLE:
            return alone, alone, 1.0
        if form == DATA:
            size = memory.gradient_bytes(way) if training else 0
            sent = ring(size, math.ceil(size / (25 * 2**20)), used, link) if training else 0.0
            step = plus(wider(alone, 0.1 if training else 0.05), sent)
            return step, step, float(used)
        written, products = parts.product_outputs(way)
        if form == TENSOR:
            part = self._time(self._part(way, form, used), device)
            if part is None:
                return None
            passes = 2 if training else 1
            sent = ring(passes * written / 2, passes * math.ceil(products / 2), used, link)
            step = plus(wider((part.ns, part.low_ns, part.high_ns), 0.15), sent)
            return step, step, 1.0
        batches = parts.micro_batches(way, used)[0] if training else 1
        sent = written / max(products, 1) / batches / (0.75 * link) * 1e9 + 10_000.0
        longest = max(1 / used, parts.largest_share(way))
        if not training:
            work = wider(alone, 0.15)
            stage = scaled(work, longest)
            return plus(work, (used - 1) * sent), plus(stage, sent), 1.0
        part = self._time(self._part(way, form, used), device)
        if part is None:
            return None
        update = self._time(self._part(way, "update", 1), device)
        turns = batches + used - 1
        stage = scaled(wider((part.ns, part.low_ns, part.high_ns), 0.15), longest)
        step = plus(scaled(stage, turns), 2 * turns * sent)
        if update is not None:
            ns, low, high = scaled(_ends(update), 1 / used)
            step = step[0] + ns, step[1] + low, step[2] + high
        return step, step, 1.0

    def _part(self, way: Way, form: str, used: int) -> Way | None:
        key = (id(way), form, used)
        if key not in self.made:
            self.kept.append(way)
            self.made[key] = {
                TENSOR: lambda: parts.tensor_share(way, used),
                PIPELINE: lambda: parts.at_batch(parts.without_optimizer(way), parts.micro_batches(way, used)[1]),
                "update": lambda: parts.optimizer_alone(way),
            }[form]()
        return self.made[key]

    def _time(self, way: Way | None, device: Device) -> StepTime | None:
        if way is None:
            return None
        key = (id(way), device.platform.name, device.share)
        if key not in self.known:
            self.kept.append(way)
            self.known[key] = self.times(way, [device])[0]
        return self.known[key]

    def _tried(
        self, offer: Offer, platform: Platform, one: Running, wanted: Requirements, job: Job, choice: str
    ) -> Tried:
        price = offer.usd_per_hour
        free = memory.free_bytes(offer, platform, wanted.memory_headroom)
        tail = math.exp(0.05 * NormalDist().inv_cdf(wanted.percentile))
        above = [
            ("memory", one.need, math.inf if free is None else free),
            ("step time", one.high_ns * tail, wanted.max_step_ns),
            ("price an hour", price, wanted.max_usd_per_hour),
            ("price a month", price * 730, wanted.max_usd_per_month),
            ("deadline", one.slow_job_s or 0.0, job.deadline_s),
            ("budget", price * (one.slow_job_s or 0.0) / 3600, job.budget_usd),
        ]
        below = [
            ("throughput", one.slow_items_per_s, job.items_per_s),
            ("utilisation", one.slow_utilisation, wanted.min_utilisation),
        ]
        broken = {name: value / most - 1 for name, value, most in above if most is not None and value > most}
        broken |= {name: least / value - 1 for name, value, least in below if least is not None and value < least}
        if free is None and one.need > 2**30:
            broken["memory"] = math.inf
        money = price if one.job_s is None else price * one.job_s
        whole = memory.free_bytes(offer, platform, 0.0)
        size = math.inf if whole is None else float(whole * offer.count)
        peak = max(platform.peak_flop_per_s.get(name, 0.0) for name in RATES) * offer.share * offer.count
        key = (money, price, size, peak) if choice == CHEAPEST else (size, peak, price, money)
        return Tried(offer, one, key, broken)


def passes(offer: Offer, wanted: Requirements) -> bool:
    """Whether an offer may be considered at all."""
    return (
        offer.terms in wanted.terms
        and (not wanted.providers or offer.provider in wanted.providers)
        and (not wanted.counts or offer.count in wanted.counts)
        and (not wanted.devices or offer.platform in wanted.devices)
        and offer.provider not in wanted.unavailable
        and offer.name not in wanted.unavailable
    )


def counts(count: int) -> list[int]:
    """Two, four, eight, ... and all devices of a machine."""
    return [used for used in range(2, count + 1) if used == count or used & (used - 1) == 0]


def whole_job_s(job: Job, way: Way, replicas: int, items_per_s: float) -> float | None:
    """Start-up and whole rounds, pass by pass."""
    each = replicas * way.items
    if job.dataset_items is not None:
        epochs = 1.0 if job.epochs is None else job.epochs
        passes = [job.dataset_items] * int(epochs) + [round((epochs - int(epochs)) * job.dataset_items, 6)]
        rounds = sum(math.ceil(items / each) for items in passes)
    elif job.items is not None:
        rounds = math.ceil(job.items / each)
    else:
        return None
    return job.start_up_s + rounds * each / items_per_s


def ring(size: float, messages: int, devices: int, link: float) -> float:
    """Nanoseconds of a sum over all devices: three quarters of the link's rate, 10 us a round."""
    return 2 * (devices - 1) / devices * size / (0.75 * link) * 1e9 + messages * 2 * math.ceil(math.log2(devices)) * 1e4


def wider(time: Time, sigma: float) -> Time:
    """With an independent error beside its own."""
    own = math.log(time[2] / time[1]) / (2 * Z90)
    factor = math.exp(Z90 * (math.sqrt(own**2 + sigma**2) - own))
    return time[0], time[1] / factor, time[2] * factor


def plus(time: Time, ns: float) -> Time:
    """All three and a constant."""
    return time[0] + ns, time[1] + ns, time[2] + ns


def scaled(time: Time, factor: float) -> Time:
    """All three times a factor."""
    return time[0] * factor, time[1] * factor, time[2] * factor


def _ends(time: StepTime) -> Time:
    return time.ns, time.low_ns, time.high_ns


def random_way(rng: random.Random, batch: int, dtype: str, mode: str) -> Way:
    """A step of some layers whose products, attention, norms and pointwise kernels grow with the batch."""
    width = 4 if dtype == "float32" else 2
    layers, weights = rng.choice((2, 8, 24)), rng.choice((1, 10, 100)) * 10**6
    pixels = rng.choice((50, 400))

    def group(name: str, kind: str, flop: int, held: int, moved: int, *, calls: int = layers) -> KernelGroup:
        return KernelGroup(
            name=name, kind=kind, dtype=dtype, flop=flop * batch, bytes=held + moved * batch, calls=calls,
            written_bytes=moved * batch // 3, weight_bytes=held,
        )  # fmt: skip

    moved = 3000 * pixels * width
    forward = [
        group("conv", "convolution", 2 * weights * pixels // 10, weights * width, moved),
        group("fc", "matmul", 2 * weights, weights * width, moved // 10),
        group("attention", "attention", 10**7, 0, moved),
        group("norm", "norm", 10**5, 0, moved),
        group("relu", "pointwise", 10**5, 0, moved, calls=2 * layers),
    ]
    groups = list(forward)
    held = sum(one.weight_bytes * one.calls for one in forward)
    if mode == "train":
        groups += [
            KernelGroup(
                name=f"{one.name} backward", kind=one.kind, dtype=dtype, flop=2 * one.flop, bytes=2 * one.bytes,
                calls=one.calls, written_bytes=one.written_bytes, weight_bytes=one.weight_bytes, phase=BACKWARD,
            )
            for one in forward
        ]  # fmt: skip
        groups.append(
            KernelGroup(name="step", kind="pointwise", dtype=dtype, flop=0, bytes=rng.choice((3, 7)) * held,
                        written_bytes=held, weight_bytes=held, phase=OPTIMIZER)
        )  # fmt: skip
    total = sum(one.bytes * one.calls for one in groups)
    activations = moved * layers * batch
    totals = Totals(
        source="meta", flop=sum(one.flop * one.calls for one in groups), params=held // width, weight_bytes=held,
        traffic=Traffic(eager=total, fused=total, min=held), kernels=sum(one.calls for one in groups),
        fingerprint=f"{rng.random()}", batch=batch, eager_kernels=tuple(groups),
        peak_activation_bytes=activations + (held if mode == "train" else 0),
    )  # fmt: skip
    assert all(one.phase == FORWARD for one in forward)
    return Way(mode=mode, batch=batch, dtype=dtype, compile="eager", totals=totals, items=batch)


def random_ways(rng: random.Random) -> tuple[Way, ...]:
    """One model in some batches and dtypes."""
    mode, seed = rng.choice(("infer", "train")), rng.random()
    asked = {(rng.choice((1, 4, 16, 64)), rng.choice(("float32", "float16"))) for _ in range(rng.randint(1, 4))}
    return tuple(random_way(random.Random(seed), batch, dtype, mode) for batch, dtype in sorted(asked))


def random_job(rng: random.Random, scale: float) -> Job:
    """A rate, an amount of work, or neither; ``scale``: items a second that a middling machine does."""
    confidence = rng.choice((0.5, 0.8, 0.9, 0.99))
    kind = rng.choice(("rate", "items", "epochs", "nothing"))
    if kind == "nothing":
        return Job(confidence=confidence)
    if kind == "rate":
        return Job(items_per_s=scale * 10 ** rng.uniform(-2, 1.5), confidence=confidence)
    work = {"items": scale * 10 ** rng.uniform(0, 5)} if kind == "items" else {
        "dataset_items": float(round(scale * 10 ** rng.uniform(0, 4)) + 1), "epochs": rng.choice((1.0, 2.5, 10.0)),
    }  # fmt: skip
    items = work.get("items") or work["dataset_items"] * work["epochs"]
    seconds = items / scale
    return Job(
        **work,
        deadline_s=rng.choice((None, 1 + 301 + seconds * 10 ** rng.uniform(-1, 1))),
        budget_usd=rng.choice((None, (seconds + 300) / 3600 * 10 ** rng.uniform(-2, 0.5))),
        confidence=confidence,
        start_up_s=rng.choice((0.0, 60.0, 300.0)),
    )


def random_requirements(rng: random.Random, step_ns: float) -> Requirements:
    """Some limits; ``step_ns``: a step of a middling machine."""
    return Requirements(
        max_step_ns=rng.choice((None, None, step_ns * 10 ** rng.uniform(-0.7, 1))),
        percentile=rng.choice((0.5, 0.9, 0.99)),
        memory_headroom=rng.choice((0.0, 0.1, 0.3)),
        max_usd_per_hour=rng.choice((None, None, 10 ** rng.uniform(-1, 1.5))),
        max_usd_per_month=rng.choice((None, None, None, 10 ** rng.uniform(1.5, 4))),
        min_utilisation=rng.choice((None, None, None, 0.05)),
        terms=rng.choice((("on-demand",), ("on-demand", "spot"))),
        providers=rng.choice(((), (), ("aws",), ("gcp", "azure"))),
        counts=rng.choice(((), (), (1,), (4, 8))),
        forms=rng.choice(((), (), (SINGLE, DATA), (SINGLE,))),
    )
