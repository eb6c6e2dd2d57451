"""Costs of a run's evidence, end to end without a worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.gate.judge import judge
from perfgate.pipeline.cost import costs
from perfgate.records.cost import CostPolicy, ModelCost, OwnPrice, Prices, Requirements, Volume
from perfgate.records.evidence import Environment
from perfgate.records.graph import KernelGroup, Traffic
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.protocol import Software
from tests.gate.builders import cell, graph_totals, ok, policy, run, workload

L4 = Environment(hardware_id="x", hardware={"gpu0": "NVIDIA L4", "gpu0_memory": "22.5 GiB", "cpu": "nobody's CPU"})
EXACT = Prices(own=(OwnPrice(name="rack", platform="l4", usd_per_hour=0.5, date="2026-11-01"),))


def totals(scale=1.0):
    kernels = (
        KernelGroup(name="fc", kind="matmul", dtype="float16", flop=int(1e11 * scale), bytes=10**9, calls=4),
        KernelGroup(name="relu", kind="pointwise", dtype="float16", flop=0, bytes=10**9, calls=4),
    )
    return graph_totals(
        flop=int(4e11 * scale), traffic=Traffic(eager=8 * 10**9, fused=8 * 10**9, min=10**9), kernels=8,
        eager_kernels=kernels, fused_kernels=kernels, weight_bytes=10**9, peak_activation_bytes=10**9,
    )  # fmt: skip


def evidence(*, head=1.0, device="cuda:0", dtype="float16"):
    side = ok(totals=totals(), software=Software(threads=2))
    return workload(head, of=cell(device=device, dtype=dtype), base=side, now=side)


def measured_run(*workloads, environment=L4, **fields):
    return run(*workloads, environment=environment, **fields)


def worked_out(*arguments):
    report = costs(*arguments)
    assert report is not None
    return report


def only(report):
    """Both sides of the one workload."""
    [found] = report.workloads
    assert found.base is not None
    assert found.head is not None
    return found.base, found.head


def rules(**fields):
    return policy(cost=CostPolicy(**fields))


def test_costs__measured_time_times_the_declared_price():
    report = worked_out(measured_run(evidence(head=1.5)), rules(runner="3.6"))
    assert report.runner_usd_per_hour == 3.6
    assert not report.runner_assumed
    base, head = only(report)
    # 10 ms at $3.6 an hour are $1e-5.
    assert base.runner_usd_per_1k_steps == pytest.approx(0.01, rel=0.01)
    assert head.runner_usd_per_1k_steps == pytest.approx(0.015, rel=0.01)


def test_costs__runner_is_recognised_and_its_price_assumed():
    report = worked_out(measured_run(evidence()), rules())
    assert report.runner_assumed
    assert 0.2 < report.runner_usd_per_hour < 2
    assert "L4" in report.runner_price


def test_costs__measured_step_carries_over_to_other_platforms():
    base, _ = only(worked_out(measured_run(evidence()), rules(requirements=Requirements(devices=("l4", "l40s")))))
    sources = set(base.answer.sources)
    assert sources == {"measured", "anchored"}
    best = {point.offer.platform: point for point in base.answer.front}
    for name, point in best.items():
        assert (point.step_ns == pytest.approx(1e7, rel=0.01)) == (name == "l4" and point.form == "single")


def test_costs__unknown_runner_has_no_price_and_still_a_recommendation():
    unknown = Environment(hardware_id="x", hardware={"cpu": "nobody's CPU", "physical_cores": "2"})
    report = worked_out(measured_run(evidence(device="cpu", dtype="float32"), environment=unknown), rules())
    assert report.runner_usd_per_hour is None
    assert "nobody's CPU is not in the hardware catalogue" in report.runner_price
    base, _ = only(report)
    assert base.runner_usd_per_1k_steps is None
    assert base.roofline is None
    assert base.answer.cheapest is not None
    assert set(base.answer.sources) == {"roofline"}


def test_costs__probe_of_an_unknown_runner_gives_its_roofline():
    unknown = Environment(hardware_id="x", hardware={"cpu": "nobody's CPU", "physical_cores": "2"})
    probe = MeasuredRoofline(
        device="cpu", label="nobody's CPU", flop_per_s={"float16": 1e13, "float32": 1e12}, bandwidth_bytes_per_s=1e12,
        probe_bytes=2**28, measured_at="2026-11-30T00:00:00Z", threads=2,
    )  # fmt: skip
    ran = measured_run(evidence(device="cpu", dtype="float32"), environment=unknown, rooflines=(probe,))
    _, head = only(worked_out(ran, rules()))
    roof = head.roofline
    assert roof is not None
    assert roof.measured
    assert (roof.device, roof.bandwidth_bytes_per_s) == ("nobody's CPU", 1e12)
    # 4 products of 10 ms at 1e13 FLOP/s, and 4 of 1 ms for what only moves.
    assert roof.bound_ns == pytest.approx(44e6)
    assert roof.share == pytest.approx(4.4, rel=0.02)


def test_costs__probe_with_other_threads_is_not_this_runners():
    probe = MeasuredRoofline(
        device="cpu", label="nobody's CPU", flop_per_s={"float32": 1e12}, bandwidth_bytes_per_s=1e12,
        probe_bytes=2**28, measured_at="2026-11-30T00:00:00Z", threads=16,
    )  # fmt: skip
    _, head = only(worked_out(measured_run(evidence(device="cpu", dtype="float32"), rooflines=(probe,)), rules()))
    assert head.roofline is None


def test_costs__model_has_its_own_requirements_and_volume():
    own = ModelCost(requirements=Requirements(devices=("l40s",)), volume=Volume(amount=1e6))
    _, head = only(worked_out(measured_run(evidence()), rules(runner="3.6", models={"resnet": own})))
    assert {point.offer.platform for point in head.answer.front} == {"l40s"}
    assert head.usd_per_month == pytest.approx(10.0, rel=0.01)


def test_costs__private_prices_go_before_public_ones():
    ran = measured_run(evidence())
    public = worked_out(ran, rules(prices=EXACT, runner="own/rack"))
    private = Prices(own=(OwnPrice(name="rack", platform="l4", usd_per_hour=0.25),))
    secret = worked_out(ran, rules(prices=EXACT, runner="own/rack"), private)
    assert (public.runner_usd_per_hour, secret.runner_usd_per_hour) == (0.5, 0.25)


def test_costs__switched_off_or_nothing_counted_is_nothing():
    assert costs(measured_run(evidence()), rules(enabled=False)) is None
    assert costs(measured_run(workload()), rules()) is None


def test_costs__wrong_requirements_are_a_warning_and_never_an_error():
    report = worked_out(measured_run(evidence()), rules(requirements=Requirements(devices=("h1000",))))
    assert report.workloads == ()
    [warning] = report.warnings
    assert "h1000" in warning
    assert judge(measured_run(evidence()), rules(), cost=report).verdict == "pass"


def test_costs__same_evidence_gives_the_same_report():
    ran = measured_run(evidence(head=1.2))
    assert costs(ran, rules()) == costs(ran, rules())


def test_costs__prices_age_with_the_day_of_the_run():
    ran = measured_run(evidence())
    old = replace(ran, run=replace(ran.run, started_at="2031-01-01T00:00:00Z"))
    assert any("older than" in warning for warning in worked_out(old, rules()).warnings)
