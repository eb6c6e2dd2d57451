"""Control flow, functions and sequences."""

from __future__ import annotations

import pytest
from onnx import AttributeProto, helper

from perfgate.errors import UsageError
from perfgate.graph.onnx import recording
from tests.graph.onnx.models import (
    BOOL,
    INT64,
    counted,
    flop,
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


def graph(nodes, inputs, outputs, constants=()):
    return helper.make_graph(nodes, "body", inputs, outputs, initializer=constants)


def product(name, rows):
    """A branch that multiplies an outer tensor by its own weight."""
    return graph([node("MatMul", "x w", name)], [], [untyped(name)], [weight("w", [4, rows])])


def branching(condition):
    inputs = [value("x", [3, 4])] + ([value("p", [], BOOL)] if condition is None else [])
    constants = [] if condition is None else [number("p", condition, BOOL)]
    nodes = [node("If", "p", "y", then_branch=product("a", 8), else_branch=product("b", 32))]
    return model(nodes, inputs, [untyped("y")], constants)


def test_if__counts_the_dearer_branch_and_says_so(tmp_path):
    trace = traced(branching(None), tmp_path)

    assert flop(trace) == 2 * 3 * 4 * 32
    assert shape_of(trace) == (3, 32)
    assert any("the dearer one counts (else_branch: 768 FLOP" in note for note in trace.notes)
    # Both branches' weights are in the file.
    assert trace.parameters == 4 * 8 + 4 * 32


@pytest.mark.parametrize(("condition", "columns"), [(True, 8), (False, 32)])
def test_if__takes_the_branch_of_a_known_condition(tmp_path, condition, columns):
    trace = traced(branching(condition), tmp_path)

    assert flop(trace) == 2 * 3 * 4 * columns
    assert not any("branch" in note for note in trace.notes)


def looping(trips, condition=None, body_condition="Identity"):
    """``x = x @ w`` in a loop, every turn's sum kept."""
    body = graph(
        [
            node(body_condition, "going", "on"),
            node("MatMul", "x_in w", "x_out"),
            node("ReduceSum", "x_out", "kept", keepdims=0),
        ],
        [value("turn", [], INT64), value("going", [], BOOL), untyped("x_in")],
        [untyped("on", BOOL), untyped("x_out"), untyped("kept")],
    )
    inputs = [value("x", [3, 4])]
    constants = [weight("w", [4, 4])]
    names = ["", "", "x"]
    if trips is not None:
        names[0] = "m"
        constants.append(number("m", trips))
    if condition is not None:
        names[1] = "c"
        constants.append(number("c", condition, BOOL))
    loop = helper.make_node("Loop", names, ["y", "all"], body=body)
    return model([loop], inputs, [untyped("y"), untyped("all")], constants)


def test_loop__with_a_trip_count_repeats_its_body(tmp_path):
    trace = traced(looping(7), tmp_path)

    assert [(call.op, call.repeat) for call in trace.calls] == [("ai.onnx::MatMul", 7), ("ai.onnx::ReduceSum", 7)]
    assert flop(trace) == 7 * 2 * 3 * 4 * 4
    assert (shape_of(trace, 0), shape_of(trace, 1)) == ((3, 4), (7,))
    assert not any("Loop" in note for note in trace.notes)


def test_loop__without_one_counts_once_and_says_so(tmp_path):
    for trips in (None, 2**31 - 1, 2**63 - 1):
        trace = traced(looping(trips, condition=True), tmp_path)

        assert flop(trace) == 2 * 3 * 4 * 4
        assert any("how often it turns depends on data; its body counts once" in note for note in trace.notes)


def test_loop__with_a_huge_trip_count_turns_as_often(tmp_path):
    trace = traced(looping(10**12), tmp_path)

    assert flop(trace) == 10**12 * 2 * 3 * 4 * 4
    assert not any("depends on data" in note for note in trace.notes)


def test_loop__that_may_end_early_counts_all_turns_and_says_so(tmp_path):
    trace = traced(looping(7, body_condition="Not"), tmp_path)

    assert flop(trace) == 7 * 2 * 3 * 4 * 4
    assert any("may end before its 7 turns; all of them count" in note for note in trace.notes)


@pytest.mark.parametrize(("trips", "condition"), [(0, None), (7, False)])
def test_loop__that_never_turns_costs_nothing(tmp_path, trips, condition):
    trace = traced(looping(trips, condition), tmp_path)

    assert trace.calls == ()
    assert (shape_of(trace, 0), shape_of(trace, 1)) == ((3, 4), (0,))


def test_loop__whose_sizes_grow_is_walked_turn_by_turn(tmp_path):
    body = graph(
        [node("Identity", "going", "on"), node("Concat", "a_in x", "a_out", axis=0), node("MatMul", "a_out w", "p")],
        [value("turn", [], INT64), value("going", [], BOOL), untyped("a_in")],
        [untyped("on", BOOL), untyped("a_out")],
    )
    proto = model(
        [helper.make_node("Loop", ["m", "", "x"], ["y"], body=body)],
        [value("x", [3, 4])],
        [untyped("y")],
        [number("m", 4), weight("w", [4, 5])],
    )

    trace = traced(proto, tmp_path)

    assert shape_of(trace) == (15, 4)
    assert flop(trace) == sum(2 * rows * 4 * 5 for rows in (6, 9, 12, 15))
    assert trace.parameters == 20


def test_loop__in_a_loop_multiplies(tmp_path):
    inner = graph(
        [node("Identity", "g2", "o2"), node("MatMul", "b_in w", "b_out")],
        [value("t2", [], INT64), value("g2", [], BOOL), untyped("b_in")],
        [untyped("o2", BOOL), untyped("b_out")],
    )
    outer = graph(
        [node("Identity", "g1", "o1"), helper.make_node("Loop", ["m2", "", "a_in"], ["a_out"], body=inner)],
        [value("t1", [], INT64), value("g1", [], BOOL), untyped("a_in")],
        [untyped("o1", BOOL), untyped("a_out")],
    )
    proto = model(
        [helper.make_node("Loop", ["m1", "", "x"], ["y"], body=outer)],
        [value("x", [3, 4])],
        [untyped("y")],
        [number("m1", 5), number("m2", 6), weight("w", [4, 4])],
    )

    trace = traced(proto, tmp_path)

    assert [call.repeat for call in trace.calls] == [30]
    assert flop(trace) == 30 * 2 * 3 * 4 * 4


def scanning(opset, inputs, shapes, **attributes):
    body = graph(
        [node("MatMul", "s_in w", "m"), node("Add", "m x_in", "s_out"), node("Identity", "s_out", "kept")],
        [untyped("s_in"), untyped("x_in")],
        [untyped("s_out"), untyped("kept")],
    )
    return model(
        [helper.make_node("Scan", inputs.split(" "), ["last", "all"], body=body, num_scan_inputs=1, **attributes)],
        [value(name, shape) for name, shape in shapes.items()],
        [untyped("last"), untyped("all")],
        [weight("w", [4, 4])],
        opset=opset,
    )


def test_scan__repeats_its_body_for_every_slice(tmp_path):
    trace = traced(scanning(17, "s x", {"s": [3, 4], "x": [9, 3, 4]}), tmp_path)

    assert flop(trace) == 9 * 2 * 3 * 4 * 4
    assert (shape_of(trace, 0), shape_of(trace, 1)) == ((3, 4), (9, 3, 4))


def test_scan__along_another_axis(tmp_path):
    proto = scanning(17, "s x", {"s": [3, 4], "x": [3, 9, 4]}, scan_input_axes=[1], scan_output_axes=[1])

    trace = traced(proto, tmp_path)

    assert flop(trace) == 9 * 2 * 3 * 4 * 4
    assert shape_of(trace, 1) == (3, 9, 4)


def test_scan__of_the_first_version_has_a_batch(tmp_path):
    trace = traced(scanning(8, " s x", {"s": [2, 3, 4], "x": [2, 9, 3, 4]}), tmp_path)

    assert flop(trace) == 2 * 9 * 2 * 3 * 4 * 4
    assert (shape_of(trace, 0), shape_of(trace, 1)) == ((2, 3, 4), (2, 9, 3, 4))


def function(name, inputs, outputs, nodes, attributes=(), domain="local"):
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("local", 1)]
    return helper.make_function(domain, name, inputs.split(), outputs.split(), nodes, imports, attributes)


