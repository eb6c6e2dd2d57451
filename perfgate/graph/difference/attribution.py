"""Floor 3, graph. How much of a change of step time each edit is, and where unchanged operators got slower.

In: edits and the profiles of both sides. Out: ns of one step for each edit, and places that drifted.

The two profiles are of other processes at other moments of a noisy machine, so only their proportions count: head's
is scaled by the median ratio over the operators that nobody edited, and the spread of those ratios says how much of a
difference is noise. Times of the profile are brought to the length of base's step, which profiling did not slow down.
"""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from perfgate.graph.difference.edits import ADDED, REMOVED, Edit, containers
from perfgate.graph.difference.matching import Matching
from perfgate.graph.difference.modulemap import ModuleMap
from perfgate.graph.difference.opnames import family, parts
from perfgate.graph.difference.weighing import estimate
from perfgate.records.graph import Operator, Profile

PYTHON = "python"
_REST = "other"

# Both profiles are of a busy accelerator where its time fills this part of the step: then the host's does not count.
_DEVICE_BOUND = 0.7
# Fewer unchanged places than this, or so small a part of the time, do not tell how the machine drifted.
_MIN_PLACES = 4
_MIN_PART = 0.05
# A place this small is not asked for its ratio: a few microseconds are all jitter.
_TINY = 0.0005
# Spread of ln(head / base) over unchanged places where there are too few to tell; and the least that is believed.
_UNKNOWN_SPREAD = 0.1
_LEAST_SPREAD = 0.02
# An unchanged place has drifted beyond this many spreads, this ratio, and this part of the step.
_FAR = 5.0
_FACTOR = 1.25
_PART = 0.02
# And it has to be between these parts of the whole change, where that is known.
_OF_WHOLE = 0.1
_BEYOND_WHOLE = 3.0
# A step that changed by less than this, or by less than so many standard errors, is not explained by anybody.
_SAME = 0.005
_CERTAIN = 2.0

Place = tuple[str, str, str]  # module as base calls it, phase, family


