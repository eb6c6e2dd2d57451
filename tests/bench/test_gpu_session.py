"""A session whose workers say that they used a card, and a card that answers as the test wants."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from perfgate.bench.visible import hashed
from perfgate.errors import MeasuringError
from tests.bench.helpers import CARD, FakeGpus, plan, session, spec, work


def model(**script):
    return replace(spec(devices=[f"cuda:0={CARD.uuid}"], **script), device=("cuda:0",))


def test_compare__clock_that_falls_during_the_job_is_recorded_and_changes_nothing(tmp_path):
    """M06."""
    clocks = itertools.count(1965, -2)
    with session(tmp_path, gpus=FakeGpus(clock=lambda: next(clocks), throttle=("power-cap",))) as running:
        (evidence,) = running.compare([work(model())], plan(), 60)
    assert evidence.end == "decided"
    assert {pair.void for pair in evidence.pairs} == {""}
    seen = [block.sm_clock_mhz for pair in evidence.pairs for side in (pair.base, pair.head) for block in side.blocks]
    assert len(set(seen)) == len(seen) == 20
    assert any("power capped" in note for note in evidence.notes)


def test_compare__card_that_is_always_slow_is_measured(tmp_path):
    """M07."""
    with session(tmp_path, gpus=FakeGpus(clock=846, throttle=("hw-thermal",))) as running:
        (evidence,) = running.compare([work(model())], plan(), 60)
    assert evidence.end == "decided"
    assert len(evidence.pairs) == 5
    assert any("hw-thermal" in note for note in evidence.notes)


def test_compare__another_tenant_voids_its_pairs_only(tmp_path):
    """M14: a third process computes on the card in every other pair; before each pair there is none."""
    looks = itertools.cycle([(), (1, 2, 4711), (), (1, 2)])
    with session(tmp_path, gpus=FakeGpus(processes=lambda: next(looks))) as running:
        (evidence,) = running.compare([work(model())], plan(looks=(5, 12)), 60)
    assert evidence.end == "decided"
    assert [bool(pair.void) for pair in evidence.pairs] == [True, False] * 5
    assert "another process" in evidence.pairs[0].void
    assert CARD.uuid not in str(evidence)


def test_compare__energy_needs_long_blocks_and_is_read_per_block(tmp_path):
    counter = itertools.count(0.0, 10.0)
    gated = work(model(step_us=20_000), tolerances={"latency": 0.03, "energy": 0.03}, max_pairs=2)
    with session(tmp_path, gpus=FakeGpus(energy=counter)) as running:
        (evidence,) = running.compare([gated], plan(), 1000)
    blocks = [block for pair in evidence.pairs for block in (*pair.base.blocks, *pair.head.blocks)]
    assert all(block.wall_ns > 1_900_000_000 for block in blocks)
    assert [block.energy_j for block in blocks] == [10.0] * len(blocks)


def test_probe__two_gates_on_one_card_wait_for_each_other(tmp_path):
    first = session(tmp_path, gpus=FakeGpus())
    second = session(tmp_path, gpus=FakeGpus(), lock_wait_s=0.0)
    with first, second:
        first.probe({"head": {"m": model()}})
        assert (tmp_path / "locks" / f"perfgate-gpu-{hashed(CARD.uuid)}.lock").exists()
        with pytest.raises(MeasuringError, match="this GPU"):
            second.probe({"head": {"m": model()}})
