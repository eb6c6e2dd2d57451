"""Random small problems of placement, and their optimum by looking at every assignment.

In: a seed and what is asked. Out: :class:`Problem`: a random graph with skips and several ends, three devices (now and
then two libraries on one), with limits of memory, groups, fixed and unsupported nodes, times of pieces, lanes and whole
targets each in some of them.
"""

from __future__ import annotations

import itertools
import math
import random
from collections.abc import Iterator
from dataclasses import replace

from perfgate.placement import evaluate
from perfgate.records.placement import IN_TURN, MEMORY, SIDE_BY_SIDE, Border, Device, Node, Problem, Target

MOST_NODES = 14


def draw(
    seed: int,
    *,
    objective: str,
    order: str = IN_TURN,
    nodes: int | None = None,
    targets: int = 3,
    chain: bool = False,
    strict: bool = True,
) -> Problem:
    """One random problem; ``nodes``: None for 2 to 14. ``strict``: some of the limits that make it hard."""
    rng = random.Random(f"{seed} {objective} {order}")
    count = nodes or rng.randint(2, MOST_NODES)
    devices = _devices(rng, targets)
    made = _targets(rng, targets, devices, side_by_side=order == SIDE_BY_SIDE)
    operators = _nodes(rng, count, made, chain=chain, strict=strict)
    if strict and rng.random() < 0.5:
        devices = _with_limits(rng, devices, operators)
    problem = Problem(
        nodes=operators,
        devices=devices,
        targets=made,
        borders=_borders(rng, made),
        objective=objective,
        order=order,
    )
    if rng.random() < 0.25:
        problem = _with_twins(problem)
    return _with_latency(rng, problem) if objective == MEMORY else problem


def assignments(problem: Problem) -> Iterator[tuple[int, ...]]:
    """Every assignment that keeps support, fixed targets and groups."""
    allowed = []
    names = [target.name for target in problem.targets]
    for node in problem.nodes:
        takes = [index for index, time in enumerate(node.seconds) if time is not None]
        allowed.append([index for index in takes if node.fixed in {"", names[index]}])
    first: dict[str, int] = {}
    for index, node in enumerate(problem.nodes):
        if node.together:
            first.setdefault(node.together, index)
    leaders = [first.get(node.together, index) for index, node in enumerate(problem.nodes)]
    free = [index for index, leader in enumerate(leaders) if leader == index]
    for chosen in itertools.product(*(allowed[index] for index in free)):
        place = dict(zip(free, chosen, strict=True))
        targets = tuple(place[leader] for leader in leaders)
        if all(target in allowed[index] for index, target in enumerate(targets)):
            yield targets


def optimum(problem: Problem) -> float:
    """The least objective of all assignments; inf: none is feasible."""
    return min((evaluate.value(problem, targets) for targets in assignments(problem)), default=math.inf)


def _devices(rng: random.Random, targets: int) -> tuple[Device, ...]:
    count = targets - 1 if targets > 2 and rng.random() < 0.25 else targets
    return tuple(Device(name=f"device{index}", lanes=rng.choice((0, 1, 1, 2))) for index in range(count))


def _targets(rng: random.Random, count: int, devices: tuple[Device, ...], *, side_by_side: bool) -> tuple[Target, ...]:
    pieces = rng.random() < 0.5
    return tuple(
        Target(
            name=f"target{index}",
            library=f"library{index}",
            device=devices[min(index, len(devices) - 1)].name,
            piece_s=rng.uniform(0, 1) if pieces else 0.0,
            default=not index,
            whole=bool(index and side_by_side and rng.random() < 0.6),
        )
        for index in range(count)
    )


