"""How many assignments the search measures in a second, and how that grows with the graph.

``python -m benchmarks.place.speed``: graphs of 100, 1 000 and 10 000 operators (chains with skips, four targets) and a
training graph of 2 012 nodes in which forward and backward of a layer stay together, for each objective. Next to it the
definition of the objective, which measures from the beginning each time. Moves per second are those of annealing rounds
alone; seconds until the first start from a division are given apart. CPU seconds.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import replace

from benchmarks.tables import print_table
from perfgate.placement import evaluate
from perfgate.placement.annealing import Journal, anneal
from perfgate.placement.clusters import clusters
from perfgate.placement.compiled import Compiled, compiled
from perfgate.placement.moves import Moves
from perfgate.placement.orders import as_listed
from perfgate.placement.search import search
from perfgate.placement.states import state
from perfgate.records.placement import (
    IN_TURN,
    LATENCY,
    MEMORY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    UNLIMITED,
    Border,
    Device,
    Node,
    Problem,
    Target,
)

SIZES, QUICK_SIZES = (100, 1_000, 10_000), (100,)
TRAINING = 2012
SECONDS, QUICK_SECONDS = 5.0, 0.3
SEARCH_SECONDS = 10.0
# Name -> objective, order, time of starting a piece.
KINDS = {
    "throughput": (THROUGHPUT, IN_TURN, 0.0),
    "latency in turn": (LATENCY, IN_TURN, 0.0),
    "latency in turn, pieces": (LATENCY, IN_TURN, 0.1),
    "latency side by side": (LATENCY, SIDE_BY_SIDE, 0.0),
    "memory": (MEMORY, IN_TURN, 0.0),
}
NAMES = ("cpu", "one", "two", "three")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="a small graph, a third of a second each")
    quick = parser.parse_args(argv).quick
    seconds = QUICK_SECONDS if quick else SECONDS
    graphs = {f"{size:,} operators".replace(",", " "): inference(size) for size in (QUICK_SIZES if quick else SIZES)}
    if not quick:
        graphs[f"training, {TRAINING:,} nodes".replace(",", " ")] = training(TRAINING // 2)
    rows = [_row(name, kind, _posed(problem, kind), seconds) for name, problem in graphs.items() for kind in KINDS]
    header = ("graph", "objective", "moves a second", "definition a second", "moves of the search")
    print_table((*header, "read, s", "search, s", "single", "found"), rows)
    return 0


def _row(name: str, kind: str, problem: Problem, seconds: float) -> tuple[str, ...]:
    begun = time.process_time()
    read = compiled(problem)
    reading = time.process_time() - begun
    rate = _rate(read, seconds)
    begun = time.process_time()
    repeats = 3
    for _ in range(repeats):
        evaluate.value(problem, [read.default] * len(problem.nodes))
    slow = repeats / (time.process_time() - begun)
    limit = SEARCH_SECONDS if seconds == SECONDS else seconds
    begun = time.process_time()
    found = search(problem, time_limit_s=limit, clock=time.process_time)
    spent = time.process_time() - begun
    alone = min(single.value for single in found.singles if single.value is not None)
    return (
        name,
        kind,
        f"{rate:,.0f}".replace(",", " "),
        f"{slow:,.0f}".replace(",", " "),
        f"{found.evaluations:,}".replace(",", " "),
        f"{reading:.2f}",
        f"{spent:.1f}",
        f"{alone:.5g}",
        f"{found.value:.5g}",
    )


def _rate(read: Compiled, seconds: float) -> float:
    """Assignments measured per second by annealing from a division of the listed order into equal parts."""
    draw = random.Random(0)
    count = len(read.units)
    found = state(read, [unit * read.target_count // count for unit in range(count)])
    moves = Moves(read, draw, [as_listed(read)], clusters(read, draw))
    journal = Journal(time_limit_s=seconds, max_evaluations=None, bound=None, clock=time.process_time)
    anneal(found, moves, journal, draw, hot=0.02, cold=0.0002, length=10**9)
    return journal.evaluations / journal.elapsed_s


def inference(count: int) -> Problem:
    """A chain with skips: an accelerator takes nine nodes of ten, and holds a third of the weights."""
    draw = random.Random(count)
    nodes = [
        Node(
            name=f"node {index}",
            seconds=(draw.uniform(5, 15), *(None if not index % 10 else draw.uniform(0.5, 1.5) for _ in NAMES[1:])),
            sources=tuple(sorted({index - 1, max(index - draw.randint(1, 5), 0)})) if index else (),
            output_bytes=draw.uniform(0, 1),
            memory_bytes=1.0,
        )
        for index in range(count)
    ]
    return _machine(nodes, memory=0.45 * count)


def training(layers: int) -> Problem:
    """As many backward nodes as forward ones, each with its forward one."""
    draw = random.Random(layers)
    nodes = [
        Node(
            name=f"forward {index}",
            seconds=(10.0, *[draw.uniform(0.5, 1.5)] * 3),
            sources=tuple(sorted({index - 1, max(index - draw.randint(1, 5), 0)})) if index else (),
            output_bytes=draw.uniform(0, 1),
            memory_bytes=1.0,
            together=f"layer {index}",
        )
        for index in range(layers)
    ]
    for index in reversed(range(layers)):
        nodes.append(
            Node(
                name=f"backward {index}",
                seconds=(20.0, *[draw.uniform(1, 3)] * 3),
                sources=(index, len(nodes) - 1),
                output_bytes=draw.uniform(0, 1),
                together=f"layer {index}",
            )
        )
    return _machine(nodes, memory=0.45 * layers)


def _machine(nodes: list[Node], memory: float) -> Problem:
    return Problem(
        nodes=tuple(nodes),
        devices=(Device(name=NAMES[0]), *(Device(name=name, memory_bytes=int(memory)) for name in NAMES[1:])),
        targets=tuple(Target(name=name, library=name, device=name, default=name == NAMES[0]) for name in NAMES),
        borders=tuple(
            Border(source=one, target=other, send_s_per_byte=1.0, receive_s_per_byte=1.0)
            for one in NAMES
            for other in NAMES
            if one != other
        ),
    )


def _posed(problem: Problem, kind: str) -> Problem:
    objective, order, piece_s = KINDS[kind]
    apart = order == SIDE_BY_SIDE
    return replace(
        problem,
        objective=objective,
        order=order,
        latency_s=sum(node.seconds[0] or 0.0 for node in problem.nodes) if objective == MEMORY else None,
        targets=tuple(
            replace(target, piece_s=piece_s, whole=apart and not target.default) for target in problem.targets
        ),
        devices=tuple(
            replace(device, lanes=UNLIMITED if apart and device.name == NAMES[0] else 1) for device in problem.devices
        ),
    )


if __name__ == "__main__":
    raise SystemExit(main())
