from __future__ import annotations

import pytest

from perfgate.gate.plan import Cell, comparisons, make_plan, tolerances
from perfgate.records.cost import CostPolicy, ModelCost, Volume
from tests.gate.builders import cell, limits, policy


def test_make_plan__m_counts_gated_noisy_comparisons():
    cells = [
        Cell(workload=cell("a"), spans=("first_token", "token")),
        Cell(workload=cell("b"), energy=True),
        Cell(workload=cell("c", device="cuda:0"), energy=True),
    ]
    plan = make_plan(policy(), cells, seed=7)
    # a: latency, memory, two spans; b: latency, memory, energy; c: latency, energy (memory is exact on CUDA)
    assert plan.comparisons == 4 + 3 + 2
    assert plan.alpha == pytest.approx(0.01 / 9)
    assert (plan.looks, plan.seed, plan.pairs_per_round, plan.groups) == ((5, 8, 12, 16, 20), 7, 1, 2)


def test_make_plan__a_ceiling_is_one_more_chance_of_a_false_red():
    here = policy(limits=limits(ceilings={"latency": 1e9, "flop": 1e12}))
    assert comparisons(here, Cell(workload=cell())) == 3


def test_make_plan__looks_grow_until_red_is_possible():
    many = [Cell(workload=cell(), spans=tuple(f"s{k}" for k in range(998)))]
    plan = make_plan(policy(false_alarm_rate=1e-4), many, seed=0)
    assert plan.comparisons == 1000
    assert plan.looks == (5, 8, 12, 16, 20, 24)
    assert 2.0**-24 <= plan.alpha < 2.0**-23


def test_make_plan__rounds_shared_by_pairs_need_more_pairs():
    shared = make_plan(policy(pairs_per_round=4), [Cell(workload=cell())], seed=0)
    assert shared.looks[-1] == 32
    declared = make_plan(policy(pairs_per_round=4, independent_pairs=True), [Cell(workload=cell())], seed=0)
    assert declared.looks[-1] == 20
    assert declared.independent_pairs


def test_make_plan__nothing_gated_still_has_a_plan():
    here = policy(limits=limits(relative={"latency": None, "peak_memory": None}))
    assert make_plan(here, [Cell(workload=cell())], seed=0).comparisons == 1
    assert make_plan(policy(), [], seed=0).alpha == 0.01


def test_tolerances__limits_of_each_metric():
    here = policy(
        tolerance=0.04,
        models={
            "resnet": limits(relative={"peak_memory": 0.02, "span:token": None, "latency_p99": 0.1, "utilisation": 0.2})
        },
    )
    found = tolerances(here, cell("resnet"), spans=("token", "first"), energy=True)
    assert found == pytest.approx(
        {
            "latency": 0.04,
            "energy": 0.04,
            "peak_memory": 0.02,
            "span:first": 0.04,
            "latency_p99": 0.1,
            "utilisation": 0.25,
        }
    )


def test_tolerances__throughput_is_not_tested_beside_latency():
    here = policy(limits=limits(relative={"throughput": 0.03}))
    assert set(tolerances(here, cell())) == {"latency", "peak_memory"}


def test_tolerances__hardware_override():
    here = policy(models={"resnet": limits(hardware={"l4": limits(relative={"latency": None})})})
    assert "latency" not in tolerances(here, cell(), hardware=("NVIDIA L4",))
    assert "latency" in tolerances(here, cell(), hardware=("NVIDIA A100",))


def test_plan__money_is_compared_where_the_policy_asks_for_it():
    volume = CostPolicy(models={"resnet": ModelCost(volume=Volume(amount=1.0))})
    bounds = limits(relative={"cost": 0.02, "monthly_cost": 0.04}, ceilings={"cost": 1.0})
    with_volume, without = policy(limits=bounds, cost=volume), policy(limits=bounds)
    off = policy(limits=bounds, cost=CostPolicy(enabled=False))
    assert tolerances(with_volume, cell())["cost"] == 0.02
    assert tolerances(with_volume, cell())["monthly_cost"] == 0.04
    assert tolerances(without, cell()).keys() == {"latency", "peak_memory", "cost"}
    assert tolerances(off, cell()).keys() == {"latency", "peak_memory"}
    counts = [comparisons(here, Cell(workload=cell())) for here in (with_volume, without, off, policy())]
    assert counts == [5, 4, 2, 2]
