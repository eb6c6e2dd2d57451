"""Floor 3, sampling. Space-filling designs: endless scrambled Sobol sequences, one for each family and mode.

In: a :class:`Space` and a seed. Out: conditions. Families and modes take turns, so that any beginning of the sequence
holds each of them equally often, also where much of a family is too large to run; within one, all parameters and run
conditions are spread together. A sequence is repeatable: who stops and comes back goes on where the records end.
"""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from scipy.stats import qmc

from perfgate.records.sampling import FAMILIES, OPTIMIZERS, Condition
from perfgate.sampling import networks
from perfgate.sampling.pace import Pace, memory_bytes

# Axes of the run condition beside those of the network.
_AXES = ("batch", "dtype", "device", "compile", "threads", "optimizer", "accumulation")
_CHUNK = 64
_FIRST_SHARE = 2 / 3
# Of the memory that is free, so that others keep some.
_SHARE_OF_MEMORY = 0.5
# After so many rounds in which nothing fits, nothing will.
_FRUITLESS_ROUNDS = 4
_TRIES = 100

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Space:
    """What may be drawn. Of ``dtypes`` the first one is drawn twice as often as all others together.

    ``threads`` matter on the CPU; on accelerators the first is taken. ``accumulations``: of training steps.
    """

    families: tuple[str, ...] = FAMILIES
    modes: tuple[str, ...] = ("infer", "train")
    dtypes: tuple[str, ...] = ("float32", "bfloat16")
    devices: tuple[str, ...] = ("cpu",)
    compiles: tuple[str, ...] = ("eager",)
    threads: tuple[int, ...] = (1,)
    optimizers: tuple[str, ...] = OPTIMIZERS
    accumulations: tuple[int, ...] = (1, 1, 1, 2)


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """What a condition may take: seconds in all, and bytes by device (a device that is not there has no limit).

    ``compiled_seconds``: of one that is compiled first, which takes far longer.
    """

    seconds: float = 6.0
    compiled_seconds: float = 60.0
    free_bytes: dict[str, int] | None = None

    def admit(self, condition: Condition, pace: Pace) -> bool:
        """Whether ``condition`` may be run."""
        free = (self.free_bytes or {}).get(condition.device)
        if free is not None and memory_bytes(condition) > free * _SHARE_OF_MEMORY:
            return False
        limit = self.seconds if condition.compile == "eager" else self.compiled_seconds
        return pace.seconds(condition) <= limit


def sequence(space: Space, *, seed: int = 0) -> Iterator[Condition]:
    """Conditions without end, in rounds of every family in every mode; the same for the same seed and space."""
    for stream in _turns(space, seed):
        yield next(stream)


def admitted(
    space: Space, pace: Pace, limits: Callable[[], Limits], *, seed: int = 0, done: Collection[str] = ()
) -> Iterator[Condition]:
    """Those of :func:`sequence` that fit, and whose keys are not in ``done``; each once. Ends where nothing fits.

    Each goes on along its own sequence until something fits, so that all of them keep their turns. ``limits`` is asked
    anew for each turn, since memory comes and goes and time runs out.
    """
    seen = set(done)
    fruitless = 0
    for stream in _turns(space, seed):
        bounds = limits()
        # What was run before is met again, and says nothing about what is left.
        met = 0
        for one in itertools.islice(stream, _TRIES + len(seen)):
            if one.key in seen:
                continue
            met += 1
            if bounds.admit(one, pace):
                fruitless = 0
                seen.add(one.key)
                yield one
                break
            if met >= _TRIES:
                break
        else:
            met = _TRIES
        if met >= _TRIES:
            fruitless += 1
            if fruitless >= _FRUITLESS_ROUNDS * len(space.families) * len(space.modes):
                return


def design(
    budget_s: float,
    space: Space | None = None,
    *,
    pace: Pace | None = None,
    limits: Limits | None = None,
    seed: int = 0,
    done: Collection[str] = (),
) -> list[Condition]:
    """A space-filling design that is predicted to take ``budget_s`` seconds; empty where nothing fits."""
    pace, limits = pace or Pace(), limits or Limits()
    chosen: list[Condition] = []
    spent = 0.0
    for one in admitted(space or Space(), pace, lambda: limits, seed=seed, done=done):
        spent += pace.seconds(one)
        if spent > budget_s:
            break
        chosen.append(one)
    return chosen


def condition(space: Space, family: str, mode: str, point: Sequence[float]) -> Condition:
    """The condition at a point of the unit cube: first the network's parameters, then the run condition."""
    count = len(networks.SPACE[family])
    at = dict(zip(_AXES, point[count:], strict=True))
    device = _pick(space.devices, at["device"])
    trains = mode == "train"
    accumulation = _pick(space.accumulations, at["accumulation"]) if trains else 1
    batch = networks.batch(family, at["batch"])
    return Condition(
        network=networks.network(family, point[:count]),
        mode=mode,
        # Whole parts, each of at least one item.
        batch=max(batch // accumulation, 1) * accumulation,
        dtype=_first_often(space.dtypes, at["dtype"]),
        device=device,
        compile=_pick(space.compiles, at["compile"]),
        threads=_pick(space.threads, at["threads"]) if device == "cpu" else space.threads[0],
        optimizer=_pick(space.optimizers, at["optimizer"]) if trains else "",
        accumulation=accumulation,
    )


def _turns(space: Space, seed: int) -> Iterator[Iterator[Condition]]:
    """The sequences of every family and mode, in rounds that hold each of them once."""
    rng = np.random.default_rng(seed)
    streams = [_conditions(space, family, mode, seed) for family in space.families for mode in space.modes]
    while True:
        for number in rng.permutation(len(streams)):
            yield streams[number]


def _conditions(space: Space, family: str, mode: str, seed: int) -> Iterator[Condition]:
    for point in _points(family, mode, seed):
        yield condition(space, family, mode, point)


def _points(family: str, mode: str, seed: int) -> Iterator[list[float]]:
    """Points of a scrambled sequence of its own."""
    sizes = len(networks.SPACE[family]) + len(_AXES)
    # A seed of its own, or families with equally many axes would share their run conditions.
    own = np.random.SeedSequence([seed, *family.encode(), *mode.encode()])
    with warnings.catch_warnings():
        # The argument has another name from one release to the next; both take it.
        warnings.simplefilter("ignore", DeprecationWarning)
        engine = qmc.Sobol(sizes, scramble=True, seed=np.random.default_rng(own))
    while True:
        yield from engine.random(_CHUNK).tolist()


def _pick(values: Sequence[T], place: float) -> T:
    return values[min(int(place * len(values)), len(values) - 1)]


def _first_often(values: Sequence[str], place: float) -> str:
    """The first value for the lower two thirds, the others for equal parts of the last one."""
    if len(values) == 1 or place < _FIRST_SHARE:
        return values[0]
    return _pick(values[1:], (place - _FIRST_SHARE) / (1 - _FIRST_SHARE))
