"""Is a step as long inside perfgate as outside? A worker's timed blocks against a bare loop, one pinned thread.

Both processes live at once, use the same interpreter, model and input shape, and are timed in turn (ABBA), the idle one
stopped; the pair's log ratio of medians is the unit, as in the gate. A new pair of processes is started for every pair.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import signal
import statistics
import subprocess
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path

from benchmarks.tables import print_table
from perfgate.bench.process import Trees
from perfgate.bench.shim import worker_environment, write_shim
from perfgate.bench.task import Options, Side
from perfgate.bench.workers import FreshChild, place
from perfgate.records.protocol import Time
from perfgate.records.workload import ModelSpec, SideConfig
from perfgate.stats.sequential import decide

MODEL = """
import torch
from torch import nn

def build():
    layers = []
    for _ in range(DEPTH):
        layers += [nn.Conv2d(WIDTH, WIDTH, 3, padding=1), nn.ReLU()]
    return nn.Sequential(*layers)
"""

# Reads a number of calls a line, answers with their median in ns.
BARE = """
import os, sys, time
os.sched_setaffinity(0, {CPU})
os.environ["OMP_NUM_THREADS"] = os.environ["MKL_NUM_THREADS"] = "1"
import torch
torch.set_num_threads(1)
sys.path.insert(0, ".")
import MODULE
model = MODULE.build().eval()
x = torch.randn(1, MODULE.WIDTH, 28, 28)
with torch.inference_mode():
    end = time.perf_counter() + 0.5
    while time.perf_counter() < end:
        model(x)
    print("ready", flush=True)
    for line in sys.stdin:
        times = []
        for _ in range(int(line)):
            start = time.perf_counter_ns()
            model(x)
            times.append(time.perf_counter_ns() - start)
        print(sorted(times)[len(times) // 2], flush=True)
"""


class Bare:
    """The loop outside perfgate."""

    def __init__(self, checkout: Path, module: str, cpu: int) -> None:
        code = BARE.replace("CPU", str(cpu)).replace("MODULE", module)
        self._process = subprocess.Popen(
            [sys.executable, "-c", code], cwd=checkout, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self._answer()

    def _answer(self) -> str:
        assert self._process.stdout is not None
        return self._process.stdout.readline().strip()

    def median_ns(self, calls: int) -> int:
        """Median of ``calls`` calls."""
        assert self._process.stdin is not None
        self._process.stdin.write(f"{calls}\n")
        self._process.stdin.flush()
        return int(self._answer())

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.wait()


def pair(folder: Path, module: str, cpu: int, calls: int, groups: int) -> tuple[float, float]:
    """ln(inside / outside) of one pair of processes, and the bare loop's median in ms."""
    spec = ModelSpec(name=module, entry=f"{module}:build", inputs=(f"float32[batch,{module_width(module)},28,28]",))
    options = Options(threads=1, cpus=(cpu,))
    side = Side(name="head", checkout=folder, repository=folder, python=sys.executable, config=SideConfig(source=""))
    with ExitStack() as stack:
        run_dir = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        trees = Trees("bench")
        stack.callback(trees.close)
        environment = worker_environment(dict(os.environ), {}, run_dir / "cache")
        where = place(trees, write_shim(run_dir), run_dir, options, {"head": environment})
        worker = FreshChild(where, side, spec, (module,))
        worker.prepared()
        child = worker.child()
        child.open(spec.workloads[0], spec)
        bare = Bare(folder, module, cpu)
        stack.callback(bare.close)
        inside: list[int] = []
        outside: list[int] = []
        for number in range(2 * groups):
            turns = ("inside", "outside") if number % 2 == 0 else ("outside", "inside")
            for turn in turns:
                if turn == "inside":
                    timed = child.time(Time(samples=calls), limit_s=120)
                    inside.append(round(statistics.median(timed.samples_ns)))
                else:
                    os.kill(child.pid, signal.SIGSTOP)
                    bare.median_ns(2)
                    outside.append(bare.median_ns(calls))
                    os.kill(child.pid, signal.SIGCONT)
    return math.log(statistics.median(inside) / statistics.median(outside)), statistics.median(outside) / 1e6


def module_width(module: str) -> int:
    """The channel count that is written into the module's name."""
    return int(module.rsplit("_", maxsplit=1)[-1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=16)
    parser.add_argument("--smoke", action="store_true", help="three pairs of the short model")
    arguments = parser.parse_args()
    cpu = max(os.sched_getaffinity(0))
    cases = [("5 ms", 16, 64, 12), ("50 ms", 160, 64, 4)]
    pairs = 3 if arguments.smoke else arguments.pairs
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for name, depth, width, calls in cases[: 1 if arguments.smoke else None]:
            module = f"bench_{depth}_{width}"
            text = f"DEPTH, WIDTH = {depth}, {width}\n{MODEL}"
            (Path(folder) / f"{module}.py").write_text(text, encoding="utf-8")
            found = [pair(Path(folder), module, cpu, calls, groups=3) for _ in range(pairs)]
            ratios = [ratio for ratio, _ in found]
            step_ms = statistics.median(step for _, step in found)
            answer = decide(ratios, tolerance=1.0, alpha=0.01, looks=(len(ratios),), final=True)
            print(json.dumps({"model": name, "log_ratios": [round(x, 4) for x in ratios]}), flush=True)
            rows.append(
                (
                    name,
                    str(pairs),
                    f"{step_ms:.1f} ms",
                    f"{answer.ratio or 0:.3f}",
                    f"{answer.ci_low or 0:.3f} to {answer.ci_high or 0:.3f}",
                    f"{100 * (answer.sd or 0):.1f} %",
                )
            )
    print_table(("model", "pairs", "bare step", "inside / bare loop", "95 % interval", "s of a pair"), rows)


if __name__ == "__main__":
    main()
