from __future__ import annotations

import os
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from perfgate.bench import sampling
from perfgate.bench.nvml import NoGpus
from perfgate.bench.sampling import Sampler, Taken, free_bytes, rest, waited_ns
from perfgate.bench.telemetry import Watch
from perfgate.records.evidence import Block
from perfgate.records.protocol import Sampled, Software, Time, Timed
from perfgate.records.sampling import Condition, Network
from tests.bench.helpers import FakeGpus

CONDITION = Condition(network=Network(family="fully-connected"), mode="infer", batch=4, threads=2)


@pytest.mark.parametrize(
    ("step_ns", "samples", "inner"),
    [
        (2_000_000_000, 2, 1),  # a slow step is repeated twice all the same
        (10_000_000, 20, 1),
        (1_000_000, 64, 4),  # 200 steps in as many samples as are kept
        (10_000, 64, 313),
        (0, 64, 3_125_000),
    ],
)
def test_rest__fills_a_block(step_ns, samples, inner):
    request = rest(step_ns, 200_000_000)
    assert (request.samples, request.inner) == (samples, inner)
    # Every step after the first one counts.
    assert (request.discard_calls, request.discard_ns) == (0, 0)


def test_taken__mean_of_all_steps_after_the_first():
    blocks = (Block(samples_ns=(100,)), Block(samples_ns=(10, 30)))
    taken = Taken(condition=CONDITION, sampled=Sampled(first_step_ns=10**9), blocks=blocks, inners=(1, 5),
                  peak_bytes=None, software=Software(), spent_s=1.0)  # fmt: skip
    assert taken.steps == 11
    # One step of 100 ns, five of 10 and five of 30.
    assert taken.step_ns == pytest.approx((100 + 50 + 150) / 11)


class FakeChild:
    """Gives blocks of 100 ms whose threads waited as a test says."""

    pid = 4711

    def __init__(self, waits):
        self.waits = list(waits)
        self.asked: list[Time] = []
        self.waited = 0

    def time(self, request, limit_s):
        self.asked.append(request)
        self.waited += int(self.waits.pop(0) * 100_000_000 * 2)
        step = 10_000_000 + len(self.asked)
        return Timed(samples_ns=(step,) * request.samples, cpu_ns=1, wall_ns=100_000_000)


def blocks(monkeypatch, waits, kind=FakeChild):
    child: Any = kind(waits)
    where: Any = SimpleNamespace()
    side: Any = SimpleNamespace(name="head")
    monkeypatch.setattr(sampling, "waited_ns", lambda pid: child.waited)
    sampler = Sampler(where, side, Watch(NoGpus(), {}))
    return child, sampler._blocks(child, CONDITION)


def test_blocks__undisturbed_ones_are_taken_once(monkeypatch):
    child, (taken, inners, waited) = blocks(monkeypatch, [0.0, 0.01])
    assert [request.samples for request in child.asked] == [1, 20]
    assert [len(block.samples_ns) for block in taken] == [1, 20]
    assert inners == (1, 1)
    assert waited == pytest.approx(0.01)


def test_blocks__a_disturbed_one_is_taken_again_and_the_quietest_counts(monkeypatch):
    child, (taken, inners, waited) = blocks(monkeypatch, [0.3, 0.5, 0.2, 0.4])
    assert len(child.asked) == 4
    # The second step was disturbed too, so it is left out; the third request waited least.
    assert [block.samples_ns[0] for block in taken] == [10_000_003]
    assert inners == (1,)
    assert waited == pytest.approx(0.2)


class SlowSecond(FakeChild):
    """The second step takes 150 ms, all others 1 ms."""

    def time(self, request, limit_s):
        step = 150_000_000 if not self.asked else 1_000_000
        timed = super().time(request, limit_s)
        samples = (step,) * request.samples
        return replace(timed, samples_ns=samples, wall_ns=sum(samples) * request.inner)


def test_blocks__a_second_step_that_took_longer_does_not_make_the_others_few(monkeypatch):
    child, (taken, inners, _) = blocks(monkeypatch, [0.0] * 3, SlowSecond)
    assert [request.samples for request in child.asked] == [1, 2, 64]
    assert [len(block.samples_ns) for block in taken] == [1, 64]
    assert inners == (1, 4)


def test_waited_ns__sums_the_threads(tmp_path):
    for thread, text in (("1", "500 70 3"), ("2", "10 30 1")):
        folder = tmp_path / "9" / "task" / thread
        folder.mkdir(parents=True)
        (folder / "schedstat").write_text(text)
    assert waited_ns(9, tmp_path) == 100
    assert waited_ns(10, tmp_path) is None


class QuarterUsed(FakeGpus):
    def used_bytes(self, uuid):
        return 2**28


def test_free_bytes__of_the_machine_and_of_a_card():
    gpus = QuarterUsed()
    found = free_bytes(("cpu", "cuda:0", "cuda:7"), gpus, dict(os.environ, CUDA_VISIBLE_DEVICES="0"))
    assert found["cpu"] > 2**20
    assert found["cuda:0"] == 3 * 2**28
    assert "cuda:7" not in found
