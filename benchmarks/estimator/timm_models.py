"""Whole models of timm's tables: families held out, architecture groups held out, few models to learn from.

``python -m benchmarks.estimator.timm_models``: for each table the estimator's errors on models none of whose relatives
it saw, next to least squares on the logarithms of four numbers (FLOP, bytes, weights, kernels) and to the best that a
first trial reached. Needs the public data and features of ``python -m benchmarks.cost.features``.

A second table has the families whose estimates are far off, and whether their answers say so.

Exit status 1 where a line is above the limit that was set for it beforehand, or such an answer says nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.estimator import architectures, command, held_out, measured, outliers
from benchmarks.estimator.held_out import Figures
from benchmarks.estimator.measured import Table
from benchmarks.estimator.outliers import Outliers
from benchmarks.tables import print_table
from perfgate.records.estimate import FITTED, STEP_TIME, Estimate, Example

TABLES = {
    "RTX 3090 nchw": measured.GPU_3090,
    "RTX 4090 nchw": measured.GPU_4090,
    "RTX 3090 nhwc": measured.GPU_3090_NHWC,
    "i9 CPU": measured.CPU_I9,
    "RTX 3090 training": measured.TRAIN_3090,
}
FAMILIES, COARSE, FEW = "families out", "architectures out", "20 models"
# Name of the row -> median and mean error that it may have at most.
LIMITS = {
    f"RTX 3090 nchw, {FAMILIES}": (0.06, 0.09),
    f"RTX 4090 nchw, {FAMILIES}": (0.06, 0.09),
    f"RTX 3090 nhwc, {FAMILIES}": (0.08, 0.115),
    f"i9 CPU, {FAMILIES}": (0.11, 0.15),
    f"RTX 3090 nchw, {COARSE}": (0.10, 0.13),
    f"RTX 4090 nchw, {COARSE}": (0.10, 0.13),
    f"RTX 3090 nchw, {FEW}": (0.09, 1.0),
}
# Best of the trial (a stack of several models), median and mean.
TRIAL = {
    f"RTX 3090 nchw, {FAMILIES}": "4.2 / 6.9",
    f"RTX 4090 nchw, {FAMILIES}": "4.2 / 7.2",
    f"RTX 3090 nhwc, {FAMILIES}": "4.8 / 8.0",
    f"i9 CPU, {FAMILIES}": "8.0 / 11.1",
    f"RTX 3090 nchw, {COARSE}": "5.7 / 8.5",
    f"RTX 3090 nchw, {FEW}": "7.5",
}
FOLDS, DRAWS, QUICK_FOLDS, QUICK_DRAWS = 10, 20, 2, 2
_FEW = 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """``figures`` and ``outliers`` by name of the row; the latter where families or architectures are held out."""

    figures: dict[str, Figures]
    outliers: dict[str, Outliers]


def rows(name: str, examples: Sequence[Example], *, quick: bool) -> Rows:
    """The rows of one table."""
    groups = [one.group for one in examples]
    families = held_out.folds(groups, QUICK_FOLDS if quick else FOLDS)
    found = Rows(figures={}, outliers={})
    _cross_validate(found, f"{name}, {FAMILIES}", examples, families)
    found.figures[f"{name}, {FAMILIES}, least squares of 4 numbers"] = held_out.figures(
        examples, held_out.cross_validated(examples, families, four_numbers)
    )
    if quick:
        return found
    _cross_validate(found, f"{name}, {COARSE}", examples, [architectures.group(one.model) for one in examples])
    found.figures[f"{name}, {FEW}"] = learned_from_few(examples, _FEW, draws=DRAWS)
    return found


def learned_from_few(examples: Sequence[Example], count: int, *, draws: int) -> Figures:
    """Learned from ``count`` random models, asked about all others; the draw in the middle."""
    found = []
    for seed in range(draws):
        chosen = set(random.Random(seed).sample(range(len(examples)), count))
        train = [examples[number] for number in sorted(chosen)]
        rest = [one for number, one in enumerate(examples) if number not in chosen]
        found.append(held_out.figures(rest, held_out.fitted(train, rest)))
    return held_out.middle(found)


def four_numbers(train: Sequence[Example], asked: Sequence[Example]) -> list[Estimate]:
    """Least squares on logarithms of FLOP, bytes, weights and number of kernels: what a simple regression knows."""
    x, y = _logs(train), np.log([held_out.time_of(one) for one in train])
    coefficients, *_ = np.linalg.lstsq(x, y, rcond=None)
    spread = float(np.quantile(np.abs(x @ coefficients - y), 0.9))
    values = np.exp(_logs(asked) @ coefficients)
    return [
        Estimate(
            target=STEP_TIME,
            value=float(value),
            low=float(value * np.exp(-spread)),
            high=float(value * np.exp(spread)),
            coverage=0.9,
            source=FITTED,
        )
        for value in values
    ]


def _logs(examples: Sequence[Example]) -> np.ndarray:
    sums = [
        (
            sum(one.flop * one.calls for one in example.kernels),
            sum(one.bytes * one.calls for one in example.kernels),
            example.weight_bytes,
            sum(one.calls for one in example.kernels),
        )
        for example in examples
    ]
    return np.hstack([np.log(np.maximum(np.array(sums, dtype=np.float64), 1.0)), np.ones((len(sums), 1))])


def _cross_validate(found: Rows, name: str, examples: Sequence[Example], fold: Sequence[int | str]) -> None:
    estimates = held_out.cross_validated(examples, fold)
    found.figures[name] = held_out.figures(examples, estimates)
    found.outliers[name] = outliers.of(examples, estimates)


def run(data: Path, *, tables: Mapping[str, Table], quick: bool) -> int:
    """All tables, printed."""
    found: dict[str, Figures] = {}
    odd: dict[str, Outliers] = {}
    for name, table in tables.items():
        examples = measured.timm(data, table)
        if quick:
            examples = random.Random(0).sample(examples, min(200, len(examples)))
        if examples:
            some = rows(name, examples, quick=quick)
            found |= some.figures
            odd |= some.outliers
    print_table(
        ("step time", *held_out.HEADER, "trial"),
        [(name, *one.cells(), TRIAL.get(name, "")) for name, one in found.items()],
    )
    print_table(outliers.SHARES_HEADER, [(name, *one.cells()) for name, one in odd.items()])
    print_table(outliers.HEADER, [(name, *family.cells()) for name, one in odd.items() for family in one.families])
    wrong = [] if quick else held_out.missed(found, LIMITS) + _uncovered(found)
    if not quick:
        wrong += [line for name, one in odd.items() if name.endswith(FAMILIES) for line in outliers.missed(name, one)]
    for one in wrong:
        print(one)
    for one in [] if quick else held_out.uncovered(found, [name for name in LIMITS if name.endswith(COARSE)]):
        print(f"(goal) {one}")
    return int(bool(wrong))


def _uncovered(found: Mapping[str, Figures]) -> list[str]:
    """Of rows with limits; how wide they may be is for GPUs with families out, and architectures out are a goal."""
    narrow = [name for name in LIMITS if name.startswith("RTX") and name.endswith(FAMILIES)]
    wrong = held_out.uncovered(found, narrow, width=held_out.WIDTH)
    rest = [name for name in LIMITS if name not in narrow and not name.endswith(COARSE)]
    return wrong + held_out.uncovered(found, rest)


def main(argv: Sequence[str] | None = None) -> int:
    return command.on_tables(
        argv, run, TABLES, name="timm_models", text=__doc__, quick="one table, 200 of its models, two folds"
    )


if __name__ == "__main__":
    raise SystemExit(main())
