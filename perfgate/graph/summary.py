"""Floor 3, graph. The JSON that ``perfgate count --json`` prints.

In: :class:`Graph`. Out: a tree of plain values. FLOP = 2 x MAC; bytes; intensities in FLOP per byte.
"""

from __future__ import annotations

from typing import Any

from perfgate.records.graph import Graph, Operator, Totals


def tree(graph: Graph) -> dict[str, Any]:
    """All counts of a graph. ``intensity.max`` is F over the least traffic; an intensity is None where M is 0."""
    totals = graph.totals
    return {
        "flop": totals.flop,
        "mac": mac(totals.flop),
        "params": totals.params,
        "weight_bytes": totals.weight_bytes,
        "traffic_bytes": {
            "eager": totals.traffic.eager,
            "fused": totals.traffic.fused,
            "min": totals.traffic.min,
        },
        "intensity": intensities(totals),
        "peak_activation_bytes": totals.peak_activation_bytes,
        "kernels": totals.kernels,
        "batch": totals.batch,
        "kinds": {
            kind: {"calls": share.calls, "flop": share.flop, "bytes": share.bytes}
            for kind, share in totals.kinds.items()
        },
        "operators": [_operator(operator) for operator in graph.operators],
        "not_counted": [
            {"op": entry.op, "calls": entry.calls, "first": entry.first, "reason": entry.reason}
            for entry in totals.not_counted
        ],
        "fingerprint": totals.fingerprint,
        "source": totals.source,
        "software": totals.software,
        "notes": list(totals.notes),
    }


def mac(flop: int) -> int:
    """Multiply-accumulates; a user's formula may come to an odd number of FLOP, then rounded down."""
    return flop // 2


def intensities(totals: Totals) -> dict[str, float | None]:
    """I = F / M, FLOP per byte, for each M."""
    return {
        "eager": _ratio(totals.flop, totals.traffic.eager),
        "fused": _ratio(totals.flop, totals.traffic.fused),
        "max": _ratio(totals.flop, totals.traffic.min),
    }


def _ratio(flop: int, moved: int) -> float | None:
    return flop / moved if moved else None


def _operator(operator: Operator) -> dict[str, Any]:
    return {
        "name": operator.name,
        "op": operator.op,
        "kind": operator.kind,
        "module": operator.module,
        "phase": operator.phase,
        "inputs": list(operator.inputs),
        "outputs": list(operator.outputs),
        "attributes": dict(operator.attributes),
        "flop": operator.flop,
        "mac": None if operator.flop is None else mac(operator.flop),
        "read_bytes": operator.read_bytes,
        "written_bytes": operator.written_bytes,
        "sources": list(operator.sources),
        "fused": operator.fused,
        "repeat": operator.repeat,
        "signature": operator.signature,
    }
