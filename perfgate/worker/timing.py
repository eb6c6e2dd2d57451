"""Floor 3, worker. Warm-up and timed blocks.

In: a step, its devices, and clocks in ns. Out: times in ns per call. No torch. A time is the wall time around the call
and the wait for *all* devices: what a call merely queues has not been done.
"""

from __future__ import annotations

import gc
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol

from perfgate.records.protocol import Open, Time, Timed
from perfgate.worker.devices import Devices

Clock = Callable[[], int]

_WINDOW = 5
# Calls shorter than this are timed several together, until a sample lasts a millisecond.
_SHORT_NS = 200_000
_SAMPLE_NS = 1_000_000
# A call that returns before this share of its synchronised time only queued its work.
_ASYNCHRONOUS = 0.2


class Step(Protocol):
    """What is timed, of whatever framework; ``stepping.Step`` says what each part means."""

    call: Callable[[], object]
    items: int

    def context(self) -> AbstractContextManager[None]:
        """Entered once around a run of calls."""
        ...

    @property
    def spans(self) -> tuple[str, ...]:
        """Names of the spans seen so far."""
        ...

    def take_spans(self) -> dict[str, int]:
        """Mean time in ns of each span since the last call of this."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmUp:
    """``step_ns``: median per call of the last window; ``settled`` False: the cap came first."""

    step_ns: int
    calls: int
    settled: bool
    asynchronous: bool


def warm_up(step: Step, devices: Devices, request: Open, clock: Clock = time.perf_counter_ns) -> WarmUp:
    """Call until enough calls and time have passed and two successive windows' medians agree, or the cap."""
    samples: list[float] = []
    returned: list[float] = []
    calls, inner = 0, 1
    started = clock()
    settled = False
    with step.context():
        while True:
            before = clock()
            for _ in range(inner):
                step.call()
            queued = clock()
            devices.sync()
            after = clock()
            calls += inner
            samples.append((after - before) / inner)
            returned.append((queued - before) / inner)
            if calls == 1 and samples[0] < _SHORT_NS:
                # The first sample is of one call and not like the others.
                inner = max(1, round(_SAMPLE_NS / max(samples.pop(), 1.0)))
                continue
            elapsed = after - started
            enough = calls >= request.warmup_min_calls and elapsed >= request.warmup_min_ns
            settled = enough and len(samples) % _WINDOW == 0 and _agree(samples, request.warmup_agree)
            if settled or elapsed >= request.warmup_cap_ns:
                break
    recent = statistics.median(samples[-_WINDOW:])
    share = statistics.median(returned[-_WINDOW:]) / recent if recent > 0 else 1.0
    return WarmUp(step_ns=round(recent), calls=calls, settled=settled, asynchronous=share < _ASYNCHRONOUS)


def _agree(samples: list[float], tolerance: float) -> bool:
    if len(samples) < 2 * _WINDOW:
        return False
    last = statistics.median(samples[-_WINDOW:])
    previous = statistics.median(samples[-2 * _WINDOW : -_WINDOW])
    return abs(last - previous) <= tolerance * previous


def time_block(
    step: Step,
    devices: Devices,
    request: Time,
    clock: Clock = time.perf_counter_ns,
    cpu_clock: Clock = time.process_time_ns,
) -> Timed:
    """One block as ``request`` says; the garbage collector is off inside."""
    samples: list[int] = []
    on_device: list[int] = []
    spans: list[dict[str, int]] = []
    inner = request.inner
    with quiet_collector(), step.context():
        _discard(step, devices, request, clock)
        step.take_spans()
        compiled = compilations()
        cpu_before, wall_before = cpu_clock(), clock()
        for _ in range(request.samples):
            devices.begin()
            before = clock()
            for _ in range(inner):
                step.call()
            devices.end()
            devices.sync()
            samples.append((clock() - before) // inner)
            device_ns = devices.elapsed_ns()
            if device_ns is not None:
                on_device.append(device_ns // inner)
            spans.append(step.take_spans())
        wall_ns, cpu_ns = clock() - wall_before, cpu_clock() - cpu_before
    return Timed(
        samples_ns=tuple(samples),
        spans_ns={name: tuple(sample.get(name, 0) for sample in spans) for name in step.spans},
        device_ns=tuple(on_device),
        cpu_ns=cpu_ns,
        wall_ns=wall_ns,
        items=step.items,
        recompiles=compilations() - compiled,
    )


def _discard(step: Step, devices: Devices, request: Time, clock: Clock) -> None:
    started = clock()
    calls = 0
    while calls < request.discard_calls or clock() - started < request.discard_ns:
        step.call()
        devices.sync()
        calls += 1


@contextmanager
def quiet_collector() -> Iterator[None]:
    """Collect what earlier calls left, take everything alive out of the collector's sight, and switch it off.

    Otherwise a full collection, whose length depends on all objects of the process, falls into some calls.
    """
    was_enabled = gc.isenabled()
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def compilations() -> int:
    """Frames that torch.compile has translated in this process so far; 0 where it was never used."""
    counters = dynamo_counters()
    frames = counters.get("frames", {}) if counters is not None else {}
    return int(frames.get("total", 0))


def graph_breaks() -> int | None:
    """Graph breaks so far; None where torch.compile was never used."""
    counters = dynamo_counters()
    return None if counters is None else int(sum(counters.get("graph_break", {}).values()))


def dynamo_counters() -> Any:
    """torch.compile's own counters, without importing it for the purpose."""
    utils = sys.modules.get("torch._dynamo.utils")
    return None if utils is None else utils.counters
