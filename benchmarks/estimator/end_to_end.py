"""NeuSight's whole models on eleven devices, by single operators that ran on five of them and by other models.

``python -m benchmarks.estimator.end_to_end``: for each device the error of the estimator that learned single operators,
and of one that learned the whole models of the other names as well, next to the published predictions for the same
cells: NeuSight, Habitat, a roofline, linear regressions (``micro``). Needs features of the models
(``python -m benchmarks.cost.features neusight``); models that they lack are left out for everybody. It fails where the
second of both is not better over all cells than a roofline, Habitat and linear regressions.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cost import observations
from benchmarks.cost.observations import PLATFORMS, Observed
from benchmarks.estimator import command, held_out, measured, operators
from benchmarks.tables import print_table
from perfgate.records.estimate import STEP_TIME, Estimate, Example

OPERATORS, MODELS = "operators", "operators and other models"
_ROWS = 100
_LESS_THAN = ("habitat", "micro", "roofline")
_NS = 1e9


def examples(observed: Sequence[Observed]) -> list[Example]:
    """Whole models; a group is all that has one name."""
    found = []
    for one in observed:
        totals = one.totals
        found.append(
            Example(
                model=one.name,
                group=one.group,
                mode="train" if "__train__" in one.name else "infer",
                dtype=one.dtype,
                compile="default" if one.compiled else "eager",
                batch=one.batch,
                items=one.batch,
                machine=measured.machine(one.platform),
                kernels=one.kernels,
                software="torch 2.1",
                weight_bytes=totals.weight_bytes if totals else 0,
                targets={STEP_TIME: one.seconds * _NS},
            )
        )
    return found


def published(data: Path) -> dict[tuple[str, str, str], float]:
    """(method, platform, name of the features) -> predicted ns."""
    found = {}
    with (data / "neusight" / "predictions_e2e.csv").open(newline="", encoding="utf-8") as stream:
        for row in csv.DictReader(stream):
            model, mode, sequence, batch, *more = row["workload"].split("-")
            platform = PLATFORMS.get(row["device"].replace("_", " "))
            if more or platform is None:
                continue
            name = f"{model}__{'infer' if mode == 'inf' else 'train'}__s{sequence}__b{batch}"
            found[row["method"], platform, name] = float(row["e2e_latency"]) * 1e6
    return found


def by_operators(data: Path, asked: Sequence[Example], *, rows: int) -> dict[str, list[Estimate]]:
    """Estimates of both ways to learn."""
    known = operators.examples(observations.operators(data, "ops_train", most=rows))
    fold = [one.group for one in asked]

    def with_others(train: Sequence[Example], questions: Sequence[Example]) -> Sequence[Estimate]:
        return held_out.fitted([*known, *train], questions)

    return {
        OPERATORS: list(held_out.fitted(known, asked)),
        MODELS: held_out.cross_validated(asked, fold, with_others),
    }


def table(
    asked: Sequence[Example], ours: Mapping[str, Sequence[Estimate]], theirs: Mapping[tuple[str, str, str], float]
) -> list[tuple[str, ...]]:
    """Median error of each platform and of all, on the cells that everybody has, in percent."""
    methods = sorted({method for method, _, _ in theirs})
    cells = [
        number
        for number, one in enumerate(asked)
        if all((method, one.machine.name, one.model) in theirs for method in methods)
    ]
    mine = [asked[n] for n in cells]
    wrong = {name: held_out.errors(mine, [found[n] for n in cells]) for name, found in ours.items()}
    for method in methods:
        predicted = [theirs[method, one.machine.name, one.model] for one in mine]
        wrong[method] = [abs(ns / held_out.time_of(one) - 1) for one, ns in zip(mine, predicted, strict=True)]
    rows = []
    for name in [*sorted({one.machine.name for one in mine}), "all"]:
        which = [place for place, one in enumerate(mine) if name in {"all", one.machine.name}]
        rows.append((name, str(len(which)), *(_median([errors[n] for n in which]) for errors in wrong.values())))
    return [("device", "cells", *wrong), *rows]


def missed(header: Sequence[str], total: Sequence[str]) -> list[str]:
    """Methods that are as good over all cells, one sentence each; ``total``: the last row of :func:`table`."""
    errors = {name: float(cell) for name, cell in zip(header[2:], total[2:], strict=True) if cell}
    ours = errors.get(MODELS)
    if ours is None:
        return []
    others = [name for name in _LESS_THAN if errors.get(name, ours + 1) <= ours]
    return [f"{MODELS}: {ours:.1f} % is not below the {errors[name]:.1f} % of {name}" for name in others]


def _median(errors: Sequence[float]) -> str:
    return f"{100 * float(np.median(errors)):.1f}" if errors else ""


def run(data: Path, *, quick: bool) -> int:
    """The table, printed."""
    observed = [one for one in observations.labels(data) if not one.compiled]
    if not observed:
        print("end_to_end: no features; run python -m benchmarks.cost.features neusight first")
        return 0
    asked = examples(observed)
    ours = by_operators(data, asked, rows=10 if quick else _ROWS)
    header, *rows = table(asked, ours, published(data))
    print_table(header, rows)
    print()
    print_table(
        ("learned from", *held_out.HEADER),
        [(name, *held_out.figures(asked, found).cells()) for name, found in ours.items()],
    )
    worse = [] if quick else missed(header, rows[-1])
    for line in worse:
        print(line)
    return 1 if worse else 0


def main(argv: Sequence[str] | None = None) -> int:
    return command.on_data(argv, run, name="end_to_end", text=__doc__, quick="few operators to learn from")


if __name__ == "__main__":
    raise SystemExit(main())
