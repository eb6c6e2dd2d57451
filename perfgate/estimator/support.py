"""Floor 3, estimator. Which of a step's kernels hardly any measured group has, and how much of its time is in them.

In: what was measured, with the core's coefficients, once, as :class:`Support`; then questions. Out: for a question the
kinds of kernels whose constants few groups tell, each with its share of the estimated time.

A kind is a class of kernels (``classes``), or some that are kin, on elements of up to 16 bits, or of more. With its
shares s_g of the groups' times, and groups that are off by ``_OFF`` as a whole, what is left to doubt of its constant
is, as in a regression,

    sd = u / sqrt(1 + u^2 sum_g s_g^2 / _OFF^2)          (ln)

and a share s of it may then take s (exp(_QUANTILE sd) - 1) more of the step, or s (1 - exp(-_QUANTILE sd)) less. u is
what is not known of a constant before a group has told: little of kernels that devices run near their bandwidth
whatever they do (moving elements, normalising, small filters that libraries have kernels of their own for); much of all
others, where libraries are slow at what few networks need, and a factor of ten between two kernels of a class is
common.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from perfgate import units
from perfgate.estimator import classes, columns, features
from perfgate.estimator.classes import CLASSES
from perfgate.records.estimate import STEP_TIME, Example
from perfgate.records.graph import KernelGroup

Floats = NDArray[np.float64]

# How far a group is off as a whole, and how unsure a constant is that no group tells, of any kernel and of those that
# are the same everywhere (ln).
_OFF, _UNTOLD, _UNTOLD_PLAIN, _QUANTILE = 0.1, 2.0, 0.5, 1.65
_PLAIN = frozenset(
    {
        classes.DEPTHWISE_3,
        classes.ACTIVATION,
        classes.COMBINATION,
        classes.BROADCAST,
        classes.SCALE_NORM,
        classes.REDUCTION,
        classes.COPY,
        classes.CAST,
        classes.FILL,
    }
)
# Classes that say much of one another, under one name.
_KIN = {classes.DEPTHWISE_5: classes.DEPTHWISE_3, classes.STATISTIC_NORM: classes.SCALE_NORM}
_KIN_NAMES = {classes.DEPTHWISE_3: "depthwise convolution up to 5x5", classes.SCALE_NORM: "normalisation"}
# Groups count for a share where they have at least this part of it; few of them: up to this part of all groups.
_ALIKE, FEW = 0.5, 0.035
# Groups below which everything is rare, and what that costs is in the intervals already.
_LEAST_GROUPS = 10
# Possible share of the step's time from which it is worth a word.
_WORTH = 0.08
# Rows that are looked at, the same number of each group where there are more.
_ROWS = 1500
# Of up to 16 bits an element, and of more, of which hardly any has 64.
_WIDTHS = ("16-bit", "32-bit")
KINDS = tuple(f"{width} {name}" for width in _WIDTHS for name in CLASSES)


@dataclass(frozen=True, slots=True, kw_only=True)
class Support:
    """Of ``groups`` groups and each of ``kinds``: ``told`` = sum of squared mean shares, ``most``: the largest shares
    of single groups, in falling order, as many as matter.
    """

    groups: int = 0
    kinds: tuple[str, ...] = ()
    told: tuple[float, ...] = ()
    most: tuple[tuple[float, ...], ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rare:
    """Kernels of a kind that few groups have: their ``share`` of the step's estimated time; ``having``: how many of
    ``groups`` groups have as much, by half; ``more``, ``less``: how much of the step's time they may take beyond that,
    or not take.
    """

    kind: str
    share: float
    having: int
    groups: int
    more: float
    less: float

    def text(self) -> str:
        """A sentence without full stop."""
        width, name = self.kind.split(" ", 1)
        having = f"{self.having or 'none'} {'has' if self.having < 2 else 'have'}"
        share = f"{units.percent(self.share)} of its time is in {_KIN_NAMES.get(name, name)} ({width} elements)"
        return f"hardly measured: {share}; of {self.groups} measured groups {having} half as much of it"


def shares(examples: Sequence[Example], coefficients: Floats) -> Floats:
    """(n, 2 classes): shares of each step's estimated time by kind of kernels; ``coefficients`` (n, k) of each step.

    What columns of several classes say together is in no kind's share, but in the whole.
    """
    whole = np.zeros(len(examples))
    found = []
    for part in _parted(examples):
        columns_ = columns.of(part, STEP_TIME)
        time = columns_.x * coefficients
        # Each step is there once.
        time[:, columns_.names.index(features.STEP)] *= 0.5
        whole += time.sum(axis=1)
        found.append(time @ _members(columns_.names))
    result: Floats = np.concatenate(found, axis=1) / np.maximum(whole, 1e-300)[:, None]
    return result


def support(groups: Sequence[str], share: Floats) -> Support:
    """Of measured steps' ``groups`` (n,) and shares (n, 2 classes)."""
    _, code = np.unique(np.array(groups), return_inverse=True)
    number = int(code.max(initial=-1)) + 1
    count = np.bincount(code, minlength=number)[:, None]
    mean, largest = np.zeros((number, share.shape[1])), np.zeros((number, share.shape[1]))
    np.add.at(mean, code, share**2)
    np.maximum.at(largest, code, share)
    told = (mean / np.maximum(count, 1)).sum(axis=0)
    kept = np.flatnonzero(told > 0)
    many = math.floor(FEW * number) + 1
    ordered = -np.sort(-largest, axis=0)[:many]
    return Support(
        groups=number,
        kinds=tuple(KINDS[kind] for kind in kept),
        told=tuple(float(told[kind]) for kind in kept),
        most=tuple(tuple(map(float, ordered[:, kind])) for kind in kept),
    )


