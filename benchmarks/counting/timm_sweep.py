"""Every model of timm that can be built without weights, at its own default input size, batch 1.

Each is built and counted in a child process of its own with a time and a memory limit. The parameters are compared with
those of a model that timm builds itself in yet another process. Goes on where it was with --resume.
"""

from __future__ import annotations

import argparse
import importlib
import os
import statistics
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from benchmarks.counting import ours
from benchmarks.counting.apart import apart
from benchmarks.counting.journal import Journal
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.counting.zoo.limits import DEFAULT_BYTES, VARIABLE
from benchmarks.tables import print_table

TIMEOUT_S = 120.0
CHUNK = 20
QUICK = ("test_resnet", "test_vit", "test_convnext")

COUNTED = "counted"
FAILED = "failed"


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What timm says of its model: parameters (tied once) and the default input's sizes."""

    params: int
    input_size: tuple[int, ...]


def build_own(name: str) -> Own:
    """timm's own model, without memory for its weights where it allows that."""
    import torch

    timm: Any = importlib.import_module("timm")

    try:
        with torch.device("meta"):
            model = timm.create_model(name, pretrained=False)
    except Exception:  # noqa: BLE001 - a constructor that looks at values; it gets them
        model = timm.create_model(name, pretrained=False)
    size = tuple(model.pretrained_cfg.get("input_size") or (3, 224, 224))
    return Own(params=sum(p.numel() for p in model.parameters()), input_size=size)


def one_of_each_family() -> list[str]:
    """The first registered model of each of timm's files: a short pass over all architectures."""
    timm: Any = importlib.import_module("timm")
    modules: dict[str, str] = {}
    for name in timm.list_models():
        module = timm.model_entrypoint(name).__module__
        modules.setdefault(module, name)
    return list(modules.values())


def facts(own: Own | None, reason: str, count: Count | None) -> dict[str, Any]:
    """One model's line of the journal."""
    found: dict[str, Any] = {"status": FAILED, "reason": reason}
    if own is not None:
        found |= {"own_params": own.params, "input_size": list(own.input_size)}
    if count is None:
        return found
    found["seconds"] = round(count.seconds, 3)
    if count.graph is None:
        return {**found, "reason": count.reason}
    totals = count.graph.totals
    return {
        **found,
        "status": COUNTED,
        "reason": "",
        "params": totals.params,
        "flop": totals.flop,
        "traffic": totals.traffic.eager,
        "kernels": totals.kernels,
        "source": totals.source,
        "peak_rss_bytes": count.peak_rss_bytes,
        "not_counted": [item.op for item in totals.not_counted],
        "notes": list(count.notes)[:5],
    }


def sweep(names: Sequence[str], journal: Journal, niceness: int) -> None:
    """Count ``names``, a chunk at a time; each result is written down at once."""
    begun = 0
    for chunk in _chunks(names, CHUNK):
        owns: dict[str, Own] = {}
        for name in chunk:
            outcome = apart(build_own, name, timeout_s=TIMEOUT_S)
            if outcome.reason:
                journal.add(name, facts(None, f"timm itself cannot build it: {outcome.reason}", None))
            else:
                owns[name] = outcome.value
        wanted = [Wanted(name=name, entry=f"timm_models:{name}", inputs=(_input(own),)) for name, own in owns.items()]
        for count in ours.counts(wanted, timeout_s=TIMEOUT_S, niceness=niceness):
            journal.add(count.name, facts(owns[count.name], "", count))
        begun += len(chunk)
        print(f"{begun} of {len(names)}: {_tally(journal)}", file=sys.stderr, flush=True)


def _input(own: Own) -> str:
    return f"float32[1,{','.join(map(str, own.input_size))}]"


def _chunks(names: Sequence[str], size: int) -> Iterator[list[str]]:
    left = iter(names)
    while chunk := list(islice(left, size)):
        yield chunk


def _tally(journal: Journal) -> str:
    tally = Counter(entry["status"] for entry in journal.entries.values())
    return f"{tally[COUNTED]} counted, {tally[FAILED]} failed"


def report(names: Sequence[str], journal: Journal) -> int:
    """The table, every failure and every difference; exit status 1 where parameters differ."""
    entries = [journal.entries[name] for name in names if name in journal.entries]
    counted = [entry for entry in entries if entry["status"] == COUNTED]
    failed = [entry for entry in entries if entry["status"] == FAILED]
    other = [entry for entry in counted if entry["params"] != entry["own_params"]]
    open_ops = [entry for entry in counted if entry["not_counted"]]
    seconds = sorted(entry["seconds"] for entry in counted)
    sources = Counter(entry["source"] for entry in counted)
    rows = [
        ("models of timm", str(len(names))),
        ("tried", str(len(entries))),
        ("counted", str(len(counted))),
        *((f"of these on {source} tensors", str(number)) for source, number in sources.most_common()),
        ("failed with a stated reason", str(len(failed))),
        ("parameters equal timm's own", f"{len(counted) - len(other)} of {len(counted)}"),
        ("with an operator that is not counted", str(len(open_ops))),
    ]
    if seconds:
        peaks = [entry["peak_rss_bytes"] for entry in counted if entry.get("peak_rss_bytes")]
        rows += [
            ("seconds per model, median", f"{statistics.median(seconds):.2f}"),
            ("seconds per model, 95th percentile", f"{seconds[int(0.95 * (len(seconds) - 1))]:.2f}"),
            ("seconds per model, largest", f"{seconds[-1]:.2f}"),
            ("peak resident set, largest (MiB)", f"{max(peaks, default=0) / 2**20:.0f}"),
        ]
    print(f"timm {version('timm')}, torch {version('torch')}\n")
    print_table(("what", "figure"), rows)
    print()
    for entry in failed:
        print(f"* {entry['model']}: {entry['reason']}")
    for entry in other:
        print(f"* {entry['model']}: {entry['params']} parameters counted, {entry['own_params']} of timm's own")
    for entry in open_ops:
        print(f"* {entry['model']}: not counted: {', '.join(entry['not_counted'])}")
    return 1 if other else 0


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="three tiny models")
    parser.add_argument("--families", action="store_true", help="one model of each of timm's families")
    parser.add_argument("--only", action="append", default=[], metavar="MODEL", help="this model; may be repeated")
    parser.add_argument("--resume", action="store_true", help="keep what is in .cache/bench-count/")
    parser.add_argument("--retry-failed", action="store_true", help="with --resume: try failed models again")
    parser.add_argument("--report", action="store_true", help="print the table of what is there; count nothing")
    parser.add_argument("--nice", type=int, default=15, help="priority of the workers (default 15)")
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "timm")
    if lacking:
        print(how_to_get(lacking, "timm sweep"))
        return 0
    os.environ.setdefault(VARIABLE, str(DEFAULT_BYTES))
    timm: Any = importlib.import_module("timm")
    names = arguments.only or (QUICK if arguments.quick else timm.list_models())
    if arguments.families:
        names = one_of_each_family()
    part = bool(arguments.only or arguments.quick or arguments.families)
    key = {"timm": version("timm"), "torch": version("torch")}
    path = ours.CACHE / ("timm-part.jsonl" if part and not arguments.resume else "timm.jsonl")
    journal = Journal(path, key, resume=arguments.resume or arguments.report)
    if not arguments.report:
        again = {name for name, entry in journal.entries.items() if entry["status"] == FAILED}
        skip = set(journal.entries) - (again if arguments.retry_failed else set())
        sweep([name for name in names if name not in skip], journal, arguments.nice)
    return report(names, journal)


if __name__ == "__main__":
    raise SystemExit(main())
