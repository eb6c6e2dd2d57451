"""Floor 3, graph. Operators without partner at one place: what replaced what, and what merely came or went beside it.

In: indices of a place's leftovers on both sides. Out: the same indices, parted into (base, head) that are one edit.

An activation that became another one and got casts around it is two things: the casts cost what they cost whatever
the activation is. And where layers were put in, only the first operators stand for those of base; the others came
with the layers.
"""

from __future__ import annotations

from bisect import bisect
from collections.abc import Sequence
from itertools import pairwise

from perfgate.graph.difference.opnames import is_cast, is_passing
from perfgate.records.graph import Operator

Part = tuple[list[int], list[int]]
Sides = tuple[Sequence[Operator], Sequence[Operator]]


def parted(sides: Sides, part: Part, breaks: Part) -> list[Part]:
    """Parts of a place that has leftovers on both sides, the replacement first.

    ``breaks``: ascending indices of leftovers of places that only one side has: what stands on both sides of one of
    them is another turn of the place. Casts and copies within a composite call are a part of it.
    """
    if any(side[index].group for side, indices in zip(sides, part, strict=True) for index in indices):
        return [part]
    return [piece for turn in _turns(sides, part, breaks) for piece in _beside(sides, turn)]


def kinds(side: Sequence[Operator], indices: list[int]) -> list[list[int]]:
    """What has no counterpart: where it is nothing but casts and copies, each of the two for itself."""
    if not all(is_passing(side[index].op) for index in indices):
        return [indices]
    casts = [index for index in indices if is_cast(side[index].op)]
    copies = [index for index in indices if not is_cast(side[index].op)]
    return [kind for kind in (casts, copies) if kind]


def _beside(sides: Sides, part: Part) -> list[Part]:
    """The operators that do work, then the casts and copies that only one side has."""
    base, head = part
    gone = [i for i in base if is_passing(sides[0][i].op)]
    come = [j for j in head if is_passing(sides[1][j].op)]
    solid = [i for i in base if not is_passing(sides[0][i].op)], [j for j in head if not is_passing(sides[1][j].op)]
    # A copy in the place of an operator is its replacement, and one in the place of a copy is another copy.
    works = all(solid) if base and head else any(solid)
    if bool(gone) == bool(come) or not works:
        return [part]
    apart: list[Part] = [(kind, []) for kind in kinds(sides[0], gone)]
    apart += [([], kind) for kind in kinds(sides[1], come)]
    return [solid, *apart]


def _turns(sides: Sides, part: Part, breaks: Part) -> list[Part]:
    """Where one side does the same in more turns than the other, only its first turns have a partner."""
    runs = _runs(part[0], breaks[0]), _runs(part[1], breaks[1])
    few = min(len(runs[0]), len(runs[1]))
    longer = int(len(runs[1]) > few)
    ops = [{sides[longer][index].op for index in run} for run in runs[longer]]
    if len(runs[0]) == len(runs[1]) or not set().union(*ops[few:]) <= set().union(*ops[:few]):
        return [part]
    first = sorted(index for run in runs[longer][:few] for index in run)
    if longer:
        return [(part[0], first), *(([], run) for run in runs[1][few:])]
    return [(first, part[1]), *((run, []) for run in runs[0][few:])]


def _runs(indices: list[int], breaks: list[int]) -> list[list[int]]:
    runs = [indices[:1]]
    for one, other in pairwise(indices):
        if bisect(breaks, one) < bisect(breaks, other):
            runs.append([other])
        else:
            runs[-1].append(other)
    return runs
