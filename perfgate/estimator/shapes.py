"""Floor 3, estimator. The shape of a product, read back from its counted figures.

In: FLOP and elements of one kernel. Out: :class:`Shape`. Counts are whole numbers, so that they leave one shape in
nearly all cases: a product of b (m x k) by (k x n) has F = 2 b m n k, writes b m n, and reads b k (m + n), or with one
weight for all b m k and n k (and n more for a bias).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """``batch`` products of (rows x depth) by (depth x columns); whole numbers where the figures are of one kernel."""

    batch: float
    rows: float
    columns: float
    depth: float

    def covered(self, tile: int) -> float:
        """FLOP per depth of the blocks of ``tile`` x ``tile`` that cover the result."""
        return 2 * self.batch * _up(self.rows, tile) * _up(self.columns, tile)

    def deep(self, step: int) -> float:
        """The depth in whole steps."""
        return _up(self.depth, step)


@lru_cache(maxsize=65536)
def of_linear(flop: int, written: int, weight: int) -> Shape:
    """A product with one weight of ``weight`` elements; all at least 1."""
    depth = max(flop / (2 * written), 1.0)
    columns = weight / depth
    with_bias = weight / (depth + 1)
    if not columns.is_integer() and with_bias.is_integer():
        columns = with_bias
    columns = min(max(columns, 1.0), float(written))
    return Shape(batch=1.0, rows=written / columns, columns=columns, depth=depth)


@lru_cache(maxsize=65536)
def of_batched(flop: int, read: int, written: int) -> Shape:
    """A product of two activations, ``read`` elements of both; all at least 1.

    Of several shapes that the figures allow, the one that wastes most of 64 x 64 blocks: all of them are still allowed
    when the batch is a multiple, so that more batch is never less work.
    """
    depth = max(flop / (2 * written), 1.0)
    edges = read / depth
    if depth.is_integer() and edges.is_integer():
        found = [
            Shape(batch=float(batch), rows=float(rows), columns=float(columns), depth=depth)
            for batch, rows, columns in _allowed(int(edges), written)
        ]
        if found:
            return max(found, key=lambda one: (one.covered(_BLOCK), one.batch))
    return _square(edges, float(written), depth)


_BLOCK = 64


def _allowed(edges: int, written: int) -> list[tuple[int, int, int]]:
    """All (b, m, n) with b (m + n) = edges and b m n = written."""
    found = []
    for batch in _divisors(math.gcd(edges, written)):
        total, area = edges // batch, written // batch
        square = total * total - 4 * area
        if square < 0:
            continue
        root = math.isqrt(square)
        if root * root == square and (total + root) % 2 == 0 and total > root:
            found.append((batch, (total + root) // 2, (total - root) // 2))
    return found


def _divisors(number: int) -> list[int]:
    small = [one for one in range(1, math.isqrt(number) + 1) if number % one == 0]
    return small + [number // one for one in small]


def _square(edges: float, written: float, depth: float) -> Shape:
    """Figures of no single kernel: square products, or one oblong one."""
    side = max(2 * written / max(edges, 1.0), 1.0)
    batch = written / side**2
    if batch >= 1:
        return Shape(batch=batch, rows=side, columns=side, depth=depth)
    root = math.sqrt(max(edges**2 - 4 * written, 0.0))
    rows = max((edges + root) / 2, 1.0)
    return Shape(batch=1.0, rows=rows, columns=max(written / rows, 1.0), depth=depth)


def _up(size: float, tile: int) -> float:
    return math.ceil(size / tile) * float(tile)
