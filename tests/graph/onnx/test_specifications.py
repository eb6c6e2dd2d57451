"""Sizes of inputs: bound by the configuration, or refused with what to write."""

from __future__ import annotations

import re

import pytest
from onnx import ValueInfoProto, helper

from perfgate.errors import UsageError
from tests.graph.onnx.models import (
    FLOAT,
    INT64,
    counted,
    flop,
    model,
    node,
    number,
    shape_of,
    traced,
    untyped,
    value,
    weight,
)


def linear(shape, element=FLOAT, **options):
    return model(
        [node("MatMul", "x w", "y")], [value("x", shape, element)], [untyped("y")], [weight("w", [4, 8])], **options
    )


def two(left, right):
    return model([node("Concat", "a b", "y", axis=0)], [value("a", left), value("b", right)], [untyped("y")])


def test_static__inputs_may_be_left_out(tmp_path):
    trace = traced(linear([3, 4]), tmp_path)

    assert flop(trace) == 2 * 3 * 4 * 8
    assert not any(note.startswith("bound") for note in trace.notes)


@pytest.mark.parametrize("inputs", [["float32[batch,4]"], {"x": "float32[batch,4]"}, ("float32[2*batch,4]",)])
def test_symbolic__is_bound_by_position_or_name_and_noted(tmp_path, inputs):
    size = 10 if "2*" in str(inputs) else 5

    trace = traced(linear(["n", 4]), tmp_path, inputs, batch=5)

    assert flop(trace) == 2 * size * 4 * 8
    assert trace.batch == 5
    place = "inputs.x" if isinstance(inputs, dict) else "inputs[0]"
    assert trace.notes[0] == f"bound: n = {size} ({place}, dimension 0 of x)"
    assert trace.values[0].name == place


@pytest.mark.parametrize("inputs", [None, (), {}])
def test_symbolic__without_a_size_is_an_error_and_never_nothing(tmp_path, inputs):
    message = r"m\.onnx: input 'x': dimension 0 'n' has no size; write inputs with x = 'float32\[batch,4\]'"
    with pytest.raises(UsageError, match=message):
        traced(linear(["n", 4]), tmp_path, inputs)


@pytest.mark.parametrize("open_size", [None, 0, -1])
def test_nameless__needs_a_size_too(tmp_path, open_size):
    with pytest.raises(UsageError, match="input 'x': dimension 0 has no size"):
        traced(linear([open_size, 4]), tmp_path)
    assert flop(traced(linear([open_size, 4]), tmp_path, ["float32[3,4]"])) == 2 * 3 * 4 * 8


def test_sizes_in_the_file__that_the_specification_contradicts(tmp_path):
    message = "input 'x': dimension 0 is 3 in inputs[0], but the file fixes it at 2; write 2, or export"
    with pytest.raises(UsageError, match=re.escape(message)):
        traced(linear([2, 4]), tmp_path, ["float32[batch,4]"], batch=3)


def test_sizes_of_two_inputs__that_contradict_each_other(tmp_path):
    message = (
        "input 'b': dimension 0 'n' is 4 in inputs.b, but 3 by inputs.a, dimension 0 of a; give both the same size"
    )
    with pytest.raises(UsageError, match=re.escape(message)):
        traced(two(["n", 4], ["n", 4]), tmp_path, {"a": "float32[3,4]", "b": "float32[4,4]"})


def test_sizes_of_two_inputs__one_tells_the_other(tmp_path):
    trace = traced(two(["n", 4], ["2*n + 1", 4]), tmp_path, {"a": "float32[3,4]"})

    assert shape_of(trace) == (10, 4)


def test_computed_sizes__bound_before_their_parts_have_to_agree(tmp_path):
    proto = two(["2*n", 4], ["n", 4])

    assert shape_of(traced(proto, tmp_path, ["float32[6,4]", "float32[3,4]"])) == (9, 4)
    with pytest.raises(UsageError, match=r"dimension '2\*n' is 7 by inputs\[0\].*, but comes to 6; make them agree"):
        traced(proto, tmp_path, ["float32[7,4]", "float32[3,4]"])


def test_dtype__that_does_not_fit(tmp_path):
    message = "input 'x': inputs[0] is float32, the model takes int64; write x = 'int64[batch,4]'"
    with pytest.raises(UsageError, match=re.escape(message)):
        traced(
            model([node("Identity", "x", "y")], [value("x", ["n", 4], INT64)], [untyped("y")]),
            tmp_path,
            ["float32[3,4]"],
        )


def test_rank__that_does_not_fit(tmp_path):
    message = "input 'x': inputs[0] has 3 dimensions, the model takes 2; write x = 'float32[batch,4]'"
    with pytest.raises(UsageError, match=re.escape(message)):
        traced(linear(["n", 4]), tmp_path, ["float32[3,4,5]"])


def test_names__that_the_model_does_not_have(tmp_path):
    with pytest.raises(UsageError, match=r"inputs\.z: the model has no such input; its inputs are x"):
        traced(linear(["n", 4]), tmp_path, {"z": "float32[3,4]"})
    with pytest.raises(UsageError, match="inputs has 2 entries, the model takes 1: x"):
        traced(linear(["n", 4]), tmp_path, ["float32[3,4]", "float32[3,4]"])


