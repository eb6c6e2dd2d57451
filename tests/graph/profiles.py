"""Profiles as a worker would give them, made up from a graph: other processes, other moments, noise."""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Mapping

from perfgate.graph.difference.weighing import estimate
from perfgate.records.graph import Graph, OperatorTime, Profile

# The operator that a profiler sees outermost, for operators below autograd.
OUTER = {
    "convolution": "conv2d", "addmm": "linear", "mm": "linear", "bmm": "matmul", "native_batch_norm": "batch_norm",
    "native_layer_norm": "layer_norm", "native_group_norm": "group_norm", "_softmax": "softmax", "_to_copy": "to",
    "clone": "contiguous", "bernoulli_": "dropout", "constant_pad_nd": "pad", "_local_scalar_dense": "item",
}  # fmt: skip

Cell = tuple[str, str, str]  # module, operator as profiled, phase


def profile(
    graph: Graph, seed: int, *, noise: float = 0.05, speed: float = 1.0, extra: Mapping[Cell, float] | None = None
) -> Profile:
    """Times in proportion to the estimate, each kind of operator off by a factor of its own; ``extra`` ns a cell.

    ``noise``: spread of the logarithm of a cell's time; ``speed``: how much slower the machine is at this moment.
    """
    chance = random.Random(seed)
    times: dict[Cell, float] = defaultdict(float)
    for operator in graph.operators:
        name = operator.op.rpartition("::")[2]
        # The same on both sides, whatever the seed: how far the machine is from the estimate's.
        factor = random.Random(name).uniform(0.5, 2.0)
        outer = f"{operator.op.rpartition('::')[0]}::{OUTER.get(name, name)}"
        times[(operator.module, outer, operator.phase)] += factor * estimate(operator)
        times[(operator.module, "python", operator.phase)] += 2_000.0 * operator.repeat
    for cell, more in (extra or {}).items():
        times[cell] += more
    found = tuple(
        OperatorTime(module=module, op=op, phase=phase, host_ns=speed * time * chance.lognormvariate(0, noise))
        for (module, op, phase), time in times.items()
    )
    return Profile(times=found, steps=10, step_ns=sum(time.host_ns for time in found))


def true_ns(graph: Graph, extra: Mapping[Cell, float] | None = None) -> float:
    """What a step of :func:`profile` takes without noise, on a machine of normal speed."""
    return profile(graph, 0, noise=0.0, extra=extra).step_ns
