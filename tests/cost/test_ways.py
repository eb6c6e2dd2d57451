"""Ways made of a way."""

from __future__ import annotations

import pytest

from perfgate.cost import ways
from perfgate.errors import UsageError
from perfgate.records.graph import BACKWARD, OPTIMIZER, KernelGroup
from tests.cost.problems import make_way, with_kernels

FORWARD_FC = KernelGroup(
    name="fc", kind="matmul", dtype="float32", flop=1000, bytes=300, calls=2, written_bytes=90, weight_bytes=100
)
BACKWARD_FC = KernelGroup(
    name="fc/back", kind="matmul", dtype="float32", flop=2000, bytes=500, calls=2, phase=BACKWARD, weight_bytes=100
)
UPDATE = KernelGroup(
    name="sgd", kind="pointwise", dtype="float32", flop=0, bytes=600, phase=OPTIMIZER, weight_bytes=600
)
RELU = KernelGroup(name="relu", kind="pointwise", dtype="float32", flop=0, bytes=80, written_bytes=40)
ATTENTION = KernelGroup(name="sdpa", kind="attention", dtype="float32", flop=400, bytes=60)
NORM = KernelGroup(name="norm", kind="normalization", dtype="float32", flop=0, bytes=60)


def test_at_batch__scales_all_but_the_weights():
    way = with_kernels(make_way(4), FORWARD_FC, UPDATE)

    twice = ways.at_batch(way, 8)

    fc, update = twice.totals.eager_kernels
    assert (fc.flop, fc.bytes, fc.weight_bytes, fc.written_bytes) == (2000, 500, 100, 150)
    assert update == UPDATE
    assert (twice.batch, twice.items, twice.totals.batch) == (8, 8, 8)
    assert twice.totals.flop == 4000
    assert twice.totals.traffic.eager == 2 * 500 + 600


def test_at_batch__forgets_what_was_measured_at_another():
    assert ways.at_batch(make_way(4, peak_bytes=10**9), 8).peak_bytes is None


def test_at_batch__the_peak_of_training_keeps_its_gradients():
    way = with_kernels(make_way(10, mode="train"), FORWARD_FC, BACKWARD_FC)
    # 1 GB of weights, so of 1 GB of peak nothing grows; of the 3 GB here 2 GB do.
    grown = ways.at_batch(with_kernels(way, FORWARD_FC, BACKWARD_FC, peak=3 * 10**9), 20)

    assert grown.totals.peak_activation_bytes == 5 * 10**9


def test_at_batch__there_and_back_is_the_same():
    way = make_way(4)

    assert ways.at_batch(ways.at_batch(way, 8), 4) == way


def test_at_batch__refuses_none():
    with pytest.raises(UsageError, match="at least 1"):
        ways.at_batch(make_way(), 0)


def test_at_batch__without_kernels_f_still_scales():
    bare = with_kernels(make_way(1))

    assert ways.at_batch(bare, 3).totals.flop == 3 * bare.totals.flop


def test_tensor_share__splits_products_and_attention_only():
    way = with_kernels(make_way(1), FORWARD_FC, RELU, ATTENTION, NORM)

    fc, relu, attention, norm = ways.tensor_share(way, 4).totals.eager_kernels

    # A quarter of F and weights, five eighths of the 200 bytes of activations.
    assert (fc.flop, fc.weight_bytes, fc.bytes) == (250, 25, 25 + 125)
    assert relu.bytes == 50
    assert (attention.flop, attention.bytes) == (100, 15)
    assert norm == NORM


def test_optimizer_alone__and_the_rest_are_the_whole():
    way = with_kernels(make_way(1, mode="train"), FORWARD_FC, BACKWARD_FC, UPDATE)

    alone, rest = ways.optimizer_alone(way), ways.without_optimizer(way)

    assert alone is not None
    assert {*ways.kernels(alone), *ways.kernels(rest)} == set(ways.kernels(way))
    assert ways.kernel_calls(alone) + ways.kernel_calls(rest) == ways.kernel_calls(way) == 5


def test_optimizer_alone__of_inference_is_none():
    assert ways.optimizer_alone(make_way()) is None


def test_kernels__compiled_ways_run_fused_ones():
    way = with_kernels(make_way(1, compile="default"), FORWARD_FC, fused=(ATTENTION,))

    assert ways.kernels(way) == (ATTENTION,)
    assert ways.kernels(with_kernels(make_way(1), FORWARD_FC, fused=(ATTENTION,))) == (FORWARD_FC,)


def test_trains__by_mode_or_by_phase():
    assert ways.trains(make_way(mode="train"))
    assert ways.trains(with_kernels(make_way(mode="step"), FORWARD_FC, BACKWARD_FC))
    assert not ways.trains(make_way(mode="step"))


@pytest.mark.parametrize(
    ("batch", "devices", "expected"), [(64, 4, (16, 4)), (1, 4, (1, 1)), (10, 4, (10, 1)), (30, 4, (15, 2))]
)
def test_micro_batches__four_for_each_device_where_the_batch_allows_it(batch, devices, expected):
    assert ways.micro_batches(make_way(batch), devices) == expected


def test_largest_share__by_f_or_bytes():
    assert ways.largest_share(with_kernels(make_way(), FORWARD_FC, NORM)) == pytest.approx(0.5)
    assert ways.largest_share(with_kernels(make_way())) == 1.0


def test_product_outputs__forward_only_and_without_attention():
    assert ways.product_outputs(with_kernels(make_way(), FORWARD_FC, BACKWARD_FC, ATTENTION, RELU)) == (180, 2)
