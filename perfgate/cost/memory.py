"""Floor 3, cost. What a way occupies on the fullest device, and what of a device may be used.

In: a counted way, a parallel form, an offer. Out: bytes.

Occupied = weights + state of the optimiser + peak of what the step makes + what the run time needs beside tensors.
The peak comes from the trace (``Totals.peak_activation_bytes``): the largest sum of bytes alive at once of tensors made
in the step. In training that holds the gradients too, because each step makes them anew, and not the optimiser's
state, which the traced step finds there. It counts tensors to the byte; allocators round and fragment.
"""

from __future__ import annotations

from perfgate.cost import ways
from perfgate.records.cost import DATA, PIPELINE, SINGLE, TENSOR, Way
from perfgate.records.graph import FORWARD, OPTIMIZER
from perfgate.records.hardware import CPU, GPU, Offer, Platform

MIB = 2**20

# Beside tensors: context of the driver, loaded kernels and the libraries' workspaces. A CUDA context of a current torch
# with cuBLAS and cuDNN has 0.4 to 0.6 GiB; on a CPU the interpreter with torch has 0.3 to 0.5 GiB.
CONTEXT_BYTES = 512 * MIB
# cuBLAS takes 32 MiB on Hopper (8 before), cuDNN's convolutions what their algorithm wants.
WORKSPACE_BYTES = {GPU: 128 * MIB}
# Of what a step makes: blocks are rounded up and freed pieces do not always fit the next tensor.
FRAGMENTATION = 0.1

# Every machine on offer has this much free: where its memory is not known, a way that needs no more may still run.
ALWAYS_FREE_BYTES = 1024 * MIB

# An optimiser that moves at most this many times the weights' bytes reads weight and gradient and writes the weight.
_STATELESS = 3.5
_STATES = 2


def bytes_needed(way: Way, form: str, devices: int, *, kind: str = GPU) -> int:
    """Bytes that the fullest of ``devices`` holds where the way runs in ``form``.

    A measured peak (``Way.peak_bytes``) takes the place of weights, state and activations; a form that splits
    changes it in the proportion in which the model of it changes.

    * ``single``, and ``data`` in inference: everything on each device. ``data`` in training has one more copy of the
      gradients, the buckets in which they are exchanged.
    * ``tensor``: 1/n of weights, gradients and state, (1 + 1/n)/2 of the activations.
    * ``pipeline``: 1/n of weights, gradients and state. In training 1/n of the activations, all micro-batches being
      kept until the backward pass; in inference the same peak, for it may be at any layer.
    """
    beside = CONTEXT_BYTES + WORKSPACE_BYTES.get(kind, 0)
    modelled = _tensors(way, form, devices)
    if way.peak_bytes is None:
        return round(beside + modelled)
    alone = _tensors(way, SINGLE, 1)
    # A measured peak lacks what the allocator holds beyond it.
    measured = way.peak_bytes + FRAGMENTATION * max(0, way.peak_bytes - way.totals.weight_bytes)
    return round(beside + measured * (modelled / alone if alone else 1.0))


def free_bytes(offer: Offer, platform: Platform, headroom: float) -> int | None:
    """What of one device (of a CPU machine: of its main memory) may be used; None: nobody knows its memory.

    What the offer says counts before what the platform has; a share of a device whose memory is not given has that
    share of the whole.
    """
    size: float | None = offer.memory_bytes
    if size is None:
        size = offer.ram_bytes if platform.kind == CPU else platform.memory_bytes
        if size is not None and platform.kind != CPU:
            size *= min(1.0, offer.share)
    return None if size is None else int(size * (1 - headroom))


def state_bytes(way: Way) -> int:
    """State of the optimiser, by what it moves.

    None of it where it does no more than plain gradient descent, else two values for each weight: what Adam keeps,
    and an upper bound for momentum. Where nobody knows what it moves, Adam is taken.
    """
    if not ways.trains(way):
        return 0
    groups = ways.kernels(way)
    moved = sum(group.bytes * group.calls for group in groups if group.phase == OPTIMIZER)
    if groups and moved <= _STATELESS * way.totals.weight_bytes:
        return 0
    return _STATES * way.totals.weight_bytes


def activation_bytes(way: Way) -> int:
    """Peak of what the step makes, without parameters' gradients; an upper bound where the trace does not say."""
    totals = way.totals
    gradients = gradient_bytes(way)
    if totals.peak_activation_bytes is not None:
        return max(0, totals.peak_activation_bytes - gradients)
    groups = ways.kernels(way)
    if not groups:
        return totals.traffic.fused
    if ways.trains(way):
        return sum(group.written_bytes * group.calls for group in groups if group.phase == FORWARD)
    # Inputs and outputs of the largest kernel, and as much again for what passes it by.
    return 2 * max(group.bytes for group in groups)


def gradient_bytes(way: Way) -> int:
    """As much as the weights in training; in inference none."""
    if not ways.trains(way):
        return 0
    peak = way.totals.peak_activation_bytes
    # Frozen weights have no gradient: the whole peak may be smaller than the weights.
    return way.totals.weight_bytes if peak is None else min(peak, way.totals.weight_bytes)


def _tensors(way: Way, form: str, devices: int) -> float:
    weights: float = way.totals.weight_bytes
    state: float = state_bytes(way)
    gradients: float = gradient_bytes(way)
    activations = (1 + FRAGMENTATION) * activation_bytes(way)
    if form == DATA and ways.trains(way):
        gradients *= 2
    if form == TENSOR:
        activations *= (1 + 1 / devices) / 2
    if form == PIPELINE and ways.trains(way):
        activations /= devices
    if form in {TENSOR, PIPELINE}:
        weights, state, gradients = weights / devices, state / devices, gradients / devices
    return weights + state + gradients + activations