@dataclass(frozen=True, slots=True, kw_only=True)
class Drift:
    """An unchanged place that takes another time. ``base_ns``, ``head_ns``: of one step, on base's scale.

    ``only``: ``added`` or ``removed`` where one of the sides does not have the place's module; else empty.
    """

    module: str
    phase: str
    operators: tuple[int, ...]
    op: str
    base_ns: float
    head_ns: float
    only: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Times:
    """``edits``: ns of one step for each edit, None where its places were not profiled; ``noise`` alike.

    ``whole``: change of the whole step in ns, None where not known; ``limits``: between what it lies; ``step``: base's
    step in ns.
    """

    edits: tuple[float | None, ...]
    noise: tuple[float, ...]
    whole: float | None
    limits: tuple[float, float]
    step: float
    drifts: tuple[Drift, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """The step without profiling: base's length, head over base, and the standard error of that ratio's logarithm."""

    step_ns: float | None = None
    ratio: float | None = None
    spread: float = 0.0

    def change(self, step: float) -> float | None:
        """Change of a step of ``step`` ns; None where it was not measured or may be none."""
        if self.ratio is None or self.ratio <= 0:
            return None
        certain = abs(math.log(self.ratio)) > max(_CERTAIN * self.spread, _SAME)
        return (self.ratio - 1) * step if certain else None

    def limits(self, step: float) -> tuple[float, float]:
        """Between what times of parts of a step of ``step`` ns may come to: nothing, and all of its change."""
        if self.ratio is None or self.ratio <= 0:
            return -math.inf, math.inf
        factor = math.exp(_CERTAIN * self.spread)
        low, high = (self.ratio / factor - 1) * step, (self.ratio * factor - 1) * step
        known = self.change(step)
        if known is not None:
            low, high = (known, high) if known < 0 else (low, known)
        # What is not explained is no reason to take back what is: only claims beyond nothing and all are too large.
        return min(low, 0.0), max(high, 0.0)


def attribute(found: Matching, edits: Sequence[Edit], base: Profile, head: Profile, measured: Measured) -> Times | None:
    """Time change of each edit. None where one of the profiles says nothing."""
    sides = _sides(found, base, head)
    totals = sum(sides[0].times.values()), sum(sides[1].times.values())
    if min(totals) <= 0:
        return None
    places = list(dict.fromkeys((*sides[0].times, *sides[1].times)))
    owned = _owners(edits, sides)
    owned |= _loops(found, edits, sides, [place for place in places if place not in owned])
    free = [place for place in places if place not in owned]
    scale, spread = _drift(sides, free, totals, measured.ratio)
    step = measured.step_ns or totals[0]
    unit = step / totals[0]
    before = {place: unit * sides[0].times.get(place, 0.0) for place in places}
    after = {place: unit * sides[1].times.get(place, 0.0) / scale for place in places}
    seen = sum(after.values()) - sum(before.values())
    whole = measured.change(step) if measured.ratio is not None else _seen(seen, step, spread, before)
    deltas: list[float | None] = [None] * len(edits)
    noise = [0.0] * len(edits)
    for place, owners in owned.items():
        if place not in before:
            continue
        change, doubt = after[place] - before[place], spread * max(after[place], before[place])
        for number, part in owners.items():
            deltas[number] = (deltas[number] or 0.0) + part * change
            noise[number] = math.hypot(noise[number], part * doubt)
    deltas = [None if _absurd(found, edit, delta) else delta for edit, delta in zip(edits, deltas, strict=True)]
    drifts = [
        _as_drift(place, sides, before[place], after[place])
        for place in free
        if _far(before[place], after[place], spread, step) and _explains(after[place] - before[place], whole, measured)
    ]
    limits = measured.limits(step)
    if measured.ratio is None and whole is not None:
        limits = (min(whole, 0.0), max(whole, 0.0))
    return Times(edits=tuple(deltas), noise=tuple(noise), whole=whole, limits=limits, step=step, drifts=tuple(drifts))


@dataclass(slots=True)
class _Side:
    """One profile by place. ``members``: indices of operators by (module, phase), then by family."""

    operators: Sequence[Operator]
    members: dict[tuple[str, str], dict[str, list[int]]]
    times: dict[Place, float]
    ops: dict[Place, str]


def _sides(found: Matching, base: Profile, head: Profile) -> tuple[_Side, _Side]:
    pairs = ((found.base[i].module, found.head[j].module) for i, j in found.pairs())
    modules = ModuleMap(pairs, {time.module for time in base.times} & {time.module for time in head.times})
    device = all(_device_bound(profile) for profile in (base, head))
    return (
        _side(found.base, base, None, device=device),
        _side(found.head, head, modules, device=device),
    )


def _device_bound(profile: Profile) -> bool:
    busy = sum(time.device_ns or 0.0 for time in profile.times)
    return busy > _DEVICE_BOUND * profile.step_ns > 0


def _side(operators: Sequence[Operator], profile: Profile, modules: ModuleMap | None, *, device: bool) -> _Side:
    def known(module: str) -> str:
        there = modules.base(module) if modules else module
        # A module that base does not have must not be taken for one that only has the same name.
        return f"head only: {module}" if there is None else there

    members: dict[tuple[str, str], dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for index, operator in enumerate(operators):
        members[(known(operator.module), operator.phase)][family(operator.op)].append(index)
    times: dict[Place, float] = defaultdict(float)
    ops: dict[Place, str] = {}
    for time in profile.times:
        module = known(time.module)
        place = (module, time.phase, _family(time.op, members.get((module, time.phase), {})))
        taken = (time.device_ns or 0.0) if device else time.host_ns
        times[place] += taken if math.isfinite(taken) and taken > 0 else 0.0
        ops.setdefault(place, time.op)
    return _Side(operators, members, times, ops)


def _family(op: str, here: dict[str, list[int]]) -> str:
    """The family of the graph's operators that a profiled operator stands for, among those of its module."""
    if op == PYTHON:
        return PYTHON
    for part in parts(op):
        if part in here:
            return part
    # A module that does one thing does it under whatever name.
    return next(iter(here)) if len(here) == 1 else _REST


def _owners(edits: Sequence[Edit], sides: tuple[_Side, _Side]) -> dict[Place, dict[int, float]]:
    """Places with edited operators: edit -> its part of what changed there."""
    weights: dict[Place, dict[int, float]] = defaultdict(lambda: defaultdict(float))
    calls: dict[tuple[str, str], dict[int, float]] = defaultdict(lambda: defaultdict(float))
    of_base = {i: number for number, edit in enumerate(edits) for i in edit.base}
    of_head = {j: number for number, edit in enumerate(edits) for j in edit.head}
    for side, edit_of in zip(sides, (of_base, of_head), strict=True):
        for cell, families in side.members.items():
            for name, indices in families.items():
                for index in indices:
                    if index in edit_of:
                        operator = side.operators[index]
                        weights[(*cell, name)][edit_of[index]] += estimate(operator)
                        calls[cell][edit_of[index]] += operator.repeat
    for cell, numbers in calls.items():
        # What a module does beside its operators (views, Python between them) belongs to who changed their number.
        if any(len(edits[number].base) != len(edits[number].head) for number in numbers):
            for name in (_REST, PYTHON):
                weights[(*cell, name)] = numbers
    return {place: _parts(numbers) for place, numbers in weights.items()}


def _loops(
    found: Matching, edits: Sequence[Edit], sides: tuple[_Side, _Side], free: Iterable[Place]
) -> dict[Place, dict[int, float]]:
    """A loop's own time belongs to the operators that now run in it, or no longer do: a graph has none but those."""
    looped = [
        number for number, edit in enumerate(edits) if _turns(found.base, edit.base) != _turns(found.head, edit.head)
    ]
    if not looped:
        return {}
    return {
        place: dict.fromkeys(looped, 1 / len(looped))
        for place in free
        if (place in sides[0].times) != (place in sides[1].times)
        and not any(place[:2] in side.members for side in sides)
    }


def _absurd(found: Matching, edit: Edit, delta: float | None) -> bool:
    """Whether the same operator is said to take less time for more turns, or more for fewer: nothing is known then."""
    if len(edit.base) != 1 or len(edit.head) != 1 or delta is None or edit.sizes:
        return False
    one, other = found.base[edit.base[0]], found.head[edit.head[0]]
    return one.op == other.op and (other.repeat - one.repeat) * delta < 0


def _turns(side: Sequence[Operator], indices: Iterable[int]) -> int:
    return max((side[index].repeat for index in indices), default=1)


def _parts(numbers: dict[int, float]) -> dict[int, float]:
    total = sum(numbers.values())
    return {number: weight / total for number, weight in numbers.items()}


def _drift(
    sides: tuple[_Side, _Side], free: Iterable[Place], totals: tuple[float, float], ratio: float | None
) -> tuple[float, float]:
    """By what head's profile is scaled as a whole, and the spread of the logarithms of the places' ratios."""
    logs = []
    covered = 0.0
    for place in free:
        before, after = sides[0].times.get(place, 0.0), sides[1].times.get(place, 0.0)
        if place[2] != PYTHON and before > _TINY * totals[0] and after > 0:
            logs.append(math.log(after / before))
            covered += before
    if len(logs) < _MIN_PLACES or covered < _MIN_PART * totals[0]:
        scale = totals[1] / totals[0] / ratio if ratio else 1.0
        return scale, _UNKNOWN_SPREAD
    middle = statistics.median(logs)
    # 1.4826 makes the median deviation of a normal sample its standard deviation.
    spread = 1.4826 * statistics.median(abs(log - middle) for log in logs)
    return math.exp(middle), max(spread, _LEAST_SPREAD)


def _seen(seen: float, step: float, spread: float, before: dict[Place, float]) -> float | None:
    """Change of the step as the profiles have it; None where that is noise."""
    doubt = _CERTAIN * spread * math.sqrt(sum(time * time for time in before.values()))
    return seen if abs(seen) > max(doubt, _SAME * step) else None


def _far(before: float, after: float, spread: float, step: float) -> bool:
    if abs(after - before) < _PART * step:
        return False
    return min(before, after) <= 0 or abs(math.log(after / before)) >= max(_FAR * spread, math.log(_FACTOR))


def _explains(change: float, whole: float | None, measured: Measured) -> bool:
    """Where the step was measured: what goes the other way, or is a small part of its change, explains nothing.

    Nor does what is far more than the step's whole change: then it was the profiled process that was disturbed there.
    """
    return measured.ratio is None or (whole is not None and _OF_WHOLE <= change / whole <= _BEYOND_WHOLE)


def _as_drift(place: Place, sides: tuple[_Side, _Side], before: float, after: float) -> Drift:
    module, phase, name = place
    side = sides[1]
    indices = side.members.get((module, phase), {}).get(name, [])
    op = side.ops.get(place) or sides[0].ops.get(place, name)
    shown = side.operators[indices[0]].module if indices else module.removeprefix("head only: ")
    here = [module in _modules(one) for one in sides]
    only = "" if all(here) else REMOVED if here[0] else ADDED
    return Drift(module=shown, phase=phase, operators=tuple(indices), op=op, base_ns=before, head_ns=after, only=only)


def _modules(side: _Side) -> set[str]:
    """Modules of a side and their containers, as base calls them; the model itself is always there."""
    named = {module for module, _, _ in side.times} | {module for module, _ in side.members}
    return {"", *(path for module in named for path in containers(module))}
