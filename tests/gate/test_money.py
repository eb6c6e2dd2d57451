"""Rows in US dollars, limits on them, and what is said of money."""

from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.bench.course import Course
from perfgate.bench.task import Work
from perfgate.gate import money
from perfgate.gate.plan import Cell, make_plan, tolerances
from perfgate.records.cost import (
    Answer,
    CostPolicy,
    CostReport,
    ModelCost,
    Requirements,
    SideCost,
    Volume,
    WorkloadCost,
)
from perfgate.records.report import Report
from perfgate.records.workload import ModelSpec
from tests.gate.builders import (
    ABSENT,
    accept,
    cell,
    failed,
    judged,
    limits,
    ok,
    only,
    pairs,
    policy,
    probe,
    row,
    workload,
)

# At 10 ms a step of one item, 1 M items take 10 000 s: at 0.36 USD an hour they cost 1 USD.
PRICE = CostReport(runner_usd_per_hour=0.36, runner_price="aws/g6.xlarge, on-demand")
ASSUMED = replace(PRICE, runner_assumed=True)


def with_volume(amount: float, unit: str, **fields):
    return policy(cost=CostPolicy(models={"resnet": ModelCost(volume=Volume(amount=amount, unit=unit))}), **fields)


def gated(metric: str = "cost", **fields):
    return policy(limits=limits(relative={metric: 0.03}), **fields)


def metrics(report: Report) -> set[str]:
    return {found.metric for found in only(report).metrics}


def side(usd_per_month: float | None = None) -> SideCost:
    return SideCost(answer=Answer(candidates=0, feasible=0), usd_per_month=usd_per_month)


def finding(before: float | None = None, now: float | None = None, budget: float | None = None, **fields) -> CostReport:
    item = WorkloadCost(
        model="resnet",
        key=fields.pop("key", cell().key),
        base=side(before),
        head=side(now),
        requirements=Requirements(max_usd_per_month=budget),
        **fields,
    )
    return replace(PRICE, workloads=(item,))


# ---------------------------------------------------------------- rows


def test_rows__cost_is_shown_where_the_price_is_known():
    report = judged(workload(1.2), cost=PRICE)
    found = row(report, "cost")
    assert found.base == pytest.approx(1.0, rel=0.01)
    assert found.head == pytest.approx(1.2, rel=0.01)
    assert found.ratio == row(report).ratio
    assert (found.ci_low, found.ci_high) == (row(report).ci_low, row(report).ci_high)
    assert (found.kind, found.unit, found.verdict, found.gated) == ("noisy", "usd", "shown", False)
    assert "monthly_cost" not in metrics(report)
    assert report.cost == PRICE


@pytest.mark.parametrize("cost", [None, CostReport(runner_price="no such offer")])
def test_rows__without_a_price_there_are_none(cost):
    report = judged(workload(), cost=cost)
    assert not metrics(report) & set(money.METRICS)
    assert report.check == "success"


def test_rows__cost_switched_off_has_none():
    under = policy(cost=CostPolicy(enabled=False), limits=limits(relative={"cost": 0.03}))
    assert "cost" not in metrics(judged(workload(1.2), under=under, cost=PRICE))


def test_rows__cost_is_of_an_item():
    found = row(judged(workload(base_side={"items": 32}, head_side={"items": 32}), cost=PRICE), "cost")
    assert found.head == pytest.approx(1 / 32, rel=0.01)


@pytest.mark.parametrize(("amount", "unit"), [(40e6, "steps"), (320e6, "items")])
def test_rows__a_month_is_the_declared_volume(amount, unit):
    measured = workload(1.1, base_side={"items": 8}, head_side={"items": 8})
    found = row(judged(measured, under=with_volume(amount, unit), cost=PRICE), "monthly_cost")
    # 40 M steps of 10 ms are 111 hours.
    assert found.base == pytest.approx(40.0, rel=0.01)
    assert found.head == pytest.approx(44.0, rel=0.01)
    assert (found.unit, found.gated) == ("usd", False)


def test_rows__nothing_timed_shows_no_empty_row():
    assert "cost" not in metrics(judged(workload(measured=(), end="budget"), cost=PRICE))


def test_rows__head_alone_says_what_it_costs():
    report = judged(
        workload(base=ABSENT, now=probed(step_ns=20_000_000, items=2)),
        under=with_volume(1e6, "items"),
        cost=PRICE,
    )
    assert (row(report, "cost").base, row(report, "cost").verdict) == (None, "shown")
    assert row(report, "cost").head == pytest.approx(1.0)
    assert row(report, "monthly_cost").head == pytest.approx(1.0)
    assert "cost" not in metrics(judged(workload(base=ABSENT, now=probed(step_ns=1, items=1))))


