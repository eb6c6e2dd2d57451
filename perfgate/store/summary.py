"""Room ``store``: raw samples of one side -> the single numbers that a record shows.

In: the side's part of every pair that counts, and its probes. Out: metric -> value in the registry's
unit, and metric -> raw samples. History and the estimator read them; no verdict comes from here.
"""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median, quantiles

from perfgate.records.evidence import SideSamples
from perfgate.records.metrics import METRICS, SPAN_PREFIX
from perfgate.records.protocol import Probe

# Below these counts a percentile would be a guess about samples that were never taken.
_NEEDED = {90: 10, 99: 100}


def noisy_values(
    parts: Sequence[SideSamples], *, threads: int
) -> tuple[dict[str, float], dict[str, tuple[float, ...]]]:
    """Values and raw samples of what varies from call to call.

    ``latency`` (ns per call): median of all samples; ``latency_p90`` and ``latency_p99``: linear
    interpolation between order statistics, from 10 and 100 samples on. ``span:NAME``: likewise the median.
    ``throughput`` (items/s): items per call over ``latency``. ``first_step`` (ns) and ``peak_memory``
    (bytes): median over processes. ``energy`` (J per item): median over blocks. ``utilisation``: CPU
    time over wall time and ``threads``, at most 1. What was not measured is absent.
    """
    raw: dict[str, tuple[float, ...]] = {
        "latency": tuple(float(sample) for part in parts for block in part.blocks for sample in block.samples_ns),
        "first_step": tuple(float(part.first_step_ns) for part in parts if part.first_step_ns > 0),
        "peak_memory": tuple(float(part.peak_bytes) for part in parts if part.peak_bytes is not None),
        "energy": _energy(parts),
        **_spans(parts),
    }
    raw = {name: samples for name, samples in raw.items() if samples}
    values = {name: float(median(samples)) for name, samples in raw.items()}
    if "latency" in raw:
        for percent, needed in _NEEDED.items():
            if len(raw["latency"]) >= needed:
                cuts = quantiles(raw["latency"], n=100, method="inclusive")
                values[f"latency_p{percent}"] = cuts[percent - 1]
        if values["latency"] > 0:
            values["throughput"] = parts[0].items * 1e9 / values["latency"]
    wall_ns = sum(block.wall_ns for part in parts for block in part.blocks)
    if wall_ns > 0:
        cpu_ns = sum(block.cpu_ns for part in parts for block in part.blocks)
        values["utilisation"] = min(1.0, cpu_ns / (wall_ns * max(1, threads)))
    return values, raw


def exact_values(probes: Sequence[Probe]) -> dict[str, float]:
    """What all probing processes counted alike; a metric on which they differ is not exact, so absent."""
    if not probes:
        return {}
    return {
        name: float(value)
        for name, value in probes[0].exact.items()
        if name in METRICS and all(probe.exact.get(name) == value for probe in probes)
    }


def _energy(parts: Sequence[SideSamples]) -> tuple[float, ...]:
    return tuple(
        block.energy_j / (len(block.samples_ns) * part.inner * part.items)
        for part in parts
        for block in part.blocks
        if block.energy_j is not None and block.samples_ns and part.inner > 0 and part.items > 0
    )


def _spans(parts: Sequence[SideSamples]) -> dict[str, tuple[float, ...]]:
    names = sorted({name for part in parts for block in part.blocks for name in block.spans_ns})
    return {
        SPAN_PREFIX + name: tuple(
            float(sample) for part in parts for block in part.blocks for sample in block.spans_ns.get(name, ())
        )
        for name in names
    }
