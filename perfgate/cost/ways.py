"""Floor 3, cost. Ways made of a way: with another batch, split over devices, without its optimiser.

In: a counted way with its groups of kernels. Out: ways whose time and memory the same functions give.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import replace

from perfgate.errors import UsageError
from perfgate.records.cost import Way
from perfgate.records.graph import FORWARD, OPTIMIZER, KernelGroup

EAGER = "eager"
# Names of kinds of operators (``graph.operators``), as they stand in records.
ATTENTION = "attention"
POINTWISE = "pointwise"


def kernels(way: Way) -> tuple[KernelGroup, ...]:
    """The groups of kernels that run: fused ones where the way compiles and they are known."""
    totals = way.totals
    return totals.eager_kernels if way.compile == EAGER else totals.fused_kernels or totals.eager_kernels


def kernel_calls(way: Way) -> int:
    """Kernels of one step."""
    return sum(group.calls for group in kernels(way))


def trains(way: Way) -> bool:
    """Whether a step has more than a forward pass: then devices have to agree on gradients."""
    return way.mode == "train" or any(group.phase != FORWARD for group in kernels(way))


def is_product(group: KernelGroup) -> bool:
    """Whether a kernel multiplies by weights or alike: what tensor parallelism splits. Attention is not one."""
    return group.flop > 0 and group.kind != ATTENTION


def at_batch(way: Way, batch: int) -> Way:
    """The same step with another batch, in proportion.

    F and bytes scale except ``weight_bytes`` (parameters, buffers, their gradients, all that the optimiser moves), and
    so does the peak of activations except the gradients in it. Right where a model treats items alike and separately;
    what an operator does once a step, whatever the batch, is scaled too, unless it moves nothing but weights.
    Without groups of kernels F alone scales. Raises UsageError for a batch below 1.
    """
    if batch < 1:
        msg = f"a batch of {batch} cannot be run; give at least 1"
        raise UsageError(msg)
    if batch == way.batch:
        return way
    ratio = batch / way.batch
    totals = way.totals
    changed = _mapped(way, lambda group: _grown(group, ratio))
    peak = totals.peak_activation_bytes
    if peak is not None:
        kept = min(peak, totals.weight_bytes) if trains(way) else 0
        peak = round(kept + (peak - kept) * ratio)
    flop = changed.totals.flop if kernels(way) else round(totals.flop * ratio)
    return replace(
        changed,
        batch=batch,
        items=max(1, round(way.items * ratio)),
        totals=replace(changed.totals, batch=batch, flop=flop, peak_activation_bytes=peak),
        peak_bytes=None,
    )


def _grown(group: KernelGroup, ratio: float) -> KernelGroup:
    own = group.bytes - group.weight_bytes
    if group.phase == OPTIMIZER or (own <= 0 and not group.flop):
        return group
    size = group.weight_bytes + round(own * ratio)
    written = round(group.written_bytes * size / group.bytes) if group.bytes else 0
    return replace(group, flop=round(group.flop * ratio), bytes=size, written_bytes=written)


def tensor_share(way: Way, devices: int) -> Way:
    """What each of ``devices`` does where weight matrices are split over them.

    Products come in pairs, the first split by columns, the second by rows (Shoeybi et al., "Megatron-LM", 2019): each
    device has 1/n of F and of the weights, and on average (1 + 1/n)/2 of the activations of a product, for one side
    of each is whole. Attention, and pointwise work within a pair, is split as well; of pointwise kernels half are taken
    to be within one. Norms, embeddings and the like are done by every device in full. The optimiser has 1/n.
    """
    part = 1 / devices
    half = (1 + part) / 2

    def shared(group: KernelGroup) -> KernelGroup:
        if group.phase == OPTIMIZER or group.kind == ATTENTION:
            return _scaled(group, part, part, part)
        if is_product(group):
            return _scaled(group, part, part, half)
        if group.kind == POINTWISE:
            return _scaled(group, half, half, half)
        return group

    return _mapped(way, shared)


def _scaled(group: KernelGroup, flop: float, weights: float, activations: float) -> KernelGroup:
    weight = round(group.weight_bytes * weights)
    size = weight + round((group.bytes - group.weight_bytes) * activations)
    written = round(group.written_bytes * size / group.bytes) if group.bytes else 0
    return replace(group, flop=round(group.flop * flop), bytes=size, weight_bytes=weight, written_bytes=written)


def without_optimizer(way: Way) -> Way:
    """Forward and backward pass alone."""
    return _kept(way, lambda group: group.phase != OPTIMIZER)


def optimizer_alone(way: Way) -> Way | None:
    """The optimiser's kernels alone; None where there are none."""
    alone = _kept(way, lambda group: group.phase == OPTIMIZER)
    return alone if kernels(alone) else None


def product_outputs(way: Way) -> tuple[int, int]:
    """Bytes that the forward pass's products write, and how many products there are."""
    found = [group for group in kernels(way) if is_product(group) and group.phase == FORWARD]
    return sum(group.written_bytes * group.calls for group in found), sum(group.calls for group in found)


def largest_share(way: Way) -> float:
    """The largest kernel's share of the step, by F or by bytes: no split by layers can be finer than it."""
    groups = kernels(way)
    flop = sum(group.flop * group.calls for group in groups)
    size = sum(group.bytes * group.calls for group in groups)
    return max(
        (max(group.flop / flop if flop else 0.0, group.bytes / size if size else 0.0) for group in groups), default=1.0
    )


def micro_batches(way: Way, devices: int) -> tuple[int, int]:
    """How many micro-batches a training step on a pipeline has, and the size of each.

    Four for each device where the batch allows it, which keeps the bubble near a fifth (Huang et al., "GPipe", 2019).
    """
    size = math.ceil(way.batch / min(way.batch, 4 * devices))
    return math.ceil(way.batch / size), size


def _mapped(way: Way, change: Callable[[KernelGroup], KernelGroup]) -> Way:
    eager = tuple(change(group) for group in way.totals.eager_kernels)
    fused = tuple(change(group) for group in way.totals.fused_kernels)
    return _with(way, eager, fused)


def _kept(way: Way, wanted: Callable[[KernelGroup], bool]) -> Way:
    eager = tuple(group for group in way.totals.eager_kernels if wanted(group))
    fused = tuple(group for group in way.totals.fused_kernels if wanted(group))
    return _with(way, eager, fused)


def _with(way: Way, eager: Sequence[KernelGroup], fused: Sequence[KernelGroup]) -> Way:
    running = eager if way.compile == EAGER else fused or eager
    if not kernels(way):
        # Nothing is known kernel by kernel: sums over none would say that there is no work.
        return way
    totals = replace(
        way.totals,
        flop=sum(group.flop * group.calls for group in running),
        kernels=sum(group.calls for group in eager),
        traffic=replace(
            way.totals.traffic,
            eager=sum(group.bytes * group.calls for group in eager),
            fused=sum(group.bytes * group.calls for group in fused or eager),
        ),
        eager_kernels=tuple(eager),
        fused_kernels=tuple(fused),
    )
    return replace(way, totals=totals)
