"""Published workloads of device placement (msr-fiddle/dnn-partitioning, MIT) as problems, and values known for them.

In: the folder of the public data. Out: :class:`Workload`. Nothing of it is in this repository.

Times are kept in the files' own unit, milliseconds, as if they were seconds, so that values compare with the published
ones as they stand.
"""

from __future__ import annotations

import csv
import json
import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from perfgate.records.placement import (
    LATENCY,
    SIDE_BY_SIDE,
    THROUGHPUT,
    UNLIMITED,
    Border,
    Device,
    Node,
    Problem,
    Target,
)

CPU = "cpu"
# Columns of best_known/*.csv that are values of assignments (the others are bounds, sizes and seconds).
FOUND = {
    THROUGHPUT: ("dp_contiguous_optimum", "my_segment_hillclimb_40s", "cpsat_noncontig_75s", "repo_local_search"),
    LATENCY: ("repo_greedy", "dp_split_evaluated", "my_search_60s_contiguous"),
}
BOUND = {THROUGHPUT: "cpsat_bound", LATENCY: "critical_path_lower_bound"}


@dataclass(frozen=True, kw_only=True)
class Workload:
    """``known``: cells of the table of known values, by its columns."""

    name: str
    objective: str
    problem: Problem
    path: Path
    known: Mapping[str, str]

    @cached_property
    def best(self) -> float:
        """Best value known of an assignment."""
        return min(value for column in FOUND[self.objective] if (value := number(self.known.get(column, ""))))

    @property
    def bound(self) -> float:
        """No assignment is better, by what is known."""
        return number(self.known.get(BOUND[self.objective], "")) or 0.0


def number(cell: str) -> float | None:
    """Of a cell as ``201.450(does not fit)``; None where there is none."""
    try:
        return float(cell.partition("(")[0])
    except ValueError:
        return None


def workloads(data: Path) -> list[Workload]:
    """All that are there, throughput first, each in the order of the table of known values."""
    found = []
    for objective in (THROUGHPUT, LATENCY):
        table = data / "placement" / "best_known" / f"{objective}.csv"
        if not table.is_file():
            continue
        with table.open(newline="", encoding="utf-8") as stream:
            for row in csv.DictReader(stream):
                path = data / "placement" / objective / f"{row['workload']}.json"
                if path.is_file():
                    problem = read(path, objective)
                    found.append(
                        Workload(name=row["workload"], objective=objective, problem=problem, path=path, known=row)
                    )
    return found


def read(path: Path, objective: str) -> Problem:
    """One file: a processor and ``maxFPGAs`` equal accelerators.

    Throughput: the processor is one device. Latency: it has as many cores as the graph has branches, and an accelerator
    runs what it is given as one. A value's cost of crossing (``cost`` of an edge, the same for all edges of a node) is
    paid by accelerators, on both ends.
    """
    raw = json.loads(path.read_text(encoding="utf-8"))
    ordered = _ordered(raw)
    place = {node["id"]: index for index, node in enumerate(ordered)}
    sources: list[list[int]] = [[] for _ in ordered]
    cost = [0.0] * len(ordered)
    for edge in raw["edges"]:
        sources[place[edge["destId"]]].append(place[edge["sourceId"]])
        cost[place[edge["sourceId"]]] = edge["cost"]
    count = int(raw["maxFPGAs"])
    nodes = [
        Node(
            name=str(node.get("name", node["id"])),
            seconds=(float(node["cpuLatency"]), *[float(node["fpgaLatency"])] * count),
            sources=tuple(sorted(sources[index])),
            output_bytes=cost[index],
            memory_bytes=float(node.get("size", 0.0)),
            together="" if node.get("colorClass") is None else f"colour {node['colorClass']}",
        )
        for index, node in enumerate(ordered)
    ]
    return _machine(nodes, count, float(raw["maxSizePerFPGA"]), objective)


def ids(path: Path) -> list[int]:
    """The file's ids of the nodes, in the order of the problem's nodes."""
    return [node["id"] for node in _ordered(json.loads(path.read_text(encoding="utf-8")))]


def unsupported(problem: Problem, share: float, seed: int) -> Problem:
    """The same with a share of the nodes that only the processor takes."""
    draw = random.Random(seed)
    chosen = set(draw.sample(range(len(problem.nodes)), round(share * len(problem.nodes))))
    nodes = tuple(
        replace(node, seconds=(node.seconds[0], *[None] * (len(node.seconds) - 1))) if index in chosen else node
        for index, node in enumerate(problem.nodes)
    )
    return replace(problem, nodes=nodes)


def _machine(nodes: list[Node], count: int, memory: float, objective: str) -> Problem:
    names = [f"accelerator {index + 1}" for index in range(count)]
    whole = objective == LATENCY
    borders = [Border(source=name, target=CPU, send_s_per_byte=1.0) for name in names]
    borders += [Border(source=CPU, target=name, receive_s_per_byte=1.0) for name in names]
    borders += [
        Border(source=one, target=other, send_s_per_byte=1.0, receive_s_per_byte=1.0)
        for one in names
        for other in names
        if one != other
    ]
    return Problem(
        nodes=tuple(nodes),
        devices=(
            Device(name=CPU, lanes=UNLIMITED if whole else 1),
            *(Device(name=name, memory_bytes=int(memory)) for name in names),
        ),
        targets=(
            Target(name=CPU, library=CPU, device=CPU, default=True),
            *(Target(name=name, library="accelerator", device=name, whole=whole) for name in names),
        ),
        borders=tuple(borders),
        objective=objective,
        order=SIDE_BY_SIDE,
    )


def _ordered(raw: dict[str, Any]) -> list[dict[str, Any]]:
    """Nodes in a topological order, otherwise as they stand in the file."""
    nodes = {node["id"]: node for node in raw["nodes"]}
    waiting = dict.fromkeys(nodes, 0)
    readers: dict[int, list[int]] = {node: [] for node in nodes}
    for edge in raw["edges"]:
        waiting[edge["destId"]] += 1
        readers[edge["sourceId"]].append(edge["destId"])
    ready = [node for node, count in waiting.items() if not count][::-1]
    order = []
    while ready:
        order.append(ready.pop())
        for reader in readers[order[-1]]:
            waiting[reader] -= 1
            if not waiting[reader]:
                ready.append(reader)
    return [nodes[node] for node in order]
