"""The engine without processes: pairs come from noise models, time from a clock that only the pairs move."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from contextlib import contextmanager
from dataclasses import replace

import pytest

from perfgate.bench.blocks import OutOfTime
from perfgate.bench.course import Course
from perfgate.bench.progress import NullProgress
from perfgate.bench.rounds import Measured, needed_s, run
from perfgate.bench.task import Work
from perfgate.bench.workers import WorkerFailed
from perfgate.records.policy import Plan
from perfgate.records.protocol import Failed
from perfgate.stats.pairs import log_ratios
from perfgate.stats.sequential import decide
from tests.bench.helpers import Steps, make_pair, plan, spec, work

Noise = Callable[[str, int], tuple[float, float]]


class FakeLab:
    """Rounds whose pairs are ``noise(model, index) -> (base ns, head ns)`` and take ``pair_s`` seconds.

    ``spoil(index)`` is a void reason, or an exception to raise instead of the pair.
    """

    def __init__(
        self, noise: Noise, *, pair_s: float = 1.0, round_s: float = 2.0, spoil: Callable[[int], object] = lambda _: ""
    ) -> None:
        self.clock = 0.0
        self.round_s = round_s
        self.started: list[list[str]] = []
        self.order: list[str] = []
        self._noise = noise
        self._pair_s = pair_s
        self._spoil = spoil
        self._number = 0

    @contextmanager
    def open_round(self, works: Sequence[Work], number: int):
        self.clock += self.round_s
        self.started.append([each.workload.key for each in works])
        self._number = number
        yield self

    def pair(self, work: Work, *, index: int, late: Callable[[], bool]) -> Measured:
        self.clock += self._pair_s
        if late():
            raise OutOfTime
        self.order.append(work.workload.model)
        spoiled = self._spoil(index)
        if isinstance(spoiled, Exception):
            raise spoiled
        base, head = self._noise(work.workload.model, index)
        return Measured(pair=make_pair(base, head, index=index, number=self._number, void=str(spoiled)))


def measure(lab: FakeLab, works: Sequence[Work], plan_: Plan, *, budget_s: float = 1e9) -> list[Course]:
    courses = [Course(each, plan_, pair_s=lab._pair_s) for each in works]
    run(courses, lab, seed=plan_.seed, budget_s=budget_s, now=lambda: lab.clock, progress=NullProgress())
    return courses


def verdict(course: Course) -> str:
    """As the gate does: the last look is made on what there is."""
    tolerance = course.work.tolerances["latency"]
    ratios = log_ratios(course.pairs, "latency")
    return decide(ratios, tolerance=tolerance, alpha=course.plan.alpha, looks=course.plan.looks, final=True).state


GATE = plan(alpha=0.01, looks=(5, 8, 12, 16, 20))


def runner(rng: random.Random, *, cv: float, drift: float = 0.0, change: float = 0.0) -> Noise:
    """A noisy runner: each process has its own luck, and the machine drifts from pair to pair."""
    level = [0.0]

    def noise(_model: str, _index: int) -> tuple[float, float]:
        level[0] = 0.97 * level[0] + rng.gauss(0, drift)
        base, head = (1e7 * math.exp(level[0] + rng.gauss(0, cv)) for _ in range(2))
        return base, head * (1 + change)

    return noise


def bimodal(rng: random.Random) -> Noise:
    return lambda _model, _index: (1e7 * rng.choice((1, 1.08)), 1e7 * rng.choice((1, 1.08)))


def test_run__two_hundred_equal_gates_on_a_noisy_runner():
    """M13: CV 10 % and drift; false reds at most at the promised rate, everything else says inconclusive or passes."""
    states = []
    for seed in range(200):
        lab = FakeLab(runner(random.Random(seed), cv=0.10, drift=0.05))
        (course,) = measure(lab, [work(spec())], replace(GATE, seed=seed))
        states.append(verdict(course))
        assert course.end in ("decided", "n_max")
    # 1 % of 200 is 2; more than 6 has a chance under 0.5 % (binomial). The seeds are fixed.
    assert states.count("regression") <= 6
    assert states.count("inconclusive") > 50


def test_run__bimodal_processes_do_not_turn_red():
    """M65: an algorithm drawn again in each process, 1.0 or 1.08, on equal sides."""
    red = 0
    for seed in range(200):
        rng = random.Random(seed)
        lab = FakeLab(bimodal(rng))
        (course,) = measure(lab, [work(spec())], GATE)
        red += verdict(course) == "regression"
    assert red <= 6


def test_run__real_slow_down_is_found():
    states = []
    for seed in range(50):
        lab = FakeLab(runner(random.Random(seed), cv=0.02, drift=0.05, change=0.10))
        (course,) = measure(lab, [work(spec())], GATE)
        states.append(verdict(course))
    assert states.count("regression") >= 48


def test_run__foreign_load_in_a_third_of_the_pairs_is_measured_again():
    """M14: what the telemetry calls foreign does not count, is noted, and is repeated."""
    rng = random.Random(1)
    busy: list[int] = []

    def spoil(index: int) -> str:
        if rng.random() < 0.3:
            busy.append(index)
            return "another process computed on GPU 12"
        return ""

    def noise(_model: str, index: int) -> tuple[float, float]:
        return 1e7, 1.9e7 if index in busy else 1e7

    (course,) = measure(FakeLab(noise, spoil=spoil), [work(spec())], GATE)
    evidence = course.evidence()
    assert busy
    assert verdict(course) == "pass"
    assert sum(1 for pair in evidence.pairs if not pair.void) == 5
    assert any("does not count" in note for note in evidence.notes)


def test_run__runner_that_never_settles_is_unstable_after_half_of_n_max():
    (course,) = measure(FakeLab(lambda *_: (1, 1), spoil=lambda _: "base used 9 ms"), [work(spec())], GATE)
    assert course.end == "unstable"
    assert len(course.pairs) == 11


def lost(side: str, kind: str = "exited") -> WorkerFailed:
    return WorkerFailed(side, Failed(kind=kind, phase="timing", message="gone"), told=False)


@pytest.mark.parametrize(
    ("losses", "end", "base", "head"),
    [
        (["head"], "decided", "ok", "ok"),
        (["head", "head"], "failed", "ok", "failed"),
        (["base", "base"], "failed", "failed", "ok"),
        (["base", "head", "head"], "unstable", "ok", "ok"),
    ],
)
def test_run__lost_workers(losses, end, base, head):
    waiting = [lost(side) for side in losses]
    lab = FakeLab(lambda *_: (1e6, 1e6), spoil=lambda _: waiting.pop(0) if waiting else "")
    (course,) = measure(lab, [work(spec())], plan())
    evidence = course.evidence()
    assert (evidence.end, evidence.base.status, evidence.head.status) == (end, base, head)


def test_run__each_open_workload_gets_a_pair_in_every_round():
    lab = FakeLab(runner(random.Random(3), cv=0.001))
    measure(lab, [work(spec(name)) for name in "abc"], GATE)
    assert len(lab.started) == 5
    assert all(sorted(lab.order[3 * n : 3 * n + 3]) == ["a", "b", "c"] for n in range(5))
    assert len({tuple(lab.order[3 * n : 3 * n + 3]) for n in range(5)}) > 1


def test_run__decided_workloads_leave_the_rounds():
    def noise(model: str, index: int) -> tuple[float, float]:
        if model == "a":
            return 1e6, 1e6 + index
        return (1e6, 1.3e6) if index % 2 else (1.3e6, 1e6)

    lab = FakeLab(noise)
    a, b = measure(lab, [work(spec("a")), work(spec("b"))], GATE)
    assert (len(a.pairs), len(b.pairs)) == (5, 20)
    assert (a.end, b.end) == ("decided", "n_max")
    assert lab.started[-1] == [b.work.workload.key]


def test_run__one_red_metric_does_not_stop_the_other_from_being_decided():
    gated = work(spec(), tolerances={"latency": 0.03, "peak_memory": 0.01})
    lab = FakeLab(runner(random.Random(1), cv=0.001, change=0.5))
    (course,) = measure(lab, [gated], GATE)
    assert course.end == "decided"
    assert verdict(course) == "regression"
    # Red is possible from the eighth pair on; equal peaks pass before.
    assert course.counted >= 7


def test_run__several_pairs_from_the_same_parents():
    lab = FakeLab(runner(random.Random(1), cv=0.001))
    (course,) = measure(lab, [work(spec())], replace(GATE, pairs_per_round=2))
    assert len(lab.started) == math.ceil(len(course.pairs) / 2)


@pytest.mark.parametrize("budget_s", [3.0, 17.0, 40.0, 100.0, 333.0])
def test_run__budget_is_exceeded_by_no_more_than_a_pair(budget_s):
    lab = FakeLab(runner(random.Random(5), cv=0.1), pair_s=3.0, round_s=5.0)
    courses = measure(lab, [work(spec(name)) for name in "abcd"], GATE, budget_s=budget_s)
    assert lab.clock <= budget_s + 3.0
    assert all(course.end in ("budget", "not-begun", "decided", "n_max") for course in courses)


def test_run__what_cannot_reach_its_first_look_is_named_with_its_need():
    lab = FakeLab(runner(random.Random(5), cv=0.001), pair_s=1.0, round_s=1.0)
    cheap, dear = Course(work(spec("a")), GATE, pair_s=1.0), Course(work(spec("b")), GATE, pair_s=50.0)
    run([dear, cheap], lab, seed=1, budget_s=20, now=lambda: lab.clock, progress=NullProgress())
    assert cheap.end == "decided"
    assert dear.end == "not-begun"
    assert dear.evidence().needed_s == needed_s(dear, 1.0) == 255.0


def test_run__pairs_slower_than_predicted_end_with_the_budget():
    lab = FakeLab(runner(random.Random(5), cv=0.1), pair_s=30.0, round_s=0.0)
    course = Course(work(spec()), GATE, pair_s=1.0)
    run([course], lab, seed=1, budget_s=100, now=lambda: lab.clock, progress=NullProgress())
    assert course.end == "budget"
    assert len(course.pairs) == 3


@pytest.mark.parametrize(("limit", "pairs"), [(None, 5), (3, 3), (20, 20)])
def test_run__nothing_gated_measures_the_pairs_asked_for(limit, pairs):
    lab = FakeLab(runner(random.Random(5), cv=0.1))
    (course,) = measure(lab, [work(spec(), tolerances={}, max_pairs=limit)], GATE)
    assert len(course.pairs) == pairs
    assert course.end == "decided"


def test_run__metric_that_was_not_measured_does_not_hold_up_the_others():
    lab = FakeLab(runner(random.Random(5), cv=0.001))
    (course,) = measure(lab, [work(spec(), tolerances={"latency": 0.03, "energy": 0.03})], GATE)
    assert len(course.pairs) == 5
    assert any("energy was not available" in note for note in course.evidence().notes)


def test_run__progress_tells_pairs_and_seconds_left():
    steps = Steps()
    lab = FakeLab(runner(random.Random(5), cv=0.001), pair_s=2.0, round_s=1.0)
    course = Course(work(spec()), GATE, pair_s=2.0)
    run([course], lab, seed=1, budget_s=1000, now=lambda: lab.clock, progress=steps)
    assert [step[1:3] for step in steps.seen] == [(n, 5) for n in range(5)]
    assert [step[3] for step in steps.seen] == [15.0, 12.0, 9.0, 6.0, 3.0]


def test_run__same_seed_measures_in_the_same_order():
    orders = []
    for _ in range(2):
        lab = FakeLab(runner(random.Random(3), cv=0.05))
        measure(lab, [work(spec(name)) for name in "abc"], GATE)
        orders.append(lab.order)
    assert orders[0] == orders[1]
