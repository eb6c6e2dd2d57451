"""Groups of made-up operations: they can always run in order."""

from __future__ import annotations

import random

from perfgate.worker.placing import grouping
from perfgate.worker.placing.operations import CHEAP, PREFIX, VIEW, WORK, Operation, kind, role


def operation(number, role_, reads, *, weights=(), tied=(), state=(), inseparable=()):
    return Operation(
        op=f"op{number}",
        base=f"op{number}",
        role=role_,
        kind=role_,
        reads=tuple(reads),
        makes=(f"v{number}",),
        weights=tuple((name, 4) for name in weights),
        tied=tied,
        text=role_,
        state=state,
        inseparable=inseparable,
    )


def members(operations, results=()):
    return [one.members for one in grouping.group(operations, results or [operations[-1].makes[0]])]


def test_grouping__cheap_operations_join_the_latest_group_that_they_read():
    chain = [
        operation(0, WORK, ["x"]),
        operation(1, WORK, ["v0"]),
        operation(2, CHEAP, ["v0", "v1"]),
        operation(3, VIEW, ["v2"]),
    ]
    assert members(chain) == [(0,), (1, 2, 3)]


def test_grouping__a_view_of_an_input_goes_to_its_only_reader():
    chain = [operation(0, VIEW, ["x"]), operation(1, WORK, ["y"]), operation(2, WORK, ["v0", "v1"])]
    assert members(chain) == [(1,), (0, 2)]


def test_grouping__a_view_of_an_input_with_several_readers_stays_alone():
    chain = [operation(0, VIEW, ["x"]), operation(1, WORK, ["v0"]), operation(2, WORK, ["v0", "v1"])]
    assert members(chain) == [(0,), (1,), (2,)]


def test_grouping__integers_cross_borders_and_are_turned_into_floats_where_they_are_read():
    chain = [
        operation(0, PREFIX, ["x"]),
        operation(1, WORK, ["v0"]),
        operation(2, CHEAP, ["v1"]),
        operation(3, PREFIX, ["v2"]),
        operation(4, WORK, ["v3"]),
    ]
    assert members(chain) == [(0, 1, 2), (3, 4)]
    assert [role(base) for base in ("dequantizelinear", "quantizelinear")] == [PREFIX, CHEAP]


def test_grouping__what_touches_a_changed_buffer_is_one_group():
    chain = [
        operation(0, WORK, ["x"], weights=["total"]),
        operation(1, WORK, ["v0"]),
        operation(2, WORK, ["v1"], weights=["total"], state=("total",)),
        operation(3, WORK, ["v2"]),
    ]
    assert members(chain) == [(0, 1, 2), (3,)]


def test_grouping__what_is_no_tensor_stays_with_its_readers():
    chain = [
        operation(0, WORK, ["x"], inseparable=("v0",)),
        operation(1, WORK, ["y"]),
        operation(2, WORK, ["v0", "v1"]),
    ]
    assert members(chain) == [(0, 1, 2)]


def test_grouping__groups_of_random_graphs_run_in_order_and_hold_every_operation_once():
    for seed in range(200):
        rng = random.Random(seed)
        operations = []
        for number in range(rng.randint(1, 25)):
            known = ["x", *(f"v{n}" for n in range(number))]
            reads = rng.sample(known, min(len(known), rng.randint(1, 3)))
            weights = ["s"] if rng.random() < 0.1 else []
            state = ("s",) if weights and rng.random() < 0.5 else ()
            operations.append(
                operation(number, rng.choice([WORK, CHEAP, VIEW, PREFIX]), reads, weights=weights, state=state)
            )
        results = [f"v{rng.randrange(len(operations))}", operations[-1].makes[0]]
        groups = grouping.group(operations, results)
        assert sorted(number for one in groups for number in one.members) == list(range(len(operations)))
        there = {"x"}
        for one in groups:
            assert set(one.inputs) <= there, seed
            there.update(one.outputs)
        assert set(results) <= there


def test_grouping__nodes_of_one_tied_chain_have_one_text():
    operations = [
        operation(0, WORK, ["x"], weights=["a"], tied=("a",)),
        operation(1, WORK, ["v0"], weights=["a", "b"], tied=("a", "b")),
        operation(2, WORK, ["v1"], weights=["b"], tied=("b",)),
        operation(3, WORK, ["v2"], weights=["c"], tied=("c",)),
    ]
    groups = grouping.group(operations, ["v3"])
    texts = [node.together for node in grouping.nodes(operations, groups, {})]
    assert len(set(texts[:3])) == 1
    assert texts[0]
    assert texts[3] == ""


def test_operations__roles_and_kinds():
    assert [role(base) for base in ("conv2d", "add_", "relu", "view", "tanh", "never_heard_of")] == [
        WORK, CHEAP, CHEAP, VIEW, WORK, WORK,
    ]  # fmt: skip
    assert kind("conv2d") == kind("conv") == "convolution"
    assert kind("never_heard_of") == "never_heard_of"
