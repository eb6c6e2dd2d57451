"""Shapes of products, read back from counted figures."""

from __future__ import annotations

import random

import pytest

from perfgate.estimator import shapes


def linear(rows, columns, depth, *, bias=False):
    """A shape by the figures of a product with one weight."""
    weight = columns * depth + (columns if bias else 0)
    return shapes.of_linear(2 * rows * columns * depth, rows * columns, weight)


def batched(batch, rows, columns, depth):
    """A shape by the figures of a product of two activations."""
    return shapes.of_batched(
        2 * batch * rows * columns * depth, batch * depth * (rows + columns), batch * rows * columns
    )


@pytest.mark.parametrize("bias", [False, True])
def test_of_linear__finds_the_shape(bias):
    found = linear(4096, 1024, 768, bias=bias)
    assert (found.batch, found.rows, found.columns, found.depth) == (1, 4096, 1024, 768)


def test_of_batched__finds_nearly_every_shape_up_to_the_order_of_its_sides():
    rng = random.Random(0)
    hits = 0
    for _ in range(300):
        batch, rows, columns, depth = (rng.randint(1, 600) for _ in range(4))
        found = batched(batch, rows, columns, depth)
        assert found.depth == depth
        assert found.batch * found.rows * found.columns == pytest.approx(batch * rows * columns)
        hits += (found.batch, found.rows, found.columns) == (batch, max(rows, columns), min(rows, columns))
    assert hits > 280


def test_covered__counts_whole_blocks():
    one = shapes.Shape(batch=2, rows=65, columns=64, depth=9)
    assert (one.covered(64), one.deep(8)) == (2 * 2 * 128 * 64, 16)


def test_covered__never_falls_with_the_batch():
    rng = random.Random(1)
    for _ in range(200):
        batch, rows, columns, depth = (rng.randint(1, 300) for _ in range(4))
        values = [batched(batch * more, rows, columns, depth).covered(64) for more in (1, 2, 3, 8)]
        assert values == sorted(values)
        values = [linear(rows * more, columns, depth).covered(64) for more in (1, 2, 3, 8)]
        assert values == sorted(values)


def test_of_batched__takes_figures_that_are_of_no_single_kernel():
    found = shapes.of_batched(1001, 97, 101)
    assert found.depth == pytest.approx(1001 / 202)
    assert found.batch * found.rows * found.columns == pytest.approx(101, rel=0.05)
    assert shapes.of_linear(1, 1, 1).covered(64) > 0
