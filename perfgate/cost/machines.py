"""Floor 3, cost. How large machines are, and what a job asks of a machine's host.

In: shapes of machines; a way with the configuration that it runs in. Out: columns of :class:`Sizes`, bytes.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from perfgate.cost.memory import free_bytes
from perfgate.cost.shapes import Column, Shapes
from perfgate.records.cost import PIPELINE, SINGLE, Point, Requirements, Way
from perfgate.records.hardware import CPU, Platform

# Of one process on the host of an accelerator, beside the weights that pass through it: the interpreter with torch and
# the driver's part has 2 to 3 GiB, pinned buffers and two loaders the rest.
HOST_PROCESS_BYTES = 4 * 2**30
# Rates that a size is told by: what every platform's table has, and no format that only some can use.
_RATES = ("float64", "float32", "tf32", "float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Sizes:
    """Of every shape: ``memory`` in bytes of all its devices together (NaN: unknown), and their ``peak`` in FLOP/s."""

    memory: Column
    peak: Column


def sizes(shapes: Shapes) -> Sizes:
    """Memory and peak of every shape of machine."""
    memory, peak = [], []
    for shape in range(len(shapes)):
        offer, platform = shapes.offer(shape), shapes.platform(shape)
        free = free_bytes(offer, platform, 0.0)
        memory.append(math.nan if free is None else free * offer.count)
        rates = [platform.peak_flop_per_s[name] for name in _RATES if name in platform.peak_flop_per_s]
        peak.append(max(rates, default=math.inf) * offer.share * offer.count)
    return Sizes(np.array(memory, dtype=np.float64), np.array(peak, dtype=np.float64))


def host_bytes(way: Way, point: Point, platform: Platform, requirements: Requirements) -> int:
    """Main memory that the job needs, never more than nine tenths of what the machine is known to have.

    On a CPU what the step needs and the asked head-room; on the host of an accelerator one process a device, each of
    which loads its weights through main memory.
    """
    if platform.kind == CPU:
        need = point.memory_bytes / (1 - requirements.memory_headroom)
    else:
        processes = 1 if point.form in {SINGLE, PIPELINE} else point.devices
        need = processes * (HOST_PROCESS_BYTES + way.totals.weight_bytes)
    most = math.inf if point.offer.ram_bytes is None else 0.9 * point.offer.ram_bytes
    # What the step needs itself is never cut: it was checked against the memory before.
    floor = point.memory_bytes if platform.kind == CPU else 0
    return math.ceil(max(floor, min(need, most)))
