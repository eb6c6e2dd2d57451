"""Floor 3, estimator. What the time of a single kernel follows from, as columns of ns at its machine's full rates.

In: kernels of one class, and where each runs. Out: a matrix, and the unit of each column.

Columns know more of one kernel than those of whole steps do: the FLOP of the blocks that cover a product (libraries
compute whole blocks), the part of them beyond a depth from which operands fall out of caches, and bytes split at sizes
of caches, so that the price of a byte may change with size. All grow with batch, rows, columns and depth.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from perfgate.estimator import classes, features, shapes
from perfgate.records.estimate import Example
from perfgate.records.graph import KernelGroup

Floats = NDArray[np.float64]

NS_PER_S = 1e9
_MIB = 2.0**20
# Bytes of a kernel at which their price may change: what L2 and last-level caches hold.
_SIZES = (_MIB, 4 * _MIB, 16 * _MIB, 64 * _MIB)
# Edges of the blocks that libraries cover a product with, and how deep one step of them is.
_TILES, _STEP = (64, 128), 8
# Depths from which an operand's rows are too long for caches.
_DEPTHS = (4096.0, 16384.0)
_CALL_NS = 1e3
# Units of columns.
FLOP, BYTES, CALLS = 0, 1, 2
_PRODUCTS = frozenset({classes.LINEAR, classes.PRODUCT})


def columns(name: str, kernels: Sequence[KernelGroup], examples: Sequence[Example]) -> Floats:
    """Rows (n, k) of kernels of class ``name``: ns at the full rates of the examples' machines, the call's last."""
    pairs = list(zip(examples, kernels, strict=True))
    flop = np.array([NS_PER_S / features.pi(one.machine, kernel.dtype) for one, kernel in pairs])
    byte = np.array([NS_PER_S / features.beta(one.machine) for one in examples])
    if name in _PRODUCTS:
        work, moved = _blocks(name, kernels), _operands(kernels)
    else:
        work, moved = np.array([[float(one.flop)] for one in kernels]), _pieces(kernels)
    return np.hstack([work * flop[:, None], moved * byte[:, None], np.full((len(kernels), 1), _CALL_NS)])


def units(name: str) -> NDArray[np.intp]:
    """FLOP, BYTES or CALLS of each column of a class (k,)."""
    if name in _PRODUCTS:
        work, moved = len(_TILES) + len(_DEPTHS), 3
    else:
        work, moved = 1, len(_SIZES) + 1
    return np.array([FLOP] * work + [BYTES] * moved + [CALLS], np.intp)


def _blocks(name: str, kernels: Sequence[KernelGroup]) -> Floats:
    """(n, tiles + depths): FLOP of covering blocks up to the first depth, by tile, and beyond each depth."""
    found = np.empty((len(kernels), len(_TILES) + len(_DEPTHS)))
    edges = np.array([0.0, *_DEPTHS, np.inf])
    for row, kernel in enumerate(kernels):
        shape = _shape(name, kernel)
        parts = np.clip(shape.deep(_STEP) - edges[:-1], 0.0, np.diff(edges))
        covered = [shape.covered(tile) for tile in _TILES]
        found[row, : len(_TILES)] = parts[0] * np.array(covered)
        found[row, len(_TILES) :] = parts[1:] * covered[0]
    return found


def _shape(name: str, kernel: KernelGroup) -> shapes.Shape:
    width = features.element_bytes(kernel.dtype)
    written = max(int(kernel.written_bytes / width), 1)
    weight = int(kernel.weight_bytes / width)
    if name == classes.LINEAR:
        return shapes.of_linear(max(kernel.flop, 1), written, max(weight, 1))
    read = max(int((kernel.bytes - kernel.written_bytes) / width), 1)
    return shapes.of_batched(max(kernel.flop, 1), read, written)


def _operands(kernels: Sequence[KernelGroup]) -> Floats:
    each = [(one.bytes - one.written_bytes - one.weight_bytes, one.written_bytes, one.weight_bytes) for one in kernels]
    return np.maximum(np.array(each, np.float64), 0.0)


def _pieces(kernels: Sequence[KernelGroup]) -> Floats:
    """(n, sizes + 1): bytes up to the first size, from there to the second, ..."""
    moved = np.array([[float(one.bytes)] for one in kernels])
    edges = np.array([0.0, *_SIZES, np.inf])
    found: Floats = np.clip(moved - edges[:-1], 0.0, np.diff(edges))
    return found
