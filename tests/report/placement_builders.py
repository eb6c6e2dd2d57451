"""Placements from short descriptions, and the form of a report that has some."""

from __future__ import annotations

from typing import Any

from perfgate.records.evidence import Measurements
from perfgate.records.placement import Piece, PlacementPlan, PlacementReport, Single, WorkloadPlacement
from perfgate.records.report import ModelResult, Report
from tests.report.builders import measurements, model, report, usual


def piece(target: str, *nodes: str, **fields: Any) -> Piece:
    """``target`` is ``library device`` or ``library device threads``."""
    library, device = target.split()[:2]
    return Piece(target=target, library=library, device=device, file=f"pieces/{nodes[0]}", nodes=nodes, **fields)


def plan(*pieces: Piece, **fields: Any) -> PlacementPlan:
    """4.9 ms measured against 5.4 ms on cuda:0 alone, unless given."""
    values: dict[str, Any] = {
        "model": "dlrm",
        "fingerprint": "f" * 16,
        "pieces": pieces or (piece("torch cpu", "embedding"), piece("torch cuda:0", "top.0", "top.1", "out")),
        "predicted_s": 4.7e-3,
        "measured_s": 4.9e-3,
        "low_s": 4.8e-3,
        "high_s": 5.0e-3,
        "best_single": "torch cuda:0",
        "single_s": 5.4e-3,
        "faster": (-0.12, -0.07),
        "recommended": True,
    }
    return PlacementPlan(**{**values, **fields})


def placed(entry: ModelResult, found: PlacementPlan | None = None, **fields: Any) -> WorkloadPlacement:
    """What was found for a workload of the report."""
    singles = (Single(target="torch cpu", value=9e-3), Single(target="torch cuda:0", value=5.3e-3, moved=1))
    values: dict[str, Any] = {"singles": singles, "nodes": 4, "bound_s": 4.23e-3, "changed": found is not None}
    return WorkloadPlacement(model=entry.model, key=entry.key, plan=found, **{**values, **fields})


def placements() -> tuple[Report, Measurements]:
    """One recommendation that changed, one that did not, and one that could not be searched."""
    entries = [model(name, *usual()) for name in ("dlrm", "resnet50", "vit")]
    found = PlacementReport(
        workloads=(
            placed(entries[0], plan()),
            placed(
                entries[1],
                plan(piece("onnxruntime cpu 1", "conv1", "fc"), recommended=False, faster=(-0.01, 0.02)),
                changed=False,
                reused=True,
            ),
            placed(entries[2], reason="torch.export cannot take it: data-dependent control flow"),
        )
    )
    judged = report(*entries, placement=found)
    return judged, measurements(judged)
