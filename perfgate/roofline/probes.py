"""Floor 2, roofline. Whether what a probe says can be true.

In: :class:`MeasuredRoofline` from a file that anybody may have written. Out: yes or no. Rates in FLOP and bytes per
second, of one device.
"""

from __future__ import annotations

from perfgate.records.hardware import MeasuredRoofline

# The slowest: one core in a dtype that it has no instructions for. The fastest: a hundred times any device on sale.
LEAST_FLOP_PER_S, MOST_FLOP_PER_S = 1e6, 1e18
LEAST_BYTES_PER_S, MOST_BYTES_PER_S = 1e6, 1e15


def possible(measured: MeasuredRoofline) -> bool:
    """False where a rate is none, or one that no device has; then nothing of the probe may be used."""
    rates = measured.flop_per_s.values()
    return (
        bool(rates)
        and all(LEAST_FLOP_PER_S <= rate <= MOST_FLOP_PER_S for rate in rates)
        and LEAST_BYTES_PER_S <= measured.bandwidth_bytes_per_s <= MOST_BYTES_PER_S
    )
