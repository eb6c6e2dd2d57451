"""Placement on this machine for real: models from torchvision, of our own, and ONNX exports, on every library here.

``python -m benchmarks.place.real``: of each model the best single library, what the plan is predicted to take and what
it takes, with the gate's statistics. One thread, since two libraries' pools on few cores disturb one another more than
a placement gains. Exit status 1 where a recommended plan is slower than the best single library.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from statistics import median

from benchmarks.tables import print_table
from perfgate import units
from perfgate.bench.progress import Progress
from perfgate.errors import PerfgateError
from perfgate.pipeline.count import CountRequest
from perfgate.pipeline.place import Placed
from perfgate.pipeline.place_command import CommandRequest, placed
from perfgate.pipeline.request import Ports
from perfgate.report import placements

IMAGE = "float32[1,3,224,224]"
# Entry and input. Those in ONNX are exported from the entry first.
MODELS = {
    "resnet18": ("torchvision.models:resnet18", IMAGE),
    "mobilenet_v2": ("torchvision.models:mobilenet_v2", IMAGE),
    "squeezenet1_1": ("torchvision.models:squeezenet1_1", IMAGE),
    "shufflenet_v2": ("torchvision.models:shufflenet_v2_x1_0", IMAGE),
    "scan": ("models:scan", "float32[64,256]"),
    "one_row": ("models:one_row", "float32[1,1536]"),
    "softmaxes": ("models:softmaxes", "float32[1,196,192]"),
    "depthwise": ("models:depthwise", "float32[1,3,96,96]"),
    "mixed": ("models:mixed", "float32[1,3,64,64]"),
    "scans": ("models:scans", "float32[1,3,56,56]"),
    "recurrent": ("models:recurrent", "float32[4,32,64]"),
    "narrow": ("models:narrow", "float32[64,512]"),
    "resnet18 (ONNX)": ("torchvision.models:resnet18", IMAGE),
    "softmaxes (ONNX)": ("models:softmaxes", "float32[1,196,192]"),
    "one_row (ONNX, int8)": ("models:one_row", "float32[1,1536]"),
}
QUICK = ("mixed",)
# Predicted within this share of measured; faster by this share.
CLOSE, GAIN = 0.15, 0.10
_NS = 1e9


class Quiet(Progress):
    """A benchmark prints its tables alone."""

    def step(self, what: str, done: int, total: int, budget_s: float | None) -> None:
        """Nothing."""


def run(names: Sequence[str], budget_s: float) -> int:
    """The table; each row also on standard error as it comes."""
    rows: list[tuple[str, ...]] = []
    errors: list[float] = []
    slower: list[str] = []
    faster = 0
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        (folder / "models.py").write_text((Path(__file__).parent / "models.py").read_text(encoding="utf-8"))
        for name in names:
            try:
                found = _placed(name, folder, budget_s)
            except PerfgateError as error:
                rows.append((name, "", "", "", "", "", "", str(error).splitlines()[0][:80]))
                continue
            rows.append(_row(name, found))
            print("; ".join(rows[-1]), f"({units.wall_clock(found.seconds)})", file=sys.stderr, flush=True)
            plan = found.plan
            if plan is None or not plan.measured_s or not plan.predicted_s:
                continue
            errors.append(abs(plan.predicted_s / plan.measured_s - 1))
            faster += bool(plan.recommended and plan.faster and median(plan.faster) <= -GAIN)
            if plan.recommended and plan.faster and plan.faster[0] > 0:
                slower.append(name)
    header = ("model", "nodes", "best single", "its step", "predicted", "measured", "against the single", "placement")
    print_table(header, rows)
    close = sum(error <= CLOSE for error in errors)
    print(f"\npredicted within {CLOSE:.0%} of measured: {close} of {len(errors)}; faster by {GAIN:.0%}: {faster}")
    for name in slower:
        print(f"{name}: recommended and slower than the best single library")
    return int(bool(slower))


def _placed(name: str, folder: Path, budget_s: float) -> Placed:
    entry, inputs = MODELS[name]
    if "ONNX" in name:
        entry = _exported(name, entry, inputs, folder)
    request = CommandRequest(
        count=CountRequest(
            root=folder,
            entry=entry,
            inputs=() if entry.endswith(".onnx") else (inputs,),
            mode="infer",
            fallback_python=sys.executable,
        ),
        threads=(1,),
        budget_s=budget_s,
    )
    return placed(request, Ports(progress=Quiet(), environ=os.environ))


def _exported(name: str, entry: str, inputs: str, folder: Path) -> str:
    """File name of the model as ONNX."""
    import importlib
    import re

    import torch

    sys.path.insert(0, str(folder))
    try:
        module, _, attribute = entry.partition(":")
        model = getattr(importlib.import_module(module), attribute)().eval()
    finally:
        sys.path.remove(str(folder))
    shape = [int(size) for size in re.findall(r"\d+", inputs.partition("[")[2])]
    file = f"{name.split(maxsplit=1)[0]}.onnx"
    torch.onnx.export(model, (torch.rand(shape),), folder / file, dynamo=True, verbose=False, external_data=False)
    if "int8" not in name:
        return file
    from onnxruntime.quantization import quantize_dynamic

    quantised = f"int8-{file}"
    quantize_dynamic(folder / file, folder / quantised)
    return quantised


def _row(name: str, found: Placed) -> tuple[str, ...]:
    plan = found.plan
    if plan is None:
        return (name, str(len(found.lowered.nodes)), "", "", "", "", "", found.answer.problem)
    change = "" if plan.faster is None else " to ".join(units.percent(end, sign=True) for end in plan.faster)
    return (
        name,
        str(len(found.lowered.nodes)),
        plan.best_single,
        _time(plan.single_s),
        _time(plan.predicted_s),
        _time(plan.measured_s),
        change,
        placements.words(plan) if plan.recommended else f"all on {plan.best_single}",
    )


def _time(seconds: float | None) -> str:
    return "" if seconds is None else units.duration(seconds * _NS)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="one small model")
    parser.add_argument("--model", action="append", default=[], choices=MODELS, help="only this one; may be repeated")
    parser.add_argument("--budget", type=float, default=240.0, metavar="SECONDS", help="of each model")
    arguments = parser.parse_args(argv)
    names = arguments.model or (QUICK if arguments.quick else tuple(MODELS))
    return run(names, 60.0 if arguments.quick else arguments.budget)


if __name__ == "__main__":
    raise SystemExit(main())
