"""Room ``store``: what a record keeps of a step's structure, small enough for thousands of records.

In: :class:`Totals`. Out: a tree of plain values, and the groups of kernels again. Names of operators are not kept: an
estimator learns from what kernels do, and a record that says more would differ with every renaming.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from perfgate.records.graph import KernelGroup, Totals

EAGER = "eager"
# Order of the numbers and texts that stand for one group of equal kernels.
COLUMNS = ("kind", "dtype", "phase", "calls", "flop", "bytes", "written_bytes", "weight_bytes")


def of_totals(totals: Totals, compile_: str) -> dict[str, Any]:
    """Kinds, traffic, and the groups of kernels that run with a compile setting (rows of ``COLUMNS``)."""
    groups = totals.eager_kernels if compile_ == EAGER else totals.fused_kernels or totals.eager_kernels
    return {
        "kinds": {name: asdict(share) for name, share in totals.kinds.items()},
        "traffic": asdict(totals.traffic),
        "kernels": totals.kernels,
        "weight_bytes": totals.weight_bytes,
        "peak_activation_bytes": totals.peak_activation_bytes,
        "kernel_groups": [[getattr(group, name) for name in COLUMNS] for group in groups],
    }


def kernels(structure: object) -> tuple[KernelGroup, ...]:
    """The groups of a record; () where it has none, or none that can be read."""
    if not isinstance(structure, Mapping):
        return ()
    try:
        return tuple(_group(row) for row in structure.get("kernel_groups") or ())
    except (TypeError, ValueError):
        # Written by something else: what cannot be read teaches nothing.
        return ()


def _group(row: Any) -> KernelGroup:
    kind, dtype, phase, calls, flop, size, written, weights = row
    texts = (kind, dtype, phase)
    if not all(isinstance(text, str) for text in texts):
        msg = "kind, dtype and phase are texts"
        raise TypeError(msg)
    return KernelGroup(
        name="",
        kind=kind,
        dtype=dtype,
        phase=phase,
        calls=int(calls),
        flop=int(flop),
        bytes=int(size),
        written_bytes=int(written),
        weight_bytes=int(weights),
    )
