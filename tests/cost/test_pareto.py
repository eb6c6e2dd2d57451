"""The exact set of non-dominated vectors, its knee and its hypervolume."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from perfgate.cost import pareto
from tests.cost.problems import non_dominated


def by_definition(values: np.ndarray) -> set[int]:
    front = non_dominated([tuple(row) for row in values])
    return {index for index, row in enumerate(values) if tuple(row) in front}


@pytest.mark.parametrize("seed", range(120))
def test_front__equals_the_definition_with_ties_and_duplicates(seed):
    rng = np.random.default_rng(seed)
    count, objectives = int(rng.integers(1, 60)), int(rng.integers(1, 5))
    # Few distinct values: many vectors are equal, or equal in some objective.
    values = rng.integers(0, rng.integers(2, 9), size=(count, objectives)).astype(float)

    found = pareto.front(values)

    assert set(found.tolist()) == by_definition(values)
    assert (np.diff(found) > 0).all()


@pytest.mark.parametrize("objectives", [2, 3, 4])
def test_front__equals_the_definition_where_most_are_dropped_beforehand(objectives):
    values = np.random.default_rng(objectives).random((2_500, objectives))

    assert set(pareto.front(values).tolist()) == by_definition(values)


def test_front__keeps_every_vector_of_a_surface():
    rng = np.random.default_rng(1)
    directions = np.abs(rng.normal(size=(1_500, 3)))
    # On a sphere around the worst corner nothing dominates anything: the blocks' own comparisons decide.
    values = 2 - directions / np.linalg.norm(directions, axis=1, keepdims=True)

    assert len(pareto.front(values)) == len(values)


def test_front__of_equal_vectors_all_or_the_first():
    values = np.array([[2.0, 2.0], [1.0, 3.0], [1.0, 3.0], [3.0, 1.0], [1.0, 4.0]])

    assert pareto.front(values).tolist() == [0, 1, 2, 3]
    assert pareto.front(values, distinct=True).tolist() == [0, 1, 3]


def test_front__equal_in_one_objective_the_other_decides():
    values = np.array([[1.0, 5.0], [1.0, 4.0], [2.0, 4.0]])

    assert pareto.front(values).tolist() == [1]


def test_front__zeros_of_either_sign_are_equal():
    values = np.array([[0.0, 1.0], [-0.0, 1.0], [0.0, 0.5]])

    assert pareto.front(values).tolist() == [2]


def test_front__does_not_depend_on_the_order():
    rng = np.random.default_rng(4)
    values = rng.integers(0, 6, size=(200, 3)).astype(float)
    shuffled = rng.permutation(len(values))

    again = pareto.front(values[shuffled])

    assert sorted(shuffled[again].tolist()) == pareto.front(values).tolist()


def test_front__of_nothing_is_nothing():
    assert pareto.front(np.empty((0, 2))).tolist() == []


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_front__refuses_what_is_no_number(bad):
    with pytest.raises(ValueError, match="not a finite number"):
        pareto.front(np.array([[1.0, bad]]))


def test_front__refuses_a_single_vector():
    with pytest.raises(ValueError, match="of shape"):
        pareto.front(np.array([1.0, 2.0]))


def test_knee__is_the_nearest_to_the_ideal_point():
    # Scaled to [0, 1] by hand: (0, 1), (0.1, 0.2), (0.5, 0.1), (1, 0).
    values = np.array([[10.0, 200.0], [11.0, 120.0], [15.0, 110.0], [20.0, 100.0]])

    assert pareto.knee(values) == 1


def test_knee__units_do_not_count():
    values = np.array([[10.0, 200.0], [11.0, 120.0], [15.0, 110.0], [20.0, 100.0]])

    assert pareto.knee(values * [1e-6, 1e9]) == 1


def test_knee__of_one_point_is_that_point():
    assert pareto.knee(np.array([[3.0, 3.0]])) == 0


def test_hypervolume__of_two_objectives_by_hand():
    values = np.array([[1.0, 3.0], [2.0, 1.0], [2.5, 2.5]])

    # Up to (4, 4): 3 x 1 above y = 3, and 2 x 2 below.
    assert pareto.hypervolume(values, np.array([4.0, 4.0])) == pytest.approx(3 * 1 + 2 * 2)


@pytest.mark.parametrize("seed", range(30))
def test_hypervolume__equals_counting_cells(seed):
    rng = np.random.default_rng(seed)
    objectives = int(rng.integers(1, 5))
    values = rng.integers(0, 7, size=(int(rng.integers(1, 12)), objectives)).astype(float)
    reference = np.full(objectives, 6.0)
    cells = itertools.product(range(6), repeat=objectives)

    covered = sum(bool((values <= np.array(cell)).all(axis=1).any()) for cell in cells)

    assert pareto.hypervolume(values, reference) == pytest.approx(covered)


def test_hypervolume__of_what_is_beyond_the_reference_is_nothing():
    assert pareto.hypervolume(np.array([[5.0, 1.0]]), np.array([4.0, 4.0])) == 0
