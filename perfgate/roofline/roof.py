"""Floor 2, roofline. The roofline itself: intensity, ridge, attainable rate, bound, least time.

In: F in FLOP, M in bytes, pi in FLOP/s, beta in bytes/s. Out: numbers. After S. Williams, A. Waterman and D. Patterson,
"Roofline: an insightful visual performance model for multicore architectures", CACM 52(4), 2009.
"""

from __future__ import annotations

from dataclasses import dataclass

from perfgate.records.cost import COMPUTE_BOUND, MEMORY_BOUND

NS_PER_S = 1e9


@dataclass(frozen=True, slots=True, kw_only=True)
class Roof:
    """Work under a roof: ``intensity`` I and ``ridge`` I_max in FLOP per byte, ``attainable_flop_per_s``, ``bound``.

    ``least_ns``: F over the attainable rate, which is the larger of F / pi and M / beta.
    """

    intensity: float
    ridge: float
    attainable_flop_per_s: float
    bound: str
    least_ns: float


def roof(flop: float, moved: float, *, flop_per_s: float, bandwidth_bytes_per_s: float) -> Roof:
    """F and M under pi and beta. Raises ValueError unless both rates are above 0.

    ridge I_max = pi / beta; P = min(pi, beta I); memory bound where I < I_max; t = max(F / pi, M / beta).
    Work that moves nothing has an intensity of 0 where it also computes nothing, else of F per byte.
    """
    if not (flop_per_s > 0 and bandwidth_bytes_per_s > 0):
        msg = f"a roof needs rates above 0, not {flop_per_s} FLOP/s and {bandwidth_bytes_per_s} bytes/s"
        raise ValueError(msg)
    ridge = flop_per_s / bandwidth_bytes_per_s
    intensity = flop / max(moved, 1)
    return Roof(
        intensity=intensity,
        ridge=ridge,
        attainable_flop_per_s=min(flop_per_s, bandwidth_bytes_per_s * intensity),
        bound=COMPUTE_BOUND if intensity >= ridge else MEMORY_BOUND,
        least_ns=max(flop / flop_per_s, moved / bandwidth_bytes_per_s) * NS_PER_S,
    )