def probed(**facts):
    return ok(probe(**facts), probe(**facts))


# ---------------------------------------------------------------- limits


def test_limit__cost_is_judged_as_the_step_time_is():
    under = policy(limits=limits(relative={"cost": 0.03, "latency": None}))
    report = judged(workload(1.08), under=under, cost=PRICE)
    assert (row(report, "cost").verdict, report.exit_code) == ("regression", 1)
    assert report.title == "resnet costs 8.0 % more per 1 M items (infer, batch 1, cpu)"
    assert judged(workload(0.8), under=under, cost=PRICE).verdict == "improvement"
    assert row(judged(workload(1.001), under=under, cost=PRICE), "cost").verdict == "pass"


def test_limit__is_a_comparison_that_shares_the_false_alarm_rate():
    assert judged(workload(), under=gated(), cost=PRICE).policy.comparisons == 3
    assert judged(workload(), cost=PRICE).policy.comparisons == 2


@pytest.mark.parametrize("head", [0.5, 1.0, 2.0])
@pytest.mark.parametrize("bound", [{"relative": {"cost": 0.03}}, {"ceilings": {"cost": 0.5}}])
def test_limit__without_a_price_is_neither_green_nor_red(head, bound):
    ungated = {"latency": None, "peak_memory": None}
    bounds = limits(relative={**ungated, **bound.get("relative", {})}, ceilings=bound.get("ceilings", {}))
    report = judged(workload(head), under=policy(limits=bounds), cost=CostReport())
    assert (row(report, "cost").verdict, row(report, "cost").head) == ("inconclusive", None)
    assert (report.exit_code, report.check) == (0, "neutral")
    assert "o price for this runner: set [cost] runner (cost per 1 M items)." in report.why


def test_limit__without_a_price_an_unstable_runner_comes_first():
    report = judged(workload(end="unstable"), under=gated(), cost=CostReport())
    assert row(report, "cost").verdict == "invalid"
    assert "unstable" in row(report, "cost").note


def test_limit__an_informative_look_asks_for_no_price():
    report = judged(workload(), workload(informative=True), under=gated(), cost=CostReport())
    assert [any(found.metric == "cost" for found in model.metrics) for model in report.models] == [True, False]


def test_limit__without_a_price_asks_for_action_where_the_policy_blocks():
    assert judged(workload(), under=gated(on_inconclusive="block")).check == "action_required"


@pytest.mark.parametrize(("ceiling", "verdict"), [(0.9, "regression"), (1.3, "pass")])
def test_ceiling__is_in_dollars(ceiling, verdict):
    report = judged(workload(1.0), under=policy(limits=limits(ceilings={"cost": ceiling})), cost=PRICE)
    assert row(report, "cost").verdict == verdict
    if verdict == "regression":
        assert row(report, "cost").note == "past the ceiling of $0.90 (base was past it too)"


@pytest.mark.parametrize(("ceiling", "verdict"), [(43.0, "regression"), (45.0, "pass")])
def test_ceiling__of_a_month(ceiling, verdict):
    under = with_volume(40e6, "items", limits=limits(ceilings={"monthly_cost": ceiling}, relative={"latency": None}))
    report = judged(workload(1.1), under=under, cost=PRICE)
    assert (row(report, "monthly_cost").verdict, report.exit_code) == (verdict, int(verdict == "regression"))


def test_ceiling__of_a_month_is_nothing_to_a_model_without_volume():
    report = judged(workload(), under=policy(limits=limits(ceilings={"monthly_cost": 1e-9})), cost=PRICE)
    assert "monthly_cost" not in metrics(report)
    assert report.policy.comparisons == 2


@pytest.mark.parametrize("ceiling", [0.1, 10.0])
def test_ceiling__under_an_assumed_price_is_open(ceiling):
    under = policy(limits=limits(ceilings={"cost": ceiling}))
    report = judged(workload(), under=under, cost=ASSUMED)
    assert row(report, "cost").verdict == "inconclusive"
    assert row(report, "cost").note == money.ASSUMED_PRICE
    assert row(report, "cost").head == pytest.approx(1.0, rel=0.01)


def test_limit__needs_no_declared_price_since_it_is_a_ratio():
    assert row(judged(workload(1.1), under=gated(), cost=ASSUMED), "cost").verdict == "regression"
    both = policy(limits=limits(relative={"cost": 0.03}, ceilings={"cost": 10.0}))
    assert row(judged(workload(1.1), under=both, cost=ASSUMED), "cost").verdict == "regression"


