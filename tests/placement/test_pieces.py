"""Pieces are a valid order of execution: each node once, after its sources, and as few switches as the rule makes."""

from __future__ import annotations

import itertools
import random

import pytest

from benchmarks.place import instances
from perfgate.placement.pieces import cut
from perfgate.records.placement import LATENCY, Device, Node, Problem, Target


def problem(*sources: tuple[int, ...]) -> Problem:
    """Three targets; node i reads ``sources[i]``."""
    return Problem(
        nodes=tuple(
            Node(name=f"n{index}", seconds=(1.0, 1.0, 1.0), sources=each) for index, each in enumerate(sources)
        ),
        devices=(Device(name="cpu"),),
        targets=tuple(Target(name=name, library=name, device="cpu") for name in "abc"),
    )


def test_cut__a_chain_is_cut_where_the_target_changes():
    chain = problem((), (0,), (1,), (2,), (3,))
    assert cut(chain, (0, 0, 1, 1, 0)) == ((0, 1), (2, 3), (4,))
    assert cut(chain, (2,) * 5) == ((0, 1, 2, 3, 4),)


def test_cut__stays_on_a_target_as_long_as_it_has_a_ready_node():
    branches = problem((), (0,), (0,), (1,), (2,), (3, 4))
    # Node 2 waits until 1 and 3 are done on their target, though its index is smaller than that of 3.
    assert cut(branches, (0, 0, 1, 0, 1, 0)) == ((0, 1, 3), (2, 4), (5,))


def test_cut__begins_with_the_smallest_ready_node():
    assert cut(problem((), (), ()), (1, 0, 1)) == ((0, 2), (1,))
    assert cut(problem(), ()) == ()


@pytest.mark.parametrize("seed", range(40))
def test_cut__is_executable(seed):
    made = instances.draw(seed, objective=LATENCY, strict=False)
    rng = random.Random(seed)
    targets = [rng.randrange(len(made.targets)) for _ in made.nodes]
    pieces = cut(made, targets)
    done: set[int] = set()
    for piece in pieces:
        assert len({targets[node] for node in piece}) == 1
        for node in piece:
            assert done.issuperset(made.nodes[node].sources)
            done.add(node)
    assert sum(map(len, pieces)) == len(done) == len(made.nodes)
    firsts = [targets[piece[0]] for piece in pieces]
    assert all(one != other for one, other in itertools.pairwise(firsts))
