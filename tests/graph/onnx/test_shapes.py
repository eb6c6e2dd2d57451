"""Sizes where the onnx package does not tell them: old operator sets, values of inputs, ONNX Runtime's layouts."""

from __future__ import annotations

from typing import Any

import pytest
from onnx import TensorProto, helper

from tests.graph.onnx.models import (
    BOOL,
    FLOAT,
    INT8,
    INT64,
    UINT8,
    ints,
    model,
    node,
    number,
    shape_of,
    traced,
    untyped,
    value,
    weight,
)


def one(op, inputs, shapes, constants=(), *, opset=1, outputs="y", domain="", **attributes):
    return model(
        [node(op, inputs, outputs, domain, **attributes)],
        [value(name, shape) for name, shape in shapes.items()],
        [untyped(name) for name in outputs.split()],
        constants,
        opset=opset,
        domains=(domain,) if domain else (),
    )


# Operator sets 1 to 6, in which many operators had no inference, and arguments were attributes.
OLD: dict[str, Any] = {
    "relu": (one("Relu", "x", {"x": [2, 3]}), [(2, 3)]),
    "add to the left": (one("Add", "x b", {"x": [2, 3, 4], "b": [3]}, broadcast=1, axis=1), [(2, 3, 4)]),
    "batch norm": (
        one("BatchNormalization", "x s s s s", {"x": [2, 3, 4]}, [weight("s", [3])], consumed_inputs=[0] * 5),
        [(2, 3, 4)],
    ),
    "concat along 1": (one("Concat", "a b", {"a": [2, 3], "b": [2, 4]}), [(2, 7)]),
    "reshape": (one("Reshape", "x", {"x": [2, 3, 4]}, shape=[0, -1]), [(2, 12)]),
    "split": (one("Split", "x", {"x": [2, 6]}, outputs="y z", axis=1, split=[2, 4]), [(2, 2), (2, 4)]),
    "split evenly": (one("Split", "x", {"x": [2, 6]}, outputs="y z", axis=1), [(2, 3), (2, 3)]),
    "pad": (one("Pad", "x", {"x": [2, 6]}, paddings=[0, 1, 0, 2]), [(2, 9)]),
    "upsample": (one("Upsample", "x", {"x": [1, 2, 3, 4]}, height_scale=2.0, width_scale=3.0), [(1, 2, 6, 12)]),
    "gemm": (one("Gemm", "a b c", {"a": [3, 2], "b": [4, 3], "c": [4]}, transA=1, transB=1, broadcast=1), [(2, 4)]),
    "pool": (one("LpPool", "x", {"x": [1, 2, 8, 8]}, kernel_shape=[2, 2], strides=[2, 2]), [(1, 2, 4, 4)]),
    "global pool": (one("GlobalLpPool", "x", {"x": [1, 2, 8, 8]}), [(1, 2, 1, 1)]),
    "sum": (one("Sum", "a b", {"a": [2, 3], "b": [2, 3]}), [(2, 3)]),
    "gru": (
        one(
            "GRU",
            "x w r",
            {"x": [7, 3, 12]},
            [weight("w", [1, 48, 12]), weight("r", [1, 48, 16])],
            outputs="y h",
            hidden_size=16,
        ),
        [(7, 1, 3, 16), (1, 3, 16)],
    ),
}


@pytest.mark.parametrize("name", OLD)
def test_old_operator_sets__are_understood(tmp_path, name):
    proto, expected = OLD[name]

    trace = traced(proto, tmp_path)

    assert [shape_of(trace, position) for position in range(len(expected))] == expected
    assert not any("cannot be told" in note for note in trace.notes)


def test_old_cast__names_its_type(tmp_path):
    trace = traced(one("Cast", "x", {"x": [2, 3]}, to="FLOAT16"), tmp_path)

    assert trace.values[trace.results[0]].dtype == "float16"


