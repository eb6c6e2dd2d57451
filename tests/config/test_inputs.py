"""The grammar of input specifications."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate.config import inputs

DIMS = st.lists(st.integers(1, 4096).map(str) | st.sampled_from(["batch", "4*batch", "2 * 3"]), max_size=5)


@given(dtype=st.sampled_from(inputs.DTYPES), dims=DIMS, space=st.sampled_from(["", " "]))
def test_problems__none_for_what_the_grammar_makes(dtype, dims, space):
    text = f"{dtype}{space}[{f',{space}'.join(dims)}]"
    assert list(inputs.problems([text, {"x": [text]}])) == []
    assert inputs.uses_batch([{"x": [text]}]) == ("batch" in "".join(dims))


@given(bound=st.integers(1, 10**9))
def test_problems__bound_of_whole_numbers(bound):
    assert list(inputs.problems([f"int64[batch,128] < {bound}"])) == []
    [(place, reason)] = inputs.problems([f"float32[batch] < {bound}"])
    assert place == (0,)
    assert "needs a dtype of whole numbers" in reason


@pytest.mark.parametrize(
    ("leaf", "part"),
    [
        ("float31[1]", "'float31' is not a dtype"),
        ("float32", "is not an input specification"),
        ("float32[1", "is not an input specification"),
        ("float32[1]]", "is not an input specification"),
        ("float32[n]", "dimension 'n'"),
        ("float32[1,]", "dimension ''"),
        ("float32[0]", "dimension '0'"),
        ("float32[2*]", "dimension '2*'"),
        ("float32[-1]", "dimension '-1'"),
        ("float32[²]", "dimension '²'"),
        ("int64[1] < 0", "leaves no value"),
        ("int64[1] < " + "9" * 5000, "is not an input specification"),
        ("float32[" + "9" * 5000 + "]", "dimension '999"),
        ("int64[1] < x", "is not an input specification"),
        (float("nan"), "not a finite number"),
    ],
)
def test_problems__wrong_leaf(leaf, part):
    [(place, reason)] = inputs.problems({"a": ["float32[1]", leaf]})
    assert place == ("a", 1)
    assert part in reason


def test_problems__all_leaves_are_looked_at():
    places = [place for place, _ in inputs.problems(["x", {"k": ["float32[batch]", "y"]}, True, 0.5])]
    assert places == [(0,), (1, "k", 1)]


def test_problems__nesting_has_a_limit():
    def nested(depth):
        return "float32[batch]" if depth == 0 else [nested(depth - 1)]

    assert list(inputs.problems(nested(inputs.MAX_NESTING))) == []
    [(place, reason)] = inputs.problems(nested(900))
    assert place == (0,)
    assert "make_inputs" in reason


def test_freeze__lists_become_tuples():
    assert inputs.freeze([1, {"a": ["x", []]}]) == (1, {"a": ("x", ())})


@pytest.mark.torch
@pytest.mark.parametrize("dtype", inputs.DTYPES)
def test_problems__what_passes_is_what_the_worker_builds(dtype):
    torch = pytest.importorskip("torch")
    from perfgate.worker.inputs import from_specification

    text = f"{dtype}[batch, 2*batch, 3]"
    assert list(inputs.problems([text])) == []
    [tensor] = from_specification((text,), 2, 0).args
    assert (tuple(tensor.shape), tensor.dtype) == ((2, 4, 3), getattr(torch, dtype))