@pytest.mark.parametrize("tree", [["float99[3,4]"], ["float32[3,x]"], ["float32"], "float32[3,4]", ["float32[0,4]"]])
def test_grammar__is_that_of_the_configuration(tmp_path, tree):
    with pytest.raises(UsageError, match=r"m\.onnx: inputs(\[0\])?: "):
        traced(linear(["n", 4]), tmp_path, tree)


def test_bound__of_whole_numbers_is_accepted(tmp_path):
    proto = model(
        [node("Gather", "w x", "y")], [value("x", ["n", "s"], INT64)], [untyped("y")], [weight("w", [100, 8])]
    )

    assert shape_of(traced(proto, tmp_path, ["int64[batch,16] < 100"], batch=2)) == (2, 16, 8)


def test_number__is_a_scalar_whose_value_is_known(tmp_path):
    proto = model(
        [node("Unsqueeze", "k a", "s"), node("Concat", "s t", "shape", axis=0), node("Reshape", "x shape", "y")],
        [value("x", [12]), value("k", [], INT64)],
        [untyped("y")],
        [helper.make_tensor("a", INT64, [1], [0]), helper.make_tensor("t", INT64, [1], [-1])],
    )

    assert shape_of(traced(proto, tmp_path, {"k": 3})) == (3, 4)
    with pytest.raises(UsageError, match=r"input 'k': inputs\.k is 0\.5, which int64 cannot hold"):
        traced(proto, tmp_path, {"k": 0.5})
    with pytest.raises(UsageError, match=r"input 'x': inputs\.x is 7, and the input has dimensions"):
        traced(proto, tmp_path, {"x": 7, "k": 3})


def test_table_or_list__for_a_tensor(tmp_path):
    with pytest.raises(UsageError, match="is a table, and inputs of ONNX models are tensors"):
        traced(linear(["n", 4]), tmp_path, [{"x": "float32[3,4]"}])
    with pytest.raises(UsageError, match="is a list, and the input is one tensor"):
        traced(linear(["n", 4]), tmp_path, [["float32[3,4]"]])


def test_sequence__is_a_list_of_tensors(tmp_path):
    type_ = helper.make_sequence_type_proto(helper.make_tensor_type_proto(FLOAT, None))
    proto = model(
        [node("ConcatFromSequence", "x", "y", axis=0)], [ValueInfoProto(name="x", type=type_)], [untyped("y")]
    )

    trace = traced(proto, tmp_path, [["float32[3,4]", "float32[5,4]"]])

    assert shape_of(trace) == (8, 4)
    assert [found.name for found in trace.values[:2]] == ["inputs[0][0]", "inputs[0][1]"]
    with pytest.raises(UsageError, match="give them in inputs as a list of specifications"):
        traced(proto, tmp_path)


def test_initialisers__that_are_inputs_too_need_no_specification(tmp_path):
    proto = model(
        [node("MatMul", "x w", "y")],
        [value("w", [4, 8]), value("x", ["n", 4])],
        [untyped("y")],
        [weight("w", [4, 8])],
        ir_version=3,
    )

    trace = traced(proto, tmp_path, ["float32[3,4]"])

    assert flop(trace) == 2 * 3 * 4 * 8
    assert [found.role for found in trace.values] == ["input", "parameter", "intermediate"]


def test_sizes__that_no_operator_can_work_on(tmp_path):
    message = r"m\.onnx: MatMul making y cannot work on the sizes \[3, 5\], \[4, 8\]: .*check the sizes in inputs"
    with pytest.raises(UsageError, match=message):
        traced(linear(["n", "k"]), tmp_path, ["float32[3,5]"])


def test_shape_chain__folds_with_the_bound_sizes(tmp_path):
    """What exporters write for ``x.view(x.size(0), -1, 2)`` with dynamic sizes."""
    nodes = [
        node("Shape", "x", "s"),
        node("Gather", "s zero", "n", axis=0),
        node("Unsqueeze", "n axis", "n1"),
        node("Concat", "n1 rest", "shape", axis=0),
        node("Reshape", "x shape", "v"),
        node("MatMul", "v w", "y"),
    ]
    constants = [
        number("zero", 0),
        helper.make_tensor("axis", INT64, [1], [0]),
        helper.make_tensor("rest", INT64, [2], [-1, 2]),
        weight("w", [2, 5]),
    ]
    proto = model(nodes, [value("x", ["batch", "length"])], [untyped("y")], constants)

    trace = traced(proto, tmp_path, ["float32[batch,6]"], batch=3)

    assert [call.op for call in trace.calls] == ["ai.onnx::MatMul"]
    assert flop(trace) == 2 * 3 * 3 * 2 * 5
    assert counted(proto, tmp_path, ["float32[batch,6]"], batch=3).totals.not_counted == ()


def test_old_type_without_sizes__takes_them_from_the_specification(tmp_path):
    proto = linear(None)

    assert flop(traced(proto, tmp_path, ["float32[3,4]"])) == 2 * 3 * 4 * 8
    with pytest.raises(UsageError, match="the file does not tell its sizes; write inputs with x = "):
        traced(proto, tmp_path)