TOLD_BY_VALUES = {
    "unpool": (
        model(
            [node("MaxUnpool", "x i s", "y", kernel_shape=[2, 2])],
            [value("x", [1, 1, 2, 2]), value("i", [1, 1, 2, 2], INT64)],
            [untyped("y")],
            [ints("s", 1, 1, 5, 5)],
        ),
        (1, 1, 5, 5),
    ),
    "compress": (
        one("Compress", "x c", {"x": [3, 4]}, [helper.make_tensor("c", BOOL, [3], [1, 0, 1])], opset=11, axis=0),
        (2, 4),
    ),
    "range": (
        one("Range", "a b c", {}, [number("a", 0, FLOAT), number("b", 5000, FLOAT), number("c", 0.5, FLOAT)], opset=11),
        (10_000,),
    ),
    "spectrum": (
        one("STFT", "x s _ l", {"x": [2, 128, 1]}, [number("s", 8), number("l", 16)], opset=17),
        (2, 15, 9, 2),
    ),
}


@pytest.mark.parametrize("name", TOLD_BY_VALUES)
def test_values__tell_sizes(tmp_path, name):
    proto, expected = TOLD_BY_VALUES[name]
    names = proto.graph.node[0].input
    names[:] = ["" if entry == "_" else entry for entry in names]

    assert shape_of(traced(proto, tmp_path)) == expected


NHWC = "com.ms.internal.nhwc"
LAYOUTS = {
    "convolution": (
        one("Conv", "x w", {"x": [1, 8, 9, 4]}, [weight("w", [6, 4, 3, 3])], opset=17, domain=NHWC, strides=[2, 2]),
        (1, 3, 4, 6),
    ),
    "pooling": (one("MaxPool", "x", {"x": [1, 8, 9, 4]}, opset=17, domain=NHWC, kernel_shape=[2, 3]), (1, 7, 7, 4)),
    "blocked convolution": (
        one("Conv", "x w", {"x": [1, 16, 8, 8]}, [weight("w", [32, 16, 3, 3])], opset=17, domain="com.microsoft.nchwc"),
        (1, 32, 6, 6),
    ),
}


@pytest.mark.parametrize("name", LAYOUTS)
def test_layouts_of_the_runtime__are_understood(tmp_path, name):
    proto, expected = LAYOUTS[name]

    assert shape_of(traced(proto, tmp_path)) == expected


def test_quantised_layout__keeps_its_type(tmp_path):
    proto = model(
        [node("QLinearConv", "x s z w s zw s z", "y", NHWC)],
        [value("x", [1, 8, 8, 4], UINT8)],
        [untyped("y", UINT8)],
        [number("s", 0.1, FLOAT), number("z", 0, UINT8), number("zw", 0, INT8), weight("w", [6, 4, 3, 3], INT8)],
        domains=(NHWC,),
    )

    trace = traced(proto, tmp_path)

    assert (shape_of(trace), trace.values[trace.results[0]].dtype) == ((1, 6, 6, 6), "uint8")


def test_misfit_of_types__falls_back_to_what_the_file_declares(tmp_path):
    """A file that the checker would refuse for its types, but that runtimes may accept."""
    proto = model(
        [node("Add", "x h", "a"), node("Relu", "a", "y")],
        [value("x", [2, 3]), value("h", [2, 3], TensorProto.FLOAT16)],
        [untyped("y")],
        infos=[value("a", [2, 3])],
    )

    assert shape_of(traced(proto, tmp_path)) == (2, 3)


def test_attribute_that_the_schema_does_not_have__does_not_lose_the_count(tmp_path):
    proto = one("Relu", "x", {"x": [2, 3]}, opset=17, invented=1)
    proto.graph.value_info.append(value("y", [2, 3]))

    assert shape_of(traced(proto, tmp_path)) == (2, 3)


def test_newer_operator_set_than_known__is_noted(tmp_path):
    trace = traced(one("Relu", "x", {"x": [2, 3]}, opset=999), tmp_path)

    assert shape_of(trace) == (2, 3)
    assert any("operator set 999 is newer than the installed onnx package knows" in note for note in trace.notes)
