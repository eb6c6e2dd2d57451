"""Bounds are never above the best of all assignments; the program is exact where it says so."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import pytest

from benchmarks.place import instances
from perfgate.placement import bound, evaluate
from perfgate.placement.compiled import compiled
from perfgate.placement.prefix import Prefix
from perfgate.placement.symmetry import Equals
from perfgate.records.placement import (
    LATENCY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    Border,
    Device,
    Node,
    Problem,
    Target,
)
from tests.placement.searched import KINDS

LONG_S = 60.0


@pytest.mark.parametrize(("objective", "order"), KINDS)
def test_lower__is_never_above_the_best(objective, order):
    for seed in range(14):
        problem = instances.draw(seed, objective=objective, order=order, nodes=1 + seed % 6)
        least = instances.optimum(problem)
        for limit_s in (0.0, LONG_S):
            found = bound.lower(problem, limit_s)
            assert 0 <= found <= least or found == least == math.inf


@pytest.mark.parametrize(("objective", "order"), KINDS[:3])
def test_milp__is_exact_without_times_of_pieces(objective, order):
    for seed in range(10):
        problem = instances.draw(seed, objective=objective, order=order, nodes=2 + seed % 5)
        problem = replace(problem, targets=tuple(replace(target, piece_s=0.0) for target in problem.targets))
        least = instances.optimum(problem)
        targets, found = bound.milp(problem, LONG_S)
        assert found <= least
        if math.isfinite(least):
            assert targets is not None
            assert evaluate.value(problem, targets) == pytest.approx(least, rel=1e-5)
            assert found == pytest.approx(least, rel=2e-5)
        else:
            assert targets is None


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT])
def test_milp__counts_the_pieces_of_a_chain(objective):
    for seed in range(10):
        problem = instances.draw(seed, objective=objective, nodes=6, chain=True, strict=False)
        problem = replace(problem, targets=tuple(replace(target, piece_s=0.7) for target in problem.targets))
        assert bound.milp(problem, LONG_S)[1] == pytest.approx(instances.optimum(problem), rel=2e-5)


def test_lower__is_infinite_where_nothing_fits():
    problem = Problem(
        nodes=tuple(Node(name=f"n{index}", seconds=(1.0, 1.0), memory_bytes=6) for index in range(3)),
        devices=(Device(name="a", memory_bytes=10), Device(name="b", memory_bytes=10)),
        targets=(Target(name="a", library="a", device="a"), Target(name="b", library="b", device="b")),
    )
    assert bound.lower(problem, LONG_S) == math.inf
    assert bound.milp(problem, LONG_S) == (None, math.inf)


def accelerators(count: int, **changes) -> Problem:
    """A chain of 12 nodes, a processor and equal accelerators, which must share it."""
    names = [f"acc{index}" for index in range(count)]
    given = {
        "nodes": tuple(
            Node(
                name=f"n{index}",
                seconds=(20.0, *[1.0] * count),
                sources=(index - 1,) if index else (),
                output_bytes=1.0,
                memory_bytes=10.0,
            )
            for index in range(12)
        ),
        "devices": (Device(name="cpu", lanes=0), *(Device(name=name, memory_bytes=30) for name in names)),
        "targets": (
            Target(name="cpu", library="cpu", device="cpu", default=True),
            *(Target(name=name, library="acc", device=name, whole=True) for name in names),
        ),
        "borders": tuple(
            Border(source=one, target=other, send_s_per_byte=0.5, receive_s_per_byte=0.5)
            for one, other in itertools.permutations(["cpu", *names], 2)
        ),
        **changes,
    }
    return Problem(**given)


def test_lower__knows_what_memory_leaves_to_the_processor():
    problem = accelerators(2, objective=LATENCY, order=SIDE_BY_SIDE)
    # The critical path is 12 s; six of the twelve nodes must run on the processor.
    assert Prefix(compiled(problem)).critical_path_s == 12.0
    assert bound.lower(problem, LONG_S) >= 126.0 * 0.99999


def test_equals__finds_targets_that_can_be_swapped():
    assert Equals(compiled(accelerators(3))).class_of == [0, 1, 1, 1]
    problem = accelerators(3)
    fuller = (*problem.devices[:3], Device(name="acc2", memory_bytes=31))
    assert Equals(compiled(replace(problem, devices=fuller))).class_of == [0, 1, 1, 3]
    far = (*problem.borders[:-1], replace(problem.borders[-1], send_s=9.0))
    assert Equals(compiled(replace(problem, borders=far))).class_of == [0, 1, 2, 3]


@pytest.mark.parametrize("objective", [LATENCY, THROUGHPUT])
def test_lower__merging_equal_targets_stays_below_the_best(objective):
    problem = accelerators(2, objective=objective)
    problem = replace(problem, nodes=problem.nodes[:7])
    assert bound.lower(problem, LONG_S) <= instances.optimum(problem)