def _nodes(
    rng: random.Random, count: int, targets: tuple[Target, ...], *, chain: bool, strict: bool
) -> tuple[Node, ...]:
    alike = rng.random() < 0.3
    speeds = [1.0, *(rng.uniform(0.1, 1.5) for _ in targets[1:])]
    nodes = []
    for index in range(count):
        work = rng.uniform(0.1, 3.0) if rng.random() < 0.9 else 0.0
        seconds: list[float | None] = [work * speed * (1 if alike else rng.uniform(0.3, 3)) for speed in speeds]
        if strict:
            seconds = [time if place == 0 or rng.random() < 0.85 else None for place, time in enumerate(seconds)]
        fixed = strict and rng.random() < 0.05
        nodes.append(
            Node(
                name=f"node{index}",
                seconds=tuple(seconds),
                sources=_sources(rng, index, chain=chain),
                output_bytes=rng.choice((0.0, rng.uniform(0, 2), rng.uniform(0, 8))),
                memory_bytes=float(rng.randint(0, 10)),
                together=f"group{rng.randint(0, 2)}" if strict and rng.random() < 0.2 and not fixed else "",
                fixed=targets[0].name if fixed else "",
            )
        )
    return tuple(nodes)


def _sources(rng: random.Random, index: int, *, chain: bool) -> tuple[int, ...]:
    if chain or not index:
        return (index - 1,) if index else ()
    near = [before for before in range(max(0, index - 4), index) if rng.random() < 0.4]
    far = [rng.randrange(index)] if rng.random() < 0.6 else []
    return tuple(sorted({*near, *far}))


def _borders(rng: random.Random, targets: tuple[Target, ...]) -> tuple[Border, ...]:
    """Of most pairs; the sender's cost alone, the receiver's, or both, now and then with a fixed part."""
    equal = rng.random() < 0.3
    send, receive = rng.uniform(0, 0.5), rng.uniform(0, 0.5)
    found = []
    for source, target in itertools.permutations(targets, 2):
        if rng.random() < 0.85:
            found.append(
                Border(
                    source=source.name,
                    target=target.name,
                    send_s=rng.choice((0.0, rng.uniform(0, 0.3))),
                    send_s_per_byte=send if equal else rng.choice((0.0, rng.uniform(0, 0.6))),
                    receive_s=rng.choice((0.0, rng.uniform(0, 0.3))),
                    receive_s_per_byte=receive if equal else rng.choice((0.0, rng.uniform(0, 0.6))),
                )
            )
    return tuple(found)


def _with_limits(rng: random.Random, devices: tuple[Device, ...], nodes: tuple[Node, ...]) -> tuple[Device, ...]:
    whole = sum(node.memory_bytes for node in nodes)
    return tuple(
        Device(
            name=device.name,
            lanes=device.lanes,
            memory_bytes=int(rng.uniform(0.3, 1.0) * whole) if rng.random() < 0.7 else None,
        )
        for device in devices
    )


def _with_latency(rng: random.Random, problem: Problem) -> Problem:
    """A limit on latency somewhat above that of the default target alone, or none."""
    if rng.random() < 0.2:
        return problem
    alone = sum(node.seconds[0] or 0.0 for node in problem.nodes)
    return replace(problem, latency_s=alone * rng.uniform(0.5, 2.0))


def _with_twins(problem: Problem) -> Problem:
    """The last two targets become equal, on devices of their own: answers in which both are swapped are the same."""
    *targets, one, other = problem.targets
    *devices, first, second = problem.devices
    if len(problem.devices) < len(problem.targets) or not targets:
        return problem
    nodes = tuple(replace(node, seconds=(*node.seconds[:-1], node.seconds[-2])) for node in problem.nodes)
    kept = [border for border in problem.borders if other.name not in (border.source, border.target)]
    copies = [
        replace(
            border,
            source=other.name if border.source == one.name else border.source,
            target=other.name if border.target == one.name else border.target,
        )
        for border in kept
        if one.name in (border.source, border.target)
    ]
    across = [Border(source=a, target=b, receive_s=0.1, send_s_per_byte=0.1) for a, b in _both(one.name, other.name)]
    return replace(
        problem,
        nodes=nodes,
        devices=(*devices, first, replace(first, name=second.name)),
        targets=(*targets, one, replace(one, name=other.name, device=other.device)),
        borders=(*kept, *copies, *across),
    )


def _both(one: str, other: str) -> tuple[tuple[str, str], tuple[str, str]]:
    return (one, other), (other, one)
