"""Public measurements as examples: timm's tables with the kernels that perfgate counts.

In: a folder with the data (``benchmarks.cost.public``) and features that ``python -m benchmarks.cost.features`` made.
Out: :class:`Example` with the measured step time in ns. Examples of one model share one tuple of kernels.
"""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cost import features, public
from perfgate.hardware import catalogue
from perfgate.pipeline.examples import of_platform
from perfgate.records.estimate import STEP_TIME, Example, Machine
from perfgate.records.graph import KernelGroup

TRAIN, INFER = "train", "infer"
IMAGE_SIZE = "image_size"


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """One of timm's tables: what is measured where. ``counted``: set of features that its kernels come from."""

    file: str
    platform: str
    software: str
    counted: str = features.AMP
    mode: str = INFER


GPU_3090 = Table(file="infer-amp-nchw-pt240-cu124-rtx3090", platform="rtx-3090", software="torch 2.4")
GPU_4090 = Table(file="infer-amp-nchw-pt240-cu124-rtx4090", platform="rtx-4090", software="torch 2.4")
GPU_3090_NHWC = replace(GPU_3090, file="infer-amp-nhwc-pt240-cu124-rtx3090", counted=features.AMP_NHWC)
CPU_I9 = Table(
    file="infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo",
    platform="core-i9-10940x",
    software="torch 2.4",
    counted=features.FP32,
)
TRAIN_3090 = Table(file="train-amp-nchw-pt112-cu113-rtx3090", platform="rtx-3090", software="torch 1.12", mode=TRAIN)


def machine(name: str) -> Machine:
    """A platform of the catalogue, by published figures."""
    return of_platform(catalogue.find(name))


def timm(data: Path, table: Table) -> list[Example]:
    """Rows of a table whose model is counted, by name of the features.

    Kernels were counted at the batch of one table; at another batch all but their weights is scaled. Of a training
    step it is the forward pass that is counted: its other kernels do as much work again, class by class.
    """
    counted = features.totals(table.counted)
    at = features.counted_at(table.counted, data)
    gpu = table.counted != features.FP32
    device = machine(table.platform)
    kernels: dict[tuple[str, int], tuple[KernelGroup, ...]] = {}
    found: list[Example] = []
    for name, row in sorted(_rows(data, table).items()):
        if name not in counted or name not in at:
            continue
        place = (name, row.batch)
        if place not in kernels:
            totals = counted[name]
            own = totals.eager_kernels if gpu else totals.fused_kernels
            kernels[place] = at_batch(own, at[name].batch, row.batch)
        found.append(
            Example(
                model=row.model,
                hyper_parameters={IMAGE_SIZE: str(row.size)},
                group=public.family(row.model),
                mode=table.mode,
                dtype="amp-float16" if gpu else "float32",
                compile="eager" if gpu else "default",
                batch=row.batch,
                items=row.batch,
                machine=device,
                kernels=kernels[place],
                threads=0 if gpu else 14,
                software=table.software,
                weight_bytes=counted[name].weight_bytes,
                targets={STEP_TIME: row.step_s * 1e9},
            )
        )
    return found


def key(example: Example) -> tuple[str, str]:
    """Model and image size: what tells rows of a table apart."""
    return example.model, example.hyper_parameters[IMAGE_SIZE]


def at_batch(kernels: Sequence[KernelGroup], counted: int, wanted: int) -> tuple[KernelGroup, ...]:
    """The same step at another batch: F and bytes in proportion, but for those of weights."""
    if counted == wanted:
        return tuple(kernels)
    ratio = wanted / counted

    def scaled(one: KernelGroup) -> KernelGroup:
        fixed = one.weight_bytes
        written_fixed = max(0, fixed + one.written_bytes - one.bytes)
        return replace(
            one,
            flop=round(one.flop * ratio),
            bytes=round((one.bytes - fixed) * ratio) + fixed,
            written_bytes=round((one.written_bytes - written_fixed) * ratio) + written_fixed,
        )

    return tuple(scaled(one) for one in kernels)


def _rows(data: Path, table: Table) -> dict[str, public.Timed]:
    if table.mode == INFER:
        return public.timm_rows(data, table.file)
    found: dict[str, public.Timed] = {}
    with (data / "timm" / f"benchmark-{table.file}.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            try:
                one = public.Timed(
                    model=row["model"],
                    size=int(float(row["train_img_size"])),
                    batch=int(float(row["train_batch_size"])),
                    step_s=float(row["train_step_time"]) / 1e3,
                )
            except ValueError:
                continue
            found[one.key] = one
    return found
