"""The evaluator against published values, and lower bounds against the best that is known.

``python -m benchmarks.place.known_values``: for each published workload the value of everything on the processor, of
everything on one accelerator, and of the human experts' split, beside the figures in the data; then the lower bound
in 60 s, beside the best value known and the bound known. Exit status 1 where a value differs by more than 1e-3 of
it, or a bound is above a value that somebody has reached.
"""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path

from benchmarks.estimator import command
from benchmarks.place.workloads import Workload, ids, number, workloads
from benchmarks.tables import print_table
from perfgate.placement import bound, evaluate
from perfgate.records.placement import LATENCY, THROUGHPUT

SAME = 1e-3
SECONDS, QUICK_SECONDS, QUICK = 60.0, 2.0, 3
# Columns of the data's tables for the two single placements and the split by hand.
ALL_CPU, ONE, EXPERT = "all_cpu", "one_acc", "human_expert"


def main(argv: Sequence[str] | None = None) -> int:
    """Prints the table; the exit status."""
    return command.on_data(
        argv, run, name="known_values", text=__doc__, quick=f"{QUICK} of each kind, {QUICK_SECONDS} s"
    )


def run(data: Path, *, quick: bool) -> int:
    """The table of the workloads in ``data``."""
    found = workloads(data)
    if quick:
        kinds = [[one for one in found if one.objective == kind] for kind in (THROUGHPUT, LATENCY)]
        found = [one for each in kinds for one in each[:QUICK]]
    rows, wrong = [], []
    for workload in found:
        row = [f"{workload.name}, {workload.objective}"]
        values = {ALL_CPU: _single(workload, 0), ONE: _single(workload, 1), EXPERT: _expert(data, workload)}
        for column, value in values.items():
            known = number(workload.known.get(column) or "")
            # What does not fit has no value, though the table gives its time.
            row.append(f"{_text(value)} ({_text(known)})")
            if known is not None and value is not None and SAME < abs(value / known - 1) < math.inf:
                wrong.append(f"{workload.name}: {column} is {value}, known {known}")
        begun = time.monotonic()
        below = bound.lower(workload.problem, QUICK_SECONDS if quick else SECONDS)
        spent = time.monotonic() - begun
        if below > workload.best * (1 + 1e-5):
            wrong.append(f"{workload.name}: the bound {below} is above {workload.best}")
        gap, before = (max(0.0, 1 - each / workload.best) for each in (below, workload.bound))
        rows.append([*row, f"{workload.best:.3f}", f"{below:.3f}", f"{workload.bound:.3f}", f"{100 * gap:.1f} %",
                     f"{100 * before:.1f} %", f"{spent:.0f}"])  # fmt: skip
    print_table(
        ["workload", "all CPU, ms (known)", "one accelerator (known)", "human experts (known)", "best known", "bound",
         "bound known", "gap", "gap known", "s"],
        rows,
    )  # fmt: skip
    for text in wrong:
        print(f"WRONG: {text}")
    return int(bool(wrong))


def _single(workload: Workload, target: int) -> float:
    return evaluate.value(workload.problem, [target] * len(workload.problem.nodes))


def _expert(data: Path, workload: Workload) -> float | None:
    """The split by hand, where the data have it."""
    path = data / "placement" / "human-experts" / f"{workload.name.removeprefix('layer_')}_expert.json"
    if workload.objective != THROUGHPUT or not path.is_file():
        return None
    split = json.loads(path.read_text(encoding="utf-8"))
    place = {node: 0 for cpu in split["cpus"] for node in cpu["nodes"]}
    for index, accelerator in enumerate(split["fpgas"]):
        place |= dict.fromkeys(accelerator["nodes"], index + 1)
    return evaluate.value(workload.problem, [place[node] for node in ids(workload.path)])


def _text(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:.3f}" if math.isfinite(value) else "does not fit"


if __name__ == "__main__":
    raise SystemExit(main())
