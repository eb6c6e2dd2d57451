"""The path bound is below every optimum, above the critical path, and sees the cuts that memory makes."""

from __future__ import annotations

import itertools
import random
from dataclasses import replace

import pytest

from benchmarks.place import instances
from perfgate.placement.backbone import backbone, paths
from perfgate.placement.compiled import compiled
from perfgate.placement.prefix import Prefix
from perfgate.records.placement import LATENCY, SIDE_BY_SIDE, UNLIMITED, Border, Device, Node, Problem, Target


def accelerators(count: int, nodes: tuple[Node, ...], memory: int) -> Problem:
    """A slow processor and equal accelerators; sending and receiving a value takes a second for each of its bytes."""
    names = ["cpu", *(f"acc{index}" for index in range(count))]
    return Problem(
        nodes=nodes,
        devices=tuple(
            Device(name=name, memory_bytes=memory if name != "cpu" else None, lanes=UNLIMITED) for name in names
        ),
        targets=tuple(
            Target(name=name, library=name, device=name, whole=name != "cpu", default=name == "cpu") for name in names
        ),
        borders=tuple(
            Border(
                source=one,
                target=other,
                send_s_per_byte=float(one != "cpu"),
                receive_s_per_byte=float(other != "cpu"),
            )
            for one, other in itertools.permutations(names, 2)
        ),
        objective=LATENCY,
        order=SIDE_BY_SIDE,
    )


def operator(index: int, count: int, *sources: int, **changes) -> Node:
    given = {"seconds": (20.0, *[1.0] * count), "output_bytes": 2.0, "memory_bytes": 10.0, **changes}
    return Node(name=f"n{index}", sources=sources, **given)


@pytest.mark.parametrize("start", range(0, 60, 20))
def test_backbone__lies_between_the_critical_path_and_the_optimum(start):
    for seed in range(start, start + 20):
        problem = instances.draw(seed, objective=LATENCY, order=SIDE_BY_SIDE, nodes=2 + seed % 5)
        rng = random.Random(seed)
        nodes = tuple(
            replace(
                node, sources=tuple(sorted({*node.sources, *([index - 1] if index and rng.random() < 0.8 else [])}))
            )
            for index, node in enumerate(problem.nodes)
        )
        targets = tuple(replace(target, whole=index > 0) for index, target in enumerate(problem.targets))
        problem = replace(problem, nodes=nodes, targets=targets)
        small = compiled(problem)
        found = backbone(small)
        assert found <= instances.optimum(problem)
        assert found >= Prefix(small).critical_path_s * (1 - 1e-8)


def test_backbone__a_chain_is_cut_by_memory():
    chain = tuple(operator(index, 3, *([index - 1] if index else [])) for index in range(6))
    # Two nodes fit: three accelerators, two cuts of 2 s + 2 s.
    assert backbone(compiled(accelerators(3, chain, 20))) == pytest.approx(6 + 2 * 4)
    # Two accelerators take four of the six: the others run on the processor, and a stretch beside it is cut once.
    chain = tuple(replace(node, seconds=node.seconds[:3]) for node in chain)
    assert backbone(compiled(accelerators(2, chain, 20))) == pytest.approx(4 + 40 + 2 * 2)
    assert backbone(compiled(accelerators(2, chain, 60))) == pytest.approx(6.0)


def test_backbone__what_lies_between_two_nodes_of_a_stretch_is_on_its_target():
    # Node 0, four branches, node 5: all on one accelerator, one after another, or apart with transfers.
    branches = (
        operator(0, 1, output_bytes=100.0),
        *(operator(index, 1, 0, output_bytes=100.0) for index in range(1, 5)),
        operator(5, 1, 1, 2, 3, 4),
    )
    assert backbone(compiled(accelerators(1, branches, 60))) == pytest.approx(6.0)
    # All six do not fit, and no value of 100 bytes crosses: everything on the processor.
    assert backbone(compiled(accelerators(1, branches, 50))) == pytest.approx(60.0)


def test_backbone__nodes_that_stay_together_are_not_cut():
    chain = tuple(
        operator(
            index,
            2,
            *([index - 1] if index else []),
            output_bytes=0.0 if index == 1 else 5.0,
            together="a" if 0 < index < 3 else "",
        )
        for index in range(4)
    )
    # Without the group the cut after node 1 would be free.
    assert backbone(compiled(accelerators(2, chain, 30))) == pytest.approx(4 + 10)
    free = tuple(replace(node, together="") for node in chain)
    assert backbone(compiled(accelerators(2, free, 30))) == pytest.approx(4.0)


def test_paths__are_paths():
    for seed in range(20):
        problem = instances.draw(seed, objective=LATENCY, order=SIDE_BY_SIDE)
        for path in paths(compiled(problem)):
            assert all(one in problem.nodes[other].sources for one, other in itertools.pairwise(path))
