from __future__ import annotations

import pytest

from tests.graph.book import Book, flop, worked

# 2 items, 4 -> 6 channels, 3 x 3, 8 x 8 positions in and 6 x 6 out.
IN, OUT, WEIGHT = (2, 4, 8, 8), (2, 6, 6, 6), (6, 4, 3, 3)
PLAIN = 2 * 2 * 6 * 36 * 4 * 9
# 4 -> 6 channels, transposed: every input element meets 6 x 9 weights.
TURNED_OUT, TURNED_WEIGHT = (2, 6, 10, 10), (4, 6, 3, 3)
TURNED = 2 * 2 * 4 * 64 * 6 * 9


@pytest.mark.parametrize(
    ("op", "data"),
    [
        ("aten::convolution", "input"),
        ("aten::_convolution", "input"),
        ("aten::conv2d", "input"),
        ("aten::cudnn_convolution", "self"),
        ("aten::cudnn_convolution_add_relu", "self"),
        ("aten::miopen_convolution", "self"),
        ("aten::mkldnn_convolution", "self"),
        ("aten::thnn_conv2d", "self"),
        ("aten::_slow_conv2d_forward", "self"),
        ("aten::_nnpack_spatial_convolution", "input"),
        ("torchvision::deform_conv2d", "input"),
    ],
)
def test_flop__is_the_same_on_every_backend(op, data):
    assert flop(op, {data: IN, "weight": WEIGHT}, OUT, transposed=False) == PLAIN


@pytest.mark.parametrize(
    ("op", "data"),
    [
        ("aten::convolution", "input"),
        ("aten::conv_transpose2d", "input"),
        ("aten::cudnn_convolution_transpose", "self"),
        ("aten::miopen_convolution_transpose", "self"),
        ("aten::slow_conv_transpose2d", "self"),
    ],
)
def test_flop__of_a_transposed_convolution_counts_input_elements(op, data):
    assert flop(op, {data: IN, "weight": TURNED_WEIGHT}, TURNED_OUT, transposed=True) == TURNED


@pytest.mark.parametrize(("groups", "weight"), [(1, (4, 4, 3, 3)), (2, (4, 2, 3, 3)), (4, (4, 1, 3, 3))])
def test_flop__falls_with_the_groups_forward_and_backward(groups, weight):
    forward = flop("aten::convolution", {"input": (2, 4, 8, 8), "weight": weight}, (2, 4, 8, 8), groups=groups)
    assert forward == 2 * 2 * 4 * 64 * 9 * 4 // groups
    shapes = {"grad_output": (2, 4, 8, 8), "input": (2, 4, 8, 8), "weight": weight}
    more = {"groups": groups, "transposed": False}
    backward = flop("aten::convolution_backward", shapes, (2, 4, 8, 8), weight, output_mask=(True, True, False), **more)
    assert forward is not None
    assert backward == 2 * forward


@pytest.mark.parametrize(
    ("mask", "times"),
    [((True, True, True), 2), ((False, True, True), 1), ((True, False, False), 1), ((False, False, True), 0)],
)
@pytest.mark.parametrize("op", ["aten::convolution_backward", "aten::convolution_backward_overrideable"])
def test_flop__of_the_backward_pass_goes_by_its_mask(op, mask, times):
    shapes = {"grad_output": OUT, "input": IN, "weight": WEIGHT}
    assert flop(op, shapes, IN, WEIGHT, output_mask=mask, transposed=False) == times * PLAIN


def test_flop__of_a_transposed_convolution_backward_is_twice_the_forward():
    shapes = {"grad_output": TURNED_OUT, "input": IN, "weight": TURNED_WEIGHT}
    assert flop("aten::convolution_backward", shapes, IN, TURNED_WEIGHT, transposed=True,
                output_mask=[True, True, False]) == 2 * TURNED  # fmt: skip


