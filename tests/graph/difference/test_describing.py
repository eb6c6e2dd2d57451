from __future__ import annotations

import pytest

from perfgate.graph.difference.describing import IN_PLACE, OUT_OF_PLACE, Description, describe
from perfgate.graph.difference.opnames import base_name, family, in_place, is_passing, parts, short
from perfgate.graph.difference.tensors import Tensor, parse, step
from tests.graph.handmade import linear, operator

CONV_IN, CONV_W = "float32[1,64,56,56]", "float32[64,64,3,3]"


def conv(kernel: int = 3, channels: int = 64, word: str = "", **attributes: str):
    layout = f" {word}" if word else ""
    return operator(
        "conv", "convolution", kind="convolution", attributes=attributes, origins=("", "conv.weight"),
        inputs=(f"{CONV_IN}{layout}", f"float32[{channels},64,{kernel},{kernel}]"),
        outputs=(f"float32[1,{channels},56,56]{layout}",),
    )  # fmt: skip


def test_describe__dtype():
    found = describe(linear("a"), linear("a", dtype="bfloat16"))
    assert found.lines == ("float32 → bfloat16",)
    assert found.sizes == ()
    assert found.recast
    assert not found.own


def test_describe__dtype_of_a_weight_alone_is_the_operators_own():
    base = operator("a", "mm", inputs=("float32[8,8]", "float32[8,8]"), origins=("", "w"))
    head = operator("a", "mm", inputs=("float32[8,8]", "int8[8,8]"), origins=("", "w"))
    assert describe(base, head).own


def test_describe__layout():
    assert describe(conv(word="channels_last"), conv()).lines == ("channels_last → contiguous",)


def test_describe__arguments_in_the_fields_words():
    base = conv(stride="[1, 1]", padding="[1, 1]", groups="1", dilation="[1, 1]")
    head = conv(stride="[2, 2]", padding="[1, 2]", groups="4", dilation="[1, 1]")
    found = describe(base, head)
    assert found.lines == ("stride 1 → 2", "padding 1 → [1,2]", "groups 1 → 4")
    assert found.own
    assert not found.soft


@pytest.mark.parametrize(
    ("name", "base", "head", "line"),
    [
        ("is_causal", "False", "True", "causal off → on"),
        ("kernel_size", "(3, 3)", "(5, 5)", "kernel 3 → 5"),
        ("train", "true", "false", "training on → off"),
        ("eps", "1e-05", "0.001", "eps 1e-05 → 0.001"),
        ("approximate", "none", "tanh", "approximation none → tanh"),
        ("odd", "[[[", "]", "odd [[[ → ]"),
    ],
)
def test_describe__values_as_people_write_them(name, base, head, line):
    assert describe(operator("a", attributes={name: base}), operator("a", attributes={name: head})).lines == (line,)


def test_describe__an_argument_that_is_not_told_has_its_default():
    assert describe(conv(), conv(groups="2")).lines == ("groups default → 2",)


def test_describe__arguments_that_shapes_tell_are_not_repeated():
    base = operator("a", "expand", attributes={"size": "[8, 64]", "dtype": "torch.float32"}, outputs=("float32[8,64]",))
    head = operator("a", "expand", attributes={"size": "[9, 64]", "dtype": "torch.half"}, outputs=("float16[9,64]",))
    assert describe(base, head).lines == ("float32 → float16",)
    assert describe(base, head).sizes == ("[8,64] → [9,64]",)


def test_describe__kernel_and_channels_of_a_convolution():
    found = describe(conv(), conv(kernel=5, channels=128))
    assert found.lines == ("kernel 3×3 → 5×5",)
    assert found.sizes == ("output channels 64 → 128", "[1,64,56,56] → [1,128,56,56]")
    assert found.own


def test_describe__features_that_come_in_are_not_own():
    grown = describe(linear("fc1", size=64), linear("fc1", size=128))
    assert grown.sizes[0] == "output features 64 → 128"
    assert grown.own
    assert grown.soft
    follower = describe(linear("fc2", width=64), linear("fc2", width=128))
    assert follower.sizes == ("input [8,64] → [8,128]",)
    assert not follower.own


def test_describe__groups_of_a_depthwise_convolution_follow_its_channels():
    def depthwise(channels: int):
        x = f"float32[1,{channels},8,8]"
        return operator("d", "convolution", inputs=(x, f"float32[{channels},1,3,3]"), outputs=(x,),
                        origins=("", "d.weight"), attributes={"groups": str(channels)})  # fmt: skip

    assert not describe(depthwise(32), depthwise(48)).own


