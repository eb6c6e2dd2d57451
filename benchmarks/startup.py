"""Start of the command line, and memory of the parent while workers are timed.

Prints the best of ten wall-clock times of `perfgate --help`, and the largest resident set of the `perfgate run` process
itself (its workers are other processes) over a whole gate on the example.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

from benchmarks.tables import print_table
from examples.gate import build_repository, gate_command, gate_environment


def best_help_s(runs: int) -> float:
    """Best wall-clock seconds of `perfgate --help` in a fresh interpreter."""
    times = []
    for _ in range(runs):
        started = time.perf_counter()
        subprocess.run([sys.executable, "-m", "perfgate", "--help"], check=True, capture_output=True)
        times.append(time.perf_counter() - started)
    return min(times)


def parent_peak_bytes() -> int:
    """Largest resident set of the parent, sampled five times a second, over one gate."""
    with tempfile.TemporaryDirectory() as folder:
        repository = build_repository(Path(folder) / "repository")
        command = gate_command("docstring", Path(folder) / "out")
        process = psutil.Popen(
            command, cwd=repository, env=gate_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        peak = 0
        while process.poll() is None:
            try:
                peak = max(peak, process.memory_info().rss)
            except psutil.NoSuchProcess:
                break
            time.sleep(0.2)
        if process.returncode != 0:
            msg = f"the gate ended with {process.returncode}: no workers were timed, so this would say nothing"
            raise SystemExit(msg)
    return peak


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true", help="one run of each")
    arguments = parser.parse_args()
    runs = 1 if arguments.smoke else 10
    rows = [
        (f"perfgate --help, best of {runs}", f"{best_help_s(runs):.3f} s", "0.300 s"),
        ("parent, peak resident set during a gate", f"{parent_peak_bytes() / 2**20:.0f} MiB", "150 MiB"),
    ]
    print_table(("what", "measured", "goal"), rows)


if __name__ == "__main__":
    main()
