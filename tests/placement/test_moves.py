from __future__ import annotations

import random

import pytest

from benchmarks.place import instances
from perfgate.placement.annealing import Journal, apply, descend
from perfgate.placement.clusters import clusters
from perfgate.placement.compiled import compiled
from perfgate.placement.moves import WEIGHTS, Moves
from perfgate.placement.orders import as_listed
from perfgate.placement.states import state
from perfgate.records.placement import THROUGHPUT
from tests.placement.test_segments import graph


def test_propose__every_kind_is_drawn_and_keeps_support():
    seen: dict[str, int] = {}
    for seed in range(20):
        draw = random.Random(seed)
        read = compiled(instances.draw(seed, objective=THROUGHPUT, nodes=14))
        targets = [draw.choice(allowed) for allowed in read.allowed]
        moves = Moves(read, draw, [as_listed(read)], clusters(read, draw))
        if not moves.any:
            continue
        for _ in range(300):
            name, changes = moves.propose(targets)
            for unit, target in changes:
                assert target in read.allowed[unit]
                assert target != targets[unit]
            if changes:
                seen[name] = max(seen.get(name, 0), len(changes))
                for unit, target in changes:
                    targets[unit] = target
    assert set(seen) == set(WEIGHTS)
    assert all(size > 1 for name, size in seen.items() if name != "one unit")


def test_apply__is_taken_back_by_what_it_returns():
    draw = random.Random(0)
    read = compiled(graph(0, count=20))
    found = state(read, [draw.choice(allowed) for allowed in read.allowed], scale=1.0)
    moves = Moves(read, draw, [as_listed(read)], clusters(read, draw))
    for _ in range(200):
        before, energy = found.targets.copy(), found.measure()[0]
        apply(found, apply(found, moves.propose(found.targets)[1]))
        assert found.targets == before
        assert abs(found.measure()[0] - energy) < 1e-9


def test_clusters__are_connected_and_of_all_sizes():
    read = compiled(graph(3, count=40))
    found = clusters(read, random.Random(0))
    sizes = {len(cluster) for cluster in found}
    assert min(sizes) == 2
    assert max(sizes) > 5
    for cluster in found:
        reached, rest = {cluster[0]}, set(cluster[1:])
        while near := {unit for unit in rest if reached & set(read.neighbours[unit])}:
            reached |= near
            rest -= near
        assert not rest


def test_descend__ends_where_no_single_move_is_better():
    read = compiled(graph(4, count=12))
    found = state(read, [0] * 12)
    journal = Journal(time_limit_s=600, max_evaluations=None, bound=None)
    descend(found, read, journal)
    energy = found.measure()[0]
    for unit, allowed in enumerate(read.allowed):
        before = found.targets[unit]
        for target in allowed:
            found.move(unit, target)
            assert found.measure()[0] >= energy - 1e-8
            found.move(unit, before)
    assert journal.best == pytest.approx(found.measure()[1])
