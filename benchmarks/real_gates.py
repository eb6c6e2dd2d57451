"""Real gates on this machine while another process loads one core half of the time.

Twenty A/A gates (the example's docstring change) and twenty gates of a real slow-down of about 10 % (extra layers):
every run is reported, whatever came of it.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from benchmarks.tables import print_table
from examples.gate import add_branch, build_repository, gate_command, gate_environment

# One more refinement and two pointwise convolutions: about a tenth of the classifier's step time.
SLOWER = {
    "REFINEMENTS = 1": "REFINEMENTS = 2",
    "self.refine = nn.Sequential(*(Refine(256) for _ in range(REFINEMENTS)))": (
        "self.refine = nn.Sequential(\n            *(Refine(256) for _ in range(REFINEMENTS)),"
        " *(nn.Conv2d(256, 256, 1) for _ in range(2)))"
    ),
}

LOAD = """
import time
while True:
    end = time.perf_counter() + 0.05
    while time.perf_counter() < end:
        pass
    time.sleep(0.05)
"""


@contextmanager
def half_a_core() -> Iterator[None]:
    """Another process: 50 ms busy, 50 ms asleep."""
    process = subprocess.Popen([sys.executable, "-c", LOAD])
    try:
        yield
    finally:
        process.kill()
        process.wait()


def gate(repository: Path, branch: str, out: Path) -> dict[str, Any]:
    """Verdict, step time's row, pairs and seconds of one gate."""
    started = time.monotonic()
    done = subprocess.run(
        gate_command(branch, out), cwd=repository, env=gate_environment(), capture_output=True, text=True, check=False
    )
    seconds = time.monotonic() - started
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    rows = {row["metric"]: row for model in report["models"] for row in model["metrics"]}
    return {"code": done.returncode, "verdict": report["verdict"], "latency": rows.get("latency"), "seconds": seconds}


def series(repository: Path, branch: str, count: int, folder: Path) -> list[dict[str, Any]]:
    """``count`` gates of ``branch``, one line each as they end."""
    results = []
    for number in range(1, count + 1):
        result = gate(repository, branch, folder / f"{branch}-{number}")
        row = result["latency"] or {}
        ratio = row.get("ratio")
        change = f"{100 * (ratio - 1):+.1f} %" if ratio else "n/a"
        print(
            f"{branch} {number}: run {result['verdict']}, step time {row.get('verdict')} {change}, "
            f"{row.get('pairs')} pairs, {result['seconds']:.0f} s",
            flush=True,
        )
        results.append(result)
    return results


def summary(name: str, results: list[dict[str, Any]]) -> tuple[str, ...]:
    """One row of the table."""
    judged = Counter((result["latency"] or {}).get("verdict", result["verdict"]) for result in results)
    runs = Counter(result["verdict"] for result in results)
    pairs = [result["latency"]["pairs"] for result in results if result["latency"]]
    ratios = [result["latency"]["ratio"] - 1 for result in results if result["latency"] and result["latency"]["ratio"]]
    return (
        name,
        str(len(results)),
        ", ".join(f"{count} {verdict}" for verdict, count in runs.most_common()),
        ", ".join(f"{count} {verdict}" for verdict, count in judged.most_common()),
        f"{100 * statistics.median(ratios):+.1f} %" if ratios else "n/a",
        f"{statistics.median(pairs):.0f}" if pairs else "n/a",
        f"{statistics.median(result['seconds'] for result in results):.0f} s",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--aa", type=int, default=20, help="A/A gates")
    parser.add_argument("--slower", type=int, default=20, help="gates of the real slow-down")
    parser.add_argument("--smoke", action="store_true", help="one of each")
    arguments = parser.parse_args()
    counts = (1, 1) if arguments.smoke else (arguments.aa, arguments.slower)
    with tempfile.TemporaryDirectory() as folder, half_a_core():
        repository = build_repository(Path(folder) / "repository")
        add_branch(repository, "plus-ten", "Refine a little more", SLOWER)
        unchanged = series(repository, "docstring", counts[0], Path(folder))
        slower = series(repository, "plus-ten", counts[1], Path(folder))
    header = ("gates", "runs", "run verdicts", "step time", "median change", "median pairs", "median time")
    rows = [summary("docstring only (A/A)", unchanged), summary("extra layers", slower)]
    print()
    print_table(header, rows)


if __name__ == "__main__":
    main()
