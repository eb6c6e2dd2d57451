"""What a step is made of, as columns: classes by figures alone, units, rates of machines, growth with the batch."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from perfgate.estimator import classes, features
from perfgate.records.estimate import Example, Machine
from perfgate.records.graph import BACKWARD, OPTIMIZER, KernelGroup

MACHINE = Machine(
    name="some-gpu",
    kind="gpu",
    flop_per_s={"float32": 10e12, "float16": 40e12},
    bandwidth_bytes_per_s=400e9,
)


def example(*kernels: KernelGroup, machine: Machine = MACHINE, **changes: Any) -> Example:
    fields: dict[str, Any] = {
        "model": "m",
        "group": "g",
        "mode": "infer",
        "dtype": "float32",
        "compile": "eager",
        "batch": 8,
        "items": 8,
        "machine": machine,
        "kernels": kernels,
    }
    return Example(**(fields | changes))


def convolution(batch, channels, outputs, size, side, *, groups=1, stride=1, dtype="float32"):
    """A padded convolution of square images, as perfgate counts it."""
    width = 2 if dtype == "float16" else 4
    made = size // stride
    weight = outputs * channels // groups * side * side * width
    written = batch * outputs * made * made * width
    return KernelGroup(
        name="conv",
        kind="convolution",
        dtype=dtype,
        flop=2 * batch * outputs * made * made * channels // groups * side * side,
        bytes=batch * channels * size * size * width + weight + written,
        written_bytes=written,
        weight_bytes=weight,
    )


def pointwise(elements, *, reads=1.0, dtype="float32", kind="pointwise", **changes):
    width = 2 if dtype == "float16" else 4
    return KernelGroup(
        name=kind,
        kind=kind,
        dtype=dtype,
        flop=0,
        bytes=int(elements * width * (1 + reads)),
        written_bytes=elements * width,
        **changes,
    )


def normalisation(batch, channels, size, *, weights, statistics):
    """Of float32 ``channels`` x ``size`` each, with that many weights, that writes so many statistics beside."""
    elements = batch * channels * size
    return KernelGroup(
        name="norm",
        kind="normalization",
        dtype="float32",
        flop=0,
        bytes=4 * (2 * elements + weights + statistics),
        written_bytes=4 * (elements + statistics),
        weight_bytes=4 * weights,
    )


def row(*kernels, **changes):
    x, names = features.matrix([example(*kernels, **changes)])
    return {name: value for name, value in zip(names, x[0], strict=True) if value}


def only_class(kernel):
    (found,) = features.present(example(kernel))
    return found


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        (convolution(4, 64, 128, 28, 3), classes.DENSE),
        (convolution(4, 64, 128, 28, 3, stride=2), classes.DENSE),
        (convolution(4, 256, 64, 28, 1), classes.UNIT),
        (convolution(4, 256, 512, 28, 1, stride=2), classes.UNIT),
        (convolution(4, 128, 128, 28, 3, groups=32), classes.GROUPED),
        (convolution(4, 96, 96, 28, 3, groups=96), classes.DEPTHWISE_3),
        (convolution(4, 96, 96, 28, 3, groups=96, stride=2), classes.DEPTHWISE_3),
        (convolution(4, 96, 96, 28, 5, groups=96), classes.DEPTHWISE_5),
        (convolution(4, 96, 96, 28, 7, groups=96), classes.DEPTHWISE_LARGE),
        (convolution(4, 96, 96, 28, 9, groups=96), classes.DEPTHWISE_LARGE),
        (convolution(4, 3, 32, 224, 3, stride=2), classes.STEM),
        (convolution(4, 64, 128, 28, 3, dtype="float16"), classes.DENSE),
        (pointwise(1000), classes.ACTIVATION),
        (pointwise(1000, reads=2), classes.COMBINATION),
        (pointwise(1000, reads=0.01), classes.BROADCAST),
        (pointwise(1000, kind="pooling", reads=4), classes.POOLING),
        (pointwise(1000, kind="pooling", reads=0.25), classes.UPSAMPLING),
        (pointwise(1000, kind="normalization"), classes.SCALE_NORM),
        (pointwise(1000, kind="normalization", reads=0.98), classes.STATISTIC_NORM),
        (pointwise(1000, kind="normalization", phase=BACKWARD), classes.NORM_BACKWARD),
        (pointwise(1000, kind="cast"), classes.CAST),
        (pointwise(1000, kind="cast", weight_bytes=8000), classes.WEIGHTS_ONLY),
        (pointwise(1000, reads=3, phase=OPTIMIZER, weight_bytes=16000), classes.OPTIMISER),
        (pointwise(1000, kind="a kind of tomorrow"), classes.UNKNOWN),
    ],
)
def test_class__follows_from_the_figures(kernel, expected):
    assert only_class(kernel) == expected


@pytest.mark.parametrize("batch", [1, 3, 256])
def test_class__is_the_same_at_every_batch(batch):
    shapes = [(64, 128, 3, 1), (256, 64, 1, 1), (128, 128, 3, 32), (96, 96, 7, 96), (8, 8, 3, 1)]
    for channels, outputs, side, groups in shapes:
        one = only_class(convolution(1, channels, outputs, 28, side, groups=groups))
        assert only_class(convolution(batch, channels, outputs, 28, side, groups=groups)) == one


@pytest.mark.parametrize("batch", [1, 3, 256])
@pytest.mark.parametrize("size", [49, 112 * 112])
@pytest.mark.parametrize("channels", [16, 24, 512])
def test_class__batch_norm_in_inference_is_affine_whether_or_not_it_writes_what_it_made_of_its_statistics(
    batch, size, channels
):
    for statistics in (0, 2 * channels):
        kernel = normalisation(batch, channels, size, weights=4 * channels, statistics=statistics)
        assert only_class(kernel) == classes.SCALE_NORM


@pytest.mark.parametrize("batch", [1, 3, 256])
def test_class__layer_and_group_norm_make_statistics_however_few(batch):
    of_tokens = normalisation(batch * 196, 384, 1, weights=2 * 384, statistics=2 * 196 * batch)
    of_one_group = normalisation(batch, 96, 112 * 112, weights=2 * 96, statistics=2 * batch)
    assert only_class(of_tokens) == classes.STATISTIC_NORM
    assert only_class(of_one_group) == classes.STATISTIC_NORM


def test_class__rounded_means_of_batch_norms_stay_affine():
    """As perfgate counts 8 of a network's batch norms in float16 together."""
    kernel = KernelGroup(
        name="norm5",
        kind="normalization",
        dtype="float16",
        flop=0,
        bytes=185559836,
        calls=8,
        written_bytes=92776561,
        weight_bytes=13425,
    )
    assert only_class(kernel) == classes.SCALE_NORM


