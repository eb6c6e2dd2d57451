"""Floor 3, estimator. The numbers that each target is estimated from, and where an example stands among others.

In: examples and a target. Out: :class:`Columns`, and places whose names are numbered by one :class:`Names`.

Step time (ns), energy (J): FLOP and bytes by class as ns at the machine's full rates, calls, and 1. Peak memory (byte):
``memory``. Utilisation (share): each class's share of the step's estimated time, so that its coefficients are the
utilisation while such kernels run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import anchors, features, memory, transfer
from perfgate.estimator.anchors import Places
from perfgate.estimator.transfer import Setting
from perfgate.records.estimate import PEAK_MEMORY, UTILISATION, Example

Floats = NDArray[np.float64]

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Columns:
    """``x`` (n, k) with ``names`` and ``units`` (k,); ``calls`` (n, c) by class: what places are made of."""

    x: Floats
    names: tuple[str, ...]
    units: tuple[str, ...]
    calls: Floats


@dataclass(slots=True)
class Names:
    """Numbers of groups, models, settings and kinds of machines; names that were never seen are -1 unless added."""

    groups: dict[str, int] = field(default_factory=dict)
    models: dict[str, int] = field(default_factory=dict)
    settings: dict[str, int] = field(default_factory=dict)
    kinds: dict[str, int] = field(default_factory=dict)

    def copy(self) -> Names:
        """One that may be added to."""
        return Names(dict(self.groups), dict(self.models), dict(self.settings), dict(self.kinds))


def of(examples: Sequence[Example], target: str, time_coefficients: Floats | None = None) -> Columns:
    """The columns for a target. ``time_coefficients`` (k,): of step time, which utilisation needs."""
    x, names = features.ideal_seconds(examples)
    units = tuple(features.unit(name) for name in names)
    calls = x[:, np.array(units) == features.CALLS]
    if target == PEAK_MEMORY:
        return Columns(x=memory.matrix(examples), names=memory.NAMES, units=memory.NAMES, calls=calls)
    timed = np.array([unit in {features.FLOP, features.BYTES} for unit in units])
    x[:, timed] *= NS_PER_S
    if target == UTILISATION and time_coefficients is not None:
        parts = x * time_coefficients
        x = parts / np.maximum(parts.sum(axis=1, keepdims=True), 1e-300)
    return Columns(x=x, names=names, units=units, calls=calls)


def measured(example: Example, target: str) -> float:
    """What was measured of a target, as estimates mean it: a device's peak memory with the context that it holds."""
    beside = memory.context_bytes(example.machine.kind) if target == PEAK_MEMORY else 0
    return example.targets[target] + beside


def places(
    examples: Sequence[Example], settings: Sequence[Setting], calls: Floats, names: Names, *, add: bool
) -> Places:
    """Where examples stand; ``add``: names that are new get a number."""
    weights = np.array([one.weight_bytes for one in examples], np.float64)
    return Places(
        z=anchors.place(calls, weights) if len(examples) else np.zeros((0, 0)),
        group=_numbers([one.group for one in examples], names.groups, add=add),
        model=_numbers([one.model for one in examples], names.models, add=add),
        setting=_numbers([one.key for one in settings], names.settings, add=add),
        kind=_numbers([one.kind for one in settings], names.kinds, add=add),
    )


def joined(a: Places, b: Places) -> Places:
    """All of both."""
    return Places(
        z=np.concatenate([a.z, b.z]),
        group=np.concatenate([a.group, b.group]),
        model=np.concatenate([a.model, b.model]),
        setting=np.concatenate([a.setting, b.setting]),
        kind=np.concatenate([a.kind, b.kind]),
    )


def settings_of(examples: Sequence[Example]) -> list[Setting]:
    """The setting of each; one object for equal machines."""
    seen: dict[tuple[object, ...], Setting] = {}
    found = []
    for one in examples:
        key = (id(one.machine), one.threads, one.dtype, one.compile)
        if key not in seen:
            seen[key] = transfer.of(one)
        found.append(seen[key])
    return found


def _numbers(texts: Sequence[str], known: dict[str, int], *, add: bool) -> NDArray[np.int64]:
    if add:
        for text in texts:
            known.setdefault(text, len(known))
    return np.array([known.get(text, -1) for text in texts], np.int64)
