"""Interleaved blocks and borders on made-up clocks: every figure is exact."""

from __future__ import annotations

import pytest

from perfgate.records.placement import Border
from perfgate.worker.placing import borders, timing


class Machine:
    """``wall`` and ``work`` pass as calls say; every ``stalled``-th block begins with a wait."""

    def __init__(self):
        self.wall = 0.0
        self.work = 0.0
        self.order = []

    def call(self, name, seconds, waits=lambda: 0.0):
        def run():
            self.order.append(name)
            self.work += seconds
            self.wall += seconds + waits()

        return run


def interleaved(machine, calls, budget_s, **options):
    return timing.interleaved(calls, budget_s, clock=lambda: machine.wall, work=lambda: machine.work, **options)


def test_interleaved__times_are_those_of_the_calls():
    machine = Machine()
    fast, slow = interleaved(machine, [machine.call("a", 0.001), machine.call("b", 0.003)], 1.0)
    assert fast.median_s == pytest.approx(0.001)
    assert slow.median_s == pytest.approx(0.003)
    assert fast.disturbed == 0


def test_interleaved__who_goes_first_changes():
    machine = Machine()
    interleaved(machine, [machine.call("a", 0.01), machine.call("b", 0.01)], 1.0)
    rounds = machine.order[6:]
    assert rounds[:4] == ["a", "b", "b", "a"]


def test_interleaved__the_budget_is_kept_after_the_least_rounds():
    machine = Machine()
    (times,) = interleaved(machine, [machine.call("a", 1.0)], 5.5)
    assert times.blocks == timing.LEAST_BLOCKS
    machine = Machine()
    (times,) = interleaved(machine, [machine.call("a", 0.1)], 1.0)
    assert machine.wall <= 1.01
    assert times.blocks > timing.LEAST_BLOCKS


def test_interleaved__slow_calls_are_warmed_up_less():
    machine = Machine()
    interleaved(machine, [machine.call("a", 1.0)], 1.0)
    assert len(machine.order) == 1 + timing.LEAST_BLOCKS


def test_interleaved__blocks_with_a_wait_are_left_out():
    machine = Machine()
    turns = iter(range(10_000))
    call = machine.call("a", 0.004, lambda: 0.05 if next(turns) % 2 else 0.0)
    (times,) = interleaved(machine, [call], 10.0)
    assert times.median_s == pytest.approx(0.004)
    assert times.disturbed > 0.3


def test_interleaved__where_all_wait_one_thread_is_judged_by_its_processor_time():
    for single, expected in ((True, 0.004), (False, 0.054)):
        machine = Machine()
        (times,) = interleaved(machine, [machine.call("a", 0.004, lambda: 0.05)], 10.0, single=single)
        assert times.median_s == pytest.approx(expected)


def test_fit__a_line_is_found():
    fixed, each = borders.fit([1e3, 1e5, 1e6], [2e-6 + 1e-10 * size for size in (1e3, 1e5, 1e6)])
    assert fixed == pytest.approx(2e-6)
    assert each == pytest.approx(1e-10)


def test_fit__neither_part_is_negative():
    fixed, each = borders.fit([1e3, 1e5, 1e6], [3e-6, 2e-6, 1e-6])
    assert each == 0
    assert fixed > 0
    fixed, each = borders.fit([1e3, 1e5, 1e6], [1e-9, 2e-6, 1e-4])
    assert fixed == 0
    assert each > 0


def test_with_conversion__both_sides_pay_for_their_own_order():
    link = Border(source="a", target="b", receive_s=1e-6, receive_s_per_byte=1e-9)
    found = {(one.source, one.target): one for one in borders.with_conversion([link], {"a": 0.0, "b": 2e-9, "c": 0.0})}
    assert set(found) == {("a", "b"), ("b", "a"), ("b", "c"), ("c", "b")}
    assert found["a", "b"].receive_s == 1e-6
    assert found["a", "b"].receive_s_per_byte == pytest.approx(3e-9)
    assert found["a", "b"].send_s_per_byte == 0
    assert found["b", "c"].send_s_per_byte == 2e-9
