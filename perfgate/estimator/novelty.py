"""Floor 3, estimator. Why a question may be unlike everything that was learned from, cause by cause.

In: what was learned from, once, as :class:`Seen`; then questions. Out: one sentence for each cause, and the factor that
the interval widens by. No cause makes an answer fail: a wide interval that says why is worth more than nothing.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from perfgate import units
from perfgate.estimator import features
from perfgate.estimator.support import Rare, Support
from perfgate.records.estimate import Example
from perfgate.records.graph import KernelGroup
from perfgate.records.hardware import CPU

# Widening (of the logarithms of both ends) by cause.
_OPERATOR, _CLASS, HARDWARE, _KIND, _RATES, _SOFTWARE, _CONDITION = 1.5, 1.25, 1.5, 2.0, 1.5, 1.25, 1.25
_HARDLY = 1.75
# All causes together.
_MOST = 3.0
# How far hardly measured kernels move an end at most (ln).
_FURTHEST = 1.4
_NAMED = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Seen:
    """What examples consisted of. ``low``, ``high``: least and most FLOP, bytes, kernels and bytes of weights.

    ``support``: how many groups tell each kind of kernels' constants.
    """

    machines: tuple[str, ...]
    machine_kinds: tuple[str, ...]
    software: tuple[str, ...]
    modes: tuple[str, ...]
    dtypes: tuple[str, ...]
    compiles: tuple[str, ...]
    threads: tuple[int, ...]
    kinds: tuple[str, ...]
    classes: tuple[str, ...]
    low: tuple[float, ...]
    high: tuple[float, ...]
    support: Support = field(default_factory=Support)


# Beyond this times the least or the most that was measured, a question is outside; earlier in what a batch does not
# change.
_AMOUNTS = {"FLOP": 2.0, "bytes moved": 2.0, "kernels": 1.5, "bytes of weights": 1.5}


@dataclass(frozen=True, slots=True, kw_only=True)
class Novel:
    """``why``: sentences without full stop, the weightiest first. An interval's ends (ln) are widened by ``factor``,
    then by ``below`` <= 0 and ``above`` >= 0.
    """

    why: tuple[str, ...]
    factor: float
    below: float = 0.0
    above: float = 0.0

    def ends(self, low: float, high: float, but: float = 1.0) -> tuple[float, float]:
        """ln of both ends, widened; ``but``: a factor of a cause that ``low`` and ``high`` allow for already."""
        factor = max(1.0, self.factor / but)
        return low * factor + self.below, high * factor + self.above


def seen(examples: Sequence[Example], classes: Iterable[str], support: Support) -> Seen:
    """What there is in the examples; ``classes``: of their kernels."""
    distinct = {id(one.kernels): one.kernels for one in examples}
    amounts = {key: _work(kernels) for key, kernels in distinct.items()}
    rows = [(*amounts[id(one.kernels)], float(one.weight_bytes)) for one in examples]
    columns = list(zip(*rows, strict=True)) or [(0.0,)] * len(_AMOUNTS)
    return Seen(
        machines=_texts(one.machine.name for one in examples),
        machine_kinds=_texts(one.machine.kind for one in examples),
        software=_texts(one.software for one in examples),
        modes=_texts(one.mode for one in examples),
        dtypes=_texts(one.dtype for one in examples),
        compiles=_texts(one.compile for one in examples),
        threads=tuple(sorted({one.threads for one in examples})),
        kinds=_texts(group.kind for kernels in distinct.values() for group in kernels),
        classes=tuple(sorted(classes)),
        low=tuple(min(column) for column in columns),
        high=tuple(max(column) for column in columns),
        support=support,
    )


def causes(example: Example, known: Seen, rare: Sequence[Rare] = ()) -> Novel:
    """Of one question; ``rare``: its kernels that hardly any measured group has."""
    found = [*_operators(example, known)]
    if rare:
        found.append((rare[0].text(), _HARDLY))
    found += [*_machine(example, known), *_conditions(example, known)]
    found += _amounts(example, known)
    factor = 1.0
    for _, one in found:
        factor *= one
    less = min(sum(one.less for one in rare), 1 - math.exp(-_FURTHEST))
    return Novel(
        why=tuple(text for text, _ in found),
        factor=min(factor, _MOST),
        below=math.log1p(-less),
        above=min(math.log1p(sum(one.more for one in rare)), _FURTHEST),
    )


def _operators(example: Example, known: Seen) -> list[tuple[str, float]]:
    moved = sum(group.bytes * group.calls for group in example.kernels) or 1
    first: dict[str, str] = {}
    share: dict[str, float] = {}
    for group in example.kernels:
        if group.kind not in known.kinds:
            first.setdefault(group.kind, group.name)
            share[group.kind] = share.get(group.kind, 0.0) + group.bytes * group.calls / moved
    found = [
        (_unknown(kind, first[kind], part), 1 + (_OPERATOR - 1) * (0.5 + 2 * part))
        for kind, part in sorted(share.items(), key=lambda item: -item[1])
    ]
    lacking = [name for name in features.present(example) if name not in known.classes]
    if lacking and not share:
        names = ", ".join(lacking[:_NAMED])
        found.append((f"unknown operator: no kernel like these was measured: {names}", _CLASS))
    return found


def _unknown(kind: str, name: str, part: float) -> str:
    kernels = f"kernels of kind {kind} ({name})"
    return f"unknown operator: {kernels} were never measured, {units.percent(part)} of the bytes"


def _machine(example: Example, known: Seen) -> list[tuple[str, float]]:
    machine = example.machine
    found = []
    if machine.kind not in known.machine_kinds:
        text = f"unseen hardware: nothing was measured on {machine.name} nor on any {_word(machine.kind)}"
        found.append((text, HARDWARE * _KIND))
    elif machine.name not in known.machines:
        found.append((f"unseen hardware: nothing was measured on {machine.name}; its rates are carried over", HARDWARE))
    if machine.name not in known.machines and not (any(machine.flop_per_s.values()) and machine.bandwidth_bytes_per_s):
        found.append((f"unseen hardware: the rates of {machine.name} are not known", _RATES))
    return found


def _conditions(example: Example, known: Seen) -> list[tuple[str, float]]:
    found = []
    if example.software and known.software and example.software not in known.software:
        measured = ", ".join(known.software[:_NAMED])
        found.append(
            (f"software version absent: nothing was measured with {example.software} (with {measured})", _SOFTWARE)
        )
    for what, value, among in (
        ("mode", example.mode, known.modes),
        ("dtype", example.dtype, known.dtypes),
        ("compile setting", example.compile, known.compiles),
    ):
        if value not in among:
            found.append((f"condition never measured: {what} {value}", _CONDITION))
    if example.machine.kind == CPU and example.threads not in known.threads:
        found.append((f"condition never measured: {example.threads} threads", _CONDITION))
    return found


def _amounts(example: Example, known: Seen) -> list[tuple[str, float]]:
    found = []
    amounts = (*_work(example.kernels), float(example.weight_bytes))
    for (name, beyond), value, low, high in zip(_AMOUNTS.items(), amounts, known.low, known.high, strict=True):
        if value > beyond * max(high, 1.0):
            ratio = value / max(high, 1.0)
            text = f"beyond what was measured: {units.significant(ratio)} times the most {name}"
            found.append((text, 1 + 0.15 * math.log(ratio)))
        elif low > beyond * max(value, 1.0):
            ratio = low / max(value, 1.0)
            text = f"beyond what was measured: {units.significant(ratio)} times fewer {name} than the least"
            found.append((text, 1 + 0.15 * math.log(ratio)))
    return found


def _work(kernels: Sequence[KernelGroup]) -> tuple[float, float, float]:
    flop = bytes_ = calls = 0
    for group in kernels:
        flop += group.flop * group.calls
        bytes_ += group.bytes * group.calls
        calls += group.calls
    return float(flop), float(bytes_), float(calls)


def _texts(values: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({value for value in values if value}))


def _word(kind: str) -> str:
    return kind.upper() if kind in {"cpu", "gpu", "tpu"} else kind
