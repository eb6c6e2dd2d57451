"""The same torchvision model counted in torch and from its ONNX file: F has to be equal.

Files are exported once and kept under .cache/bench-count/onnx/. Their weights' contents do not enter a count, so they
lie beside the file as a hole of the right size. Exit status 1 where a figure differs.
"""

from __future__ import annotations

import argparse
import importlib
import os
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.counting import ours
from benchmarks.counting.apart import apart, one_line
from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.packages import how_to_get, missing, version
from benchmarks.tables import print_table

EXPORT_S = 600.0
READ_S = 300.0
EXPORTERS = ("dynamo", "torchscript")

# Model -> pixels; two or more of each family, none so large that a laptop could not export it.
_NAMES = """
    alexnet convnext_small convnext_tiny densenet121 densenet161 densenet169 densenet201 efficientnet_b0 efficientnet_b1
    efficientnet_b2 efficientnet_b3 efficientnet_b4 efficientnet_v2_s efficientnet_v2_m googlenet maxvit_t mnasnet0_5
    mnasnet0_75 mnasnet1_0 mnasnet1_3 mobilenet_v2 mobilenet_v3_large mobilenet_v3_small regnet_x_1_6gf regnet_x_3_2gf
    regnet_x_400mf regnet_x_800mf regnet_x_8gf regnet_y_1_6gf regnet_y_3_2gf regnet_y_400mf regnet_y_800mf
    regnet_y_8gf resnet101 resnet18 resnet34 resnet50 resnext50_32x4d shufflenet_v2_x0_5 shufflenet_v2_x1_0
    shufflenet_v2_x1_5 shufflenet_v2_x2_0 squeezenet1_0 squeezenet1_1 swin_s swin_t swin_v2_t vgg11 vgg16_bn vit_b_16
    vit_b_32 wide_resnet50_2
"""
MODELS = {**dict.fromkeys(_NAMES.split(), 224), "inception_v3": 299}
QUICK = ("squeezenet1_1", "mobilenet_v3_small")

# Model -> end of the modules that the default exporter computes ahead of time, since all they read is constant.
FOLDED = {"swin_v2_t": "cpb_mlp.0"}


@dataclass(frozen=True, slots=True, kw_only=True)
class OnnxCount:
    """``flop`` None: not counted, ``reason`` says why; ``opset`` as the trace tells it."""

    flop: int | None = None
    reason: str = ""
    opset: str = ""
    operators: int = 0
    seconds: float = 0.0
    not_counted: tuple[str, ...] = ()


def export(name: str, pixels: int, exporter: str, path: str) -> None:
    """Write the model and its hollow weights; runs in a process of its own."""
    import onnx
    import torch

    from benchmarks.counting.zoo import vision

    warnings.simplefilter("ignore")
    model = getattr(vision, name)().eval()
    sample = (torch.zeros(1, 3, pixels, pixels),)
    target, raw = Path(path), Path(path).with_suffix(".raw")
    torch.onnx.export(model, sample, str(raw), dynamo=exporter == "dynamo", verbose=False)
    loaded = onnx.load(str(raw))
    data = f"{target.name}.data"
    onnx.save_model(loaded, str(raw), save_as_external_data=True, location=data, size_threshold=1024)
    hollow(target.parent / data)
    # Under its own name only once it is complete.
    raw.rename(target)
    for leftover in target.parent.glob(f"{raw.name}*"):
        leftover.unlink()


def hollow(path: Path) -> None:
    """A file of the same length without contents."""
    size = path.stat().st_size
    path.unlink()
    path.touch()
    os.truncate(path, size)


def exported(name: str, exporter: str) -> tuple[Path, str]:
    """The cached file, or the reason why there is none."""
    folder = ours.CACHE / "onnx" / f"torch-{version('torch')}" / exporter
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{name}.onnx"
    if path.is_file():
        return path, ""
    outcome = apart(export, name, MODELS[name], exporter, str(path), timeout_s=EXPORT_S)
    return path, outcome.reason


def count_file(path: Path) -> OnnxCount:
    """What perfgate counts in the file."""
    isolated = importlib.import_module("perfgate.graph.onnx.isolated")
    build = importlib.import_module("perfgate.graph.build").build
    begun = time.perf_counter()
    try:
        totals = build(isolated.trace(path, None, timeout_s=READ_S), {}).totals
    except Exception as error:  # noqa: BLE001 - a fault of the counter is one line of its table
        return OnnxCount(reason=one_line(error))
    return OnnxCount(
        flop=totals.flop,
        opset=totals.software,
        operators=totals.kernels,
        seconds=time.perf_counter() - begun,
        not_counted=tuple(item.op for item in totals.not_counted),
    )


