"""pymoo on our problems: its non-dominated sorting, its hypervolume, and NSGA-II on a table of all configurations.

Imported lazily throughout: pymoo need not be installed.
"""

from __future__ import annotations

import importlib
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.cost.random_markets import Problem, rounded, values
from perfgate.cost import pareto
from perfgate.records.cost import Device

Table = NDArray[np.float64]
POPULATION = 100


def non_dominated(table: Table) -> list[int]:
    """Indices by pymoo's fast non-dominated sort."""
    sorting = importlib.import_module("pymoo.util.nds.non_dominated_sorting").NonDominatedSorting()
    return [int(index) for index in sorting.do(table, only_non_dominated_front=True)]


def hypervolume(table: Table, reference: Table) -> float:
    """By pymoo's indicator."""
    return float(importlib.import_module("pymoo.indicators.hv").HV(ref_point=reference)(table))


def logarithms(objectives: Table) -> Table:
    """Of each objective, in its order: what is negative, because it is maximised, keeps its sign."""
    return np.asarray(np.sign(objectives) * np.log(np.abs(objectives)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Evolved:
    """What one run of NSGA-II reached: ``found`` points of the true front."""

    hypervolume: float
    found: int
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """All configurations as a table: ``values[offer, way, form]`` of objectives, infinite where there is none.

    Logarithms, scaled to [0, 1] over the configurations there are, so that a hypervolume is not all of the dearest's
    making; ``front``: the vectors of the true front.
    """

    values: Table
    low: Table
    width: Table
    front: frozenset[tuple[float, ...]]
    configurations: int

    @classmethod
    def of(cls, given: Problem, names: Sequence[str]) -> Task:
        """Every offer, way, and one device or all of them."""
        places = [("cost", "utilisation", "time", "energy").index(name) for name in names]
        offers = given.market.offers
        table = np.full((len(offers), len(given.ways), 2, len(names)), np.inf)
        for i, offer in enumerate(offers):
            platform = given.platforms[offer.platform]
            if offer.memory_bytes is None:
                continue
            for j, way in enumerate(given.ways):
                step = given.times(way, [Device(platform=platform, share=offer.share)])[0]
                if step is None:
                    continue
                for k, devices in enumerate((1, offer.count)[: 1 + (offer.count > 1)]):
                    found = values(offer, platform, way, devices, step)
                    table[i, j, k] = [rounded(found[place]) for place in places]
        table = logarithms(table)
        flat = table.reshape(-1, len(names))
        flat = flat[np.isfinite(flat).all(axis=1)]
        low = flat.min(axis=0)
        width = flat.max(axis=0) - low
        return cls(
            values=(table - low) / width, low=low, width=width, configurations=len(flat),
            front=frozenset(map(tuple, ((flat - low) / width)[pareto.front(flat, distinct=True)].tolist())),
        )  # fmt: skip

    def hypervolume(self, vectors: Table) -> float:
        """Of unscaled vectors, up to a little beyond the worst of each objective."""
        return self.volume((logarithms(vectors) - self.low) / self.width)

    def volume(self, scaled: Table) -> float:
        """Of scaled ones; by our own formula for both sides, which equals pymoo's."""
        return pareto.hypervolume(scaled, np.full(scaled.shape[1], 1.1))

    def nsga2(self, evaluations: int, seed: int) -> Evolved:
        """One run with integer variables; configurations that do not exist break a constraint."""
        base: Any = importlib.import_module("pymoo.core.problem").Problem
        table, shape = self.values, self.values.shape

        class Choice(base):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__(n_var=3, n_obj=shape[3], n_ieq_constr=1, xl=0, xu=np.array(shape[:3]) - 1, vtype=int)

            def _evaluate(self, x: Any, out: dict[str, Any], *_: Any, **__: Any) -> None:
                found = table[x[:, 0], x[:, 1], x[:, 2]]
                there = np.isfinite(found).all(axis=1)
                out["F"] = np.where(there[:, None], found, 2.0)
                out["G"] = np.where(there, -1.0, 1.0)[:, None]

        begun = time.perf_counter()
        result = importlib.import_module("pymoo.optimize").minimize(
            Choice(), _algorithm(), ("n_eval", evaluations), seed=seed, verbose=False
        )
        seconds = time.perf_counter() - begun
        found = np.empty((0, shape[3])) if result.F is None else np.atleast_2d(result.F)
        return Evolved(
            hypervolume=self.volume(found) if len(found) else 0.0,
            found=len(self.front & set(map(tuple, found.tolist()))),
            seconds=seconds,
        )


def _algorithm() -> Any:
    """NSGA-II as pymoo's guide sets it up for integers."""
    load = importlib.import_module
    repair = load("pymoo.operators.repair.rounding").RoundingRepair()
    return load("pymoo.algorithms.moo.nsga2").NSGA2(
        pop_size=POPULATION,
        sampling=load("pymoo.operators.sampling.rnd").IntegerRandomSampling(),
        crossover=load("pymoo.operators.crossover.sbx").SBX(prob=1.0, eta=3.0, vtype=float, repair=repair),
        mutation=load("pymoo.operators.mutation.pm").PM(prob=1.0, eta=3.0, vtype=float, repair=repair),
        eliminate_duplicates=True,
    )
