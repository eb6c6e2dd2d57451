"""ONNX files described and cut: pieces run and give what the whole gives."""

from __future__ import annotations

import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from perfgate import wire
from perfgate.errors import MeasuringError, UsageError
from perfgate.graph.onnx import pieces
from perfgate.records.placing import CrossingValue, Cut, Described, Wanted


def value(name, shape, dtype=TensorProto.FLOAT):
    return helper.make_tensor_value_info(name, dtype, shape)


def weight(name, *shape, seed=0):
    return onnx.numpy_helper.from_array(np.random.default_rng(seed).standard_normal(shape).astype("f4"), name)


def network():
    nodes = [
        helper.make_node("MatMul", ["x", "w1"], ["a"], name="/first/MatMul"),
        helper.make_node("Relu", ["a"], ["b"], name="/act/Relu"),
        helper.make_node("MatMul", ["b", "w2"], ["c"], name="/last/MatMul"),
        helper.make_node("Add", ["c", "a"], ["y"], name="/Add"),
    ]
    graph = helper.make_graph(
        nodes, "net", [value("x", ["n", 4])], [value("y", ["n", 4])], [weight("w1", 4, 4), weight("w2", 4, 4, seed=1)]
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


def run(model, **feeds):
    return ReferenceEvaluator(model).run(None, feeds)


def test_describe__operators_weights_and_places():
    found = pieces.describe(network())
    assert [one.op for one in found.operators] == ["MatMul", "Relu", "MatMul", "Add"]
    assert [one.module for one in found.operators] == ["first", "act", "last", ""]
    assert found.weights == {"w1": 64, "w2": 64}
    assert (found.inputs, found.outputs) == (("x",), ("y",))


def test_describe__small_constants_have_their_values_in_the_text():
    def text(contents):
        model = network()
        model.graph.initializer.append(onnx.numpy_helper.from_array(np.array(contents), "axes"))
        return pieces.describe(model).texts["axes"]

    assert text([1]) == text([1])
    assert text([1]) != text([2])
    assert text([1]).startswith("int64[1]")


def test_describe__attributes_are_told_apart():
    def attributes(**given):
        model = network()
        model.graph.node.append(helper.make_node("Softmax", ["y"], ["z"], **given))
        return pieces.describe(model).operators[-1].attributes

    assert attributes(axis=1) == attributes(axis=1)
    assert attributes(axis=1) != attributes(axis=0)


def test_describe__names_of_optimisers_are_left_off():
    model = network()
    model.graph.node[0].name = "/first/MatMul/MatMulAddFusion"
    assert pieces.describe(model).operators[0].module == "first"


def test_piece__pieces_in_order_give_what_the_whole_gives():
    model = network()
    x = np.random.default_rng(2).standard_normal((3, 4)).astype("f4")
    first = pieces.piece(model, Cut(file="", nodes=(0, 1), outputs=("a", "b")))
    last = pieces.piece(model, Cut(file="", nodes=(2, 3), outputs=("y",)))
    onnx.checker.check_model(pieces.piece(model, Cut(file="", nodes=(0, 1, 2, 3), outputs=("y",))))
    assert [one.name for one in first.graph.initializer] == ["w1"]
    assert {one.name for one in last.graph.input} == {"a", "b"}
    a, b = run(first, x=x)
    np.testing.assert_allclose(run(last, a=a, b=b)[0], run(model, x=x)[0], rtol=1e-6)


def test_piece__values_have_the_shapes_that_were_seen():
    seen = CrossingValue(name="a", dtype="float32", shape=(3, 4), bytes=48)
    cut = pieces.piece(network(), Cut(file="", nodes=(1,), outputs=("b",), values=(seen,)))
    (given,) = cut.graph.input
    assert [size.dim_value for size in given.type.tensor_type.shape.dim] == [3, 4]
    assert given.type.tensor_type.elem_type == TensorProto.FLOAT


def test_piece__what_subgraphs_read_from_outside_comes_along():
    branch = helper.make_graph([helper.make_node("Add", ["a", "w1"], ["r"])], "t", [], [value("r", None)])
    other = helper.make_graph([helper.make_node("Identity", ["a"], ["r"])], "e", [], [value("r", None)])
    model = network()
    model.graph.input.append(value("flag", [], TensorProto.BOOL))
    model.graph.node.append(helper.make_node("If", ["flag"], ["z"], then_branch=branch, else_branch=other))
    assert pieces.describe(model).operators[-1].reads == ("flag", "a", "w1")
    cut = pieces.piece(model, Cut(file="", nodes=(4,), outputs=("z",)))
    assert [one.name for one in cut.graph.input] == ["flag", "a"]
    assert [one.name for one in cut.graph.initializer] == ["w1"]


@pytest.mark.parametrize(
    ("cut", "message"),
    [
        (Cut(file="", nodes=(9,), outputs=("y",)), "no operator 9 in a graph of 4"),
        (Cut(file="", nodes=(0,), outputs=("y",)), "none of these operators makes 'y'"),
        (
            Cut(
                file="",
                nodes=(0,),
                outputs=("a",),
                values=(CrossingValue(name="a", dtype="quaternion", shape=(), bytes=0),),
            ),
            "ONNX has no dtype quaternion",
        ),
    ],
)
def test_piece__what_cannot_be_cut_is_told(cut, message):
    with pytest.raises(UsageError, match=message):
        pieces.piece(network(), cut)


def test_serve__writes_what_is_wanted_in_a_process_of_its_own(tmp_path):
    onnx.save(network(), tmp_path / "net.onnx")
    wanted = Wanted(
        source=str(tmp_path / "net.onnx"),
        describe=str(tmp_path / "said.json"),
        cuts=(
            Cut(file=str(tmp_path / "cut" / "one.onnx"), nodes=(0,), outputs=("a",)),
            Cut(file=str(tmp_path / "cut" / "empty.onnx")),
        ),
    )
    pieces.serve(wanted, tmp_path)
    said = wire.loads(Described, (tmp_path / "said.json").read_text())
    assert len(said.operators) == 4
    assert len(onnx.load(tmp_path / "cut" / "one.onnx").graph.node) == 1
    one = np.ones(1, dtype="f4")
    assert run(onnx.load(tmp_path / "cut" / "empty.onnx"), x=one) == [one]
    assert not list(tmp_path.rglob("*.part"))


def test_serve__writes_nowhere_else(tmp_path):
    wanted = Wanted(source=str(tmp_path / "a.onnx"), cuts=(Cut(file=str(tmp_path.parent / "b.onnx")),))
    with pytest.raises(UsageError, match=r"outside of .*refused"):
        pieces.serve(wanted, tmp_path)


def test_serve__a_file_that_is_no_model_is_told(tmp_path):
    (tmp_path / "net.onnx").write_bytes(b"\xff" * 100)
    with pytest.raises(MeasuringError, match=r"net\.onnx: cannot be read"):
        pieces.serve(Wanted(source=str(tmp_path / "net.onnx"), describe=str(tmp_path / "d.json")), tmp_path)


def test_serve__interpreter_that_does_not_start(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "nothing"))
    with pytest.raises(MeasuringError, match=r"net\.onnx: .*does not start: No such file"):
        pieces.serve(Wanted(source=str(tmp_path / "net.onnx")), tmp_path)
