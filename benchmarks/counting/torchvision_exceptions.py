"""Published figures that hold for another build or for other data, and the arithmetic that shows it.

In: an :class:`Example`. Out: a sentence where the figures come out exactly that way, else nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.counting.ours import Count, Wanted
from benchmarks.counting.torchvision_detectors import detector, head_alone
from benchmarks.counting.torchvision_published import DETECTION, FLOW, QUANTIZED, SEGMENTATION, Published
from benchmarks.counting.torchvision_shapes import channels_normalised, rounds_to
from perfgate.records.graph import Graph

_FLOW_SIZE = (520, 960)
NO_AUX = "noaux"


@dataclass(frozen=True, slots=True, kw_only=True)
class Example:
    """A published entry, the count of its model, and counts of models that :func:`helpers` asked for, by name."""

    entry: Published
    count: Count
    others: dict[str, Count] = field(default_factory=dict)
    int8: bool = False


def wanted(entry: Published, variant: str | None = None) -> Wanted:
    """The model of ``entry`` as ``zoo.vision`` builds it; ``variant`` None: the published one."""
    chosen = entry.variant if variant is None else variant
    suffix = f"__{chosen}" if chosen else ""
    name = f"{entry.model}{suffix} at {entry.size}"
    return Wanted(name=name, entry=f"vision:{entry.model}{suffix}", inputs=entry.inputs)


def has_auxiliary_heads(entry: Published) -> bool:
    """Whether the constructor takes ``aux_logits``."""
    return entry.model.endswith(("googlenet", "inception_v3"))


def int8(entry: Published) -> Wanted:
    """The quantised form of a quantizable model, without heads that only training runs."""
    return wanted(entry, f"{NO_AUX}_int8" if has_auxiliary_heads(entry) else "int8")


def helpers(entry: Published) -> list[Wanted]:
    """Further models whose counts the arithmetic of ``entry`` needs."""
    if has_auxiliary_heads(entry):
        return [wanted(entry, NO_AUX)]
    if entry.task == SEGMENTATION and entry.variant == "aux":
        return [wanted(entry, "")]
    if entry.task == FLOW:
        image = f"float32[1,3,{_FLOW_SIZE[0]},{_FLOW_SIZE[1]}]"
        return [Wanted(name=f"{entry.model} at its preset", entry=f"vision:{entry.model}", inputs=(image, image))]
    return head_alone(entry) if entry.task == DETECTION else []


def explain(example: Example) -> str:
    """Why this figure differs from the count; empty where nothing known makes it come out."""
    entry = example.entry
    if example.int8:
        return _quantised(example)
    if has_auxiliary_heads(entry) and not is_as_published(entry, example.count.graph):
        return _without_auxiliary_heads(example)
    if entry.task == DETECTION:
        return detector(entry, example.count, example.others)
    if entry.task in (SEGMENTATION, FLOW) and is_as_published(entry, example.count.graph):
        return _other_build(example)
    return ""


def is_as_published(entry: Published, graph: Graph | None) -> bool:
    """Whether F/2 rounds to ``_ops`` and the parameters are ``num_params``."""
    return graph is not None and rounds_to(entry.gmac, graph.totals.flop) and graph.totals.params == entry.params


def _other_build(example: Example) -> str:
    """Equal, but only for a build or an input that is not what a user gets first."""
    entry = example.entry
    other = next((count.graph for count in example.others.values() if count.graph is not None), None)
    if other is None:
        return ""
    plain = f"{other.totals.params} parameters, {other.totals.flop / 2e9:.3f} GMAC"
    if entry.task == FLOW:
        preset = " x ".join(map(str, _FLOW_SIZE))
        return f"as published for {entry.size} x {entry.size}; at {preset}, the size of its preset: {plain}"
    return f"as published with the auxiliary head, which inference runs where it exists; without it: {plain}"


def _without_auxiliary_heads(example: Example) -> str:
    entry, graph = example.entry, example.count.graph
    bare = _graph(example, wanted(entry, NO_AUX).name)
    if graph is None or bare is None or not is_as_published(entry, bare) or bare.totals.flop != graph.totals.flop:
        return ""
    extra = graph.totals.params - bare.totals.params
    return (
        f"built without weights it has {extra} more parameters in its two auxiliary heads, which inference does not "
        f"run; with aux_logits=False parameters ({bare.totals.params}) and F are as published"
    )


def _quantised(example: Example) -> str:
    """Batch norm folds into the convolution before it: C scales and C shifts leave, a bias of C comes."""
    entry, graph = example.entry, example.count.graph
    plain = _graph(example, wanted(entry, NO_AUX if has_auxiliary_heads(entry) else "").name)
    if entry.task != QUANTIZED or graph is None or plain is None or not rounds_to(entry.gmac, graph.totals.flop):
        return ""
    saved, channels = plain.totals.params - graph.totals.params, channels_normalised(plain)
    if saved != channels:
        return ""
    heads = " (both without auxiliary heads)" if has_auxiliary_heads(entry) else ""
    return (
        f"F is as published; {saved} parameters fewer than the floating-point model{heads}: one for each normalised "
        "channel, whose scale and shift become a bias"
    )


def _graph(example: Example, name: str) -> Graph | None:
    found = example.others.get(name)
    return None if found is None else found.graph
