"""How long counting takes: resnet50 after imports, a graph of 5 000 operators, the difference of two such graphs."""

from __future__ import annotations

import argparse
import importlib
import statistics
import time
from collections.abc import Sequence

from benchmarks.counting import ours
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.tables import print_table
from perfgate.records.graph import Graph

IMAGE = ("float32[1,3,224,224]",)
SMALL = ("float32[1,8,16,16]",)
VARIANTS = {"one_changed": "one convolution's kernel changed", "all_changed": "every convolution's kernel changed",
            "half": "half of the blocks removed"}  # fmt: skip
QUICK = ("half",)

COUNT_S, LARGE_S, DIFFERENCE_S = 2.0, 20.0, 2.0


def resnet(runs: int) -> list[float]:
    """Seconds of ``runs`` counts of resnet50, each in a child forked after the imports."""
    wanted = [Wanted(name=f"resnet50-{number}", entry="vision:resnet50", inputs=IMAGE) for number in range(runs)]
    return [_counted(count).seconds for count in ours.counts(wanted)]


def _counted(count: Count) -> Count:
    if count.graph is None:
        msg = f"{count.name} was not counted: {count.reason}"
        raise SystemExit(msg)
    return count


def _graph(count: Count) -> Graph:
    graph = _counted(count).graph
    assert graph is not None
    return graph


def differences(graphs: dict[str, Graph], runs: int) -> list[tuple[str, float, str]]:
    """(what changed, median seconds, number of findings) of base against each variant, and against itself."""
    compare = importlib.import_module("perfgate.graph.difference").compare
    found = []
    for name, title in {"deep": "nothing changed", **VARIANTS}.items():
        if name not in graphs:
            continue
        seconds, difference = [], None
        for _ in range(runs):
            begun = time.perf_counter()
            difference = compare(graphs["deep"], graphs[name])
            seconds.append(time.perf_counter() - begun)
        assert difference is not None
        findings = len(difference.changes) + difference.more
        found.append((title, statistics.median(seconds), "equal" if difference.equal else f"{findings} findings"))
    return found


def line(what: str, seconds: float, goal: float, more: str) -> tuple[str, ...]:
    """One row; the goal is an upper bound."""
    return (what, more, f"{seconds:.2f} s", f"{goal:.0f} s", "holds" if seconds < goal else "MISSED")


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two runs, the smallest variant")
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "torchvision")
    if lacking:
        print(how_to_get(lacking, "speed of counting"))
        return 0
    runs = 2 if arguments.quick else 11
    rows = [line(f"count of resnet50 after imports, median of {runs}", statistics.median(resnet(runs)), COUNT_S, "")]
    names = ["deep", *(QUICK if arguments.quick else VARIANTS)]
    counted = {count.name: count for count in ours.counts([_large(name) for name in names])}
    deep = _graph(counted["deep"])
    operators = f"{len(deep.operators)} operators"
    rows.append(line("count of a large graph", counted["deep"].seconds, LARGE_S, operators))
    graphs = {name: _graph(count) for name, count in counted.items()}
    repeats = 1 if arguments.quick else 3
    rows += [
        line(f"difference: {title}", seconds, DIFFERENCE_S, findings)
        for title, seconds, findings in differences(graphs, repeats)
    ]
    print(f"torch {version('torch')}, one thread\n")
    print_table(("what", "", "measured", "goal", ""), rows)
    return 1 if any(row[-1] == "MISSED" for row in rows) else 0


def _large(name: str) -> Wanted:
    return Wanted(name=name, entry=f"large:{name}", inputs=SMALL)


if __name__ == "__main__":
    raise SystemExit(main())