def test_function__counts_node_by_node_at_the_place_of_its_call(tmp_path):
    nodes = [node("MatMul", "a b", "t", name="first/MatMul"), node("MatMul", "t b", "c")]
    proto = model(
        [
            node("Twice", "x w", "h", "local", name="/layer1/layer1.0/Twice"),
            node("Twice", "h w", "y", "local", name="/layer2/Twice"),
        ],
        [value("x", [3, 4])],
        [untyped("y")],
        [weight("w", [4, 4])],
        functions=[function("Twice", "a b", "c", nodes)],
        domains=("local",),
    )

    trace = traced(proto, tmp_path)

    assert flop(trace) == 4 * 2 * 3 * 4 * 4
    assert [call.module for call in trace.calls] == ["layer1.0.first", "layer1.0", "layer2.first", "layer2"]


def test_function__attributes_and_missing_inputs_reach_its_nodes(tmp_path):
    turned = node("Transpose", "a", "t")
    turned.attribute.add(name="perm", ref_attr_name="order", type=AttributeProto.INTS)
    body = function("F", "a b", "c", [turned, helper.make_node("Clip", ["t", "b"], ["c"])], ["order"])
    proto = model(
        [helper.make_node("F", ["x"], ["y"], domain="local", order=[2, 0, 1])],
        [value("x", [3, 4, 5])],
        [untyped("y")],
        functions=[body],
        domains=("local",),
    )

    trace = traced(proto, tmp_path)

    assert shape_of(trace) == (5, 3, 4)
    assert trace.calls[0].attributes["perm"] == (2, 0, 1)
    assert trace.calls[1].operands == {"input": (1,)}


