from __future__ import annotations

import itertools
import math
import random
from dataclasses import replace

import pytest

from perfgate.placement import orders, segments
from perfgate.placement.compiled import compiled
from perfgate.placement.states import state
from perfgate.records.placement import IN_TURN, LATENCY, THROUGHPUT, Border, Device, Node, Problem, Target

NAMES = ("cpu", "one", "two", "three")


def graph(seed: int, *, count: int = 9, objective: str = THROUGHPUT, alike: bool = True) -> Problem:
    """A chain with skips, a processor and three accelerators, alike or not; borders cost the same everywhere."""
    draw = random.Random(seed)
    speeds = [1.0, 1.0, 1.0] if alike else [1.0, 1.5, 0.7]
    nodes = []
    for index in range(count):
        work = draw.uniform(1, 5)
        nodes.append(
            Node(
                name=str(index),
                seconds=(3 * work, *(None if draw.random() < 0.1 else work * speed for speed in speeds)),
                sources=tuple(sorted({index - 1, draw.randrange(index)})) if index else (),
                output_bytes=draw.uniform(0, 3),
                memory_bytes=draw.randint(0, 9),
            )
        )
        if alike:
            first = nodes[-1].seconds[1]
            nodes[-1] = replace(nodes[-1], seconds=(3 * work, first, first, first))
    return Problem(
        nodes=tuple(nodes),
        devices=tuple(Device(name=name, memory_bytes=None if name == "cpu" else 25) for name in NAMES),
        targets=tuple(Target(name=name, library=name, device=name, default=name == "cpu") for name in NAMES),
        borders=tuple(
            Border(source=one, target=other, send_s_per_byte=0.3, receive_s_per_byte=0.2, send_s=0.1)
            for one in NAMES
            for other in NAMES
            if one != other
        ),
        objective=objective,
        order=IN_TURN,
    )


def contiguous(targets: list[int]) -> bool:
    """Every target has one segment at most."""
    runs = [target for target, _ in itertools.groupby(targets)]
    return len(runs) == len(set(runs))


@pytest.mark.parametrize("alike", [True, False])
def test_divided__is_the_best_contiguous_division_by_load(alike):
    for seed in range(4):
        read = compiled(graph(seed, count=7, alike=alike))
        order = orders.as_listed(read)
        found = segments.divided(read, order, segments.alike(read))
        assert found is not None
        best = min(
            state(read, each).measure()[1]
            for each in itertools.product(range(4), repeat=7)
            if all(target in allowed for target, allowed in zip(each, read.allowed, strict=True))
            and contiguous([target for target, allowed in zip(each, read.allowed, strict=True) if len(allowed) > 1])
        )
        assert state(read, found).measure()[1] == pytest.approx(best)


def test_divided__may_use_a_target_again_for_latency_in_turn():
    problem = graph(1, objective=LATENCY)
    times = [(1.0, 9.0, 9.0, 9.0), (9.0, 1.0, 9.0, 9.0), (1.0, 9.0, 9.0, 9.0), (9.0, 1.0, 9.0, 9.0)]
    nodes = tuple(
        Node(name=str(index), seconds=each, sources=(index - 1,) if index else ()) for index, each in enumerate(times)
    )
    read = compiled(replace(problem, nodes=nodes))
    assert segments.divided(read, orders.as_listed(read), segments.alike(read)) == [0, 1, 0, 1]


def test_divided__nothing_keeps_the_limits():
    problem = graph(0)
    tight = replace(problem, devices=tuple(replace(device, memory_bytes=1) for device in problem.devices))
    read = compiled(tight)
    assert segments.divided(read, orders.as_listed(read), segments.alike(read)) is None


def test_divided__a_long_line_in_blocks():
    read = compiled(graph(0, count=1500))
    wide = replace(read, limits=[math.inf] * 4)
    found = segments.divided(wide, orders.as_listed(wide), segments.alike(wide))
    assert found is not None
    alone = sum(row[0] for row in read.seconds)
    assert state(wide, found).measure()[1] < 0.6 * alone


def test_alike__sees_what_sets_targets_apart():
    problem = graph(0)
    assert segments.alike(compiled(problem)) == [[0], [1, 2, 3]]
    more = replace(problem.devices[2], memory_bytes=26)
    devices = (*problem.devices[:2], more, problem.devices[3])
    assert segments.alike(compiled(replace(problem, devices=devices))) == [[0], [1, 3], [2]]
    dear = replace(problem.borders[0], send_s=9.0)
    assert (dear.source, dear.target) == ("cpu", "one")
    assert segments.alike(compiled(replace(problem, borders=(dear, *problem.borders[1:])))) == [[0], [1], [2, 3]]
    fixed = replace(problem.nodes[0], fixed="three")
    assert segments.alike(compiled(replace(problem, nodes=(fixed, *problem.nodes[1:])))) == [[0], [1, 2], [3]]


def test_orders__are_permutations_and_execution_is_in_order():
    for seed in range(5):
        read = compiled(graph(seed, count=30))
        draw = random.Random(seed)
        spectral = orders.spectral(read)
        assert spectral is not None
        shuffled = draw.sample(range(30), 30)
        executed = orders.executed(read, draw)
        for order in (spectral, orders.spectral(read, 1.0, draw), executed, orders.executable(read, shuffled)):
            assert sorted(order or ()) == list(range(30))
        for order in (executed, orders.executable(read, shuffled), orders.executable(read, spectral)):
            place = {unit: index for index, unit in enumerate(order)}
            for index, node in enumerate(read.problem.nodes):
                assert all(place[source] < place[index] for source in node.sources)


def test_spectral__puts_apart_what_is_joined_lightly():
    # Two cliques-like rings with one light edge between them, listed alternately.
    nodes = []
    for index in range(20):
        sources = [index - 2] if index >= 2 else []
        if index >= 4:
            sources.append(index - 4)
        if index == 19:
            sources.append(18)
        light = index == 18
        nodes.append(
            Node(name=str(index), seconds=(1.0,) * 4, sources=tuple(sorted(sources)), output_bytes=0.01 if light else 3)
        )
    read = compiled(replace(graph(0), nodes=tuple(nodes)))
    order = orders.spectral(read, 1.0)
    assert order is not None
    assert {unit % 2 for unit in order[:10]} in ({0}, {1})


def test_spectral__large_graphs_give_the_same_line_as_small_ones(monkeypatch):
    read = compiled(graph(2, count=60))
    dense = orders.spectral(read)
    monkeypatch.setattr(orders, "MOST_DENSE", 10)
    assert orders.spectral(read) == dense
