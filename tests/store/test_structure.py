from __future__ import annotations

import json
from dataclasses import replace

import pytest

from perfgate.records.graph import KernelGroup
from perfgate.store import structure
from tests.gate.builders import graph_totals

CONV = KernelGroup(
    name="conv1",
    kind="convolution",
    dtype="float32",
    flop=10**12,
    bytes=2**40,
    calls=3,
    written_bytes=7,
    weight_bytes=5,
)
RELU = KernelGroup(name="relu", kind="pointwise", dtype="float32", flop=0, bytes=100, phase="backward")
TOTALS = graph_totals(eager_kernels=(CONV, RELU), fused_kernels=(CONV,))


@pytest.mark.parametrize(("compile_", "groups"), [("eager", (CONV, RELU)), ("default", (CONV,))])
def test_kernels__come_back_without_names(compile_, groups):
    kept = json.loads(json.dumps(structure.of_totals(TOTALS, compile_)))
    assert structure.kernels(kept) == tuple(replace(group, name="") for group in groups)


def test_of_totals__a_compiled_step_without_fused_kernels_has_the_eager_ones():
    kept = structure.of_totals(replace(TOTALS, fused_kernels=()), "default")
    assert len(structure.kernels(kept)) == 2


@pytest.mark.parametrize(
    "broken",
    [None, 7, {}, {"kernel_groups": 7}, {"kernel_groups": [["conv"]]}, {"kernel_groups": [[1, 2, 3, 4, 5, 6, 7, 8]]},
     {"kernel_groups": [["a", "b", "c", "x", 1, 1, 1, 1]]}],
)  # fmt: skip
def test_kernels__what_cannot_be_read_is_none(broken):
    assert structure.kernels(broken) == ()
