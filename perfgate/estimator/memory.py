"""Floor 3, estimator. Peak memory: columns that it follows from, and the floor below which no estimate goes.

In: :class:`Example`. Out: bytes of weights, of the optimiser's state, of the largest sum of activations alive (with
gradients in training) and of the largest result, which is what a library's workspace grows with.

An estimate is of what the process occupies on the device. A CPU's figure is the resident high-water mark, which holds
interpreter and libraries; an accelerator's is the allocator's peak, which does not hold the driver's context, so a
context is added to what was measured.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import features
from perfgate.records.estimate import Example
from perfgate.records.hardware import CPU

Floats = NDArray[np.float64]

WEIGHTS, STATE, ACTIVATIONS, WORKSPACE, CONTEXT = "weights", "optimiser state", "activations", "workspace", "context"
NAMES = (WEIGHTS, STATE, ACTIVATIONS, WORKSPACE, CONTEXT)
# So many of them hold memory byte for byte; the others are learned.
COUNTED = 3
# Driver, loaded kernels and handles of the libraries of a current torch on an accelerator: 0.4 to 0.6 GiB.
CONTEXT_BYTES = 512 * 2**20
# Values that an optimiser keeps for each weight.
_STATES = {"adam": 2, "adamw": 2, "nadam": 2, "lamb": 2, "rmsprop": 1, "adagrad": 1, "momentum": 1, "lion": 1}


def context_bytes(kind: str) -> int:
    """What a measured peak on a machine of ``kind`` does not hold."""
    return 0 if kind == CPU else CONTEXT_BYTES


def matrix(examples: Sequence[Example]) -> Floats:
    """Bytes (n, 5), columns :data:`NAMES`; the last is 1."""
    counted, _ = features.memory(examples)
    state = [one.weight_bytes * _states(one) for one in examples]
    return np.column_stack([counted[:, 0], np.array(state, np.float64), counted[:, 1], counted[:, 2], counted[:, 3]])


def floor(x: Floats, context: Floats) -> Floats:
    """Bytes (n,) that are there in any case: weights, state, activations, and the least context seen."""
    result: Floats = x[:, :COUNTED].sum(axis=1) + context
    return result


def _states(example: Example) -> int:
    if example.mode != "train":
        return 0
    return _STATES.get(example.hyper_parameters.get("optimizer", "").lower(), 0)