def rows(names: Sequence[str], exporters: Sequence[str]) -> Iterator[tuple[str, str, Count, OnnxCount]]:
    """(model, exporter, count in torch, count in ONNX), as they come."""
    wanted = [
        Wanted(name=name, entry=f"vision:{name}", inputs=(f"float32[1,3,{MODELS[name]},{MODELS[name]}]",))
        for name in names
    ]
    # Imported before anything is forked.
    importlib.import_module("benchmarks.counting.zoo.vision")
    for count in ours.counts(wanted, timeout_s=300):
        for exporter in exporters:
            path, reason = exported(count.name, exporter)
            yield count.name, exporter, count, OnnxCount(reason=f"export: {reason}") if reason else count_file(path)


def cells(name: str, exporter: str, count: Count, file: OnnxCount) -> tuple[str, ...]:
    """One line of the table."""
    flop = None if count.graph is None else count.graph.totals.flop
    kernels = "" if count.graph is None else str(count.graph.totals.kernels)
    opset = file.opset.rpartition(" ")[2]
    return (name, exporter, opset, _figure(flop), _figure(file.flop), kernels, str(file.operators),
            f"{file.seconds:.1f}", result(count, file))  # fmt: skip


def _figure(flop: int | None) -> str:
    return "" if flop is None else str(flop)


def result(count: Count, file: OnnxCount) -> str:
    """In one word."""
    if count.graph is None or file.flop is None:
        return "FAILED"
    missing_flop = count.graph.totals.flop - file.flop
    if missing_flop == 0:
        return "equal"
    return "explained" if missing_flop == folded(count) else "DIFFERS"


def folded(count: Count) -> int:
    """FLOP of the modules in :data:`FOLDED`."""
    ending = FOLDED.get(count.name)
    operators = () if count.graph is None or ending is None else count.graph.operators
    return sum((each.flop or 0) * each.repeat for each in operators if each.module.endswith(ending or ""))


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="two models")
    parser.add_argument("--only", action="append", default=[], choices=sorted(MODELS), metavar="MODEL")
    parser.add_argument("--exporter", action="append", choices=EXPORTERS, help="default: both")
    arguments = parser.parse_args(argv)
    lacking = missing("torch", "torchvision", "onnx", "onnxscript")
    if lacking:
        print(how_to_get(lacking, "torch against ONNX"))
        return 0
    names = arguments.only or (QUICK if arguments.quick else sorted(MODELS))
    exporters = arguments.exporter or (("dynamo",) if arguments.quick else EXPORTERS)
    found = list(rows(names, exporters))
    print(f"torch {version('torch')}, torchvision {version('torchvision')}, onnx {version('onnx')}, batch 1\n")
    print_table(
        ("model", "exporter", "opset", "F torch (FLOP)", "F ONNX (FLOP)", "kernels", "ONNX operators", "read s", "F"),
        [cells(*row) for row in found],
    )
    print()
    for name, exporter, count, file in found:
        reason = count.reason if count.graph is None else file.reason
        if reason:
            print(f"* {name} ({exporter}): {reason}")
        if result(count, file) == "explained":
            print(
                f"* {name} ({exporter}): {folded(count)} FLOP fewer: the exporter has computed {FOLDED[name]} of each "
                "block ahead of time, whose input and weights are constants"
            )
        if file.not_counted:
            print(f"* {name} ({exporter}): not counted: {', '.join(file.not_counted)}")
    results = [(row[0], result(row[2], row[3])) for row in found]
    tally = Counter(word for _, word in results)
    models = {name for name, _ in results}
    equal = models - {name for name, word in results if word != "equal"}
    print(
        f"\n{tally['equal']} of {len(found)} files and {len(equal)} of {len(models)} models: F is equal; "
        f"{tally['explained']} explained, {tally['DIFFERS']} differ, {tally['FAILED']} failed"
    )
    return 1 if tally["DIFFERS"] or tally["FAILED"] else 0


if __name__ == "__main__":
    raise SystemExit(main())
