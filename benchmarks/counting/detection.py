"""Real kinds of change through the real gate: is the right operator named first?

A scratch repository for each kind, ``perfgate run`` on it, and its report.json read. ``named`` is right where the first
finding of the operator difference is the operator that was changed; ``Why line`` where the second line of the comment
names it too. The goal is 18 of 20.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.counting import ours
from benchmarks.counting.detection_kinds import KINDS, Kind
from benchmarks.counting.detection_models import INPUTS
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.tables import print_table

QUICK = ("groups changed",)
TIMEOUT_S = 600.0
GIT = ("git", "-c", "user.name=bench", "-c", "user.email=bench@example.invalid", "-c", "commit.gpgsign=false")

# Few pairs and short blocks: what is judged here is the operator named, not the verdict.
CONFIG = """
version = 1
[gate]
looks = {looks}
pairs_per_round = 4
independent_pairs = true
block = "8ms"
groups = 1
tolerance = "{tolerance}"
false_alarm_rate = "5%"
budget = "3min"
[models.net]
entry = "net:build"
inputs = ["{inputs}"]
batch = [4]
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """One kind's run. ``first`` is the first finding in one line, ``error`` why there is no report."""

    kind: str
    verdict: str = ""
    first: str = ""
    why: str = ""
    named: bool = False
    in_why: bool = False
    seconds: float = 0.0
    share: float | None = None
    error: str = ""


LOOKS, QUICK_LOOKS = "[3, 8]", "[2]"


def repository(folder: Path, kind: Kind, looks: str, tolerance: str) -> Path:
    """``main`` holds the model as it was, ``change`` as it is."""
    folder.mkdir(parents=True)
    _git(folder, "init", "--quiet", "--initial-branch", "main")
    config = CONFIG.format(looks=looks, tolerance=tolerance, inputs=INPUTS[kind.model]) + "\n".join(kind.setting) + "\n"
    (folder / "perfgate.toml").write_text(config.lstrip(), encoding="utf-8")
    (folder / "net.py").write_text(kind.base.lstrip(), encoding="utf-8")
    _git(folder, "add", "--all")
    _git(folder, "commit", "--quiet", "--message", "base")
    _git(folder, "switch", "--quiet", "--create", "change")
    (folder / "net.py").write_text(kind.head.lstrip(), encoding="utf-8")
    _git(folder, "commit", "--quiet", "--all", "--message", "change")
    return folder


def _git(folder: Path, *arguments: str) -> None:
    subprocess.run([*GIT, *arguments], cwd=folder, check=True, capture_output=True)


def run(name: str, folder: Path, looks: str, tolerance: str) -> Found:
    """The gate on one kind, with this interpreter as the model's."""
    kind = KINDS[name]
    slug = re.sub(r"\W+", "-", name).strip("-")
    root, out = repository(folder / slug, kind, looks, tolerance), folder / f"{slug}-out"
    environment = {key: value for key, value in os.environ.items() if not key.startswith("GITHUB_")}
    environment |= {
        "PYTHONPATH": str(ours.ROOT),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    command = [sys.executable, "-m", "perfgate", "run", "--base", "main", "--head", "change", "--out", str(out)]
    begun = time.monotonic()
    try:
        done = subprocess.run(
            [*command, "--quiet"], cwd=root, env=environment, capture_output=True, text=True, check=False,
            timeout=TIMEOUT_S, stdin=subprocess.DEVNULL,
        )  # fmt: skip
    except subprocess.TimeoutExpired:
        return Found(kind=name, error=f"the gate did not end within {TIMEOUT_S:.0f} s")
    seconds = time.monotonic() - begun
    file = out / "report.json"
    if not file.is_file():
        told = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        return Found(kind=name, seconds=seconds, error=f"exit status {done.returncode}: {told[0][:200]}")
    return judge(name, json.loads(file.read_text(encoding="utf-8")), seconds)


def judge(name: str, report: dict[str, Any], seconds: float) -> Found:
    """Whether the first finding, and the Why line, are about the operator that was changed."""
    kind = KINDS[name]
    models = [model for model in report["models"] if not model["informative"]]
    if not models:
        return Found(kind=name, verdict=report["verdict"], why=report["why"], seconds=seconds, error="nothing measured")
    difference = models[0]["difference"] or {}
    changes = difference.get("changes", ())
    first = finding(changes[0]) if changes else ""
    spoken = f"{report['why']} {' '.join(models[0]['reasons'])}" if kind.why else first
    return Found(
        kind=name,
        verdict=report["verdict"],
        first=first,
        why=report["why"],
        named=re.search(kind.first, spoken) is not None,
        in_why=_in_why(kind, changes, report["why"]),
        seconds=seconds,
        share=changes[0]["share"] if changes else None,
    )


def finding(change: dict[str, Any]) -> str:
    """``name | op | what, how, phase``: one line for people and for the regular expressions of the kinds."""
    how = "; ".join(change["how"])
    sides = " → ".join(side for side in (change["base"], change["head"]) if side)
    return f"{change['name']} | {change['op']} | {change['what']}: {how or sides} ({change['phase']})"


def _in_why(kind: Kind, changes: Sequence[dict[str, Any]], why: str) -> bool:
    if kind.why:
        return re.search(kind.first, why, re.IGNORECASE) is not None
    return bool(changes) and changes[0]["name"] in why


def line(found: Found) -> tuple[str, ...]:
    """One row of the table."""
    share = "" if found.share is None else f"{100 * found.share:.0f} %"
    yes = {True: "yes", False: "NO"}
    return (
        found.kind,
        (found.first or found.error).replace(" | ", " · "),
        yes[found.named],
        yes[found.in_why],
        share,
        found.verdict or "-",
        f"{found.seconds:.0f} s",
    )


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="one kind")
    parser.add_argument("--only", action="append", default=[], choices=KINDS, metavar="KIND", help="may be repeated")
    parser.add_argument("--list", action="store_true", help="print the kinds")
    parser.add_argument("--tolerance", default="3%", help="limit of the step time (default 3%%)")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep repositories and reports here")
    arguments = parser.parse_args(argv)
    if arguments.list:
        print("\n".join(KINDS))
        return 0
    lacking = missing("torch")
    if lacking:
        print(how_to_get(lacking, "detection of changes"))
        return 0
    names = arguments.only or (QUICK if arguments.quick else tuple(KINDS))
    found = []
    with tempfile.TemporaryDirectory(prefix="bench-detection-") as scratch:
        folder = arguments.keep or Path(scratch)
        for name in names:
            found.append(run(name, folder, QUICK_LOOKS if arguments.quick else LOOKS, arguments.tolerance))
            last = found[-1]
            print(f"{name}: {'right' if last.named else 'WRONG'}: {last.first or last.error}", file=sys.stderr)
            print(f"    Why: {last.why}", file=sys.stderr, flush=True)
    print(f"torch {version('torch')}, CPU, batch 4\n")
    header = ("kind of change", "first finding", "right", "Why line", "share of the time", "verdict", "gate")
    print_table(header, [line(each) for each in found])
    named, spoken = sum(each.named for each in found), sum(each.in_why for each in found)
    print(f"\n{named} of {len(found)} kinds: the right operator is named first; in the Why line: {spoken}")
    return 1 if any(each.error for each in found) else 0


if __name__ == "__main__":
    raise SystemExit(main())
