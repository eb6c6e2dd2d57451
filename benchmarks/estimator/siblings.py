"""A relative has been measured: how much better the estimate is for it.

``python -m benchmarks.estimator.siblings``: families are held out; then of each held-out model's relatives one is given
as a measured anchor: the most alike, a random one, or the same model at another image size. Beside it the time of the
relative times the ratio of their FLOP, which needs no estimator.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from benchmarks.estimator import command, held_out, measured
from benchmarks.estimator.held_out import Figures
from benchmarks.estimator.measured import Table
from benchmarks.tables import print_table
from perfgate.estimator import features, fit
from perfgate.estimator.model import Model
from perfgate.records.estimate import ANCHORED, STEP_TIME, Estimate, Example

TABLES = {"RTX 3090": measured.GPU_3090, "RTX 4090": measured.GPU_4090, "i9 CPU": measured.CPU_I9}
NEAREST, RANDOM, SIZE = "nearest sibling", "random sibling", "same model, other size"
# Median error at most, on GPUs.
LIMITS = {NEAREST: 0.025, RANDOM: 0.045, SIZE: 0.02}
TRIAL = {"RTX 3090": "1.8", "RTX 4090": "1.8", "i9 CPU": "4.2"}
FOLDS = 10
BY_FLOP = ", by FLOP"

# Weights of distances: shares of what a step consists of, its intensity and number of kernels, amounts of work.
_SHARES, _FORM, _AMOUNTS = 2.0, 0.2, 0.1


class Relatives:
    """A table's examples by family, and how far they are from one another by structure alone."""

    def __init__(self, examples: Sequence[Example]) -> None:
        self._families: dict[str, list[Example]] = {}
        for one in examples:
            self._families.setdefault(one.group, []).append(one)
        parts, _ = features.composition(examples)
        sums = np.log([[max(value, 1.0) for value in _sums(one)] for one in examples])
        places = np.hstack([_SHARES * np.sqrt(np.maximum(parts[:, :-2], 0)), _FORM * parts[:, -2:], _AMOUNTS * sums])
        self._places = {id(one): place for one, place in zip(examples, places, strict=True)}
        self._rng = random.Random(0)

    def nearest(self, asked: Example) -> Example | None:
        """The relative of another name that is most alike."""
        return self._closest(asked, self._others(asked))

    def any_of_them(self, asked: Example) -> Example | None:
        """A random relative of another name."""
        others = self._others(asked)
        return self._rng.choice(others) if others else None

    def other_size(self, asked: Example) -> Example | None:
        """The same model at the most similar other image size."""
        same = [one for one in self._families[asked.group] if one.model == asked.model and one is not asked]
        return self._closest(asked, same)

    def _others(self, asked: Example) -> list[Example]:
        return [one for one in self._families[asked.group] if one.model != asked.model]

    def _closest(self, asked: Example, among: Sequence[Example]) -> Example | None:
        place = self._places[id(asked)]
        return min(among, key=lambda one: float(np.linalg.norm(self._places[id(one)] - place)), default=None)


def rows(name: str, examples: Sequence[Example], *, folds: int) -> dict[str, Figures]:
    """All rows of one table."""
    fold = held_out.folds([one.group for one in examples], folds)
    models = {
        one: fit.fit([example for example, own in zip(examples, fold, strict=True) if own != one], targets=(STEP_TIME,))
        for one in sorted(set(fold))
    }
    relatives = Relatives(examples)
    choosers = {NEAREST: relatives.nearest, RANDOM: relatives.any_of_them, SIZE: relatives.other_size}
    found: dict[str, Figures] = {}
    for what, choose in choosers.items():
        chosen = [(one, choose(one)) for one in examples]
        pairs = [(one, anchor, own) for (one, anchor), own in zip(chosen, fold, strict=True) if anchor is not None]
        asked = [one for one, _, _ in pairs]
        if not asked:
            continue
        found[f"{name}, {what}"] = held_out.figures(
            asked, [_anchored(models[own], one, anchor) for one, anchor, own in pairs]
        )
        found[f"{name}, {what}{BY_FLOP}"] = held_out.figures(asked, [by_flop(one, anchor) for one, anchor, _ in pairs])
    return found


def _anchored(model: Model, asked: Example, anchor: Example) -> Estimate:
    return model.estimates(held_out.unknown([asked]), STEP_TIME, [anchor])[0]


def by_flop(asked: Example, anchor: Example) -> Estimate:
    """The relative's time times the ratio of FLOP."""
    value = held_out.time_of(anchor) * _flop(asked) / max(_flop(anchor), 1.0)
    return Estimate(target=STEP_TIME, value=value, low=value / 1.5, high=value * 1.5, coverage=0.9, source=ANCHORED)


def _sums(example: Example) -> tuple[float, float, float]:
    moved = sum(one.bytes * one.calls for one in example.kernels) / example.batch
    return _flop(example) / example.batch, moved, sum(one.calls for one in example.kernels)


def _flop(example: Example) -> float:
    return float(sum(one.flop * one.calls for one in example.kernels))


def run(data: Path, *, tables: Mapping[str, Table], quick: bool) -> int:
    """All tables, printed."""
    found: dict[str, Figures] = {}
    for name, table in tables.items():
        examples = measured.timm(data, table)
        if quick:
            families = sorted({one.group for one in examples})[::6]
            examples = [one for one in examples if one.group in families]
        if examples:
            found |= rows(name, examples, folds=2 if quick else FOLDS)
    trial = {f"{name}, {NEAREST}": value for name, value in TRIAL.items()}
    cells = [(name, *one.cells(), trial.get(name, "")) for name, one in found.items()]
    print_table(("step time", *held_out.HEADER, "trial %"), cells)
    limits = {f"{name}, {what}": (limit, 1.0) for name in ("RTX 3090", "RTX 4090") for what, limit in LIMITS.items()}
    wrong = [] if quick else held_out.missed(found, limits)
    if not quick:
        wrong += held_out.uncovered(found, limits, width=held_out.WIDTH)
        wrong += held_out.uncovered(
            found, [name for name in found if name not in limits and not name.endswith(BY_FLOP)]
        )
    for one in wrong:
        print(one)
    return int(bool(wrong))


def main(argv: Sequence[str] | None = None) -> int:
    return command.on_tables(
        argv, run, TABLES, name="siblings", text=__doc__, quick="one table, some families, two folds"
    )


if __name__ == "__main__":
    raise SystemExit(main())
