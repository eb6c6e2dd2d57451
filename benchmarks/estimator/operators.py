"""Single operators of NeuSight's tables: learned on their training part, asked on their test part, new GPUs included.

``python -m benchmarks.estimator.operators``: mean error by kind of operator, on GPUs trained on and on others,
next to what was published for the same test rows: NeuSight, Habitat, a roofline, and linear regressions (Li et al.).
Each operator is a step of one kernel; at most some hundred rows a device and operator are learned from. It fails where
a mean error is not below the published ones of the roofline, Habitat and, on GPUs trained on, Li et al.
"""

from __future__ import annotations

import csv
import math
import zlib
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.cost import observations
from benchmarks.cost.observations import Observed
from benchmarks.estimator import command, held_out, measured
from benchmarks.tables import print_table
from perfgate.records.estimate import STEP_TIME, Estimate, Example, Machine

# Column of the published table -> operators.
KINDS = {
    "BMM": ("bmm",),
    "FC": ("linear",),
    "EW": ("add", "addu", "mul", "mulu", "div", "divu", "pow", "powu", "gelu", "relu", "tanh"),
    "Softmax": ("softmax",),
    "LN": ("ln",),
}
SEEN, UNSEEN = "GPUs trained on", "other GPUs"
TRAINED_ON = frozenset({"p4", "p100-pcie-16gb", "v100-pcie-32gb", "t4", "a100-pcie-40gb"})
# Rows a device and operator that are learned from: products have more ways to differ, and of pointwise ones there are
# many operators of one class.
_ROWS = {"bmm": 1000, "linear": 1000, "softmax": 500, "ln": 500}
_POINTWISE_ROWS = 150
_TEST_ROWS = 150
_LESS_THAN = {SEEN: ("Roofline", "Habitat", "Li et al."), UNSEEN: ("Roofline", "Habitat")}
# Rows of one operator are held out in this many parts.
_PARTS = 8
_NS = 1e9


def examples(observed: Iterable[Observed]) -> list[Example]:
    """Each a step of one kernel."""
    machines: dict[str, Machine] = {}
    found = []
    for one in observed:
        machine = machines.setdefault(one.platform, measured.machine(one.platform))
        (kernel,) = one.kernels
        shape = f"{one.group} {kernel.flop} {kernel.bytes} {kernel.written_bytes}"
        found.append(
            Example(
                model=shape,
                group=f"{one.group} {zlib.crc32(shape.encode()) % _PARTS}",
                mode="infer",
                dtype=one.dtype,
                compile="eager",
                batch=1,
                items=1,
                machine=machine,
                kernels=one.kernels,
                software="torch 2.1",
                targets={STEP_TIME: one.seconds * _NS},
            )
        )
    return found


def published(data: Path) -> dict[tuple[str, str, str], float]:
    """(method, GPUs, kind) -> mean error in percent, of the table that NeuSight's repository has."""
    with (data / "neusight" / "summary_perop.csv").open(newline="", encoding="utf-8") as stream:
        _, kinds, *rows = list(csv.reader(stream))
    half = len(KINDS)
    found = {}
    for method, *cells in rows:
        for place, cell in enumerate(cells[: 2 * half]):
            found[method, SEEN if place < half else UNSEEN, kinds[place + 1]] = float(cell)
    return found


def mean_errors(asked: Sequence[Example], estimates: Sequence[Estimate]) -> dict[tuple[str, str], float]:
    """(GPUs, kind) -> mean error in percent."""
    wrong: dict[tuple[str, str], list[float]] = {}
    for one, error in zip(asked, held_out.errors(asked, estimates), strict=True):
        where = SEEN if one.machine.name in TRAINED_ON else UNSEEN
        operator = one.group.partition(" ")[0]
        for kind, operators in KINDS.items():
            if operator in operators:
                wrong.setdefault((where, kind), []).append(error)
    return {key: 100 * float(np.mean(errors)) for key, errors in wrong.items()}


def by_device(asked: Sequence[Example], estimates: Sequence[Estimate]) -> list[tuple[str, ...]]:
    """Median error of each GPU and kind, and how many intervals hold the truth."""
    names = sorted({one.machine.name for one in asked})
    rows = []
    for name in names:
        cells = []
        for operators in KINDS.values():
            mine = [
                (one, found)
                for one, found in zip(asked, estimates, strict=True)
                if one.machine.name == name and one.group.partition(" ")[0] in operators
            ]
            if not mine:
                cells.append("")
                continue
            figures = held_out.figures([one for one, _ in mine], [found for _, found in mine])
            cells.append(f"{figures.median:.1%} ({figures.covered:.0%})")
        rows.append((name, *cells))
    return rows


def coverage(asked: Sequence[Example], estimates: Sequence[Estimate]) -> list[tuple[str, ...]]:
    """How many of the 90 % intervals hold the truth, and how wide they are: of GPUs trained on, and of others."""
    rows = []
    for name in (SEEN, UNSEEN):
        mine = [
            (one, found)
            for one, found in zip(asked, estimates, strict=True)
            if (one.machine.name in TRAINED_ON) == (name == SEEN)
        ]
        if mine:
            figures = held_out.figures([one for one, _ in mine], [found for _, found in mine])
            rows.append((name, *figures.cells()))
    return rows


def missed(ours: Mapping[tuple[str, str], float], theirs: Mapping[tuple[str, str, str], float]) -> list[str]:
    """Kinds of operators that a published method has less error on, one sentence each."""
    return [
        f"{kind}, {where}: {error:.1f} % is not below the {least:.1f} % of {method}"
        for (where, kind), error in sorted(ours.items())
        for method in _LESS_THAN[where]
        if (least := theirs.get((method, where, kind), math.inf)) <= error
    ]


def _train(data: Path, share: int) -> list[Example]:
    chosen = []
    for most in sorted({_POINTWISE_ROWS, *_ROWS.values()}):
        drawn = observations.operators(data, "ops_train", most=most // share)
        chosen += [one for one in drawn if _ROWS.get(one.group, _POINTWISE_ROWS) == most]
    return [one for one in examples(chosen) if one.machine.name in TRAINED_ON]


def run(data: Path, *, quick: bool) -> int:
    """The tables, printed; 1 where a limit is missed, which a tenth of the rows says nothing of."""
    share = 10 if quick else 1
    train = _train(data, share)
    asked = examples(observations.operators(data, "ops_test", most=_TEST_ROWS // share))
    asked = [one for one in asked if any(one.group.partition(" ")[0] in names for names in KINDS.values())]
    if not train or not asked:
        print("operators: no NeuSight tables in the public data")
        return 0
    estimates = held_out.fitted(train, asked)
    ours, theirs = mean_errors(asked, estimates), published(data)
    methods = sorted({method for method, _, _ in theirs})
    rows = [
        (
            f"{kind}, {where}",
            f"{ours[where, kind]:.1f}",
            *(f"{theirs[method, where, kind]:.1f}" for method in methods),
        )
        for where in (SEEN, UNSEEN)
        for kind in KINDS
        if (where, kind) in ours
    ]
    print_table(("mean error, %", "perfgate", *methods), rows)
    print()
    print_table(("median error (covered)", *KINDS), by_device(asked, estimates))
    print()
    print_table(("intervals", *held_out.HEADER), coverage(asked, estimates))
    found = [] if quick else missed(ours, theirs)
    for line in found:
        print(line)
    return 1 if found else 0


def main(argv: Sequence[str] | None = None) -> int:
    return command.on_data(argv, run, name="operators", text=__doc__, quick="a tenth of the rows")


if __name__ == "__main__":
    raise SystemExit(main())