def test_products__a_weight_tells_a_linear_layer_from_a_product_of_activations():
    kernel = KernelGroup(name="fc", kind="matmul", dtype="float32", flop=10**6, bytes=3000, written_bytes=1000)
    assert only_class(kernel) == classes.PRODUCT
    assert only_class(replace(kernel, weight_bytes=500)) == classes.LINEAR
    assert only_class(replace(kernel, weight_bytes=500, phase=BACKWARD)) == classes.LINEAR_BACKWARD


def test_matrix__sums_flop_bytes_and_calls_of_groups():
    found = row(
        replace(convolution(4, 64, 128, 28, 3), calls=3),
        pointwise(1000, calls=5),
        pointwise(500, dtype="float16"),
    )
    kernel = convolution(4, 64, 128, 28, 3)
    assert found == {
        "dense convolution FLOP": 3 * kernel.flop,
        "dense convolution wide bytes read": 3 * (kernel.bytes - kernel.written_bytes),
        "dense convolution wide bytes written": 3 * kernel.written_bytes,
        "dense convolution calls": 3,
        "activation wide bytes read": 5 * 4000,
        "activation wide bytes written": 5 * 4000,
        "activation half bytes": 2000,
        "activation calls": 6,
        "step": 1,
    }


def test_matrix__no_flop_and_no_byte_is_lost():
    kernels = (
        replace(convolution(4, 64, 128, 28, 3), calls=2),
        pointwise(1000, kind="a kind of tomorrow"),
        # A fused kernel that begins with another kind than that of the product in it.
        replace(pointwise(700), flop=12345, calls=3),
    )
    x, names = features.matrix([example(*kernels)])
    for unit, total in (
        ("flop", sum(one.flop * one.calls for one in kernels)),
        ("bytes", sum(one.bytes * one.calls for one in kernels)),
        ("calls", sum(one.calls for one in kernels)),
    ):
        columns = [number for number, name in enumerate(names) if features.unit(name) == unit]
        assert x[0, columns].sum() == total