def test_function__constants_in_it_are_stored_once(tmp_path):
    body = function("F", "a", "c", [node("Constant", "", "w", value=weight("v", [4, 4])), node("MatMul", "a w", "c")])
    proto = model(
        [node("F", "x", "h", "local"), node("F", "h", "y", "local")],
        [value("x", [3, 4])],
        [untyped("y")],
        functions=[body],
        domains=("local",),
    )

    assert traced(proto, tmp_path).parameters == 16


def test_function__constants_may_come_from_attributes(tmp_path):
    constant = helper.make_node("Constant", [], ["s"])
    constant.attribute.add(name="value_ints", ref_attr_name="sizes", type=AttributeProto.INTS)
    body = function("F", "a", "c", [constant, node("Reshape", "a s", "c")], ["sizes"])
    proto = model(
        [
            node("F", "x", "h", "local", sizes=[4, 3]),
            node("F", "h", "k", "local", sizes=[6, 2]),
            node("MatMul", "k w", "y"),
        ],
        [value("x", [12])],
        [untyped("y")],
        [weight("w", [2, 5])],
        functions=[body],
        domains=("local",),
    )

    assert shape_of(traced(proto, tmp_path)) == (6, 5)


def calling(name, functions):
    return model(
        [node(name, "x", "y", "local")], [value("x", [3])], [untyped("y")], functions=functions, domains=("local",)
    )


def test_function__that_calls_itself_is_refused(tmp_path):
    proto = calling("F", [function("F", "a", "c", [node("F", "a", "c", "local")])])

    with pytest.raises(UsageError, match="function 'F' lies 64 calls deep; does it call itself"):
        traced(proto, tmp_path)


def test_functions__that_multiply_each_other_are_refused(tmp_path, monkeypatch):
    """Twenty functions that each call the next one four times would come to 10^12 operators."""
    functions = [function("F0", "a", "c", [node("Relu", "a", "c")])]
    for level in range(1, 20):
        names = [f"t{n}" for n in range(4)]
        nodes = [node(f"F{level - 1}", "a" if n == 0 else names[n - 1], names[n], "local") for n in range(4)]
        functions.append(function(f"F{level}", "a", "t3", nodes))
    monkeypatch.setattr(recording, "MAX_CALLS", 1000)

    with pytest.raises(UsageError, match="comes to more than 1000 operators"):
        traced(calling("F19", functions), tmp_path)


