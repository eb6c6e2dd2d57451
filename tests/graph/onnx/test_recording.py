"""What the trace says: roles, weights, views, names, attributes, peak."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from tests.graph.onnx.models import (
    BOOL,
    FLOAT,
    INT8,
    INT32,
    INT64,
    UINT8,
    counted,
    ints,
    model,
    node,
    number,
    ops,
    shape_of,
    traced,
    untyped,
    value,
    weight,
)


def roles(trace):
    return {found.name: found.role for found in trace.values if found.name}


def through(op, *, inputs="x", shape=(2, 3, 1, 4), constants=(), opset=17, extra=(), **attributes):
    """A product behind one operator, so that a view shows in what the product reads."""
    nodes = [node(op, inputs, "v", **attributes), node("Relu", "v", "y")]
    return model(nodes, [value("x", shape), *extra], [untyped("y")], constants, opset=opset)


VIEWS = {
    "identity": through("Identity"),
    "reshape": through("Reshape", inputs="x s", constants=[ints("s", 6, -1)]),
    "flatten": through("Flatten"),
    "squeeze": through("Squeeze", inputs="x a", constants=[ints("a", 2)]),
    "squeeze, old": through("Squeeze", opset=11, axes=[2]),
    "unsqueeze": through("Unsqueeze", inputs="x a", constants=[ints("a", 0)]),
    "dropout": through("Dropout"),
    "dropout, old": through("Dropout", opset=9, ratio=0.5),
    "dropout with a mask": model(
        [node("Dropout", "x", "v mask"), node("Relu", "v", "y")], [value("x", [2, 3])], [untyped("y")], opset=9
    ),
    "cast to the same": through("Cast", to=FLOAT),
    "transposition of a size of 1": through("Transpose", perm=[0, 2, 1, 3]),
    "concat of one": through("Concat", axis=0),
    "expand to the same": through("Expand", inputs="x s", constants=[ints("s", 2, 3, 1, 4)]),
}


@pytest.mark.parametrize("name", VIEWS)
def test_view__is_no_call_and_shares_its_memory(tmp_path, name):
    trace = traced(VIEWS[name], tmp_path)

    (call,) = trace.calls
    assert call.op == "ai.onnx::Relu"
    read = trace.values[call.operands["X"][0]]
    assert (read.role, read.name) == ("input", "inputs.x")


WORK = {
    "cast": (through("Cast", to=TensorProto.DOUBLE), "Cast"),
    "transposition": (through("Transpose", perm=[1, 0, 2, 3]), "Transpose"),
    "expand": (through("Expand", inputs="x s", constants=[ints("s", 2, 3, 5, 4)]), "Expand"),
    "dropout with a mask in training": (
        through("Dropout", inputs="x r t", constants=[number("r", 0.5, FLOAT), number("t", 1, BOOL)]),
        "Dropout",
    ),
}


@pytest.mark.parametrize("name", WORK)
def test_movement__is_a_call(tmp_path, name):
    proto, op = WORK[name]

    assert ops(traced(proto, tmp_path)) == [op, "Relu"]


def test_roles__by_type_rank_and_use(tmp_path):
    proto = model(
        [
            node("Gather", "table i", "e"),
            node("Reshape", "e shape", "r"),
            node("Mul", "r half", "h"),
            node("MatMul", "h w", "m"),
            node("Resize", "m _ scales", "z"),
            node("Gather", "z order", "y", axis=0),
        ],
        [value("i", [2, 3], INT64)],
        [untyped("y")],
        [
            weight("table", [10, 4]),
            ints("shape", 6, 4),
            number("half", 0.5, FLOAT),
            weight("w", [4, 5]),
            helper.make_tensor("scales", FLOAT, [2], [2.0, 2.0]),
            ints("order", 1, 0),
        ],
    )
    proto.graph.node[4].input[1] = ""

    trace = traced(proto, tmp_path)

    assert roles(trace) == {
        "inputs.i": "input",
        "table": "parameter",
        "half": "constant",
        "w": "parameter",
        "order": "constant",
    }
    assert trace.parameters == 10 * 4 + 4 * 5
    # The order is read at run time and so kept; sizes and scales are not.
    assert trace.weight_bytes == (10 * 4 + 4 * 5) * 4 + 2 * 8
    assert shape_of(trace) == (2, 10)


def test_roles__of_quantised_models(tmp_path):
    """Weights of 8 bits and their biases of 32 are weights; scales and zero points are not, but are stored too."""
    proto = model(
        [
            node("DequantizeLinear", "wq ws wz", "w", axis=0),
            node("DequantizeLinear", "bq bs", "b", axis=0),
            node("Conv", "x w b", "y"),
        ],
        [value("x", [1, 4, 8, 8])],
        [untyped("y")],
        [
            weight("wq", [6, 4, 3, 3], INT8),
            weight("ws", [6]),
            weight("wz", [6], INT8),
            weight("bq", [6], INT32),
            weight("bs", [6]),
        ],
    )

    trace = traced(proto, tmp_path)

    assert roles(trace) == {
        "inputs.x": "input",
        "wq": "parameter",
        "ws": "constant",
        "wz": "constant",
        "bq": "parameter",
        "bs": "constant",
    }
    assert trace.parameters == 6 * 4 * 9 + 6
    assert trace.weight_bytes == 6 * 4 * 9 + 6 * 4 + 6 + 6 * 4 + 6 * 4
    assert ops(trace) == ["DequantizeLinear", "DequantizeLinear", "Conv"]


def test_weights__that_nobody_uses_count_too(tmp_path):
    proto = model([node("Relu", "x", "y")], [value("x", [3])], [untyped("y")], [weight("w", [4, 5])])

    trace = traced(proto, tmp_path)

    assert (trace.parameters, trace.weight_bytes) == (20, 80)
    assert any("compare them with other ONNX files only" in note for note in trace.notes)


def test_weights__in_constant_nodes_count_and_single_numbers_do_not(tmp_path):
    nodes = [
        node("Constant", "", "w", value=weight("v", [4, 5])),
        node("Constant", "", "one", value=helper.make_tensor("o", FLOAT, [1], [1.0])),
        node("MatMul", "x w", "m"),
        node("Add", "m one", "y"),
    ]

    assert traced(model(nodes, [value("x", [3, 4])], [untyped("y")]), tmp_path).parameters == 20


def test_work_on_weights__is_work_however_few_they_are(tmp_path):
    proto = model(
        [node("Transpose", "w", "t", perm=[1, 0]), node("MatMul", "x t", "y")],
        [value("x", [3, 4])],
        [untyped("y")],
        [weight("w", [5, 4])],
    )

    assert ops(traced(proto, tmp_path)) == ["Transpose", "MatMul"]


def test_four_bits__count_half_a_byte(tmp_path):
    packed = TensorProto(name="w", data_type=TensorProto.INT4, dims=[4, 6])
    packed.raw_data = bytes(12)
    proto = model(
        [node("DequantizeLinear", "w s", "d"), node("MatMul", "x d", "y")],
        [value("x", [3, 4])],
        [untyped("y")],
        [packed, number("s", 0.5, FLOAT)],
        opset=21,
        ir_version=10,
    )

    trace = traced(proto, tmp_path)

    (found,) = [found for found in trace.values if found.name == "w"]
    assert (found.dtype, found.bits) == ("int4", 4)
    assert trace.weight_bytes == 12


def test_operands__have_the_schemas_names(tmp_path):
    proto = model(
        [node("Conv", "x w b", "c"), node("Concat", "c x c", "y", axis=1)],
        [value("x", [1, 4, 8, 8])],
        [untyped("y")],
        [weight("w", [4, 4, 1, 1]), weight("b", [4])],
    )

    conv, concat = traced(proto, tmp_path).calls

    assert list(conv.operands) == ["X", "W", "B"]
    assert list(concat.operands) == ["in0", "in1", "in2"]
    assert concat.operands["in0"] == concat.operands["in2"] == conv.outputs


def test_attributes__hold_defaults_and_arguments_that_came_as_tensors(tmp_path):
    def mean(opset):
        if opset < 18:
            return model([node("ReduceMean", "x", "y", axes=[1])], [value("x", [3, 4])], [untyped("y")], opset=opset)
        nodes = [node("ReduceMean", "x a", "y")]
        return model(nodes, [value("x", [3, 4])], [untyped("y")], [ints("a", 1)], opset=opset)

    conv = model([node("Conv", "x w", "y")], [value("x", [1, 4, 8, 8])], [untyped("y")], [weight("w", [4, 4, 1, 1])])

    for opset in (13, 18):
        (call,) = traced(mean(opset), tmp_path).calls
        assert (call.attributes["axes"], call.attributes["keepdims"]) == ((1,), 1)
        assert call.operands == {"data": (0,)}
    (call,) = traced(conv, tmp_path).calls
    assert call.attributes == {
        "auto_pad": "NOTSET",
        "group": 1,
        "strides": (1, 1),
        "dilations": (1, 1),
        "pads": (0, 0, 0, 0),
    }


def test_attributes__that_are_long_are_told_apart_by_a_hash(tmp_path):
    def ensemble(first):
        return model(
            [node("LinearRegressor", "x", "y", "ai.onnx.ml", coefficients=[first] + [0.5] * 999, targets=2)],
            [value("x", [9, 500])],
            [untyped("y")],
            domains=("ai.onnx.ml",),
        )

    def hashed(proto) -> Any:
        return traced(proto, tmp_path).calls[0].attributes["coefficients"]

    one, other = hashed(ensemble(0.25)), hashed(ensemble(0.5))

    assert one["length"] == other["length"] == 1000
    assert one["sha256"] != other["sha256"]


def test_version__is_the_operators_own(tmp_path):
    """A newer operator set in which the operator is the same leaves the graph the same."""

    def softmax(opset):
        proto = model([node("Softmax", "x", "y")], [value("x", [3, 4])], [untyped("y")], opset=opset)
        return counted(proto, tmp_path).totals

    graphs = [softmax(13), softmax(17)]

    assert graphs[0].fingerprint == graphs[1].fingerprint
    assert [graph.software for graph in graphs] == ["onnx opset 13", "onnx opset 17"]


def test_names__of_modules(tmp_path):
    def named(name, output="y", scopes=None, classes=None):
        made = node("MatMul", "x w", output, name=name)
        for key, entry in (("name_scopes", scopes), ("class_hierarchy", classes)):
            if entry is not None:
                made.metadata_props.add(key=f"pkg.torch.onnx.{key}", value=str(entry))
        (call,) = traced(model([made], [value("x", [3, 4])], [untyped(output)], [weight("w", [4, 5])]), tmp_path).calls
        return call.module, call.module_class

    assert named("/layer1/layer1.0/conv1/MatMul") == ("layer1.0.conv1", "")
    assert named("", "/encoder/ln/MatMul_output_0") == ("encoder.ln", "")
    assert named("", "191") == ("", "")
    classes = ["app.Net", "torch.nn.modules.linear.Linear", "aten.linear"]
    assert named("node_linear", "y", ["", "head", "linear"], classes) == ("head", "Linear")


def test_peak__is_the_largest_sum_of_live_tensors(tmp_path):
    proto = model(
        [
            node("MatMul", "x w", "a"),
            node("Reshape", "a s", "b"),
            node("Relu", "b", "c"),
            node("ReduceSum", "c", "y", keepdims=0),
        ],
        [value("x", [10, 4])],
        [untyped("y")],
        [weight("w", [4, 100]), ints("s", 100, 10)],
    )

    trace = traced(proto, tmp_path)

    # a (with its view b) and c live together; x and w are not made in the step.
    assert trace.peak_bytes == 2 * 1000 * 4
    assert trace.lasting == trace.results


def test_peak__is_not_told_where_sizes_are_not_known(tmp_path):
    proto = model([node("NonZero", "x", "y")], [value("x", [3, 4])], [untyped("y", INT64)])

    assert traced(proto, tmp_path).peak_bytes is None


def test_unknown_sizes__keep_their_edges(tmp_path):
    proto = model(
        [node("NonZero", "x", "i"), node("Cast", "i", "f", to=FLOAT), node("Relu", "f", "y")],
        [value("x", [3, 4])],
        [untyped("y")],
    )

    graph = counted(proto, tmp_path)

    assert [operator.sources for operator in graph.operators] == [(), (0,), (1,)]
    assert graph.operators[2].inputs == ("float32[2,?]",)


def test_quantised_zero_points__of_unsigned_bytes_are_no_weights(tmp_path):
    proto = model(
        [node("QuantizeLinear", "x s z", "y", axis=0)],
        [value("x", [6, 4])],
        [untyped("y", UINT8)],
        [weight("s", [6]), weight("z", [6], UINT8)],
    )

    assert traced(proto, tmp_path).parameters == 0
