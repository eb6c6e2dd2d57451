"""What other counters say of models with a known amount of work, and what they leave behind.

Each counter sees each case in a process of its own; perfgate counts as it does for a user. MAC everywhere: what a tool
prints as 2 x MAC is halved. Right figures are plain, wrong ones **bold**. Exit status 1 where perfgate is wrong.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from typing import Any

from benchmarks.counting import ours
from benchmarks.counting.counters import COUNTERS
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.tables import print_table

OTHERS = tuple(name for name in COUNTERS if name != "perfgate")
# Distribution and module where they are not called like the counter.
PACKAGES = {name: name for name in OTHERS if name != "FlopCounterMode"}
QUICK = ("sdpa", "depthwise_train", "tied")
TIMEOUT_S = 300.0
AFTER = (1, 2)

Answers = dict[tuple[str, str, int], dict[str, Any]]


def ask(counter: str, case: str, after: int = 0) -> dict[str, Any]:
    """A fresh process's answer: ``mac``, ``params``, ``keys``, or ``error``."""
    command = [sys.executable, "-m", "benchmarks.counting.counters", counter, case, "--after", str(after)]
    try:
        done = subprocess.run(
            command, cwd=ours.ROOT, capture_output=True, text=True, timeout=TIMEOUT_S, check=False, stdin=None
        )
    except subprocess.TimeoutExpired:
        return {"error": f"no answer within {TIMEOUT_S:.0f} s"}
    lines = done.stdout.strip().splitlines()
    if done.returncode != 0 or not lines:
        last = done.stderr.strip().splitlines()[-1:] or [f"status {done.returncode}"]
        return {"error": last[0][:160]}
    answer: dict[str, Any] = json.loads(lines[-1])
    return answer


def figure(value: float) -> str:
    """A whole number in groups of three."""
    return f"{value:,.0f}".replace(",", " ")


def cell(value: float | None, truth: int, error: str = "") -> str:
    """Plain where right, bold where wrong, the error's type where there is no figure."""
    if error:
        return error if error == "forward only" else f"**{error.partition(':')[0]}**"
    if value is None:
        return "-"
    return figure(value) if round(value) == truth else f"**{figure(value)}**"


def own(names: Sequence[str]) -> dict[str, Count]:
    """perfgate's count of each case, as a user would get it."""
    from benchmarks.counting.zoo.cases import CASES

    wanted = [
        Wanted(
            name=name,
            entry=f"cases:{name}",
            inputs=CASES[name].inputs,
            mode="train" if CASES[name].train else "infer",
        )
        for name in names
    ]
    return {count.name: count for count in ours.counts(wanted, timeout_s=300)}


def main_rows(
    names: Sequence[str], counters: Sequence[str], answers: Answers, mine: dict[str, Count]
) -> list[list[str]]:
    """Work of each case, then parameters of those with a known number."""
    from benchmarks.counting.zoo.cases import CASES

    rows = []
    for name in names:
        case, count = CASES[name], mine[name]
        cells = [_told(answers[counter, name, 0], "mac", case.mac) for counter in counters]
        mac = None if count.graph is None else count.graph.totals.flop / 2
        rows.append([case.title, figure(case.mac), *cells, cell(mac, case.mac, count.reason)])
    for name in names:
        case, count = CASES[name], mine[name]
        if case.params is None:
            continue
        cells = [_told(answers[counter, name, 0], "params", case.params) for counter in counters]
        params = None if count.graph is None else count.graph.totals.params
        rows.append([f"{case.title}: parameters", figure(case.params), *cells, cell(params, case.params, count.reason)])
    return rows


def _told(answer: dict[str, Any], key: str, truth: int) -> str:
    return cell(answer.get(key), truth, answer.get("error", ""))


def side_rows(counters: Sequence[str], answers: Answers) -> list[list[str]]:
    """Keys added to a state_dict, and the same count after models that raised."""
    from benchmarks.counting.zoo.cases import CASES

    everyone = [*counters, "perfgate"]
    rows = [
        ["resnet18: names added to its state_dict", "0"]
        + [cell(answers[counter, "resnet", 0].get("keys"), 0, _error(answers, counter)) for counter in everyone]
    ]
    truth = CASES["functional"].mac
    for after in AFTER:
        title = f"functional.conv2d after {after} model{'s' if after > 1 else ''} that raised"
        rows.append(
            [title, figure(truth)]
            + [_told(answers[counter, "functional", after], "mac", truth) for counter in everyone]
        )
    return rows


def _error(answers: Answers, counter: str) -> str:
    return str(answers[counter, "resnet", 0].get("error", ""))


def gather(names: Sequence[str], counters: Sequence[str], *, side_effects: bool) -> Answers:
    """Every counter on every case; ``side_effects`` of perfgate's tracer in a process of the same kind too."""
    asked = [(counter, name, 0) for counter in counters for name in names]
    if side_effects:
        asked.append(("perfgate", "resnet", 0))
        asked += [(counter, "functional", after) for counter in (*counters, "perfgate") for after in AFTER]
    return {key: ask(*key) for key in dict.fromkeys(asked)}


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three cases, torch's own counter only")
    parser.add_argument("--errors", action="store_true", help="print every counter's errors in full")
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "torchvision")
    if lacking:
        print(how_to_get(lacking, "other counters"))
        return 0
    from benchmarks.counting.zoo.cases import CASES

    absent = () if arguments.quick else missing(*PACKAGES.values())
    if absent:
        print(how_to_get(absent, "other counters, without columns"))
    counters = ["FlopCounterMode"] if arguments.quick else [name for name in OTHERS if name not in absent]
    names = QUICK if arguments.quick else tuple(CASES)
    answers = gather(names, counters, side_effects=not arguments.quick)
    rows = main_rows(names, counters, answers, own(names))
    if not arguments.quick:
        rows += side_rows(counters, answers)
    used = [f"{name} {version(PACKAGES[name])}" for name in counters if name in PACKAGES]
    print(f"MAC; torch {version('torch')}{''.join(f', {item}' for item in used)}\n")
    print_table(["case", "truth", *counters, "perfgate"], rows)
    if arguments.errors:
        for (counter, name, after), answer in answers.items():
            if "error" in answer:
                print(f"{counter} {name} {after}: {answer['error']}")
    wrong = [row[0] for row in rows if "**" in row[-1]]
    print(
        f"\nperfgate: {len(rows) - len(wrong)} of {len(rows)} rows right{''.join(f'; wrong: {row}' for row in wrong)}"
    )
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
