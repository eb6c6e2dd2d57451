"""Floor 2, stats. Pairs of one workload in; one value or one log ratio per valid pair and metric out.

The unit of evidence is a *pair* of processes, never a single iteration: iterations of one process share
its memory placement and its moment, so they say nothing about the next process.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Callable, Sequence

from perfgate.records.evidence import Pair, SideSamples
from perfgate.records.metrics import METRICS, SPAN_PREFIX

_NS_PER_HOUR = 3600e9


def valid_pairs(pairs: Sequence[Pair]) -> tuple[Pair, ...]:
    """The pairs that count (``void`` is empty), in order."""
    return tuple(pair for pair in pairs if not pair.void)


def rounds(pairs: Sequence[Pair]) -> tuple[int, ...] | None:
    """Round of each valid pair, or None where every pair had parents of its own.

    Pairs of one round share their parent processes and are not independent: pass the result as
    ``clusters`` to :func:`perfgate.stats.sequential.decide`.
    """
    numbers = tuple(pair.round for pair in valid_pairs(pairs))
    return numbers if len(set(numbers)) < len(numbers) else None


def side_value(side: SideSamples, metric: str) -> float | None:
    """One process's value of ``metric`` in the registry's unit, or None where it was not measured.

    ``latency`` is the median of all its samples (ns per call), ``latency_p90``/``latency_p99`` linear
    quantiles of them, ``span:NAME`` the median of that span (ns), ``energy`` joule per item over all blocks,
    ``throughput`` items per second at the median, ``utilisation`` CPU time over wall time (cores),
    ``peak_memory`` bytes, ``first_step`` ns. ``cost`` and ``monthly_cost`` are hours of the machine per 1 M items,
    their US dollars at a price of 1 an hour: ratios need no price, and whoever knows it multiplies.
    """
    if metric.startswith(SPAN_PREFIX):
        return _span(side, metric.removeprefix(SPAN_PREFIX))
    reader = _READERS.get(metric)
    return reader(side) if reader else None


def side_values(pairs: Sequence[Pair], metric: str) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Values of base and of head over the valid pairs, in order; a side is () if any valid pair lacks its value.

    A value that is not finite counts as lacking.
    """
    counted = valid_pairs(pairs)
    return _column([pair.base for pair in counted], metric), _column([pair.head for pair in counted], metric)


def log_ratios(pairs: Sequence[Pair], metric: str) -> tuple[float, ...]:
    """ln(head / base) of each valid pair, in order; ln(base / head) where larger is better: positive means worse.

    () if any valid pair lacks the value on a side, or if a value is not above 0 (no ratio exists).
    """
    base, head = side_values(pairs, metric)
    if not base or not head or min(base) <= 0 or min(head) <= 0:
        return ()
    if metric in METRICS and METRICS[metric].larger_is_better:
        base, head = head, base
    return tuple(math.log(h / b) for b, h in zip(base, head, strict=True))


def noisy_metrics(pairs: Sequence[Pair]) -> tuple[str, ...]:
    """Metrics with a value on at least one side in every valid pair: latency, peak memory, energy, spans by name."""
    counted = valid_pairs(pairs)
    spans = sorted({name for pair in counted for side in (pair.base, pair.head) for name in _span_names(side)})
    names = ("latency", "peak_memory", "energy", *(SPAN_PREFIX + name for name in spans))
    return tuple(name for name in names if any(side_values(counted, name)))


def _column(sides: list[SideSamples], metric: str) -> tuple[float, ...]:
    values = [side_value(side, metric) for side in sides]
    present = [value for value in values if value is not None and math.isfinite(value)]
    return tuple(present) if len(present) == len(values) else ()


def _samples(side: SideSamples) -> list[int]:
    return [sample for block in side.blocks for sample in block.samples_ns]


def _latency(side: SideSamples) -> float | None:
    samples = _samples(side)
    return float(statistics.median(samples)) if samples else None


def _quantile(share: float) -> Callable[[SideSamples], float | None]:
    def read(side: SideSamples) -> float | None:
        samples = sorted(_samples(side))
        if not samples:
            return None
        place = share * (len(samples) - 1)
        low = math.floor(place)
        high = min(low + 1, len(samples) - 1)
        return samples[low] + (place - low) * (samples[high] - samples[low])

    return read


def _throughput(side: SideSamples) -> float | None:
    latency_ns = _latency(side)
    return side.items * 1e9 / latency_ns if latency_ns else None


def _hours_per_million_items(side: SideSamples) -> float | None:
    latency_ns = _latency(side)
    return None if latency_ns is None or side.items <= 0 else latency_ns / side.items * 1e6 / _NS_PER_HOUR


def _energy(side: SideSamples) -> float | None:
    items = sum(len(block.samples_ns) for block in side.blocks) * side.inner * side.items
    joules = [block.energy_j for block in side.blocks]
    measured = [joule for joule in joules if joule is not None]
    return sum(measured) / items if items and len(measured) == len(joules) else None


def _utilisation(side: SideSamples) -> float | None:
    wall_ns = sum(block.wall_ns for block in side.blocks)
    return sum(block.cpu_ns for block in side.blocks) / wall_ns if wall_ns else None


def _span_names(side: SideSamples) -> set[str]:
    return {name for block in side.blocks for name in block.spans_ns}


def _span(side: SideSamples, name: str) -> float | None:
    samples = [sample for block in side.blocks for sample in block.spans_ns.get(name, ())]
    return float(statistics.median(samples)) if samples else None


_READERS: dict[str, Callable[[SideSamples], float | None]] = {
    "latency": _latency,
    "latency_p90": _quantile(0.90),
    "latency_p99": _quantile(0.99),
    "throughput": _throughput,
    "energy": _energy,
    "cost": _hours_per_million_items,
    "monthly_cost": _hours_per_million_items,
    "peak_memory": lambda side: None if side.peak_bytes is None else float(side.peak_bytes),
    "first_step": lambda side: float(side.first_step_ns),
    "utilisation": _utilisation,
}
