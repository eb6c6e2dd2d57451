"""The public measurements that the constants are fitted on and ranking is checked against.

In: a folder with the data: ``--data``, ``PERFGATE_PUBLIC_DATA`` or ``.cache/public-data`` (timm's tables as timm
publishes them, NeuSight's operator and model tables). Out: rows. Nothing of it is in this repository; a benchmark
without it says so and ends.
"""

from __future__ import annotations

import csv
import gzip
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

VARIABLE = "PERFGATE_PUBLIC_DATA"
_USUAL = Path(__file__).resolve().parents[2] / ".cache" / "public-data"

# timm's tables of torch 2.4: name of the platform -> file, dtype of its products, and whether it was compiled.
TIMM = {
    "rtx-3090": "infer-amp-nchw-pt240-cu124-rtx3090",
    "rtx-4090": "infer-amp-nchw-pt240-cu124-rtx4090",
    "core-i9-10940x": "infer-fp32-nchw-pt240-cpu-i9_10940x-dynamo",
}
# NeuSight's Switch transformers have no published sizes, and no two devices in common but once.
NEUSIGHT_MODELS = ("bert_large", "gpt2_large", "gpt3_xl", "gpt3_27", "opt_13")
_LETTERS = re.compile(r"[a-z]+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Timed:
    """One model of timm at one image size: batch, and seconds of one batch."""

    model: str
    size: int
    batch: int
    step_s: float
    gmacs: float | None = None
    macts: float | None = None
    params_m: float | None = None

    @property
    def key(self) -> str:
        """Model and image size: the name of its features."""
        return f"{self.model}__s{self.size}"


@dataclass(frozen=True, slots=True, kw_only=True)
class EndToEnd:
    """One model of NeuSight's labels on one device: ``mode`` ``infer`` or ``train`` (forward and backward)."""

    device: str
    model: str
    mode: str
    sequence: int
    batch: int
    compiled: bool
    step_s: float

    @property
    def key(self) -> str:
        """Name of its features."""
        return f"{self.model}__{self.mode}__s{self.sequence}__b{self.batch}"


def folder(chosen: str = "") -> Path | None:
    """Where the data are, or None."""
    for each in (chosen, os.environ.get(VARIABLE, ""), str(_USUAL)):
        if each and (Path(each) / "timm").is_dir():
            return Path(each)
    return None


def how_to_get(what: str) -> str:
    """One line for the reader."""
    return f"{what}: no public data; set {VARIABLE} to a folder with timm/benchmark-*.csv and neusight/*.csv"


def family(model: str) -> str:
    """Leading letters of a model's name: relatives share them (``vit_base_patch16`` and ``vit_tiny``)."""
    found = _LETTERS.match(model)
    return found.group() if found else model


def timm_rows(data: Path, file: str) -> dict[str, Timed]:
    """Rows of one table by :attr:`Timed.key`; rows without a time or a batch are left out."""
    found: dict[str, Timed] = {}
    with (data / "timm" / f"benchmark-{file}.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            try:
                one = Timed(
                    model=row["model"],
                    size=int(float(row["infer_img_size"])),
                    batch=int(float(row["infer_batch_size"])),
                    step_s=float(row["infer_step_time"]) / 1e3,
                    gmacs=_number(row.get("infer_gmacs")),
                    macts=_number(row.get("infer_macts")),
                    params_m=_number(row.get("param_count")),
                )
            except ValueError:
                continue
            found[one.key] = one
    return found


def _number(text: str | None) -> float | None:
    try:
        value = float(text or "")
    except ValueError:
        return None
    return value if value == value else None


def operators(data: Path, name: str) -> Iterator[dict[str, str]]:
    """Rows of ``ops_train``, ``ops_test`` or ``ops_conv``."""
    with gzip.open(data / "neusight" / f"{name}.csv.gz", "rt", newline="", encoding="utf-8") as stream:
        yield from csv.DictReader(stream)


def labels(data: Path) -> tuple[EndToEnd, ...]:
    """NeuSight's measured models on one device; those spread over several devices are left out."""
    found = []
    with (data / "neusight" / "labels_e2e.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            model, mode, sequence, batch, *more = row["workload"].split("-")
            if more not in ([], ["fusion"]):
                continue
            found.append(
                EndToEnd(
                    device=row["device"],
                    model=model,
                    mode="infer" if mode == "inf" else "train",
                    sequence=int(sequence),
                    batch=int(batch),
                    compiled=bool(more),
                    step_s=float(row["e2e_latency"]) / 1e3,
                )
            )
    return tuple(found)