def test_large_weights__are_counted_where_they_go_beyond_a_cache():
    small = KernelGroup(
        name="fc", kind="matmul", dtype="float32", flop=10**6, bytes=5 * 10**6, written_bytes=10**3, weight_bytes=10**6
    )
    large = replace(small, bytes=30 * 10**6, weight_bytes=28 * 10**6, calls=2)
    assert "linear large weight bytes" not in row(small)
    assert row(small, large)["linear large weight bytes"] == 2 * 20e6


def test_uncached_bytes__are_what_calls_move_beyond_a_cache_of_products_and_of_others():
    small = pointwise(10**6)
    large = pointwise(3 * 10**6, calls=2)
    product = KernelGroup(
        name="fc", kind="matmul", dtype="float32", flop=10**6, bytes=20 * 10**6, written_bytes=10**3, weight_bytes=10**6
    )
    assert "other uncached bytes" not in row(small)
    found = row(small, large, product)
    assert found["other uncached bytes"] == 2 * (24e6 - 8e6)
    assert found["product uncached bytes"] == 20e6 - 8e6


def test_uncached_bytes__of_products_move_at_the_rate_of_their_operands():
    product = KernelGroup(name="fc", kind="matmul", dtype="float32", flop=1, bytes=28 * 10**6, weight_bytes=10**6)
    (seconds,), names = features.ideal_seconds([example(product, pointwise(3 * 10**6))])
    column = dict(zip(names, seconds, strict=True))
    assert column["product uncached bytes"] == pytest.approx(20e6 / 28e6 * column["linear wide bytes read"])
    assert column["other uncached bytes"] == pytest.approx(16e6 / 400e9)


def test_ideal_seconds__take_the_rate_of_each_kernels_dtype():
    half = convolution(4, 64, 128, 28, 3, dtype="float16")
    wide = convolution(4, 64, 128, 28, 3)
    (row,), names = features.ideal_seconds([example(half, wide)])
    column = dict(zip(names, row, strict=True))
    assert column["dense convolution FLOP"] == pytest.approx(half.flop / 40e12 + wide.flop / 10e12)
    cached = 400e9 ** (2 / 3) * (40e12 / 75) ** (1 / 3)
    assert column["dense convolution half bytes"] == pytest.approx(half.bytes / cached)
    assert (column["dense convolution calls"], column["step"]) == (2, 1)


def test_ideal_seconds__machines_are_told_apart_and_kernels_may_be_shared():
    kernels = (convolution(4, 64, 128, 28, 3),)
    slow = replace(MACHINE, name="slow", flop_per_s={"float32": 1e12}, bandwidth_bytes_per_s=40e9)
    x, names = features.ideal_seconds([example(*kernels), example(*kernels, machine=slow), example(*kernels)])
    flop = names.index("dense convolution FLOP")
    assert x[1, flop] == pytest.approx(10 * x[0, flop])
    assert x[0].tolist() == x[2].tolist()


def test_ideal_seconds__more_flop_per_s_also_moves_operands_of_products_faster_and_nothing_else():
    kernels = (convolution(4, 64, 128, 28, 3), pointwise(1000))
    fast = replace(MACHINE, name="fast", flop_per_s={"float32": 80e12})
    x, names = features.ideal_seconds([example(*kernels), example(*kernels, machine=fast)])
    ratio = {name: after / before for name, before, after in zip(names, *x, strict=True) if before}
    assert ratio.pop("dense convolution FLOP") == pytest.approx(1 / 8)
    assert ratio.pop("dense convolution wide bytes read") == pytest.approx(1 / 2)
    assert ratio.pop("dense convolution wide bytes written") == pytest.approx(1 / 2)
    assert set(ratio.values()) == {1.0}


