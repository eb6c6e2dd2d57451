from __future__ import annotations

import math
import random

import pytest

from benchmarks.place import instances
from perfgate.placement import evaluate
from perfgate.placement.compiled import compiled
from perfgate.placement.states import state
from tests.placement.searched import KINDS


@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_state__after_random_moves_has_the_value_of_the_definition(objective, order):
    feasible = 0
    for seed in range(60):
        draw = random.Random(seed)
        problem = instances.draw(seed, objective=objective, order=order, nodes=14)
        read = compiled(problem)
        found = state(read, [draw.choice(allowed) for allowed in read.allowed])
        for _ in range(12):
            for _ in range(draw.randint(1, 3)):
                unit = draw.randrange(len(read.units))
                found.move(unit, draw.choice(read.allowed[unit]))
            expected = evaluate.value(problem, read.of_units(found.targets))
            assert found.measure()[1] == pytest.approx(expected, rel=1e-9), (seed, evaluate.why(problem, found.targets))
            feasible += expected < math.inf
    assert feasible > 100


@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_state__reset_is_as_good_as_a_new_one(objective, order):
    for seed in range(10):
        draw = random.Random(seed)
        read = compiled(instances.draw(seed, objective=objective, order=order, nodes=8))
        one, other = ([draw.choice(allowed) for allowed in read.allowed] for _ in range(2))
        found = state(read, one, scale=7.0)
        found.reset(other)
        assert found.measure() == state(read, other, scale=7.0).measure()
