"""Warm-up and blocks on a fake clock: every figure is exact."""

from __future__ import annotations

import dataclasses
import gc
import weakref

import pytest

pytest.importorskip("torch")

from perfgate.records.protocol import Time
from perfgate.worker.failures import WorkerError
from perfgate.worker.session import Session
from perfgate.worker.stepping import GeneratorStep
from perfgate.worker.timing import quiet_collector, time_block, warm_up
from tests.worker.fakes import FakeClock, FakeDevice, make_devices, make_step
from tests.worker.helpers import make_open

pytestmark = pytest.mark.torch

MS = 1_000_000
US = 1_000


def warm_request(**changes):
    values = {"warmup_min_ns": 300 * MS, "warmup_agree": 0.02, "warmup_cap_ns": 30_000 * MS, **changes}
    return dataclasses.replace(make_open("net:Net"), **values)


def block(**changes):
    return Time(**{"samples": 5, "inner": 1, "discard_calls": 2, "discard_ns": 20 * MS, **changes})


class Recording:
    def __init__(self, clock, calls, duration):
        self.clock, self.calls, self.duration = clock, calls, duration

    def __call__(self):
        self.calls.append(1)
        self.clock.sleep(self.duration)


def test_time_block__includes_the_wait_for_the_device():
    # M01: the call only queues the work; sync takes 50 ms.
    clock = FakeClock()
    devices = make_devices(clock, "cuda:0", sync_ns=50 * MS)

    timed = time_block(make_step(lambda: clock.sleep(10 * US)), devices, block(), clock, clock)

    assert timed.samples_ns == (50 * MS + 10 * US,) * 5


def test_warm_up__notes_calls_that_only_queue_their_work():
    clock = FakeClock()
    step = make_step(lambda: clock.sleep(300 * US))

    assert warm_up(step, make_devices(clock, "cuda:0", sync_ns=50 * MS), warm_request(), clock).asynchronous
    assert not warm_up(step, make_devices(clock, "cuda:0", sync_ns=100 * US), warm_request(), clock).asynchronous


def test_time_block__waits_for_every_device():
    # M02: torch.cuda.synchronize() alone waits for the current device only.
    clock = FakeClock()
    devices = make_devices(clock, "cuda:0", "cuda:1", "cpu", sync_ns=3 * MS)

    timed = time_block(make_step(lambda: None), devices, block(samples=4, discard_ns=0), clock, clock)

    assert [device.syncs for device in devices.all if isinstance(device, FakeDevice)] == [6, 6, 6]
    assert timed.samples_ns == (9 * MS,) * 4


def test_time_block__device_time_is_that_of_the_workloads_own_device():
    clock = FakeClock()
    devices = make_devices(clock, "cuda:1", "cpu", sync_ns=MS)

    timed = time_block(make_step(lambda: clock.sleep(6 * MS)), devices, block(inner=2), clock, clock)

    assert timed.device_ns == (6 * MS,) * 5
    assert timed.samples_ns == (7 * MS,) * 5


def test_time_block__inner_calls_share_one_sample():
    # M11: 2-us calls, 500 together make a sample of a millisecond.
    clock = FakeClock()
    calls: list[int] = []
    step = make_step(Recording(clock, calls, 2 * US))

    timed = time_block(step, make_devices(clock), block(inner=500, samples=3, discard_ns=0), clock, clock)

    assert timed.samples_ns == (2 * US,) * 3
    assert len(calls) == 3 * 500 + 2


@pytest.mark.parametrize(("call_ms", "thrown"), [(1, 20), (15, 2), (50, 2)])
def test_time_block__throws_away_until_both_calls_and_time_are_reached(call_ms, thrown):
    clock = FakeClock()
    calls: list[int] = []
    step = make_step(Recording(clock, calls, call_ms * MS))

    timed = time_block(step, make_devices(clock), block(samples=3), clock, clock)

    assert len(calls) == thrown + 3
    assert timed.wall_ns == 3 * call_ms * MS


