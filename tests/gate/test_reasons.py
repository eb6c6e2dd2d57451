from __future__ import annotations

import math

import pytest

from perfgate.gate.reasons import relative_difference
from perfgate.records.protocol import Software
from tests.gate.builders import cell, digest, judged, ok, only, probe, workload


def reasons_of(**case) -> tuple[str, ...]:
    return only(judged(workload(**case))).reasons


def two(**facts):
    return ok(probe(**facts), probe(**facts))


def test_reasons__outputs_equal():
    assert "outputs are equal" in reasons_of()


def test_reasons__outputs_differ_by_a_share_of_the_largest():
    found = reasons_of(base=two(outputs=digest(1.0, -4.0)), now=two(outputs=digest(1.0, -4.2)))
    assert "outputs differ by 5.0 % of their largest value" in found


def test_reasons__changed_outputs_are_never_red_by_themselves():
    report = judged(workload(base=two(outputs=digest(1.0)), now=two(outputs=digest(900.0))))
    assert (report.verdict, report.exit_code) == ("pass", 0)


def test_reasons__outputs_within_the_spread_inside_a_side():
    noisy = (digest(1.0), digest(1.1))
    base = ok(*(probe(outputs=out) for out in noisy))
    now = ok(*(probe(outputs=out) for out in (digest(1.05), digest(1.02))))
    assert any(
        line.startswith("outputs differ within the spread inside a side (10.0 %")
        for line in reasons_of(base=base, now=now)
    )


def test_reasons__a_head_that_became_random():
    now = ok(probe(outputs=digest(1.0)), probe(outputs=digest(2.0)))
    assert any(
        "head's outputs now change from process to process" in line
        for line in reasons_of(base=two(outputs=digest(1.0)), now=now)
    )


def test_reasons__outputs_of_another_layout():
    found = reasons_of(base=two(outputs=digest(1.0)), now=two(outputs=digest(1.0, layout="out bfloat16[1]")))
    assert "outputs have another layout: out float32[1] → out bfloat16[1]" not in found, "equal bytes say equal outputs"
    found = reasons_of(base=two(outputs=digest(1.0)), now=two(outputs=digest(2.0, layout="out bfloat16[1]")))
    assert "outputs have another layout: out float32[1] → out bfloat16[1]" in found


def test_reasons__outputs_that_turn_to_nan():
    found = reasons_of(base=two(outputs=digest(1.0)), now=two(outputs=digest(None, nonfinite=7)))
    assert "outputs hold NaN or infinite values: 0 on base, 7 on head" in found


def test_reasons__b29_inputs_that_differ_are_a_warning():
    found = reasons_of(base=two(inputs=digest(1.0)), now=two(inputs=digest(2.0)))
    assert "inputs differ between base and head, so the two sides did not do the same work" in found


def test_reasons__b29_inputs_without_a_seed():
    unseeded = ok(probe(inputs=digest(1.0)), probe(inputs=digest(2.0)))
    assert "inputs change from process to process, so the work may too: seed them" in reasons_of(
        base=unseeded, now=unseeded
    )


def test_reasons__counts_changed_and_unchanged():
    found = reasons_of(head=1.1, base=two(flop=8e9, params=25), now=two(flop=9e9, params=25))
    assert "F 8.00 GFLOP (4.00 GMAC) → 9.00 GFLOP (4.50 GMAC) (+12.5 %)" in found
    assert "parameters are unchanged" in found
    alone = reasons_of(base=two(flop=8e9), now=two(flop=8e9))
    assert "F is unchanged" in alone


def test_reasons__clocks_and_throttling():
    found = reasons_of(
        of=cell(device="cuda:0"),
        base_side={"sm_clock_mhz": 1980},
        head_side={"sm_clock_mhz": 1700, "throttle": ("sw_power_cap",)},
    )
    assert "SM clock 1980 MHz on base, 1700 MHz on head: part of the time is the clock's" in found
    assert "the GPU limited its clock while measuring: sw_power_cap" in found


def test_reasons__flags_and_threads_that_head_sets_itself():
    base = ok(software=Software(threads=1, flags={"cudnn.benchmark": "False"}))
    now = ok(software=Software(threads=4, flags={"cudnn.benchmark": "True"}))
    report = judged(workload(base=base, now=now))
    assert report.verdict == "pass"
    assert only(report).reasons[:2] == (
        "library settings differ: cudnn.benchmark False → True",
        "threads differ: 1 on base, 4 on head",
    )


def test_reasons__first_step_is_said_and_never_gated():
    report = judged(workload(head_side={"first_step_ns": 900_000_000}))
    assert report.verdict == "pass"
    assert "first step 100 ms → 900 ms (never part of step time)" in only(report).reasons


def test_reasons__a_head_that_is_less_stable():
    found = reasons_of(head=[1.3, 0.75, 1.2, 0.8, 1.35, 0.7, 1.25, 0.85, 1.3, 0.75] * 2, noise=0.001)
    assert any(line.startswith("head is less stable than base") for line in found)


def test_reasons__what_did_not_count_and_what_did_not_settle():
    found = reasons_of(void="clock dropped")
    assert "20 of 20 pairs did not count: clock dropped" in found
    assert "step time was still moving after warm-up on head" in reasons_of(head_side={"settled": False})


def test_reasons__notes_of_probes_and_of_the_workload_come_once_and_last():
    noted = ok(probe(notes=("denormals in weights",)), probe(notes=("denormals in weights",)))
    found = reasons_of(base=noted, now=noted, notes=("proxy with 4 layers",))
    assert found[-2:] == ("denormals in weights", "proxy with 4 layers")
    assert len(set(found)) == len(found)


@pytest.mark.parametrize(
    ("base", "head", "expected"),
    [
        ((1.0, 2.0), (1.0, 2.0), 0.0),
        ((0.0, 0.0), (0.0, 0.0), 0.0),
        ((0.0,), (1.0,), math.inf),
        ((-10.0, 1e-9), (-10.0, -1e-9), 2e-10),
        ((None, 1.0), (None, 1.5), 0.5),
        ((None, 1.0), (2.0, 1.0), math.inf),
        ((None,), (None,), 0.0),
        ((1.0,), (1.0, 2.0), None),
        ((), (), None),
    ],
)
def test_relative_difference__of_the_largest_value_of_base(base, head, expected):
    found = relative_difference(digest(*base), digest(*head))
    assert found == (None if expected is None else pytest.approx(expected))


def test_reasons__a_device_that_waits_for_the_host_is_launch_bound():
    """M10: wall and device time are told apart."""
    found = reasons_of(base_side={"device_ns": (10_000,)}, head_side={"device_ns": (10**15,)})
    assert [line for line in found if "launch bound" in line] == [
        "base is launch bound: its device works for 0.1 % of a step's wall time"
    ]
