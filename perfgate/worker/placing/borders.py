"""Floor 3, worker. What it costs to hand a tensor from one library to another.

In: loaded runners. Out: :class:`Border` records: fixed seconds, and seconds per byte.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from perfgate.records.placement import Border
from perfgate.worker.placing import timing

SIZES = (1024, 262_144, 4_194_304)
_ITEM_BYTES = 4


def borders(runners: Mapping[str, Any], budget_s: float, make: Callable[[int], Any]) -> tuple[Border, ...]:
    """Borders between the targets of ``runners``; ``make`` gives a tensor of so many single-precision numbers.

    Handing over is the receiver's work: it is timed as what its ``place`` takes for a tensor that lies where the sender
    leaves it. Between runners of one memory it is nothing by construction, since a tensor is passed as it is.
    """
    pairs = [
        (source, target)
        for source in runners
        for target in runners
        if source != target and runners[source].memory != runners[target].memory
    ]
    known: dict[tuple[str, str], tuple[float, float]] = {}
    kinds = {(runners[source].memory, runners[target].memory): (source, target) for source, target in pairs}
    for kind, (source, target) in kinds.items():
        known[kind] = _linear(runners[source], runners[target], budget_s / len(kinds), make)
    found = []
    for source, target in pairs:
        fixed, each = known[runners[source].memory, runners[target].memory]
        found.append(Border(source=source, target=target, receive_s=fixed, receive_s_per_byte=each))
    return tuple(found)


def with_conversion(transfers: Sequence[Border], own: Mapping[str, float]) -> tuple[Border, ...]:
    """``transfers``, and at each border what both targets spend on a byte for themselves (``own``, seconds)."""
    known = {(one.source, one.target): one for one in transfers}
    found = []
    for source in own:
        for target in own:
            plain = known.get((source, target))
            if source == target or (plain is None and not own[source] and not own[target]):
                continue
            plain = plain or Border(source=source, target=target)
            found.append(
                replace(
                    plain,
                    send_s_per_byte=plain.send_s_per_byte + own[source],
                    receive_s_per_byte=plain.receive_s_per_byte + own[target],
                )
            )
    return tuple(found)


def _linear(source: Any, target: Any, budget_s: float, make: Callable[[int], Any]) -> tuple[float, float]:
    calls = []
    for size in SIZES:
        value = source.place(make(size // _ITEM_BYTES))
        source.wait()

        def call(value: Any = value) -> None:
            target.place(value)
            target.wait()

        calls.append(call)
    times = timing.interleaved(calls, budget_s)
    return fit(SIZES, [one.median_s for one in times])


def fit(sizes: Sequence[float], seconds: Sequence[float]) -> tuple[float, float]:
    """Least squares of ``fixed + each * size`` with both not negative, relative errors counting alike.

    With two unknowns the best point is either the free solution or lies on one of the two axes.
    """
    weights = [1 / max(one, 1e-12) ** 2 for one in seconds]
    total = sum(weights)
    by_size = sum(w * x for w, x in zip(weights, sizes, strict=True))
    by_square = sum(w * x * x for w, x in zip(weights, sizes, strict=True))
    value = sum(w * y for w, y in zip(weights, seconds, strict=True))
    cross = sum(w * x * y for w, x, y in zip(weights, sizes, seconds, strict=True))
    determinant = total * by_square - by_size**2
    candidates = [(max(0.0, value / total), 0.0), (0.0, max(0.0, cross / by_square) if by_square else 0.0)]
    if determinant > 0:
        free = ((value * by_square - cross * by_size) / determinant, (cross * total - value * by_size) / determinant)
        if min(free) >= 0:
            return free

    def error(point: tuple[float, float]) -> float:
        return sum(w * (point[0] + point[1] * x - y) ** 2 for w, x, y in zip(weights, sizes, seconds, strict=True))

    return min(candidates, key=error)