def test_limit__can_be_accepted_like_any_other():
    under = policy(limits=limits(relative={"cost": 0.03, "latency": None}))
    report = judged(workload(1.08), under=under, cost=PRICE, accepted=(accept("resnet/infer/cost", 0.09),))
    assert (row(report, "cost").verdict, report.exit_code) == ("accepted", 0)
    assert not report.notes


def test_limit__a_tighter_one_on_cost_keeps_measuring_going():
    loose, tight = ({"latency": 0.5, **more} for more in ({}, {"cost": 0.01}))
    assert pairs_until_decided(loose) == 5
    assert pairs_until_decided(tight) > 5


def pairs_until_decided(relative: dict[str, float]) -> int:
    under = policy(limits=limits(relative={"peak_memory": None, **relative}))
    spec = ModelSpec(name="resnet")
    tau = tolerances(under, cell())
    assert tau.keys() == relative.keys()
    work = Work(workload=cell(), base_spec=spec, head_spec=spec, base=ok(), head=ok(), tolerances=tau)
    course = Course(work, make_plan(under, [Cell(workload=cell())], seed=0), pair_s=1.0)
    for pair in pairs(1.005, noise=0.01):
        if not course.end:
            course.add(pair, 1.0)
    return len(course.pairs)


# ---------------------------------------------------------------- findings


def test_finding__a_recommendation_that_moves_is_said_and_decides_nothing():
    told = "this change moves the cheapest platform from L4 to L40S"
    report = judged(workload(), cost=finding(moved=True, sentence=told))
    assert told in only(report).reasons
    assert report.why.endswith("This change moves the cheapest platform from L4 to L40S.")
    assert (report.verdict, report.exit_code) == ("pass", 0)


def test_finding__of_one_of_several_workloads_is_named():
    told = "this change moves the cheapest platform from L4 to L40S"
    report = judged(workload(), workload(of=cell("bert")), cost=finding(moved=True, sentence=told))
    assert f"Resnet infer: {told}".lower() in report.why.lower()
    assert told in report.models[0].reasons
    assert told not in report.models[1].reasons


def test_finding__a_recommendation_that_stays_is_not_said():
    report = judged(workload(), cost=finding(moved=False, sentence="the cheapest platform is L4"))
    assert "L4" not in report.why
    assert not any("L4" in reason for reason in only(report).reasons)


def test_finding__stands_after_the_cause_of_a_regression():
    told = "this change moves the cheapest platform from L4 to L40S"
    report = judged(workload(1.2), cost=finding(moved=True, sentence=told))
    assert report.verdict == "regression"
    assert told in only(report).reasons
    assert "moves the cheapest platform" in report.why


def test_finding__an_informative_look_has_none():
    told = "this change moves the cheapest platform from L4 to L40S"
    report = judged(workload(), workload(informative=True), cost=finding(moved=True, sentence=told))
    assert [told in model.reasons for model in report.models] == [True, False]
    assert report.why.count("moves the cheapest") == 1


def test_finding__a_workload_that_head_lost_has_money_too():
    told = "no platform meets the requirements any more"
    assert told in only(judged(workload(now=failed()), cost=finding(moved=True, sentence=told))).reasons


@pytest.mark.parametrize(
    ("before", "now", "budget", "head", "said"),
    [
        (480.0, 528.0, 500.0, 1.1, True),
        (510.0, 561.0, 500.0, 1.1, False),  # base was past it too
        (400.0, 440.0, 500.0, 1.1, False),
        (499.9, 500.1, 500.0, 1.0, False),  # nothing certain happened
        (480.0, 528.0, None, 1.1, False),
        (None, 528.0, 500.0, 1.1, False),
    ],
)
def test_finding__a_budget_that_head_breaks_and_base_kept(before, now, budget, head, said):
    under = policy(limits=limits(relative={"latency": 0.5}))
    report = judged(workload(head), under=under, cost=finding(before, now, budget))
    reasons = [reason for reason in only(report).reasons if "max_usd_per_month" in reason]
    expected = (
        "a month at the declared volume costs $528.00 on this runner, past max_usd_per_month of $500.00; it was $480.00"
    )
    assert reasons == ([expected] if said else [])
    assert report.verdict == "pass"


def test_rows__a_declared_runner_that_nobody_knows_is_named():
    under = gated(cost=CostPolicy(runner="own/rak"))
    cost = CostReport(runner_price="unknown: runner = 'own/rak' under [cost] is no offer that is known")
    found = row(judged(workload(1.2), under=under, cost=cost), "cost")
    assert found.verdict == "inconclusive"
    assert found.note == "no price for this runner: runner = 'own/rak' under [cost] is no offer that is known"
