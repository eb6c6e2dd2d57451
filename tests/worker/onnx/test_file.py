"""What a file says about itself, read without the ``onnx`` package; written here with it."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

pytest.importorskip("onnx")

from onnx import TensorProto, helper, numpy_helper

from perfgate.protobuf import MalformedError, Message
from perfgate.worker.onnx import file
from tests.worker.onnx import models


def parsed(made) -> file.ModelFile:
    return file.parse(Message.whole(made.SerializeToString()))


def test_parse__nodes_as_onnx_reads_them():
    made = models.linear(layers=3)
    found = parsed(made)
    assert [(n.name, n.op_type, n.inputs, n.outputs) for n in found.nodes] == [
        (n.name, n.op_type, tuple(n.input), tuple(n.output)) for n in made.graph.node
    ]
    assert [(n.module, n.op) for n in found.nodes][:2] == [
        ("layers.0", "ai.onnx::MatMul"), ("layers.act.0", "ai.onnx::Relu"),
    ]  # fmt: skip
    assert found.external == {}


def test_parse__scopes_of_the_newer_exporter():
    made = models.linear()
    node = made.graph.node[0]
    node.name = "node_MatMul_3"
    node.metadata_props.add(key="pkg.torch.onnx.fx_node", value="whatever")
    node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value="['', 'head', 'linear']")
    assert parsed(made).nodes[0].module == "head"


@pytest.mark.parametrize(
    ("name", "op_type", "scopes", "inputs"),
    [
        ("/layer1/layer1.0/conv1/Conv", "Conv", "", ["x", "w"]),
        ("", "Conv", "", ["x", "w"]),
        ("conv1", "Conv", "", ["x", "w"]),
        ("node_Conv_3", "Conv", "['', 'layer1', 'layer1.bn1', 'batch_norm']", ["x", "layer1.conv1.weight"]),
        ("node_relu", "Relu", "['', 'layer1', 'layer1.relu', 'relu']", ["x"]),
        ("node_add", "Add", "nonsense", ["x", "x"]),
    ],
)
def test_parse__places_are_those_of_the_counted_graph(name, op_type, scopes, inputs):
    """Otherwise no time of a profile would find its operator."""
    from perfgate.graph.onnx import naming

    node = helper.make_node(op_type, inputs, ["/a/hidden_output_0"], name=name)
    if scopes:
        node.metadata_props.add(key="pkg.torch.onnx.name_scopes", value=scopes)
    made = models.model([node], [models.value("x", [2])], [models.value("/a/hidden_output_0", [2])])
    assert parsed(made).nodes[0].module == naming.place(node, "")[0]


def test_parse__subgraphs_and_functions():
    inner = helper.make_graph(
        [helper.make_node("Relu", ["x"], ["r"], name="/inner/Relu")], "then", [], [models.value("r", [2])]
    )
    other = helper.make_graph(
        [helper.make_node("Neg", ["x"], ["n"], name="/inner/Neg")], "else", [], [models.value("n", [2])]
    )
    choice = helper.make_node("If", ["c"], ["y"], name="/choice/If", then_branch=inner, else_branch=other)
    made = models.model(
        [choice], [models.value("x", [2]), models.value("c", [], TensorProto.BOOL)], [models.value("y", [2])]
    )
    function = helper.make_function(
        "local", "Twice", ["a"], ["b"], [helper.make_node("Add", ["a", "a"], ["b"], name="/twice/Add")],
        [helper.make_opsetid("", models.OPSET)],
    )  # fmt: skip
    made.functions.append(function)
    assert [node.op for node in parsed(made).nodes] == [
        "ai.onnx::If", "ai.onnx::Neg", "ai.onnx::Relu", "ai.onnx::Add",
    ]  # fmt: skip


def test_read__files_of_weights(tmp_path: Path):
    path = models.save(models.linear(layers=2), tmp_path / "net.onnx", external="weights.bin")
    assert file.read(path).external == {"weights.bin": "layers.0.weight"}


def test_parse__location_counts_only_where_the_contents_lie_elsewhere():
    made = models.linear()
    made.graph.initializer[0].external_data.add(key="location", value="old.bin")
    assert parsed(made).external == {}
    made.graph.initializer[0].data_location = TensorProto.EXTERNAL
    assert parsed(made).external == {"old.bin": "head.weight"}


def test_parse__weights_in_an_attribute_and_in_a_sparse_tensor():
    made = models.linear()
    dense = numpy_helper.from_array(np.ones(3, np.float32), "constant")
    dense.data_location = TensorProto.EXTERNAL
    dense.external_data.add(key="location", value="constant.bin")
    made.graph.node.append(helper.make_node("Constant", [], ["c"], value=dense))
    sparse = made.graph.sparse_initializer.add()
    sparse.values.CopyFrom(dense)
    sparse.values.external_data[0].value = "sparse.bin"
    assert parsed(made).external == {"constant.bin": "constant", "sparse.bin": "constant"}


def test_read__steps_over_weights(tmp_path: Path):
    """A file of four sparse gigabytes: whoever reads it all takes seconds and memory."""
    made = models.linear()
    made.graph.initializer[0].ClearField("raw_data")
    text = made.SerializeToString()
    size = 4 * 2**30
    path = tmp_path / "net.onnx"
    with path.open("wb") as stream:
        # Another graph field: its only initialiser holds the raw data (fields 7, 5 and 9).
        tensor = _key(9, size)
        initializer = _key(5, len(tensor) + size) + tensor
        stream.write(text + _key(7, len(initializer) + size) + initializer)
        stream.truncate(stream.tell() + size)
    before = _resident_kib()
    assert len(file.read(path).nodes) == 1
    assert _resident_kib() - before < 50_000


def _key(number: int, size: int) -> bytes:
    return bytes([number << 3 | 2]) + _varint(size)


def _varint(value: int) -> bytes:
    text = b""
    while value >= 0x80:
        text += bytes([value & 0x7F | 0x80])
        value >>= 7
    return text + bytes([value])


def _resident_kib() -> int:
    lines = Path(f"/proc/{os.getpid()}/status").read_text(encoding="utf-8").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        (b"", "empty"),
        (b"hello world, no model at all", "unknown kind"),
        (b"\x08\x07", "no graph"),
        (b"\x3a\xff\xff\x03ab", "ends inside a field"),
        (b"\xff" * 20, "no whole number"),
    ],
)
def test_read__what_is_no_model(tmp_path: Path, text: bytes, part: str):
    path = tmp_path / "net.onnx"
    path.write_bytes(text)
    with pytest.raises(MalformedError, match=part):
        file.read(path)


def test_parse__graphs_nested_without_end():
    """Deeper than protobuf's own limit, so that only a hostile file does it."""
    graph = b""
    for number in (6, 5, 1) * 3000:  # graph of an attribute, attribute of a node, node of a graph
        graph = _key(number, len(graph)) + graph
    with pytest.raises(MalformedError, match="nested"):
        file.parse(Message.whole(_key(7, len(graph)) + graph))


@settings(max_examples=200, deadline=None)
@given(cut=st.integers(1, 400), place=st.integers(0, 400), byte=st.integers(0, 255))
def test_parse__damaged_files_end_in_one_kind_of_error(cut: int, place: int, byte: int):
    text = bytearray(models.linear(layers=2).SerializeToString())
    text[place % len(text)] = byte
    try:
        found = file.parse(Message.whole(bytes(text[: max(1, len(text) - cut)])))
    except MalformedError:
        found = None
    assert found is None or isinstance(found, file.ModelFile)
