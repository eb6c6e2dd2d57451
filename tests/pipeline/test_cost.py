"""Costs of a run's evidence, end to end without a worker."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate import wire
from perfgate.cost import compare
from perfgate.gate.judge import judge
from perfgate.pipeline import cost_claims
from perfgate.pipeline.cost import costs, runner_price
from perfgate.pipeline.run import derive, record
from perfgate.records.cost import CostPolicy, ModelCost, OwnPrice, Prices, Requirements, Volume
from perfgate.records.evidence import Environment
from perfgate.records.graph import KernelGroup, Traffic
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.protocol import Software
from perfgate.store.open import open_store
from perfgate.units import money
from tests.gate.builders import cell, graph_totals, limits, ok, policy, run, workload

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


def test_costs__switched_off_or_nothing_measured_is_nothing():
    assert costs(measured_run(evidence()), rules(enabled=False)) is None
    assert costs(measured_run(), rules()) is None


def test_costs__nothing_counted_still_has_the_runners_money():
    base, head = only(worked_out(measured_run(workload(1.5)), rules(runner="3.6")))
    assert base.answer.candidates == head.answer.candidates == 0
    assert head.runner_usd_per_1k_steps == pytest.approx(0.015, rel=0.01)


def test_costs__wrong_requirements_are_a_warning_and_never_an_error():
    wrong = rules(runner="3.6", requirements=Requirements(devices=("h1000",)))
    report = worked_out(measured_run(evidence(head=1.5)), wrong)
    base, head = only(report)
    [warning] = head.answer.warnings
    assert "h1000" in warning
    assert base.runner_usd_per_1k_steps == pytest.approx(0.01, rel=0.01)
    assert not report.workloads[0].moved
    assert judge(measured_run(evidence()), rules(), cost=report).verdict == "pass"


GATED = rules(runner="3.6", models={"resnet": ModelCost(volume=Volume(amount=1e6))})
GATED = replace(GATED, limits=limits(relative={"cost": 0.03, "monthly_cost": 0.03, "latency": None}))
GROUP = KernelGroup(name="fc", kind="matmul", dtype="float16", flop=10**11, bytes=10**9, calls=4)


def with_groups(*groups, **fields):
    return replace(totals(), eager_kernels=groups, fused_kernels=groups, **fields)


def with_items(found, items):
    def side(facts):
        return replace(facts, probes=tuple(replace(one, items=items) for one in facts.probes))

    return replace(found, base=side(found.base), head=side(found.head))


def claiming(counts=None, *, batch=1, items=None, mode="infer"):
    """A head that is 30 % slower and says this of itself."""
    now = ok(totals=counts, software=Software(threads=2))
    base = ok(totals=totals(), software=Software(threads=2))
    found = workload(1.3, of=cell(device="cuda:0", dtype="float16", batch=batch, mode=mode), base=base, now=now)
    return found if items is None else with_items(found, items)


HUGE = 2**62
HOSTILE = {
    "negative calls": claiming(with_groups(replace(GROUP, calls=-5))),
    "no calls": claiming(with_groups(replace(GROUP, calls=0))),
    "negative work": claiming(with_groups(replace(GROUP, flop=-(10**15)))),
    "negative bytes": claiming(with_groups(replace(GROUP, bytes=-(10**15)))),
    "nothing": claiming(with_groups(replace(GROUP, flop=0, bytes=0, calls=0))),
    "enormous": claiming(with_groups(*[replace(GROUP, name=f"{n}", flop=HUGE, calls=HUGE) for n in range(40)])),
    "negative weights": claiming(with_groups(replace(GROUP, weight_bytes=-HUGE, written_bytes=-HUGE))),
    "enormous weights": claiming(with_groups(GROUP, weight_bytes=HUGE, peak_activation_bytes=HUGE)),
    "no groups": claiming(with_groups()),
    "thousands of groups": claiming(with_groups(*[replace(GROUP, name=f"{n}", flop=n) for n in range(3_000)])),
    "no totals": claiming(None),
    "batch 0": claiming(with_groups(GROUP), batch=0),
    "training with batch -7": claiming(with_groups(replace(GROUP, phase="backward")), batch=-7, mode="train"),
    "enormous batch": claiming(with_groups(GROUP), batch=HUGE),
    "no items": claiming(with_groups(GROUP), items=0),
    "enormous items": claiming(with_groups(GROUP), items=HUGE),
}  # fmt: skip


@pytest.mark.parametrize("name", HOSTILE)
def test_costs__no_claim_about_counts_hides_a_dearer_step(name, tmp_path):
    result = derive(measured_run(HOSTILE[name]), GATED, out=tmp_path)
    found = {row.metric: row.verdict for row in result.report.models[0].metrics if row.gated}
    assert found == {"cost": "regression", "monthly_cost": "regression"}
    assert (result.report.verdict, result.problem) == ("regression", None)


@pytest.mark.parametrize("name", sorted(HOSTILE.keys() - {"no groups", "no totals", "enormous weights"}))
def test_costs__what_cannot_be_true_is_said_and_moves_nothing(name):
    report = worked_out(measured_run(HOSTILE[name]), GATED)
    _, head = only(report)
    assert head.answer.candidates == 0
    [warning] = head.answer.warnings
    assert warning.startswith("no platform was looked for: ")
    assert not report.workloads[0].moved


RATES = [(0.0, 0.0), (-1.0, -1.0), (1e308, 1e308), (1e-308, 1e-308), (1e308, 1e-308)]


@pytest.mark.parametrize(("pi", "beta"), RATES)
def test_costs__a_probe_that_cannot_be_true_is_none(pi, beta):
    probe = MeasuredRoofline(
        device="cuda:0", label="NVIDIA L4", flop_per_s={"float16": pi}, bandwidth_bytes_per_s=beta,
        probe_bytes=1, measured_at="?",
    )  # fmt: skip
    without = worked_out(measured_run(evidence()), rules(runner="3.6"))
    assert worked_out(measured_run(evidence(), rooflines=(probe,)), rules(runner="3.6")) == without


@pytest.mark.parametrize("memory", [".... GiB", "9" * 400 + " GiB", "٣ GiB", "-1 GiB", ""])
def test_costs__strange_facts_of_the_runner_keep_its_declared_price(memory):
    hardware = {"gpu0": "NVIDIA L4", "gpu0_memory": memory, "cpu": "AMD EPYC 7B12", "physical_cores": "²"}
    for device in ("cuda:0", "cpu"):
        ran = measured_run(evidence(device=device), environment=Environment(hardware_id="x", hardware=hardware))
        assert worked_out(ran, rules(runner="3.6")).runner_usd_per_hour == 3.6


@pytest.mark.parametrize("started", ["", "nan", "0001-01-01T00:00:00Z", "9999-12-31", "2026-13-45", "x" * 60_000])
def test_costs__a_run_of_no_day_has_the_prices_of_the_newest_list(started):
    ran = measured_run(evidence())
    report = worked_out(replace(ran, run=replace(ran.run, started_at=started)), rules(runner="3.6"))
    assert report.warnings[0].startswith("the day of the run is not known: prices are as of 20")
    assert report.runner_usd_per_hour == 3.6
    assert only(report)[1].answer.cheapest is not None


def test_costs__wrong_prices_are_said_without_a_price_and_the_runners_stays():
    private = Prices(own=(OwnPrice(name="rack", platform="no-such", usd_per_hour=31337.5),))
    report = worked_out(measured_run(evidence(head=1.3)), GATED, private)
    assert report.runner_usd_per_hour == 3.6
    _, head = only(report)
    assert "cost.prices.rack.platform" in head.answer.warnings[0]
    assert "31337" not in wire.dumps(report)
    assert judge(measured_run(evidence(head=1.3)), GATED, cost=report).verdict == "regression"


def test_costs__of_very_many_workloads_the_first_are_searched():
    many = [replace(evidence(), workload=cell(model=f"m{n}", device="cuda:0", dtype="float16")) for n in range(5)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(cost_claims, "MOST_WORKLOADS", 3)
        report = worked_out(measured_run(*many), rules(runner="3.6"))
    assert [entry.head.answer.candidates > 0 for entry in report.workloads] == [True, True, True, False, False]
    assert all(entry.head.runner_usd_per_1k_steps for entry in report.workloads)
    assert "more than 3 workloads" in report.workloads[4].head.answer.warnings[0]


def test_costs__a_month_of_the_money_line_is_that_of_the_table(tmp_path):
    """Base and head see other numbers of items in a step, and more pairs were measured than decided."""
    found = evidence(head=1.3)
    pairs_ = tuple(
        replace(pair, base=replace(pair.base, items=4), head=replace(pair.head, items=8)) for pair in found.pairs
    )
    probes = replace(with_items(found, 4), pairs=pairs_)
    probes = replace(probes, head=with_items(found, 8).head)
    result = derive(measured_run(probes), GATED, out=tmp_path)
    row = next(row for row in result.report.models[0].metrics if row.metric == "monthly_cost")
    _, head = only(result.report.cost)
    assert head.usd_per_month == pytest.approx(row.head, rel=0.01)
    text = (tmp_path / "comment.md").read_text().replace("<span>$</span>", "$")
    assert f"({money(row.base)} → {money(row.head)})" in text


def test_costs__same_evidence_gives_the_same_report():
    ran = measured_run(evidence(head=1.2))
    assert costs(ran, rules()) == costs(ran, rules())


def test_costs__prices_age_with_the_day_of_the_run():
    ran = measured_run(evidence())
    old = replace(ran, run=replace(ran.run, started_at="2031-01-01T00:00:00Z"))
    assert any("older than" in warning for warning in worked_out(old, rules()).warnings)


def test_costs__noise_of_an_unchanged_step_moves_no_recommendation():
    """A limit beside the measured time: each side alone lands now on this and now on that side of it."""
    side = ok(totals=totals(), software=Software(threads=2))
    near = Requirements(max_step_ns=1.0066e7, devices=("l4", "a10g"))
    moved = []
    for seed in range(12):
        same = workload(1.0, of=cell(device="cuda:0", dtype="float16"), base=side, now=side, seed=seed)
        report = worked_out(measured_run(same), rules(runner="3.6", requirements=near))
        moved.append(report.workloads[0].moved)
        base, head = only(report)
        # What this runner measured stays apart.
        assert base.runner_step_ns != head.runner_step_ns
        assert base.answer.cheapest == head.answer.cheapest
    assert not any(moved)


def test_costs__a_certain_change_past_the_limit_moves_it():
    near = Requirements(max_step_ns=1.03e7, devices=("l4", "a10g"))
    report = worked_out(measured_run(evidence(head=1.05)), rules(runner="3.6", requirements=near))
    assert report.workloads[0].moved
    assert report.workloads[0].sentence.startswith("this change moves the cheapest platform from L4 to ")


@pytest.mark.parametrize(
    ("percentile", "slow", "factor"), [(0.5, 9, 1.0), (0.9, 9, 1.3), (0.99, 9, 1.3), (0.99, 1, 1.183)]
)
def test_costs__the_percentile_is_the_measured_one(percentile, slow, factor):
    """Of 40 steps ``slow`` take 1.3 times as long, of head alone; one of them is at place 39, and p99 at 38.61."""

    def with_tail(side, count):
        [block] = side.blocks
        plain = block.samples_ns[0]
        samples = (plain,) * (40 - count) + (round(1.3 * plain),) * count
        return replace(side, blocks=(replace(block, samples_ns=samples),))

    found = evidence()
    pairs = (replace(pair, base=with_tail(pair.base, 0), head=with_tail(pair.head, slow)) for pair in found.pairs)
    tailed = replace(found, pairs=tuple(pairs))
    asked = Requirements(percentile=percentile, max_step_ns=1e9, devices=("l4",), forms=("single",))
    base, head = only(worked_out(measured_run(tailed), rules(runner="3.6", requirements=asked)))
    assert head.answer.cheapest.step_ns == pytest.approx(factor * base.answer.cheapest.step_ns, rel=0.02)
    # Money and throughput are of the median.
    assert head.answer.cheapest.usd_per_1m_items == pytest.approx(base.answer.cheapest.usd_per_1m_items, rel=0.02)


@pytest.mark.parametrize(
    ("declared", "usd", "day"),
    [("3.6", 3.6, "2026-11-30"), ("own/rack", 0.5, "2026-11-01"), ("own/absent", None, None)],
)
def test_record__price_and_its_date_stand_with_every_result(tmp_path, declared, usd, day):
    url = f"sqlite:///{tmp_path}/store.sqlite"
    ran = measured_run(evidence(), policy=rules(runner=declared, prices=EXACT))
    assert record(ran, url, root=tmp_path).error is None
    with open_store(url) as store:
        kept = store.newest(namespace="local")
    assert {(one.price_usd_per_hour, one.price_date) for one in kept} == {(usd, day)}


def test_record__looks_for_no_platform(tmp_path, monkeypatch):
    # That takes tens of milliseconds a workload, and the report does it once already.
    def never(*_):
        pytest.fail("a search for the price alone")

    monkeypatch.setattr(compare, "compare", never)
    url = f"sqlite:///{tmp_path}/store.sqlite"
    assert record(measured_run(evidence(), policy=rules(runner="3.6")), url, root=tmp_path).error is None
    with open_store(url) as store:
        assert {one.price_usd_per_hour for one in store.newest(namespace="local")} == {3.6}


def test_runner_price__is_that_of_the_report():
    ran = measured_run(evidence())
    report = worked_out(ran, rules())
    assert runner_price(ran, rules()) == (report.runner_usd_per_hour, report.runner_price_date)
    assert runner_price(ran, rules(enabled=False)) is None
    assert runner_price(ran, rules(runner="own/absent")) is None
