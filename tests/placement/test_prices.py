"""Shortest paths through a network of steps, and what prices of limits prove."""

from __future__ import annotations

import math

import numpy as np
import pytest

from benchmarks.place import instances
from perfgate.placement import evaluate, network
from perfgate.placement.amounts import Amounts
from perfgate.placement.compiled import compiled
from perfgate.placement.prices import onto_simplex, price
from perfgate.records.placement import LATENCY, MEMORY, THROUGHPUT


def never() -> bool:
    return False


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT, MEMORY])
def test_build__every_assignment_is_a_path_with_its_value(objective):
    for seed in range(12):
        problem = instances.draw(seed, objective=objective, nodes=2 + seed % 4)
        small = compiled(problem)
        amounts = Amounts(small)
        layers = network.build(small, amounts, never)
        rng = np.random.default_rng(seed)
        for _ in range(10):
            state, total, steps = 0, np.zeros(amounts.count), []
            for layer in layers:
                steps.append(int(rng.choice(np.flatnonzero(layer.leaves == state))))
                total += layer.added[steps[-1]]
                state = int(layer.reaches[steps[-1]])
            value = evaluate.value(problem, small.of_units(network.targets(layers, steps)))
            kept = bool(amounts.within(total[None])[0])
            assert kept == math.isfinite(value)
            if kept:
                assert float(amounts.score(total[None])[0]) == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT, MEMORY])
def test_price__bound_and_value_enclose_the_optimum(objective):
    for seed in range(12):
        problem = instances.draw(seed, objective=objective, nodes=2 + seed % 5)
        small = compiled(problem)
        amounts = Amounts(small)
        layers = network.build(small, amounts, never)
        found = price(layers, amounts, math.inf, never)
        least = instances.optimum(problem)
        assert found.bound <= least * (1 + 1e-9)
        assert found.value >= least * (1 - 1e-9)
        if found.steps is not None:
            targets = small.of_units(network.targets(layers, found.steps))
            assert evaluate.value(problem, targets) == pytest.approx(found.value, rel=1e-9)


def test_build__gives_up_when_time_is_up():
    small = compiled(instances.draw(1, objective=LATENCY, nodes=5))
    with pytest.raises(network.GaveUp):
        network.build(small, Amounts(small), lambda: True)


def test_onto_simplex__is_the_nearest_point():
    rng = np.random.default_rng(0)
    for size in (1, 2, 5):
        for _ in range(20):
            point = rng.normal(size=size)
            found = onto_simplex(point)
            assert found.sum() == pytest.approx(1)
            assert (found >= 0).all()
            others = rng.dirichlet(np.ones(size), size=50)
            assert ((others - point) ** 2).sum(axis=1).min() >= ((found - point) ** 2).sum() - 1e-12
