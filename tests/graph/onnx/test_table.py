"""Every operator that ONNX or ONNX Runtime has is known."""

from __future__ import annotations

import pytest
from onnx import defs

from perfgate.graph.onnx.contrib_names import INPUTS
from perfgate.graph.operators import table
from perfgate.graph.operators.definition import ATTENTION, CONVOLUTION, MATMUL, RNN
from perfgate.graph.operators.onnx_table import DEFINITIONS


def test_table__knows_every_operator_of_the_installed_onnx():
    names = {f"{schema.domain or 'ai.onnx'}::{schema.name}" for schema in defs.get_all_schemas()}

    assert len(names) > 150
    assert names - set(DEFINITIONS) == set()


def test_table__knows_every_operator_whose_inputs_are_named():
    assert set(INPUTS) - set(DEFINITIONS) == set()


def test_table__knows_every_operator_of_the_installed_onnxruntime():
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    names = {
        f"{schema.domain}::{schema.name}"
        for schema in state.get_all_operator_schema()
        if schema.domain in ("com.microsoft", "com.microsoft.nchwc", "com.ms.internal.nhwc")
    }

    assert len(names) > 150
    assert names - set(DEFINITIONS) == set()


def test_contrib_names__are_those_of_the_installed_onnxruntime():
    state = pytest.importorskip("onnxruntime.capi.onnxruntime_pybind11_state")
    schemas = {schema.name: schema for schema in state.get_all_operator_schema() if schema.domain == "com.microsoft"}
    formulas = [name for name in INPUTS if name.startswith("com.microsoft::") and DEFINITIONS[name].flop is not None]

    for name in formulas:
        schema = schemas.get(name.partition("::")[2])
        if schema is not None:
            theirs = [entry.name for entry in schema.inputs]
            ours = [entry.rstrip("*") for entry in INPUTS[name]]
            # A newer version may add inputs at the end.
            assert ours[: len(theirs)] == theirs[: len(ours)], name


@pytest.mark.parametrize("kind", [ATTENTION, CONVOLUTION, MATMUL, RNN])
def test_table__matmul_like_operators_have_formulas(kind):
    found = {name for name, definition in DEFINITIONS.items() if definition.kind == kind}

    assert found
    assert {name for name in found if DEFINITIONS[name].flop is None} == set()


def test_table__is_what_the_counter_looks_up():
    assert table.lookup("ai.onnx::Conv") is DEFINITIONS["ai.onnx::Conv"]
    assert table.lookup("my.domain::Conv") is None