def test_time_block__counts_processor_time_of_the_samples_only():
    wall, cpu = FakeClock(), FakeClock()

    def call():
        wall.sleep(10 * MS)
        cpu.sleep(7 * MS)

    step = make_step(call)

    timed = time_block(step, make_devices(wall), block(samples=4), wall, cpu)

    assert timed.cpu_ns == 28 * MS
    assert timed.wall_ns == 40 * MS


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
def test_time_block__recompilations_inside_are_counted():
    # M52: a compiled function that is given another shape in every call.
    torch = pytest.importorskip("torch")
    compiled = torch.compile(lambda x: x + 1, backend="eager", dynamic=False)
    sizes = iter(range(1, 100))
    same = torch.ones(3)
    clock = FakeClock()

    moving = time_block(make_step(lambda: compiled(torch.ones(next(sizes)))), make_devices(clock), block(discard_ns=0))
    steady = time_block(make_step(lambda: compiled(same)), make_devices(clock), block(discard_ns=0))

    assert moving.recompiles == 5
    assert steady.recompiles == 0


class Sometimes:
    """The first call takes longer, as with a compilation; later ones slowly reach their time."""

    def __init__(self, clock, durations):
        self.clock, self.durations, self.calls = clock, durations, 0

    def __call__(self):
        self.clock.sleep(self.durations(self.calls))
        self.calls += 1


def test_warm_up__ends_when_two_windows_agree():
    # M08: the clock of the processor rises over 150 ms: 1.3 ms at first, 1.0 ms in the end.
    clock = FakeClock()
    call = Sometimes(clock, lambda n: round(MS * (1 + 0.3 * max(0, 1 - n / 150))))

    warm = warm_up(make_step(call), make_devices(clock), warm_request(), clock)

    assert warm.settled
    assert warm.step_ns == MS
    assert warm.calls % 5 == 0


