"""FLOP of the standard's attention."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import ModelProto, defs, helper

from tests.graph.onnx.models import FLOAT, flop, shape_of, traced
from tests.graph.onnx.single import one

ATTENTION = {
    "four dimensions": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 4, 7, 6], "v": [2, 4, 7, 8]}, "y", {}),
    "packed heads": (
        "q k v",
        {"q": [2, 5, 24], "k": [2, 7, 24], "v": [2, 7, 32]},
        "y",
        {"q_num_heads": 4, "kv_num_heads": 4},
    ),
    "causal": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 4, 5, 6], "v": [2, 4, 5, 6]}, "y", {"is_causal": 1}),
    "fewer key heads": ("q k v", {"q": [2, 4, 5, 6], "k": [2, 2, 7, 6], "v": [2, 2, 7, 6]}, "y", {}),
    "past": (
        "q k v m pk pv",
        {"q": [2, 4, 5, 6], "k": [2, 4, 7, 6], "v": [2, 4, 7, 6], "m": [5, 10], "pk": [2, 4, 3, 6], "pv": [2, 4, 3, 6]},
        "y k2 v2",
        {},
    ),
}


# Operators of newer sets have names of inputs only where the onnx package knows them.
newest = pytest.mark.skipif(defs.onnx_opset_version() < 27, reason="the onnx package is older than these operators")


@newest
@pytest.mark.parametrize("name", ATTENTION)
def test_attention__counts_as_the_operators_that_the_standard_defines_it_by(tmp_path, name):
    inputs, shapes, outputs, attributes = ATTENTION[name]
    proto = one("Attention", inputs, shapes, outputs=outputs, opset=23, **attributes)
    types = [helper.make_tensor_type_proto(FLOAT, shapes[name]).SerializeToString() for name in inputs.split()]
    schema: Any = defs.get_schema("Attention", 23, "")
    body = schema.get_context_dependent_function(proto.graph.node[0].SerializeToString(), types)
    expanded = ModelProto()
    expanded.CopyFrom(proto)
    function = expanded.functions.add()
    function.ParseFromString(body)
    function.domain = expanded.graph.node[0].domain = "by.definition"
    expanded.opset_import.append(helper.make_opsetid("by.definition", 1))

    fused, apart = traced(proto, tmp_path), traced(expanded, tmp_path)

    assert [call.op for call in fused.calls] == ["ai.onnx::Attention"]
    assert sum(call.op == "ai.onnx::MatMul" for call in apart.calls) == 2
    assert flop(fused) == flop(apart) > 0
    assert shape_of(fused) == shape_of(apart)


@newest
def test_attention__heads_come_from_attributes_where_they_are_packed(tmp_path):
    proto = one(
        "Attention",
        "q k v",
        {"q": [2, 5, 24], "k": [2, 7, 12], "v": [2, 7, 16]},
        opset=23,
        q_num_heads=4,
        kv_num_heads=2,
    )

    assert flop(traced(proto, tmp_path)) == 2 * 2 * 4 * 5 * 7 * (6 + 8)


@newest
def test_linear_attention__reads_the_state_per_query_head_and_writes_it_per_key_head(tmp_path):
    shapes = {"q": [2, 5, 4 * 6], "k": [2, 5, 2 * 6], "v": [2, 5, 2 * 8]}
    rules = {"linear": 1, "delta": 2}
    for rule, passes in rules.items():
        extra = {"b": [2, 5, 2]} if rule == "delta" else {}
        proto = one(
            "LinearAttention",
            "q k v" if rule == "linear" else "q k v s d b",
            {**shapes, **extra},
            outputs="y s2",
            opset=27,
            q_num_heads=4,
            kv_num_heads=2,
            update_rule=rule,
        )
        if rule == "delta":
            proto.graph.node[0].input[3:5] = ["", ""]

        assert flop(traced(proto, tmp_path)) == 2 * 2 * 5 * 6 * 8 * (4 + 2 * passes)
