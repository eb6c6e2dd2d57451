"""Random small problems for the tests of the search."""

from __future__ import annotations

import random
from dataclasses import replace

from perfgate.records.placement import (
    IN_TURN,
    LATENCY,
    MEMORY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    Border,
    Device,
    Node,
    Problem,
    Target,
)

KINDS = [
    (LATENCY, IN_TURN),
    (LATENCY, SIDE_BY_SIDE),
    (THROUGHPUT, IN_TURN),
    (MEMORY, IN_TURN),
    (MEMORY, SIDE_BY_SIDE),
]


def random_problem(seed: int, objective: str, order: str, *, nodes: int = 8) -> Problem:
    """Up to ``nodes`` nodes; two or three targets on two devices or three, now and then with limits and groups."""
    draw = random.Random(f"{seed} {objective} {order}")
    count = draw.randint(2, 3)
    shared = draw.random() < 0.3
    devices = [f"d{index}" for index in range(count)]
    targets = [
        Target(
            name=f"t{index}",
            library=f"l{index}",
            device=devices[0] if shared and index == 1 else devices[index],
            piece_s=draw.choice([0.0, 0.0, draw.uniform(0, 2)]),
            default=not index,
            whole=order == SIDE_BY_SIDE and index > 0 and draw.random() < 0.6,
        )
        for index in range(count)
    ]
    made = [_node(draw, index, count) for index in range(draw.randint(2, nodes))]
    total = sum(node.memory_bytes for node in made)
    borders = [
        Border(
            source=one.name,
            target=other.name,
            send_s=draw.choice([0.0, draw.uniform(0, 1)]),
            send_s_per_byte=draw.choice([0.0, draw.uniform(0, 0.2)]),
            receive_s=draw.choice([0.0, draw.uniform(0, 1)]),
            receive_s_per_byte=draw.choice([0.0, draw.uniform(0, 0.2)]),
        )
        for one in targets
        for other in targets
        if one != other and draw.random() < 0.8
    ]
    limit = draw.choice([None, int(total * draw.uniform(0.3, 1))])
    return Problem(
        nodes=tuple(made),
        devices=tuple(
            Device(name=name, lanes=draw.choice([0, 1, 2]), memory_bytes=limit if index else None)
            for index, name in enumerate(devices)
        ),
        targets=tuple(targets),
        borders=tuple(borders),
        objective=objective,
        order=order,
        latency_s=sum(node.seconds[0] or 0.0 for node in made) * draw.uniform(0.8, 1.2)
        if objective == MEMORY
        else None,
    )


def _node(draw: random.Random, index: int, count: int) -> Node:
    sources = {draw.randrange(index) for _ in range(draw.randint(0, 2))} if index else set()
    times: list[float | None] = [draw.uniform(1, 10)]
    times += [None if draw.random() < 0.15 else draw.uniform(0.3, 8) for _ in range(1, count)]
    return Node(
        name=f"n{index}",
        seconds=tuple(times),
        sources=tuple(sorted(sources)),
        output_bytes=draw.choice([0, draw.randint(1, 20)]),
        memory_bytes=draw.randint(0, 100),
        together=draw.choice(["", "", "", "", "", "a"]),
        fixed="t0" if draw.random() < 0.05 else "",
    )


def free(problem: Problem) -> Problem:
    """The same without limits of memory."""
    return replace(problem, devices=tuple(replace(device, memory_bytes=None) for device in problem.devices))