def test_pi__falls_back_to_a_wider_type_and_never_to_a_faster_one():
    assert features.pi(MACHINE, "float16") == 40e12
    assert features.pi(MACHINE, "bfloat16") == 40e12
    assert features.pi(MACHINE, "int64") == 10e12
    assert features.pi(replace(MACHINE, flop_per_s={"float32": 1e12, "bfloat16": 5e12}), "float32") == 1e12
    unknown = replace(MACHINE, flop_per_s={}, bandwidth_bytes_per_s=0.0)
    assert features.pi(unknown, "float16") == features.NOMINAL_FLOP_PER_S
    assert features.beta(unknown) == features.NOMINAL_BYTES_PER_S


def test_composition__does_not_depend_on_the_batch():
    def step(batch):
        return example(
            convolution(batch, 64, 128, 28, 3), convolution(batch, 128, 128, 28, 3, groups=128), pointwise(1000 * batch)
        )

    x, names = features.composition([step(1), step(2), step(64)])
    assert len(names) == x.shape[1]
    np.testing.assert_allclose(x[1:], np.broadcast_to(x[0], x[1:].shape), rtol=1e-9, atol=1e-12)
    column = dict(zip(names, x[0], strict=True))
    assert column["activation share of calls"] == pytest.approx(1 / 3)
    assert column["dense convolution share of FLOP"] == pytest.approx(128 * 64 / (128 * 64 + 128))
    assert column["log calls"] == pytest.approx(math.log(3))


def test_matrix__grows_with_the_batch_in_every_column():
    def step(batch):
        return example(convolution(batch, 64, 128, 28, 3), pointwise(1000 * batch), pointwise(77 * batch, kind="copy"))

    x, _ = features.matrix([step(batch) for batch in (1, 2, 3, 8, 100)])
    assert (np.diff(x, axis=0) >= 0).all()


def test_memory__takes_the_counted_peak_or_the_largest_kernel():
    kernels = (convolution(4, 64, 128, 28, 3), pointwise(10))
    counted = example(*kernels, weight_bytes=500, peak_activation_bytes=12345)
    plain = example(*kernels, weight_bytes=500)
    x, names = features.memory([counted, plain])
    largest = kernels[0].bytes - kernels[0].weight_bytes
    assert [x[number, names.index("activations")] for number in (0, 1)] == [12345, largest]
    assert x[:, names.index("weights")].tolist() == [500, 500]


def test_present__names_each_class_once_and_kernels_of_no_known_kind_as_unknown():
    strange = pointwise(10, kind="custom")
    found = features.present(example(replace(strange, name="block.0.fused"), pointwise(10), pointwise(20), strange))
    assert found == (classes.ACTIVATION, classes.UNKNOWN)
    assert features.present(example(pointwise(10))) == (classes.ACTIVATION,)


def test_names__every_column_has_a_unit_and_a_class():
    assert len(set(features.NAMES)) == len(features.NAMES)
    assert {features.unit(name) for name in features.NAMES} == {"flop", "bytes", "calls", "step"}
    assert features.kernel_class("dense convolution wide bytes read") == classes.DENSE
    assert features.kernel_class("linear large weight bytes") == classes.LINEAR
    assert features.kernel_class("product uncached bytes") == "product"
    with pytest.raises(KeyError):
        features.unit("softmax FLOP")


def test_matrix__of_nothing_is_empty_and_of_a_step_without_kernels_is_the_step():
    assert features.matrix([])[0].shape == (0, len(features.NAMES))
    assert features.composition([])[0].shape == (0, len(features.COMPOSITION_NAMES))
    assert row() == {"step": 1}
    assert np.isfinite(features.composition([example()])[0]).all()
