"""A new GPU, RTX 4090, from an old one, RTX 3090: without a measurement on it, with five, with twenty, with all.

``python -m benchmarks.estimator.new_hardware``: every model is measured on the old one, but in the last row. Five and
twenty models are chosen by design, from several starts: each next one is the furthest from those chosen so far by what
its kernels are.

Published: Habitat 11.8 % mean in its own setting (training steps, six GPUs); the ratio of published peaks 29 % here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from benchmarks.estimator import command, held_out, measured
from benchmarks.estimator.held_out import Figures
from benchmarks.tables import print_table
from perfgate.estimator import features
from perfgate.records.estimate import STEP_TIME, TRANSFERRED, Estimate, Example

NONE, FIVE, TWENTY, ALL, BOTH = "no calibration", "5 models", "20 models", "all, families out", "unmeasured on both"
# Median error at most; of five models also the 95th percentile over starts.
LIMITS = {NONE: 0.06, FIVE: 0.06, TWENTY: 0.055, ALL: 0.035}
WORST_OF_FIVE = 0.08
GOALS = {NONE: "4.0", FIVE: "4.5", TWENTY: "4.2", ALL: "2.4", BOTH: "6"}
TRIAL = {NONE: "4.3", FIVE: "4.9", TWENTY: "4.6", ALL: "2.4"}
STARTS, FOLDS = 10, 10


def chosen(examples: Sequence[Example], count: int, *, start: int) -> list[int]:
    """Indices of ``count`` models that differ most, the first of them random by ``start``.

    Where they stand is the composition's shares of bytes and FLOP; each next one is the furthest from its nearest.
    """
    places, _ = features.composition(examples)
    places = np.sqrt(np.maximum(places[:, :-2], 0.0))
    # What a typical model is like counts, so the middle half by distance from the mean is chosen from.
    middle = np.linalg.norm(places - places.mean(0), axis=1)
    eligible = np.flatnonzero(middle <= np.quantile(middle, 0.75))
    found = [int(np.random.default_rng(start).choice(eligible))]
    nearest = np.linalg.norm(places - places[found[0]], axis=1)
    while len(found) < min(count, len(eligible)):
        nearest[found[-1]] = -1.0  # models that consist of the same are still others
        following = int(eligible[np.argmax(nearest[eligible])])
        found.append(following)
        nearest = np.minimum(nearest, np.linalg.norm(places - places[following], axis=1))
    return found


def peaks(old: Sequence[Example], asked: Sequence[Example]) -> list[Estimate]:
    """The measured time on the old machine, times the ratio of both rooflines by published peaks."""
    before = {measured.key(one): one for one in old}
    return [_by_peaks(before[measured.key(one)], one) for one in asked]


def rows(old: Sequence[Example], new: Sequence[Example], *, starts: int, folds: int) -> dict[str, list[Figures]]:
    """Figures of each case; several where the choice of models has several starts."""
    groups = held_out.folds([one.group for one in new], folds)
    place = {one.group: fold for one, fold in zip(new, groups, strict=True)}
    found = {
        "ratio of published peaks": [held_out.figures(new, peaks(old, new))],
        NONE: [held_out.figures(new, held_out.fitted(old, new))],
    }
    for name, count in ((FIVE, 5), (TWENTY, 20)):
        found[name] = [_calibrated(old, new, chosen(new, count, start=start)) for start in range(starts)]
    found[ALL] = [
        held_out.figures(
            new, held_out.cross_validated(new, groups, lambda train, asked: held_out.fitted([*old, *train], asked))
        )
    ]

    def unmeasured(_: Sequence[Example], asked: Sequence[Example]) -> Sequence[Estimate]:
        gone = {place[one.group] for one in asked}
        return held_out.fitted([one for one in old if place.get(one.group) not in gone], asked)

    found[BOTH] = [held_out.figures(new, held_out.cross_validated(new, groups, unmeasured))]
    return found


def _calibrated(old: Sequence[Example], new: Sequence[Example], which: Sequence[int]) -> Figures:
    rest = [one for number, one in enumerate(new) if number not in set(which)]
    return held_out.figures(rest, held_out.fitted([*old, *(new[number] for number in which)], rest))


def _by_peaks(before: Example, asked: Example) -> Estimate:
    value = held_out.time_of(before) * _roofline(asked) / _roofline(before)
    return Estimate(target=STEP_TIME, value=value, low=0.5 * value, high=2 * value, coverage=0.9, source=TRANSFERRED)


def _roofline(example: Example) -> float:
    machine = example.machine
    return sum(
        one.calls * max(one.flop / features.pi(machine, one.dtype), one.bytes / features.beta(machine))
        for one in example.kernels
    )


def _print(found: dict[str, list[Figures]]) -> list[str]:
    table, wrong = [], []
    for name, draws in found.items():
        medians = [one.median for one in draws]
        middle = held_out.middle(draws)
        worst = float(np.quantile(medians, 0.95))
        limit, goal, trial = LIMITS.get(name), GOALS.get(name, ""), TRIAL.get(name, "")
        shown = f"{limit:.1%}" if limit else ""
        table.append((name, *middle.cells(), f"{worst:.1%}" if len(draws) > 1 else "", shown, goal, trial))
        if limit and middle.median > limit:
            wrong.append(f"{name}: {middle.median:.1%} is above {limit:.1%}")
        if limit:
            wrong += held_out.uncovered({name: middle}, [name], width=held_out.WIDTH)
        if name == FIVE and worst > WORST_OF_FIVE:
            wrong.append(f"{name}: the 95th percentile over starts, {worst:.1%}, is above {WORST_OF_FIVE:.1%}")
    header = ("3090 -> 4090", *held_out.HEADER, "p95 of starts", "limit", "goal %", "trial %")
    print_table(header, table)
    return wrong


def run(data: Path, *, quick: bool) -> int:
    """The table, printed."""
    old = measured.timm(data, measured.GPU_3090)
    known = {measured.key(one) for one in old}
    new = [one for one in measured.timm(data, measured.GPU_4090) if measured.key(one) in known]
    if quick:
        new = new[::8]
        wanted = {measured.key(one) for one in new}
        old = [one for one in old if measured.key(one) in wanted]
    if not new:
        print("new_hardware: no features; run python -m benchmarks.cost.features first")
        return 0
    wrong = _print(rows(old, new, starts=2 if quick else STARTS, folds=2 if quick else FOLDS))
    for one in wrong:
        print(one)
    return int(bool(wrong) and not quick)


def main(argv: Sequence[str] | None = None) -> int:
    return command.on_data(
        argv, run, name="new_hardware", text=__doc__, quick="an eighth of the models, few starts and folds"
    )


if __name__ == "__main__":
    raise SystemExit(main())
