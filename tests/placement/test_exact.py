"""Exact answers are the best of all assignments, for every objective; chains, memory limits and ties."""

from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import numpy as np
import pytest

from benchmarks.place import instances
from perfgate.errors import UsageError
from perfgate.placement import evaluate, exact
from perfgate.placement.labels import undominated
from perfgate.records.placement import (
    LATENCY,
    MEMORY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    Border,
    Device,
    Node,
    Placement,
    Problem,
    Target,
)
from tests.placement.searched import KINDS

LONG_S = 20.0


def solve(problem: Problem) -> Placement:
    found = exact.solve(problem, LONG_S)
    assert found is not None
    return found


@pytest.mark.parametrize("start", range(0, 24, 8))
@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_solve__is_the_best_of_all_assignments(objective, order, start):
    for seed in range(start, start + 8):
        problem = instances.draw(seed, objective=objective, order=order, nodes=1 + seed % 6)
        found = solve(problem)
        least = instances.optimum(problem)
        assert found.optimal
        assert found.feasible == math.isfinite(least)
        assert found.value == pytest.approx(least, rel=1e-8)
        assert found.value == evaluate.value(problem, found.targets)
        assert bool(found.problem) == (not found.feasible)


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT, MEMORY])
def test_solve__chains_with_memory_limits(objective):
    for seed in range(8):
        problem = instances.draw(seed, objective=objective, nodes=7, chain=True)
        devices = tuple(
            replace(device, memory_bytes=int(sum(node.memory_bytes for node in problem.nodes) * 0.45))
            for device in problem.devices
        )
        problem = replace(problem, devices=devices)
        assert solve(problem).value == pytest.approx(instances.optimum(problem), rel=1e-8)


def long_chain(count: int, **changes) -> Problem:
    rng = random.Random(count)
    nodes = tuple(
        Node(
            name=f"n{index}",
            seconds=tuple(rng.uniform(1, 3) for _ in range(3)),
            sources=(index - 1,) if index else (),
            output_bytes=rng.uniform(0, 1),
            memory_bytes=float(rng.randint(1, 9)),
        )
        for index in range(count)
    )
    names = "abc"
    given = {
        "devices": tuple(Device(name=name) for name in names),
        "targets": tuple(Target(name=name, library=name, device=name, piece_s=0.2) for name in names),
        "borders": tuple(
            Border(source=one, target=other, send_s=0.1, send_s_per_byte=0.5, receive_s_per_byte=0.3)
            for one, other in itertools.permutations(names, 2)
        ),
        **changes,
    }
    return Problem(nodes=nodes, **given)


def test_solve__a_long_chain_is_a_shortest_path():
    problem = long_chain(80)
    seconds_of = [[seconds or 0.0 for seconds in node.seconds] for node in problem.nodes]
    costs = [0.2 + each for each in seconds_of[0]]
    for before, times in zip(problem.nodes, seconds_of[1:], strict=False):
        cross = 0.1 + 0.8 * before.output_bytes + 0.2
        costs = [
            seconds + min(cost + (cross if source != target else 0.0) for source, cost in enumerate(costs))
            for target, seconds in enumerate(times)
        ]
    assert solve(problem).value == pytest.approx(min(costs))


def test_solve__less_memory_never_makes_a_long_chain_faster():
    whole = sum(node.memory_bytes for node in long_chain(40).nodes)
    values = []
    for share in (1.0, 0.5, 0.4, 0.34):
        devices = tuple(Device(name=name, memory_bytes=int(whole * share)) for name in "abc")
        found = solve(long_chain(40, devices=devices))
        assert evaluate.why(long_chain(40, devices=devices), found.targets) == ""
        values.append(found.value)
    assert values == sorted(values)
    assert values[0] < values[-1]
    assert not solve(long_chain(40, devices=tuple(Device(name=name, memory_bytes=10) for name in "abc"))).feasible


def test_solve__memory_under_a_limit_on_latency_is_traded():
    free = long_chain(12, objective=MEMORY)
    fast = long_chain(12)
    least_s = solve(fast).value
    assert solve(free).value < solve(replace(free, latency_s=least_s * 1.001)).value
    assert not solve(replace(free, latency_s=least_s * 0.999)).feasible


@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_solve__ties_go_to_the_default(objective, order):
    problem = Problem(
        nodes=(Node(name="a", seconds=(1.0, 1.0, 1.0)), Node(name="b", seconds=(1.0, 1.0, 1.0), sources=(0,))),
        devices=(Device(name="one"),),
        targets=tuple(Target(name=name, library=name, device="one", default=name == "y") for name in "xyz"),
        objective=objective,
        order=order,
    )
    assert solve(problem).targets == (1, 1)


@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_solve__without_time_has_no_answer(objective, order):
    problem = instances.draw(3, objective=objective, order=order, nodes=12)
    assert exact.solve(problem, 0.0) is None


def test_solve__refuses_what_makes_no_sense():
    with pytest.raises(UsageError, match="no targets"):
        exact.solve(Problem(nodes=(Node(name="n0", seconds=(None,)),), devices=(), targets=()), 1.0)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_undominated__keeps_one_below_each_and_none_above_another(columns):
    rng = np.random.default_rng(columns)
    for _ in range(20):
        rows = rng.integers(0, 6, size=(rng.integers(1, 40), columns)).astype(float)
        kept = rows[undominated(rows)]
        assert all((kept <= row).all(axis=1).any() for row in rows)
        for index, row in enumerate(kept):
            others = np.delete(kept, index, axis=0)
            assert not (others <= row).all(axis=1).any()


def test_solve__large_graphs_side_by_side_are_left_to_the_search():
    assert exact.solve(long_chain(1200, order=SIDE_BY_SIDE), 5.0) is None
