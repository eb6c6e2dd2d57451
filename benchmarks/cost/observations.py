"""Measured steps with the kernels they consist of: what constants are fitted on, and checked against.

In: the public tables (``public``) and what perfgate counts of their models (``features``). Out: :class:`Observed`.
One operator of NeuSight is a step of one kernel; its bytes are each operand read once and the result written once.
"""

from __future__ import annotations

import hashlib
import random
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.cost import features, public
from perfgate.records.graph import OPTIMIZER, KernelGroup, Totals

FLOAT_BYTES = 4
# Devices as NeuSight writes them, and names of the catalogue.
PLATFORMS = {
    "Tesla P4": "p4",
    "Tesla P100-PCIE-16GB": "p100-pcie-16gb",
    "Tesla V100-PCIE-32GB": "v100-pcie-32gb",
    "Tesla T4": "t4",
    "NVIDIA A100-PCIE-40GB": "a100-pcie-40gb",
    "NVIDIA A100 80GB PCIe": "a100-pcie-80gb",
    "NVIDIA L4": "l4",
    "NVIDIA H100 80GB HBM3": "h100-sxm",
    "AMD Instinct MI100": "mi100",
    "AMD Instinct MI210": "mi210",
    "AMD Instinct MI250": "mi250-gcd",
}
# Element-wise operators of two tensors; the others read one.
_BINARY = frozenset({"add", "mul", "div", "pow"})
_KINDS = {"ln": "normalization", "softmax": "softmax"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Observed:
    """A measured step: ``kernels`` on ``platform`` took ``seconds``.

    ``source``: ``operators``, ``timm`` or ``neusight``. ``group``: what may not be in the fit and in the check at once
    (a family of models, a kind of operator). ``dtype`` as a workload's. ``batch``: items of the step.
    """

    name: str
    source: str
    group: str
    platform: str
    dtype: str
    kernels: tuple[KernelGroup, ...]
    seconds: float
    batch: int = 1
    compiled: bool = False
    totals: Totals | None = None


def operators(data: Path, table: str, *, most: int, seed: int = 0) -> list[Observed]:
    """A random sample of ``most`` rows for each device and kind of operator of one of NeuSight's tables."""
    found: dict[tuple[str, str], list[Observed]] = defaultdict(list)
    for row in public.operators(data, table):
        one = _operator(row)
        if one is not None:
            found[one.platform, one.group].append(one)
    rng = random.Random(seed)
    return [one for rows in found.values() for one in rng.sample(rows, min(most, len(rows)))]


def timm(data: Path, *, platforms: Sequence[str] = tuple(public.TIMM), count: bool = True) -> list[Observed]:
    """Models of timm's tables whose features are there; ``count`` as of ``features.totals``."""
    found: list[Observed] = []
    amp, plain = (features.totals(name, count=count) for name in (features.AMP, features.FP32))
    traced_at = public.timm_rows(data, public.TIMM["rtx-3090"])
    for platform in platforms:
        gpu = platform != "core-i9-10940x"
        counted = amp if gpu else plain
        for key, row in public.timm_rows(data, public.TIMM[platform]).items():
            if key not in counted or (gpu and row.batch != traced_at[key].batch):
                continue
            totals = counted[key]
            found.append(
                Observed(
                    name=key,
                    source="timm",
                    group=public.family(row.model),
                    platform=platform,
                    dtype="amp-float16" if gpu else "float32",
                    kernels=totals.eager_kernels if gpu else totals.fused_kernels,
                    seconds=row.step_s,
                    batch=row.batch,
                    compiled=not gpu,
                    totals=totals,
                )
            )
    return found


def labels(data: Path, *, count: bool = True) -> list[Observed]:
    """NeuSight's measured models whose features are there; training is forward and backward."""
    found: list[Observed] = []
    counted = features.totals(features.NEUSIGHT, count=count)
    for row in public.labels(data):
        if row.key not in counted:
            continue
        totals = without_optimizer(counted[row.key])
        found.append(
            Observed(
                name=f"{row.key}{'__compiled' if row.compiled else ''}",
                source="neusight",
                group=row.model,
                platform=PLATFORMS[row.device.replace("_", " ")],
                dtype="float32",
                kernels=totals.fused_kernels if row.compiled else totals.eager_kernels,
                seconds=row.step_s,
                batch=row.batch,
                compiled=row.compiled,
                totals=totals,
            )
        )
    return found


def without_optimizer(totals: Totals) -> Totals:
    """Totals whose kernels are those of the forward and the backward pass."""
    return replace(
        totals,
        eager_kernels=tuple(one for one in totals.eager_kernels if one.phase != OPTIMIZER),
        fused_kernels=tuple(one for one in totals.fused_kernels if one.phase != OPTIMIZER),
    )


def halves(observed: Iterable[Observed]) -> tuple[list[Observed], list[Observed]]:
    """For fitting and for checking, by a digest of the group: relatives are never on both sides."""
    fit: list[Observed] = []
    check: list[Observed] = []
    for one in observed:
        (fit if for_fitting(one.group) else check).append(one)
    return fit, check


def for_fitting(group: str) -> bool:
    """Whether a family belongs to the half that constants are fitted on."""
    return hashlib.sha256(group.encode()).digest()[0] % 2 == 0


def _operator(row: Mapping[str, str]) -> Observed | None:
    platform = PLATFORMS.get(row["Device"])
    if platform is None:
        return None
    kernel = _kernel(row)
    return Observed(
        name=kernel.name,
        source="operators",
        group=row["OPName"],
        platform=platform,
        dtype="float32",
        kernels=(kernel,),
        seconds=float(row["Latency"]) / 1e3,
    )


def _kernel(row: Mapping[str, str]) -> KernelGroup:
    op = row["OPName"]
    if op == "conv":
        return _convolution(row)
    if op in {"bmm", "linear"}:
        return _product(row)
    rows, width = _whole(row, "B"), _whole(row, "H")
    tensors = 3 if op in _BINARY else 2
    written = rows * width * FLOAT_BYTES
    # A layer norm has two vectors of parameters, and writes the mean and the deviation of each row for its backward.
    weight, statistics = (2 * width * FLOAT_BYTES, 2 * rows * FLOAT_BYTES) if op == "ln" else (0, 0)
    return KernelGroup(
        name=op,
        kind=_KINDS.get(op, "pointwise"),
        dtype="float32",
        flop=0,
        bytes=tensors * written + weight + statistics,
        written_bytes=written + statistics,
        weight_bytes=weight,
    )


def _product(row: Mapping[str, str]) -> KernelGroup:
    # (B, M, N) by (B, N, K): times step where M and K pass multiples of a block, and never where N does.
    batch, rows, depth, columns = (_whole(row, name) for name in ("B", "M", "N", "K"))
    shared = row["OPName"] == "linear"  # one weight matrix for all of the batch
    weight = columns * depth * (1 if shared else batch) * FLOAT_BYTES
    written = batch * rows * columns * FLOAT_BYTES
    return KernelGroup(
        name=row["OPName"],
        kind="matmul",
        dtype="float32",
        flop=2 * batch * rows * columns * depth,
        bytes=batch * rows * depth * FLOAT_BYTES + weight + written,
        written_bytes=written,
        weight_bytes=weight if shared else 0,
    )


def _convolution(row: Mapping[str, str]) -> KernelGroup:
    batch, into, out = _whole(row, "B"), _whole(row, "Input_Channel"), _whole(row, "Output_Channel")
    side, size = _whole(row, "Kernel_Szie"), _whole(row, "Input_Size")
    stride, padding = _whole(row, "Stride"), _whole(row, "Padding")
    made = (size + 2 * padding - side) // stride + 1
    weight = into * out * side * side * FLOAT_BYTES
    written = batch * out * made * made * FLOAT_BYTES
    return KernelGroup(
        name="conv",
        kind="convolution",
        dtype="float32",
        flop=2 * batch * out * made * made * into * side * side,
        bytes=batch * into * size * size * FLOAT_BYTES + weight + written,
        written_bytes=written,
        weight_bytes=weight,
    )


def _whole(row: Mapping[str, str], name: str) -> int:
    return int(float(row[name]))


def by_platform(observed: Iterable[Observed]) -> Iterator[tuple[str, list[Observed]]]:
    """Grouped, names ascending."""
    found: dict[str, list[Observed]] = defaultdict(list)
    for one in observed:
        found[one.platform].append(one)
    yield from sorted(found.items())
