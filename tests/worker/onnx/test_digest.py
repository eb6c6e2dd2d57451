"""Digests of numpy arrays: those of torch's tensors with the same contents."""

from __future__ import annotations

import numpy as np
import pytest

from perfgate.worker.checksums import MAX_VALUES
from perfgate.worker.onnx.digest import digest

FLOATS = np.random.default_rng(3).standard_normal((40, 30), dtype=np.float32)


@pytest.mark.torch
@pytest.mark.parametrize(
    "arrays",
    [
        [FLOATS],
        [FLOATS[:, ::2], np.arange(7), np.array([True, False])],
        [np.array(2.5, np.float16), np.zeros((0, 3), np.int8)],
        [np.array([1 + 2j, 3 - 4j], np.complex64)],
        [np.array([1.0, np.nan, -np.inf])],
    ],
)
def test_digest__equals_that_of_tensors(arrays):
    torch = pytest.importorskip("torch")
    from perfgate.worker import digest as torch_digest

    theirs = torch_digest.digest([torch.from_numpy(array.copy(order="C")) for array in arrays])
    assert digest((f"[{n}]", array) for n, array in enumerate(arrays)) == theirs


def test_digest__sees_contents_dtype_and_shape():
    def checksum(array: np.ndarray) -> str:
        return digest([("[0]", array)]).checksum

    assert checksum(FLOATS) == checksum(FLOATS.copy())
    assert checksum(FLOATS) != checksum(FLOATS.T)
    assert checksum(FLOATS) != checksum(FLOATS.reshape(30, 40))
    assert checksum(FLOATS) != checksum(FLOATS.view(np.int32))
    changed = FLOATS.copy()
    changed[39, 29] += 1
    assert checksum(FLOATS) != checksum(changed)


def test_digest__values_are_evenly_spaced_over_all_arrays():
    found = digest([("[0]", np.arange(1000)), ("[1]", np.arange(1000, 1024))])
    assert len(found.values) == MAX_VALUES
    assert list(found.values[:3]) == [0, 4, 8]
    assert found.values[-1] == 1020
    assert found.layout == ("[0] int64[1000]", "[1] int64[24]")


def test_digest__what_is_not_finite_is_counted_and_no_value():
    found = digest([("[0]", np.array([1.0, np.nan, np.inf]))])
    assert found.nonfinite == 2
    assert found.values == (1.0, None, None)


def test_digest__sequences_maps_and_texts():
    scores = ("[1]", [{"cat": np.float32(0.25)}, {"cat": 0.75}])
    found = digest([("[0]", np.array(["cat", "dog"], dtype=object)), scores])
    assert found.layout == ("[0] object[2]", "[1][0]['cat'] float32[]", "[1][1]['cat'] float")
    other = digest(
        [("[0]", np.array(["cat", "cow"], dtype=object)), ("[1]", [{"cat": np.float32(0.25)}, {"cat": 0.75}])]
    )
    assert other.checksum != found.checksum
    assert digest([("[0]", None)]).layout == ("[0] NoneType",)


def test_digest__many_leaves_are_cut_in_the_layout_only():
    found = digest((f"[{n}]", np.array([n])) for n in range(300))
    assert len(found.layout) == 201
    assert found.layout[-1] == "and 100 more"
    assert len(found.values) == MAX_VALUES
