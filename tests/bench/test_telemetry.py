from __future__ import annotations

import pytest

from perfgate.bench.nvml import NoGpus
from perfgate.bench.telemetry import Watch, disturbance
from perfgate.records.evidence import Block
from tests.bench.helpers import CARD, FakeGpus


def watch(**facts) -> Watch:
    made = Watch(FakeGpus(**facts), {})
    made.use([f"cuda:0={CARD.uuid}"])
    return made


def blocks(*clocks: int | None, throttle: tuple[str, ...] = ()) -> list[Block]:
    return [Block(samples_ns=(1,), sm_clock_mhz=clock, throttle=throttle) for clock in clocks]


def test_complete__share_of_the_energy_by_time():
    made = watch(energy=[100.0, 130.0], clock=1400)
    before = made.mark()
    block = made.complete(Block(samples_ns=(1,), wall_ns=2_000_000_000), before, 3_000_000_000)
    assert block.energy_j == pytest.approx(20.0)
    assert block.sm_clock_mhz == 1400


def test_complete__short_block_has_no_energy():
    """A counter that is renewed every 0.1 s says nothing about 50 ms."""
    made = watch(energy=[100.0, 130.0])
    assert made.complete(Block(samples_ns=(1,), wall_ns=50_000_000), made.mark(), 70_000_000).energy_j is None


def test_complete__cpu_block_is_left_as_it_is():
    block = Block(samples_ns=(1,))
    made = Watch(NoGpus(), {})
    made.use(["cpu"])
    assert made.complete(block, made.mark(), 1) == block


@pytest.mark.parametrize(
    ("base", "head", "locked", "void"),
    [
        (blocks(1400, 1400), blocks(1400, 1400), True, False),
        (blocks(1400, 1400), blocks(1400, 1360), True, False),
        (blocks(1400, 1400), blocks(1300, 1300), True, True),
        # M06: the clock falls during the job, on a card whose clocks are free: both sides fall alike.
        (blocks(1965, 1580), blocks(1900, 1600), False, False),
        (blocks(1400), blocks(1000), False, False),
        # A power cap is the model's own doing.
        (blocks(1400, throttle=("power-cap",)), blocks(1400), True, False),
        (blocks(1400, throttle=("hw-thermal",)), blocks(1400), True, True),
        (blocks(1400), blocks(1400, throttle=("hw-slowdown",)), False, True),
        # M07: a card that always runs at 60 % of its default, held down all the time, is measured.
        (blocks(846, throttle=("sw-thermal",)), blocks(846, throttle=("sw-thermal",)), True, False),
        (blocks(None), blocks(1400), True, False),
        (blocks(), blocks(), True, False),
    ],
)
def test_disturbance__facts_outside_the_timings(base, head, locked, void):
    assert bool(disturbance(base, head, locked=locked)) is void


def test_notes__what_lasted_is_said():
    notes = watch().notes(blocks(846, throttle=("power-cap", "sw-thermal")))
    assert any("power capped" in note for note in notes)
    assert any("sw-thermal" in note for note in notes)


@pytest.mark.parametrize(
    ("before", "during", "ours", "foreign"),
    [
        ((), (11, 12), (11, 12), False),
        ((), (11, 12, 99), (11, 12), True),
        ((99,), (99, 11), (11,), True),
        # Inside a container the card's list is in the host's numbers.
        ((), (5011, 5012), (11, 12), False),
        ((), (5011, 5012, 5099), (11, 12), True),
        ((5099,), (5011, 5099), (11,), True),
        ((), None, (11,), False),
    ],
)
def test_foreign__other_processes_on_the_card(before, during, ours, foreign):
    """M14."""
    gpus = FakeGpus(processes=before)
    made = Watch(gpus, {})
    made.survey([f"cuda:0={CARD.uuid}"])
    made.use([f"cuda:0={CARD.uuid}"])
    gpus.facts["processes"] = during
    assert bool(made.foreign(ours)) is foreign
    assert CARD.uuid not in made.foreign(ours)