def test_fused_operator__with_a_function_for_older_runtimes_stays_one(tmp_path):
    body = function("Gelu", "a", "c", [node("Erf", "a", "c")], domain="com.microsoft")
    proto = model(
        [node("Gelu", "x", "y", "com.microsoft")],
        [value("x", [3])],
        [untyped("y")],
        functions=[body],
        domains=("com.microsoft",),
    )

    assert ops(traced(proto, tmp_path)) == ["Gelu"]


def test_standard_function__stays_one_operator(tmp_path):
    proto = model([node("LayerNormalization", "x s", "y")], [value("x", [3, 4])], [untyped("y")], [weight("s", [4])])

    assert ops(traced(proto, tmp_path)) == ["LayerNormalization"]


def test_sequence__of_known_length_is_followed(tmp_path):
    nodes = [
        node("SplitToSequence", "x", "s", axis=0, keepdims=0),
        node("SequenceAt", "s one", "t"),
        node("SequenceInsert", "s t", "s2"),
        node("SequenceLength", "s2", "n"),
        node("ConcatFromSequence", "s2", "j", axis=0, new_axis=1),
        node("Unsqueeze", "n zero", "n1"),
        node("Expand", "e n1", "z"),
        node("MatMul", "j w", "y"),
    ]
    proto = model(
        nodes,
        [value("x", [3, 2, 4]), value("e", [1])],
        [untyped("y"), untyped("z")],
        [number("one", 1), ints("zero", 0), weight("w", [4, 5])],
    )

    trace = traced(proto, tmp_path)

    assert (shape_of(trace, 0), shape_of(trace, 1)) == ((4, 2, 5), (4,))
    assert ops(trace) == ["SplitToSequence", "ConcatFromSequence", "Expand", "MatMul"]
    assert len(trace.calls[0].outputs) == 3
    assert len(trace.calls[1].operands["input_sequence"]) == 4


def test_sequence_map__walks_its_body_for_every_tensor(tmp_path):
    body = graph([node("MatMul", "a w", "b")], [untyped("a")], [untyped("b")])
    nodes = [
        node("SequenceConstruct", "x z", "s"),
        node("SequenceMap", "s", "m", body=body),
        node("ConcatFromSequence", "m", "y", axis=0),
    ]
    proto = model(nodes, [value("x", [3, 4]), value("z", [5, 4])], [untyped("y")], [weight("w", [4, 6])])

    trace = traced(proto, tmp_path)

    assert shape_of(trace) == (8, 6)
    assert flop(trace) == 2 * 8 * 4 * 6


def test_outer_names__are_seen_by_subgraphs_and_not_by_functions(tmp_path):
    body = function("F", "a", "c", [node("MatMul", "a w", "c")])
    proto = model(
        [node("F", "x", "y", "local")],
        [value("x", [3, 4])],
        [untyped("y")],
        [weight("w", [4, 4])],
        functions=[body],
        domains=("local",),
    )

    with pytest.raises(UsageError, match="MatMul making c reads 'w', which nothing before it makes"):
        traced(proto, tmp_path)


def test_control_flow__without_its_body_is_not_counted(tmp_path):
    proto = model([node("Loop", "m", "y")], [value("m", [], INT64)], [untyped("y")])

    (entry,) = counted(proto, tmp_path).totals.not_counted

    assert (entry.op, entry.reason) == ("ai.onnx::Loop", "what it runs depends on data")


def test_node__that_cannot_be_read_is_one_error(tmp_path):
    constant = helper.make_node("Constant", [], [], value=weight("v", [3]))
    proto = model([constant, node("Relu", "x", "y")], [value("x", [3])], [untyped("y")])

    message = r"m\.onnx: Constant making nothing cannot be read \(IndexError.*check the file with onnx\.checker"
    with pytest.raises(UsageError, match=message):
        traced(proto, tmp_path)
