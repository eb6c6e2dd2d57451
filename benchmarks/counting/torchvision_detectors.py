"""Detectors: parameters of a backbone whose batch norm is frozen, and F that depends on data.

With weights torchvision freezes the backbone's batch norm, which makes its scales and shifts buffers. In detectors of
two stages F = fixed + proposals x box head + detections x mask or keypoint head; the numbers of both depend on weights.
"""

from __future__ import annotations

from collections.abc import Iterator

from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.torchvision_published import Published
from benchmarks.counting.torchvision_shapes import channels_normalised, flop, rounds_to, sizes
from perfgate.records.graph import Graph

# torchvision's limits: proposals that are passed on (the small model's is 150), detections of one image.
_PROPOSALS = {"fasterrcnn_mobilenet_v3_large_320_fpn": 150}
_DETECTIONS = 100
_LATER_HEADS = {"maskrcnn": "mask", "keypointrcnn": "keypoint"}
_ROI = "float32[1,256,14,14]"


def head_alone(entry: Published) -> list[Wanted]:
    """The head that runs once for each detection, on one region, where the model has one."""
    kind = _LATER_HEADS.get(entry.model.partition("_")[0])
    if kind is None:
        return []
    return [Wanted(name=f"{entry.model}__{kind}", entry=f"vision:{entry.model}__{kind}", inputs=(_ROI,))]


def detector(entry: Published, count: Count, others: dict[str, Count]) -> str:
    """How the published figures come out; empty where they do not, or where there is nothing to explain."""
    graph = count.graph
    if graph is None:
        return ""
    told = []
    if graph.totals.params != entry.params:
        frozen = 2 * channels_normalised(graph, "backbone")
        if graph.totals.params - frozen != entry.params:
            return ""
        told.append(f"{frozen} parameters fewer with weights, where the backbone's batch norm is frozen to buffers")
    if not rounds_to(entry.gmac, graph.totals.flop):
        one = next((other.graph.totals.flop for other in others.values() if other.graph is not None), 0)
        numbers = _numbers(entry, graph, one)
        if not numbers:
            return ""
        told.append(numbers)
    return "; ".join(told)


def _numbers(entry: Published, graph: Graph, one_detection: int) -> str:
    """The number of proposals (all or none) and of detections with which F is as published."""
    box = [operator for operator in graph.operators if operator.module.startswith("roi_heads.box_")]
    later = [op for op in graph.operators if op.module.startswith(("roi_heads.mask_", "roi_heads.keypoint_"))]
    seen = sizes(box[0].outputs[0])[0] if box else 0
    if not seen:
        return ""
    fixed = graph.totals.flop - flop(box) - flop(later)
    for proposed, detected in _possible(entry, one_detection):
        total = fixed + flop(box) / seen * proposed + one_detection * detected
        if rounds_to(entry.gmac, total):
            more = f" and {detected} detections" if one_detection else ""
            return f"F with {proposed} proposals{more} is as published ({seen} proposals here, without weights)"
    return ""


def _possible(entry: Published, one_detection: int) -> Iterator[tuple[int, int]]:
    for proposed in (_PROPOSALS.get(entry.model, 1000), 0):
        for detected in range(_DETECTIONS + 1 if one_detection and proposed else 1):
            yield proposed, detected