def test_describe__a_scale_that_follows_from_a_size_is_no_more_than_soft():
    found = describe(
        operator("a", "mul", attributes={"other": "0.5"}), operator("a", "mul", attributes={"other": "0.25"})
    )
    assert found.own
    assert found.soft


def test_describe__in_place_and_back():
    assert describe(operator("a", "relu_"), operator("a", "relu")).lines == (IN_PLACE,)
    assert describe(operator("a", "relu"), operator("a", "relu_")).lines == (OUT_OF_PLACE,)


def test_describe__another_composite_call():
    found = describe(operator("a", "bmm"), operator("a", "bmm", group="scaled_dot_product_attention#2"))
    assert found.lines == ("single operators → scaled_dot_product_attention",)


def test_describe__number_of_inputs_and_of_turns():
    base = operator("a", "cat", inputs=("float32[2]",) * 2, outputs=("float32[4]",))
    head = operator("a", "cat", inputs=("float32[2]",) * 3, outputs=("float32[6]",), repeat=4)
    found = describe(base, head)
    assert found.lines == ("1 → 4 times",)
    assert found.sizes == ("[4] → [6]", "2 → 3 inputs")


def test_describe__a_model_input_of_another_shape_is_named():
    def first(size: int):
        x = f"float32[1,3,{size},{size}]"
        return operator("a", "convolution", inputs=(x, "float32[3,3,1,1]"), outputs=(x,), origins=("inputs[0]", "w"))

    found = describe(first(8), first(9))
    assert found.sizes[0] == "inputs[0] [1,3,8,8] → [1,3,9,9]"
    assert found.own


def test_describe__what_is_read_twice_is_read_once():
    found = describe(operator("a", "add", read_bytes=4096), operator("a", "add", read_bytes=2048))
    assert found.lines == ("operands that share memory otherwise",)


def test_describe__what_cannot_be_told_is_said_so():
    assert describe(operator("a", signature="1"), operator("a", signature="2")).lines == ("other arguments",)
    assert describe(operator("a", signature="1"), operator("a", signature="2")) != Description()


def test_parse__reads_what_the_counter_writes():
    assert parse("float32[1,64,56,56] channels_last") == Tensor("float32", (1, 64, 56, 56), "channels_last")
    assert parse("int64[]") == Tensor("int64", ())
    assert parse("float32[?,3]") == Tensor("float32", (-1, 3))
    assert parse("sequence of tensors") == Tensor("sequence of tensors", ())


def test_step__tells_sizes_apart():
    found = step(parse("float32[2,8,4]"), parse("float32[2,16,4]"))
    assert found is not None
    assert found.sizes == {(8, 16)}
    flattened = step(parse("float32[2,8]"), parse("float32[2,4,4]"))
    assert flattened is not None
    assert flattened.sizes == {(16, 32)}
    assert step(parse("float32[2]"), parse("float32[2]")) is None


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::convolution", "convolution"), ("aten::conv2d", "convolution"),
        ("aten::cudnn_convolution", "convolution"),
        ("ai.onnx::QLinearConv", "convolution"), ("aten::linear", "matmul"), ("aten::addmm", "matmul"),
        ("ai.onnx::MatMul", "matmul"), ("aten::upsample_bilinear2d", "resize"), ("aten::_softmax", "softmax"),
        ("aten::native_batch_norm", "normalization"), ("ai.onnx::LayerNormalization", "normalization"),
        ("aten::_scaled_dot_product_flash_attention", "attention"), ("aten::scatter_add", "scatter_add"),
        ("aten::_to_copy", "copy"), ("aten::stack", "cat"), ("aten::constant_pad_nd", "pad"), ("aten::relu_", "relu"),
        ("aten::_local_scalar_dense", "sync"), ("aten::linalg_norm", "linalg_norm"), ("mylib::thing", "mylib::thing"),
    ],
)  # fmt: skip
def test_family__puts_names_of_the_same_work_together(op, expected):
    assert family(op) == expected


def test_parts__name_what_a_profiled_operator_is_made_of():
    assert {"matmul", "softmax"} <= {*parts("aten::scaled_dot_product_attention")}
    assert parts("aten::relu") == ("relu",)


def test_names__short_base_and_in_place():
    assert short("aten::relu_") == "relu_"
    assert short("mylib::fused") == "mylib::fused"
    assert base_name("aten::_foreach_add_") == "foreach_add"
    assert in_place("aten::add_")
    assert not in_place("aten::__and__")
    assert is_passing("ai.onnx::Cast")
    assert not is_passing("aten::cat")