def test_warm_up__goes_on_while_windows_differ():
    clock = FakeClock()
    call = Sometimes(clock, lambda n: MS if n > 400 else (2 if n // 5 % 2 else 1) * MS)

    warm = warm_up(make_step(call), make_devices(clock), warm_request(), clock)

    assert warm.settled
    assert warm.step_ns == MS
    assert warm.calls > 400


def test_warm_up__does_not_end_before_its_least_time_and_calls():
    clock = FakeClock()
    warm = warm_up(make_step(Sometimes(clock, lambda _: MS)), make_devices(clock), warm_request(), clock)

    assert warm.calls == 300
    assert warm.step_ns == MS
    assert warm.settled


def test_warm_up__gives_up_at_the_cap():
    clock = FakeClock()
    call = Sometimes(clock, lambda n: (1 + (n // 5) % 2) * 10 * MS)

    warm = warm_up(make_step(call), make_devices(clock), warm_request(warmup_cap_ns=1000 * MS), clock)

    assert not warm.settled
    assert 1000 * MS <= clock.now < 1030 * MS


def test_warm_up__groups_short_calls():
    clock = FakeClock()
    warm = warm_up(make_step(Sometimes(clock, lambda _: 2 * US)), make_devices(clock), warm_request(), clock)

    assert warm.step_ns == 2 * US
    # Samples of a millisecond: 300 of them, not 150 000.
    assert warm.calls == 150_001 or 150_000 < warm.calls < 153_000


def test_warm_up__single_slow_call_is_enough_to_reach_the_cap():
    clock = FakeClock()
    warm = warm_up(make_step(lambda: clock.sleep(40_000 * MS)), make_devices(clock), warm_request(), clock)

    assert warm.calls == 1
    assert warm.step_ns == 40_000 * MS


class Cycle:
    def __init__(self):
        self.me = self


def test_time_block__collector_is_off_inside_and_garbage_goes_before_the_next():
    # M16: objects in cycles are made in every call.
    clock = FakeClock()
    seen, alive = [], []

    def call():
        seen.append(gc.isenabled())
        alive.append(weakref.ref(Cycle()))
        clock.sleep(MS)

    time_block(make_step(call), make_devices(clock), block(), clock, clock)
    assert not any(seen)
    assert gc.isenabled()
    first = list(alive)

    time_block(make_step(call), make_devices(clock), block(), clock, clock)
    assert all(reference() is None for reference in first)
    gc.unfreeze()


def test_quiet_collector__leaves_a_disabled_collector_disabled():
    gc.disable()
    try:
        with quiet_collector():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()


def test_quiet_collector__switches_on_again_after_an_error():
    with pytest.raises(ValueError, match="no"), quiet_collector():
        raise ValueError("no")
    assert gc.isenabled()
    gc.unfreeze()


def generator_step(clock, generate, batch=1):
    step = GeneratorStep(generate, items=batch, no_grad=False, dtype="float32", device="cpu")
    step.clock = clock
    return step


def test_time_block__spans_of_a_generator():
    clock = FakeClock()
    device = FakeDevice("cuda:0", clock, sync_ns=MS)

    def generate():
        clock.sleep(5 * MS)
        yield "first_token"
        for n in range(4):
            clock.sleep((n + 1) * MS)
            yield "token"
        clock.sleep(100 * MS)
        return 5

    from perfgate.worker.device import Devices

    step = generator_step(clock, generate)
    step.sync = device.sync

    timed = time_block(step, Devices([device]), block(samples=3), clock, clock)

    # Each span contains the wait for the device; the mean is taken over spans of one name.
    assert timed.spans_ns == {"first_token": (6 * MS,) * 3, "token": (3_500_000,) * 3}
    assert timed.items == 5
    assert step.spans == ("first_token", "token")


def test_generator_step__without_a_return_value_does_the_batch():
    clock = FakeClock()

    def generate():
        yield "all"

    step = generator_step(clock, generate, batch=8)
    step.call()
    assert step.items == 8


def test_generator_step__unequal_work_is_refused():
    clock = FakeClock()
    counts = iter([4, 4, 5])

    def generate():
        yield "all"
        return next(counts)

    step = generator_step(clock, generate)
    step.call()
    step.call()
    with pytest.raises(WorkerError, match="5 items after 4"):
        step.call()


@pytest.mark.parametrize("bad", [True, 0, -1, 2.5, "four"])
def test_generator_step__items_must_be_a_count(bad):
    def generate():
        yield "all"
        return bad

    with pytest.raises(TypeError, match="number of items"):
        generator_step(FakeClock(), generate).call()


def test_generator_step__yields_names_only():
    def generate():
        yield 3

    with pytest.raises(TypeError, match="name of the span"):
        generator_step(FakeClock(), generate).call()


def test_session__peak_is_counted_from_the_end_of_warm_up():
    # M30: 1 GB in the first call, 100 MB later.
    clock = FakeClock()
    device = FakeDevice("cuda:0", clock)
    scratch = iter([1_000, 100, 100, 100])

    def call():
        size = next(scratch)
        device.allocate(size)
        device.free(size)

    call()
    from perfgate.worker.device import Devices

    session = Session(make_step(call), Devices([device]), "/checkout")
    session.time(Time(samples=1, discard_ns=0))

    assert session.finish().peak_bytes == 100
    gc.unfreeze()


def test_session__no_peak_where_it_cannot_be_reset():
    from perfgate.worker.device import Devices

    session = Session(make_step(lambda: None), Devices([FakeDevice("cpu", FakeClock(), resets=False)]), "/c")
    finished = session.finish()

    assert finished.peak_bytes is None
    assert "no memory peak" in finished.notes[0]
    gc.unfreeze()


def test_session__failing_block_is_a_failure_in_timing():
    def fail():
        raise RuntimeError("lost the device")

    session = Session(make_step(fail), make_devices(FakeClock()), "/checkout")
    with pytest.raises(WorkerError) as caught:
        session.time(Time(samples=1))
    assert caught.value.failed.phase == "timing"
    gc.unfreeze()
