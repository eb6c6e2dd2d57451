"""Names of ONNX nodes in the user's terms."""

from __future__ import annotations

import pytest

from perfgate.onnx_names import module_of, module_of_scopes, operator, place


@pytest.mark.parametrize(
    ("name", "op_type", "module"),
    [
        ("/layer1/layer1.0/conv1/Conv", "Conv", "layer1.0.conv1"),
        ("/layer1/layer1.0/conv1/Conv_1", "Conv", "layer1.0.conv1"),
        ("/features/features.1/conv/conv.0/conv.0.0/Conv", "Conv", "features.1.conv.0.0"),
        ("/features/denseblock1/denselayer2/conv2/Conv", "Conv", "features.denseblock1.denselayer2.conv2"),
        ("/encoder/layer.0/attention/self/query/MatMul", "MatMul", "encoder.layer.0.attention.self.query"),
        ("/ml.0/MatMul", "MatMul", "ml.0"),
        # No container of this name above it: a number in a name is not an index.
        ("/block/block10/Add", "Add", "block.block10"),
        ("/Add_1", "Add", ""),
        ("/lm_head/MatMul_Q4", "MatMulNBits", "lm_head"),
        ("/layer1/layer1.0/Conv_quant", "QLinearConv", "layer1.0"),
        ("model/dense/MatMul__12", "MatMul", "model.dense"),
        ("conv1", "Conv", "conv1"),
        ("Conv_12", "Conv", ""),
        ("node_conv2d_1", "Conv", "conv2d_1"),
        ("node_Conv_112", "Conv", ""),
        ("n4_2", "Max", ""),
        ("", "Conv", ""),
        ("/", "Conv", ""),
    ],
)
def test_module_of__node_name(name, op_type, module):
    assert module_of(name, op_type) == module


@pytest.mark.parametrize(
    ("text", "module"),
    [
        ("['', 'layer1', 'layer1.0', 'layer1.0.conv1', 'conv2d']", "layer1.0.conv1"),
        ("['', 'add']", ""),
        ("['add']", ""),
        ("[]", None),
        ("['', 3]", None),
        ("layer1.conv", None),
        ("[" * 500, None),
    ],
)
def test_module_of_scopes__metadata(text, module):
    assert module_of_scopes(text) == module


def test_place__metadata_before_name_before_output():
    scopes = "['', 'layer1', 'layer1.bn1', 'batch_norm']"
    assert place("/other/Relu", "Relu", scopes=scopes, outputs=("y",)) == "layer1.bn1"
    assert place("/other/Relu", "Relu", outputs=("y",)) == "other"
    assert place("", "Relu", outputs=("", "/a/Relu_output_0")) == "a"
    assert place("", "Relu", outputs=("hidden_output_0",)) == "hidden"
    assert place("", "Relu", outputs=("206",)) == ""
    assert place("", "Relu") == ""


def test_place__convolution_that_swallowed_a_normalisation_keeps_its_own_name():
    scopes = "['', 'layer1', 'layer1.bn1', 'batch_norm']"
    assert place("node_Conv_3", "Conv", scopes=scopes, inputs=("x", "layer1.conv1.weight", "b")) == "layer1.conv1"
    assert place("node_Conv_3", "Conv", scopes=scopes, inputs=("x", "val_3")) == "layer1.bn1"
    assert place("node_Relu_3", "Relu", scopes=scopes, inputs=("x", "layer1.conv1.weight")) == "layer1.bn1"


def test_operator__empty_domain_is_the_standard_one():
    assert operator("", "Conv") == "ai.onnx::Conv"
    assert operator("com.microsoft", "Attention") == "com.microsoft::Attention"
