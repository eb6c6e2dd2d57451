"""Floor 2, roofline. One step under one roof, with the operators that the roof allows the least.

In: groups of kernels, a machine, and what was measured. Out: :class:`RooflineSummary`. Only roofs count here, no
calibration: what is said is what the hardware allows, not what is expected of it.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from perfgate.records.cost import COMPUTE_BOUND, MEMORY_BOUND, RooflineOperator, RooflineSummary
from perfgate.records.graph import KernelGroup
from perfgate.roofline import step
from perfgate.roofline.machine import Machine
from perfgate.roofline.roof import NS_PER_S, roof

# Rows of ``RooflineSummary.operators``; where there are more, the last one holds all others.
MOST = 40
OTHERS = "others"


def summary(
    kernels: Sequence[KernelGroup], machine: Machine, dtype: str, *, measured_ns: float | None
) -> RooflineSummary | None:
    """The roofline of a step. None: no kernels, or a rate that they need is not known.

    ``bound_ns`` is the sum of max(F / pi, M / beta) over the kernels, each with pi of its own dtype. ``flop_per_s``,
    ridge, attainable rate and ``bound`` are those of the step as a whole, with pi as in :func:`step.times`.
    ``measured_ns`` below ``bound_ns`` gives a share above 1: M is larger than what really moved (caches), or the roof
    is too low.
    """
    if not kernels:
        return None
    found = step.terms(kernels, [machine])
    compute, memory = found.compute_ns[:, 0], found.memory_ns[:, 0]
    each = np.maximum(compute, memory)
    flop, moved = (int(found.calls @ amount) for amount in (found.flop, found.moved))
    pi = flop * NS_PER_S / float(found.calls @ compute) if flop else machine.rate(dtype)
    if pi is None or not np.isfinite(each).all():
        return None
    whole = roof(flop, moved, flop_per_s=pi, bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s)
    bound_ns = float(found.calls @ each)
    timed = measured_ns if measured_ns else None
    return RooflineSummary(
        device=machine.label,
        measured=machine.measured and _probed(kernels, machine),
        flop_per_s=pi,
        bandwidth_bytes_per_s=machine.bandwidth_bytes_per_s,
        ridge=whole.ridge,
        intensity=whole.intensity,
        attainable_flop_per_s=whole.attainable_flop_per_s,
        bound=whole.bound,
        bound_ns=bound_ns,
        achieved_flop_per_s=flop * NS_PER_S / timed if timed else None,
        share=bound_ns / timed if timed else None,
        operators=_operators(kernels, compute, memory, bound_ns),
    )


def _probed(kernels: Sequence[KernelGroup], machine: Machine) -> bool:
    """Whether every pi that counts here is the probe's."""
    return all(machine.rate_key(one.dtype, one.kind) in machine.probed for one in kernels if one.flop)


def _operators(
    kernels: Sequence[KernelGroup], compute: step.Floats, memory: step.Floats, bound_ns: float
) -> tuple[RooflineOperator, ...]:
    """Rows with the longest bounds first; the same order for equal ones whatever the sort."""
    parts = list(zip(kernels, compute.tolist(), memory.tolist(), strict=True))
    parts.sort(key=lambda part: (-part[0].calls * max(part[1], part[2]), part[0].name))
    if len(parts) <= MOST:
        return tuple(_row([part], bound_ns) for part in parts)
    return (*(_row([part], bound_ns) for part in parts[: MOST - 1]), _row(parts[MOST - 1 :], bound_ns))


def _row(parts: Sequence[tuple[KernelGroup, float, float]], bound_ns: float) -> RooflineOperator:
    """One group, or all that are left: these are bound by what most of their time goes to."""
    first = parts[0][0]
    several = len(parts) > 1
    flop = sum(one.flop * one.calls for one, _, _ in parts)
    moved = sum(one.bytes * one.calls for one, _, _ in parts)
    computing = sum(one.calls * compute for one, compute, memory in parts if compute >= memory)
    moving = sum(one.calls * memory for one, compute, memory in parts if compute < memory)
    own = computing + moving
    return RooflineOperator(
        name=f"{len(parts)} {OTHERS}" if several else first.name,
        kind=OTHERS if several else first.kind,
        dtype="" if several else first.dtype,
        calls=sum(one.calls for one, _, _ in parts),
        flop=flop,
        bytes=moved,
        intensity=flop / max(moved, 1),
        bound=COMPUTE_BOUND if computing > moving else MEMORY_BOUND,
        bound_ns=own,
        share=own / bound_ns if bound_ns else 0.0,
    )
