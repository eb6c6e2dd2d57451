"""The published workloads of device placement: what the search finds, next to everything known of them.

``python -m benchmarks.place.published``: each workload (throughput and latency, layer and operator graphs, training
graphs with colocation) in 60 s of one core, then each again with a tenth of its nodes that no accelerator takes.
Columns: all on the processor; all on one accelerator; greedy, human experts, dynamic programming over contiguous
divisions and CP-SAT as published or recomputed for the table of known values; single moves (hill climbing) and textbook
annealing by ourselves, ten seconds each; ours. Milliseconds, as the files have them.

Exit status 1: a workload is more than 1 % above the best value known, half of them more than 0.1 %, one is worse than
the default device alone, or a value is not that of the definition. Seconds are CPU seconds, so that a busy machine
gives the same table.
"""

from __future__ import annotations

import argparse
import json
import math
import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.cost import public
from benchmarks.place import rivals
from benchmarks.place.workloads import Workload, ids, number, unsupported, workloads
from benchmarks.tables import print_table
from perfgate.placement import evaluate
from perfgate.placement.search import search
from perfgate.records.placement import Placement, Problem, Single

SECONDS = 60.0
RIVAL_SECONDS = 10.0
QUICK_SECONDS, QUICK_WORKLOADS = 1.0, 2
# Of the best value known: what one workload, and half of them, may be above it.
MOST, MEDIAN = 0.01, 0.001
UNSUPPORTED = 0.1
# Share within which a published value is reproduced; they are printed with three decimals.
SAME = 1e-3


@dataclass(frozen=True, slots=True, kw_only=True)
class Row:
    """One workload's line: ``gap`` to the best value known; ``faults``: what must not be."""

    cells: tuple[str, ...]
    gap: float
    faults: tuple[str, ...]


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--quick", action="store_true", help="two workloads, a second each")
    parser.add_argument("--seconds", type=float, default=SECONDS, help="CPU seconds of each search")
    parser.add_argument("--rival-seconds", type=float, default=RIVAL_SECONDS, help="CPU seconds of each rival")
    parser.add_argument("--only", default="", help="workloads whose name has this in it")
    parser.add_argument("--seed", type=int, default=0)
    arguments = parser.parse_args(argv)
    folder = public.folder(arguments.data)
    found = workloads(folder) if folder else []
    found = [one for one in found if arguments.only in f"{one.objective} {one.name}"]
    if folder is None or not found:
        print(f"published: no workloads; set {public.VARIABLE} to a folder with placement/throughput/*.json")
        return 0
    seconds, rival = arguments.seconds, arguments.rival_seconds
    if arguments.quick:
        found, seconds, rival = found[:QUICK_WORKLOADS], QUICK_SECONDS, QUICK_SECONDS
    code = _as_published(found, folder, seconds, rival, arguments.seed)
    print(f"\n{UNSUPPORTED:.0%} of the nodes run on the processor only:\n")
    code = max(code, _partly_unsupported(found, seconds, rival, arguments.seed))
    return 0 if arguments.quick else code


def _as_published(found: Sequence[Workload], folder: Path, seconds: float, rival: float, seed: int) -> int:
    header = ("workload", "nodes", "processor", "one acc.", "greedy", "human", "single moves", "annealing")
    known = ("DP", "CP-SAT", "bound", "best known", "ours", "gap", "s", "stopped")
    rows = [_row(one, folder, seconds, rival, seed) for one in found]
    print_table((*header, *known), [row.cells for row in rows])
    gaps = [row.gap for row in rows]
    print(f"\nlargest gap {max(gaps):+.3%}, median {statistics.median(gaps):+.3%}, {len(rows)} workloads")
    faults = [fault for row in rows for fault in row.faults]
    for fault in faults:
        print(fault)
    return int(bool(faults) or max(gaps) > MOST or statistics.median(gaps) > MEDIAN)


