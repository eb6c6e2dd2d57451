"""What each model of the public tables does, kernel by kernel: traced once, counted by perfgate, kept as groups.

``python -m benchmarks.cost.features``: four sets, resumable, under ``.cache/bench-cost/``:

* ``timm-amp``: timm's tables of GPUs: float16 autocast, at each row's image size and batch;
* ``timm-amp-nhwc``: the same with weights and images in the memory format ``channels_last``;
* ``timm-fp32``: timm's table of a CPU: float32, batch 1;
* ``neusight``: the language models of NeuSight's labels, float32, inference and training.
"""

from __future__ import annotations

import argparse
import functools
import hashlib
import importlib
import json
import random
import sys
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.cost import public
from benchmarks.cost.traces import CACHE, ROOT, Sought, Traces
from benchmarks.counting.packages import how_to_get, missing
from perfgate import wire
from perfgate.graph.build import build
from perfgate.records.graph import KernelGroup, Totals

AMP = "timm-amp"
AMP_NHWC = "timm-amp-nhwc"
FP32 = "timm-fp32"
NEUSIGHT = "neusight"
SETS = (AMP, AMP_NHWC, FP32, NEUSIGHT)
# Those of timm: the platform whose table has image sizes and batches, and how ``timm_sized`` makes the model.
_OF_TIMM = {AMP: ("rtx-3090", "__amp"), AMP_NHWC: ("rtx-3090", "__amp_nhwc"), FP32: ("core-i9-10940x", "")}
_LISTS = ("eager_kernels", "fused_kernels")
PACKAGES = {**dict.fromkeys(_OF_TIMM, ("torch", "timm")), NEUSIGHT: ("torch", "transformers")}


def sought(name: str, data: Path) -> list[Sought]:
    """What a set consists of: one of each family first, so that a part of it is already of use."""
    if name == NEUSIGHT:
        return _neusight(data)
    timm: Any = importlib.import_module("timm")
    known = [row for row in counted_at(name, data).values() if timm.is_model(row.model)]
    return [
        Sought(
            name=row.key,
            entry=f"timm_sized:{row.key}{_OF_TIMM[name][1]}",
            inputs=(f"float32[{row.batch},3,{row.size},{row.size}]",),
        )
        for row in spread(known)
    ]


def counted_at(name: str, data: Path) -> dict[str, public.Timed]:
    """Rows of the table that a set of timm's models is traced at the image sizes and batches of."""
    return public.timm_rows(data, public.TIMM[_OF_TIMM[name][0]])


@functools.cache
def totals(name: str, *, count: bool = True) -> dict[str, Totals]:
    """What perfgate counts of every model of a set that is traced, by the name of its features.

    Kept as well, until the code that counts changes. ``count``: False takes only what is kept (counting takes minutes).
    """
    path = CACHE / "totals" / f"{name}-{_digest()}.jsonl"
    found = {key: _read(tree) for key, tree in _kept(path).items()}
    if not count:
        return found
    path.parent.mkdir(parents=True, exist_ok=True)
    traces = Traces(name, ())
    waiting = [file.name.removesuffix(".json.gz") for file in sorted(traces.folder.glob("*.json.gz"))]
    waiting = [key for key in waiting if key not in found]
    with path.open("a", encoding="utf-8") as stream:
        for number, key in enumerate(waiting, 1):
            trace = traces.read(key)
            if trace is None:
                continue
            found[key] = build(trace).totals
            stream.write(f"{json.dumps({'name': key, 'totals': wire.to_tree(found[key], lean=True)})}\n")
            if number % 100 == 0:
                print(f"{name}: {number} of {len(waiting)} counted", file=sys.stderr, flush=True)
    return found


def _read(tree: dict[str, Any]) -> Totals:
    """Groups of kernels are many, so they are taken as they were written."""
    eager, fused = (tuple(KernelGroup(**one) for one in tree.pop(name, ())) for name in _LISTS)
    return replace(wire.from_tree(Totals, tree), eager_kernels=eager, fused_kernels=fused)


def _kept(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    entries = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines() if line.endswith("}")]
    return {entry["name"]: entry["totals"] for entry in entries}


def _digest() -> str:
    """Of the code that counts traces of torch: other code, other figures."""
    folder = ROOT / "perfgate" / "graph"
    files = sorted(file for file in folder.rglob("*.py") if "onnx" not in file.relative_to(folder).parts)
    return hashlib.sha256(b"".join(file.read_bytes() for file in files)).hexdigest()[:12]


def unknown(name: str, data: Path) -> list[str]:
    """Models of the tables that today's timm does not have."""
    timm: Any = importlib.import_module("timm")
    return sorted({row.model for row in counted_at(name, data).values() if not timm.is_model(row.model)})


def spread(rows: Sequence[public.Timed]) -> list[public.Timed]:
    """Round after round one of each family, in a fixed random order within it."""
    families: dict[str, list[public.Timed]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: row.key):
        families[public.family(row.model)].append(row)
    rng = random.Random(0)
    for members in families.values():
        rng.shuffle(members)
    longest = max((len(members) for members in families.values()), default=0)
    return [members[turn] for turn in range(longest) for members in families.values() if turn < len(members)]


def _neusight(data: Path) -> list[Sought]:
    found: dict[str, Sought] = {}
    for row in public.labels(data):
        if row.model not in public.NEUSIGHT_MODELS:
            continue
        found[row.key] = Sought(
            name=row.key,
            entry=f"neusight_models:{row.model}",
            inputs={"input_ids": f"int64[{row.batch},{row.sequence}] < 30000"},
            mode=row.mode,
        )
    return list(found.values())


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"of {', '.join(SETS)}; none: all")
    parser.add_argument("--data", default="", help="folder of the public data")
    parser.add_argument("--nice", type=int, default=15, help="priority of the workers (default 15)")
    parser.add_argument("--limit", type=int, default=None, help="only the first so many of each set")
    arguments = parser.parse_args(argv)
    data = public.folder(arguments.data)
    if data is None:
        print(public.how_to_get("features"))
        return 0
    for name in arguments.sets or SETS:
        lacking = missing(*PACKAGES[name])
        if lacking:
            print(how_to_get(lacking, name))
            continue
        traces = Traces(name, PACKAGES[name])
        traces.make(sought(name, data)[: arguments.limit], niceness=arguments.nice)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
