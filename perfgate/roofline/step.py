"""Floor 2, roofline. Time of a step on many machines at once, kernel by kernel.

In: groups of kernels and machines. Out: :class:`StepTime` for each machine; for fits, the terms and the formula apart.

    compute = F / (pi r e_F)                      r: share of a published peak that large products reach (1: measured)
    compute = compute + sqrt(compute h)           where a kernel's rate grows with its size: half of it at h
    memory  = M / (beta r' e_M)
    t       = (compute^p + memory^p)^(1/p) + t0   p inf: the roofline's max(compute, memory)
    step    = sum over kernels of calls * t

e_F, e_M and h are by kind of kernel, all constants by class of machine (``calibration.toml``). t0 is added once to each
kernel and is in nothing else. An ideal machine has e = r = 1, h = t0 = 0 and p = inf: the bound of the roofline alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from perfgate.records.cost import LAUNCH_BOUND, ROOFLINE, StepTime
from perfgate.records.graph import KernelGroup
from perfgate.roofline.calibration import KINDS
from perfgate.roofline.machine import Machine
from perfgate.roofline.roof import NS_PER_S, roof

Floats = NDArray[np.float64]
Whole = NDArray[np.intp]

# Quantile of the normal distribution that leaves 5 % on each side.
Z90 = 1.6448536269514722
_PLACE = {kind: place for place, kind in enumerate(KINDS)}
_OTHER = _PLACE["other"]
# Above this share of a step, launching is what limits it.
_HALF = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """What a step's time is made of before any constant: K groups of kernels on N machines.

    Attributes:
        calls, flop, moved: (K,): calls; FLOP and bytes of one.
        kind: (K,): place in ``KINDS``. ``rate``: (K,): place in ``rates``.
        rates: Pairs (dtype, kind) that decide about pi; at most a few.
        compute_ns: (K, N): F / pi of one call; nan where it computes and the machine has no such rate.
        memory_ns: (K, N): M / beta of one call.
    """

    calls: Floats
    flop: Floats
    moved: Floats
    kind: Whole
    rate: Whole
    rates: tuple[tuple[str, str], ...]
    compute_ns: Floats
    memory_ns: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Constants:
    """Constants of N machines, as arrays: what a fit varies.

    ``reach_flop``: (R, N) for R pairs of ``Terms.rates``; ``flop_efficiency``, ``byte_efficiency``, ``half_ns``:
    (kinds, N); the others: (N,).
    """

    reach_flop: Floats
    reach_bandwidth: Floats
    flop_efficiency: Floats
    byte_efficiency: Floats
    half_ns: Floats
    launch_ns: Floats
    overlap: Floats
    sigma: Floats


@dataclass(frozen=True, slots=True, kw_only=True)
class Parts:
    """Times of one call of each of K groups on N machines, in ns, each (K, N): without t0, and what they come from."""

    work: Floats
    compute: Floats
    memory: Floats


def terms(kernels: Sequence[KernelGroup], machines: Sequence[Machine]) -> Terms:
    """The terms of a step. Depends on roofs alone, so a fit needs it once for each step and set of machines."""
    pairs: dict[tuple[str, str], int] = {}
    rate = np.fromiter((pairs.setdefault((one.dtype, one.kind), len(pairs)) for one in kernels), np.intp, len(kernels))
    pi = np.array([[machine.rate(*pair) or math.nan for machine in machines] for pair in pairs], np.float64)
    beta = np.array([machine.bandwidth_bytes_per_s for machine in machines], np.float64)
    flop = np.array([one.flop for one in kernels], np.float64)
    moved = np.array([one.bytes for one in kernels], np.float64)
    compute = flop[:, None] * (NS_PER_S / pi.reshape(len(pairs), len(machines)))[rate]
    compute[flop == 0] = 0.0
    return Terms(
        calls=np.array([one.calls for one in kernels], np.float64),
        flop=flop,
        moved=moved,
        kind=np.fromiter((_PLACE.get(one.kind, _OTHER) for one in kernels), np.intp, len(kernels)),
        rate=rate,
        rates=tuple(pairs),
        compute_ns=compute,
        memory_ns=moved[:, None] * (NS_PER_S / beta),
    )


def constants(found: Terms, machines: Sequence[Machine]) -> Constants:
    """The constants of machines; of an ideal one those that change nothing."""
    reach = [
        [machine.reach.get(machine.rate_key(*pair), 1.0) for machine in machines]
        for pair in found.rates
    ]  # fmt: skip
    given = [machine.calibration for machine in machines]
    ones, zeros = (1.0,) * len(KINDS), (0.0,) * len(KINDS)
    return Constants(
        reach_flop=np.array(reach, np.float64).reshape(len(found.rates), len(machines)),
        reach_bandwidth=np.array([machine.bandwidth_reach for machine in machines], np.float64),
        flop_efficiency=np.array([one.flop_efficiency if one else ones for one in given], np.float64).T,
        byte_efficiency=np.array([one.byte_efficiency if one else ones for one in given], np.float64).T,
        half_ns=np.array([one.half_ns if one else zeros for one in given], np.float64).T,
        launch_ns=np.array([one.launch_ns if one else 0.0 for one in given], np.float64),
        overlap=np.array([one.overlap if one else math.inf for one in given], np.float64),
        sigma=np.array([_sigma(machine) for machine in machines], np.float64),
    )


def _sigma(machine: Machine) -> float:
    if machine.calibration is None:
        return 0.0
    return machine.calibration.sigma_measured if machine.measured else machine.calibration.sigma


def kernel_ns(found: Terms, given: Constants) -> Parts:
    """Time of one call of each group on each machine, t0 left out. The formula stands at the top of this module."""
    compute = found.compute_ns / given.flop_efficiency[found.kind]
    compute /= given.reach_flop[found.rate]
    if given.half_ns.any():
        compute += np.sqrt(compute * given.half_ns[found.kind])
    memory = found.memory_ns / given.byte_efficiency[found.kind]
    memory /= given.reach_bandwidth
    return Parts(work=_joined(compute, memory, given.overlap), compute=compute, memory=memory)


def step_ns(found: Terms, given: Constants) -> Floats:
    """Step time on each of N machines: (N,), in ns; nan where a rate that it needs is not known."""
    total: Floats = found.calls @ kernel_ns(found, given).work + found.calls.sum() * given.launch_ns
    return total


def _joined(compute: Floats, memory: Floats, overlap: Floats) -> Floats:
    """(compute^p + memory^p)^(1/p), column by column, with the cheap cases apart."""
    work = np.empty_like(compute)
    for p in np.unique(overlap):
        where = slice(None) if overlap.size and (overlap == p).all() else overlap == p
        c, m = compute[:, where], memory[:, where]
        if p == 1:
            work[:, where] = c + m
        elif p == 2:
            work[:, where] = np.sqrt(c * c + m * m)
        elif math.isinf(p):
            work[:, where] = np.maximum(c, m)
        else:
            longer, shorter = np.maximum(c, m), np.minimum(c, m)
            ratio = np.divide(shorter, longer, out=np.zeros_like(longer), where=longer > 0)
            work[:, where] = longer * (1 + ratio**p) ** (1 / p)
    return work


def times(kernels: Sequence[KernelGroup], machines: Sequence[Machine], dtype: str) -> list[StepTime | None]:
    """Step time on each machine; None where it has no rate for what the kernels compute in, or there are no kernels.

    ``dtype`` is the workload's; it decides where a step has no products. The interval holds 90 %: ns times and over
    e^(1.645 sigma). ``flop_per_s`` is pi of the roof: over several dtypes F over the sum of F / pi, the rate of the
    products one after another. ``bound``: launch, where t0 is more than half of the step, else by intensity and ridge.
    """
    if not kernels or not machines:
        return [None] * len(machines)
    found = terms(kernels, machines)
    given = constants(found, machines)
    total = step_ns(found, given)
    launch = found.calls.sum() * given.launch_ns
    flop = float(found.calls @ found.flop)
    moved = float(found.calls @ found.moved)
    computing = found.calls @ found.compute_ns
    spread = np.exp(Z90 * given.sigma)
    return [
        _time(
            float(total[n]),
            float(spread[n]),
            launch=float(launch[n]),
            flop=flop,
            moved=moved,
            pi=flop * NS_PER_S / float(computing[n]) if flop else machine.rate(dtype),
            beta=machine.bandwidth_bytes_per_s,
        )
        for n, machine in enumerate(machines)
    ]


def _time(
    ns: float, spread: float, *, launch: float, flop: float, moved: float, pi: float | None, beta: float
) -> StepTime | None:
    if not pi or not math.isfinite(ns):
        return None
    under = roof(flop, moved, flop_per_s=pi, bandwidth_bytes_per_s=beta)
    return StepTime(
        ns=ns,
        low_ns=ns / spread,
        high_ns=ns * spread,
        source=ROOFLINE,
        bound=LAUNCH_BOUND if launch > _HALF * ns else under.bound,
        intensity=under.intensity,
        ridge=under.ridge,
        flop_per_s=pi,
    )
