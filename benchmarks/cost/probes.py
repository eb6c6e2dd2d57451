"""What a probe of pi and beta would have said of NeuSight's devices, by its measurements of single operators.

In: observed operators. Out: :class:`MeasuredRoofline` by platform: the rate of large matrix products in float32 and of
large additions, medians of the best tenth of those that took a millisecond or more.
"""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

from benchmarks.cost.observations import Observed, by_platform
from perfgate.records.hardware import MeasuredRoofline

_LEAST_S = 1e-3
_BEST = 0.1
_STREAMS = frozenset({"add", "mul", "div"})


def probed(observed: Iterable[Observed]) -> dict[str, MeasuredRoofline]:
    """A roofline of each platform that has both kinds of operators long enough."""
    found = {}
    for platform, rows in by_platform(observed):
        products = _best(rows, lambda one: one.group == "linear", lambda one: one.kernels[0].flop / one.seconds)
        streams = _best(rows, lambda one: one.group in _STREAMS, lambda one: one.kernels[0].bytes / one.seconds)
        if products is None or streams is None:
            continue
        found[platform] = MeasuredRoofline(
            device="cuda:0",
            label=platform,
            flop_per_s={"float32": products},
            bandwidth_bytes_per_s=streams,
            probe_bytes=0,
            measured_at="2025-06-23T00:00:00Z",
            software="NeuSight's operators",
        )
    return found


def _best(
    rows: Iterable[Observed], wanted: Callable[[Observed], bool], rate: Callable[[Observed], float]
) -> float | None:
    rates = sorted((rate(one) for one in rows if wanted(one) and one.seconds >= _LEAST_S), reverse=True)
    if not rates:
        rates = sorted((rate(one) for one in rows if wanted(one)), reverse=True)[:10]
    return statistics.median(rates[: max(1, round(_BEST * len(rates)))]) if rates else None