@pytest.mark.parametrize(("op", "data", "times"), [("aten::mps_convolution_backward", "self", 2),
                                                   ("aten::_slow_conv2d_backward", "self", 2)])  # fmt: skip
def test_flop__of_backward_operators_of_single_backends(op, data, times):
    shapes = {"grad_output": OUT, data: IN, "weight": WEIGHT}
    assert flop(op, shapes, IN, WEIGHT, output_mask=(True, True, True)) == times * PLAIN


def test_flop__of_deformable_convolution_backward_is_two_products():
    shapes = {"grad": OUT, "input": IN, "weight": WEIGHT}
    assert flop("torchvision::_deform_conv2d_backward", shapes, IN, WEIGHT) == 2 * PLAIN


def test_flop__one_and_three_dimensions_and_no_batch():
    assert flop("aten::convolution", {"input": (2, 4, 8), "weight": (6, 4, 3)}, (2, 6, 6)) == 2 * 2 * 6 * 6 * 12
    assert flop("aten::conv3d", {"input": (4, 8, 8, 8), "weight": (6, 4, 3, 3, 3)}, (6, 6, 6, 6)) == 2 * 6 * 216 * 108


def test_flop__time_major_convolution():
    assert flop("aten::conv_tbc", {"self": (10, 2, 4), "weight": (3, 4, 6)}, (8, 2, 6)) == 2 * 8 * 2 * 6 * 12
    shapes = {"self": (8, 2, 6), "input": (10, 2, 4), "weight": (3, 4, 6)}
    assert flop("aten::conv_tbc_backward", shapes, (10, 2, 4), (3, 4, 6)) == 4 * 8 * 2 * 6 * 12


def test_flop__weights_in_the_order_of_one_dnn_count_by_their_elements():
    # Groups stand first there: 2 x 3 x 2 x 3 x 3 for 4 -> 6 channels in two groups.
    shapes = {"X": IN, "W": (2, 3, 2, 3, 3)}
    assert flop("mkldnn::_convolution_pointwise", shapes, OUT) == PLAIN // 2
    assert flop("onednn::qconv2d_pointwise", {"qx": IN, "qw": WEIGHT}, OUT) == PLAIN


@pytest.mark.parametrize("name", ["packed_weight", "weight"])
def test_flop__of_a_quantised_convolution_needs_the_size_of_its_weight(name):
    assert flop("quantized::conv2d_relu", {"qx": IN, name: WEIGHT}, OUT) == PLAIN


def test_flop__of_a_quantised_transposed_convolution():
    shapes = {"qx": IN, "packed_weight": TURNED_WEIGHT}
    assert flop("quantized::conv_transpose2d", shapes, TURNED_OUT) == TURNED


def test_flop__of_a_quantised_convolution_without_it_is_not_counted():
    found = worked("quantized::conv2d", {"qx": IN}, OUT)
    assert found.flop is None
    assert "packed weight" in found.reason


@pytest.mark.parametrize(
    ("mask", "unread"), [((True, True), ()), ((False, True), ("weight",)), ((True, False), ("input",))]
)
def test_traffic__of_the_backward_pass_reads_what_its_gradients_need(mask, unread):
    book = Book()
    operands = {"grad_output": book.value(*OUT), "input": book.value(*IN), "weight": book.value(*WEIGHT)}
    outputs = (book.value(*IN) if mask[0] else -1, book.value(*WEIGHT) if mask[1] else -1, -1)
    book.call("aten::convolution_backward", operands, outputs, output_mask=(*mask, False), transposed=False)
    sizes = {"grad_output": 2 * 6 * 36 * 4, "input": 2 * 4 * 64 * 4, "weight": 6 * 36 * 4}
    (operator,) = book.graph().operators
    assert operator.read_bytes == sum(size for name, size in sizes.items() if name not in unread)
    assert operator.written_bytes == sizes["input"] * mask[0] + sizes["weight"] * mask[1]
