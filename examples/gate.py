"""Build the example repository and run the gate on its two pull requests.

Exit status 0 means: `slow-down` was red for the right reason, and `docstring` was measured and not red.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
FILES = HERE / "pull-request"
MODEL = "vision/classifier.py"

# branch -> commit message and the edits of the model's file (old text, new text)
BRANCHES: dict[str, tuple[str, dict[str, str]]] = {
    "slow-down": ("Refine the features further", {"REFINEMENTS = 1": "REFINEMENTS = 5"}),
    "docstring": ("Say who loads the model", {"the gate measures.": "the gate measures and the service loads."}),
}
GIT_IDENTITY = ("-c", "user.name=example", "-c", "user.email=example@example.invalid", "-c", "commit.gpgsign=false")


def git(repository: Path, *arguments: str) -> None:
    """Run git quietly in the example repository."""
    subprocess.run(["git", *GIT_IDENTITY, *arguments], cwd=repository, check=True)


def build_repository(target: Path) -> Path:
    """A fresh repository at ``target`` with branch main and one branch per pull request."""
    shutil.rmtree(target, ignore_errors=True)
    target.mkdir(parents=True)
    git(target, "init", "--quiet", "--initial-branch", "main")
    shutil.copytree(FILES, target, dirs_exist_ok=True, ignore=shutil.ignore_patterns("__pycache__"))
    git(target, "add", "--all")
    git(target, "commit", "--quiet", "--message", "Classifier and its gate")
    for branch, (message, edits) in BRANCHES.items():
        add_branch(target, branch, message, edits)
    return target


def add_branch(repository: Path, branch: str, message: str, edits: dict[str, str]) -> None:
    """Branch off main with ``edits`` of the model's file; every old text must be there."""
    git(repository, "switch", "--quiet", "--create", branch, "main")
    file = repository / MODEL
    text = file.read_text(encoding="utf-8")
    for old, new in edits.items():
        if old not in text:
            msg = f"{MODEL} does not hold {old!r} any more; adapt the branch {branch!r}"
            raise SystemExit(msg)
        text = text.replace(old, new)
    file.write_text(text, encoding="utf-8")
    git(repository, "commit", "--quiet", "--all", "--message", message)
    git(repository, "switch", "--quiet", "main")


def gate_command(branch: str, out: Path) -> list[str]:
    """The gate on the pull request ``branch``, as a user would type it."""
    return [sys.executable, "-m", "perfgate", "run", "--base", "main", "--head", branch, "--out", str(out)]


def gate_environment() -> dict[str, str]:
    """The process environment, with the core of this checkout, and with this interpreter as the models' Python."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}"
    return {**os.environ, "PYTHONPATH": str(HERE.parent), "PATH": path}


def run_gate(repository: Path, branch: str, out: Path) -> tuple[int, dict[str, Any], float]:
    """Exit code of `perfgate run`, its report.json, and the seconds it took."""
    command = gate_command(branch, out)
    print(f"\n$ perfgate {' '.join(command[3:])}", flush=True)
    started = time.monotonic()
    code = subprocess.run(command, cwd=repository, check=False, env=gate_environment()).returncode
    seconds = time.monotonic() - started
    report = json.loads((out / "report.json").read_text(encoding="utf-8"))
    return code, report, seconds


def probe(repository: Path) -> int:
    """Measure this runner's roofline once, as one would after setting up a runner; gates then use it."""
    command = [sys.executable, "-m", "perfgate", "doctor", "--roofline"]
    print(f"\n$ perfgate {' '.join(command[3:])}", flush=True)
    return subprocess.run(command, cwd=repository, check=False, env=gate_environment()).returncode


def metric(report: dict[str, Any], name: str) -> dict[str, Any]:
    """The row of metric ``name`` of the only workload."""
    (model,) = report["models"]
    rows: dict[str, dict[str, Any]] = {row["metric"]: row for row in model["metrics"]}
    return rows[name]


def main() -> int:
    """Run both pull requests and check what was said of them."""
    target = Path(sys.argv[1] if len(sys.argv) > 1 else "gate-example").resolve()
    repository = build_repository(target / "repository")
    reports = target / "reports"
    problems = []
    if probe(repository) != 0:
        problems.append("doctor --roofline: expected exit code 0")
    code, red, seconds = run_gate(repository, "slow-down", reports / "slow-down")
    latency, flop = metric(red, "latency"), metric(red, "flop")
    if code != 1 or red["verdict"] != "regression":
        problems.append(f"slow-down: expected a regression and exit code 1, got {red['verdict']} and {code}")
    if latency["verdict"] != "regression" or flop["verdict"] != "regression":
        problems.append(f"slow-down: step time is {latency['verdict']}, F is {flop['verdict']}; both should be red")
    if red["cost"] is None or red["cost"]["workloads"][0]["head"]["roofline"] is None:
        problems.append("slow-down: the report lacks the costs or the roofline of the workload")
    print(f"slow-down: {red['verdict']} in {seconds:.0f} s")

    code, green, seconds = run_gate(repository, "docstring", reports / "docstring")
    if code != 0 or green["verdict"] not in {"pass", "inconclusive"}:
        problems.append(
            f"docstring: expected pass (or inconclusive) and exit code 0, got {green['verdict']} and {code}"
        )
    if not green["models"]:
        problems.append("docstring: the touched model was not measured")
    print(f"docstring: {green['verdict']} in {seconds:.0f} s")

    print(f"\nReports: {reports}/slow-down/report.html and {reports}/docstring/report.html")
    for problem in problems:
        print(f"make gate: {problem}", file=sys.stderr)
    if not problems:
        print("make gate: red for the right reason, and not red for a docstring.")
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