def _row(one: Workload, folder: Path, seconds: float, rival: float, seed: int) -> Row:
    begun = time.process_time()
    placement = search(one.problem, seed=seed, time_limit_s=seconds, clock=time.process_time)
    spent = time.process_time() - begun
    gap = placement.value / one.best - 1
    human = _human(one, folder)
    cells = (
        f"{one.objective}, {one.name}",
        str(len(one.problem.nodes)),
        *_alone(placement),
        _known(one, "repo_greedy"),
        human,
        _figure(rivals.hill_climbing(one.problem, rival, seed=seed)),
        _figure(rivals.annealing(one.problem, rival, seed=seed)),
        _known(one, "dp_contiguous_optimum") + _known(one, "dp_split_evaluated"),
        _known(one, "cpsat_noncontig_75s"),
        f"{one.bound:.3f}",
        f"{one.best:.3f}",
        f"{placement.value:.3f}",
        f"{gap:+.3%}",
        f"{spent:.1f}",
        placement.stopped,
    )
    return Row(cells=cells, gap=gap, faults=tuple(_faults(one, placement, human)))


def _faults(one: Workload, placement: Placement, human: str) -> list[str]:
    """What must not be."""
    faults = [f"{one.name}: {fault}" for fault in _wrong(one.problem, placement)]
    known = number(one.known.get("human_expert", ""))
    if known is not None and human and abs(float(human) / known - 1) > SAME:
        faults.append(f"{one.name}: the human expert's split has {human}, published {known}")
    alone = number(one.known.get("all_cpu", ""))
    default = placement.singles[0].value
    if alone is not None and (default is None or abs(default / alone - 1) > SAME):
        faults.append(f"{one.name}: all on the processor has {default}, published {alone}")
    if placement.value < one.bound * (1 - SAME):
        faults.append(f"{one.name}: {placement.value} is below the bound {one.bound}")
    return faults


def _wrong(problem: Problem, placement: Placement) -> list[str]:
    value = evaluate.value(problem, placement.targets)
    default = placement.singles[0].value
    faults = []
    if not placement.feasible or not math.isclose(value, placement.value, rel_tol=1e-9):
        faults.append(f"value {placement.value}, by the definition {value}")
    if default is not None and value > default:
        faults.append(f"{value} is worse than the default alone, {default}")
    return faults


def _partly_unsupported(found: Sequence[Workload], seconds: float, rival: float, seed: int) -> int:
    header = ("workload", "processor", "one acc.", "single moves", "annealing", "ours", "under the best of them", "s")
    rows, faults = [], []
    for one in found:
        problem = unsupported(one.problem, UNSUPPORTED, seed)
        placement = search(problem, seed=seed, time_limit_s=seconds, clock=time.process_time)
        climbed = rivals.hill_climbing(problem, rival, seed=seed)
        annealed = rivals.annealing(problem, rival, seed=seed)
        faults += [f"{one.name}: {fault}" for fault in _wrong(problem, placement)]
        singles = [single.value for single in placement.singles if single.value is not None]
        best = min(climbed, annealed, *singles)
        rows.append(
            (
                f"{one.objective}, {one.name}",
                *_alone(placement),
                _figure(climbed),
                _figure(annealed),
                f"{placement.value:.3f}",
                f"{1 - placement.value / best:.1%}",
                f"{placement.elapsed_s:.1f}",
            )
        )
    print_table(header, rows)
    for fault in faults:
        print(fault)
    return int(bool(faults))


def _alone(placement: Placement) -> tuple[str, str]:
    """All on the processor, and on one accelerator (they are alike)."""
    first, second = placement.singles[:2]
    return _fits(first), _fits(second)


def _fits(single: Single) -> str:
    return "does not fit" if single.value is None else f"{single.value:.3f}"


def _known(one: Workload, column: str) -> str:
    value = number(one.known.get(column, ""))
    return "" if value is None else f"{value:.3f}"


def _figure(value: float) -> str:
    return "none" if value == math.inf else f"{value:.3f}"


def _human(one: Workload, folder: Path) -> str:
    """Value of the published split by human experts, by our definition; empty where there is none."""
    path = folder / "placement" / "human-experts" / f"{one.name.removeprefix('layer_')}_expert.json"
    if one.objective != "throughput" or not path.is_file():
        return ""
    split = json.loads(path.read_text(encoding="utf-8"))
    target_of = {node: 0 for device in split["cpus"] for node in device["nodes"]}
    target_of |= {node: 1 + index for index, device in enumerate(split["fpgas"]) for node in device["nodes"]}
    targets = [target_of[node] for node in ids(one.path)]
    return f"{evaluate.value(one.problem, targets):.3f}"


if __name__ == "__main__":
    raise SystemExit(main())