def rare(share: Floats, known: Support) -> tuple[Rare, ...]:
    """Of one step's shares (2 classes,); those that may take the most time first. Empty: nothing worth a word."""
    if known.groups < _LEAST_GROUPS:
        return ()
    place = {kind: number for number, kind in enumerate(known.kinds)}
    few = math.floor(FEW * known.groups)
    found = []
    for number in np.flatnonzero(share > 0):
        kind, mine = KINDS[number], float(share[number])
        there = place.get(kind)
        told, most = (0.0, ()) if there is None else (known.told[there], known.most[there])
        having = sum(other >= _ALIKE * mine for other in most)
        if having > few:
            continue
        untold = _UNTOLD_PLAIN if kind.split(" ", 1)[1] in _PLAIN else _UNTOLD
        unsure = untold / math.sqrt(1 + untold**2 * told / _OFF**2)
        more, less = mine * math.expm1(_QUANTILE * unsure), -mine * math.expm1(-_QUANTILE * unsure)
        found.append(Rare(kind=kind, share=mine, having=having, groups=known.groups, more=more, less=less))
    if sum(one.more for one in found) < _WORTH:
        return ()
    return tuple(sorted(found, key=lambda one: -one.more))


def chosen(groups: Sequence[str], seed: int) -> NDArray[np.intp]:
    """Rows to look at: all of few, of many as evenly by group as there are."""
    n = len(groups)
    if n <= _ROWS:
        return np.arange(n)
    _, code = np.unique(np.array(groups), return_inverse=True)
    order = np.random.default_rng(seed).permutation(n)
    turn = np.zeros(n, np.intp)
    ordered = order[np.argsort(code[order], kind="stable")]
    starts = np.flatnonzero(np.diff(code[ordered], prepend=-1))
    turn[ordered] = np.arange(n) - np.repeat(starts, np.diff(np.append(starts, n)))
    return np.sort(order[np.argsort(turn[order], kind="stable")][:_ROWS])


def _parted(examples: Sequence[Example]) -> tuple[list[Example], list[Example]]:
    """The same steps with their 16-bit kernels alone, and with the others."""
    # A tuple of kernels that many steps share is shared by their parts.
    parts: dict[int, tuple[tuple[KernelGroup, ...], ...]] = {}
    for one in examples:
        if id(one.kernels) not in parts:
            parts[id(one.kernels)] = tuple(map(tuple, _by_width(one.kernels)))
    first, second = ([replace(one, kernels=parts[id(one.kernels)][half]) for one in examples] for half in (0, 1))
    return first, second


def _by_width(kernels: Iterable[KernelGroup]) -> tuple[list[KernelGroup], list[KernelGroup]]:
    narrow: list[KernelGroup] = []
    wider: list[KernelGroup] = []
    for one in kernels:
        (narrow if features.element_bytes(one.dtype) <= 2 else wider).append(one)
    return narrow, wider


def _members(names: Sequence[str]) -> Floats:
    place = {name: number for number, name in enumerate(CLASSES)}
    found = np.zeros((len(names), len(CLASSES)))
    for row, name in enumerate(names):
        own = features.kernel_class(name)
        column = place.get(_KIN.get(own, own))
        if column is not None:
            found[row, column] = 1
    return found
