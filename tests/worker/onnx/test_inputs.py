"""Inputs of ONNX models: what fits, what does not, and that values depend on seed and place only."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from perfgate.worker.failures import WorkerError
from perfgate.worker.onnx import inputs
from perfgate.worker.onnx.signature import Slot, slots

IMAGE = Slot(name="image", dtype="float32", dims=("N", 3, 8, None))
IDS = Slot(name="ids", dtype="int64", dims=("N", 5))
FLAG = Slot(name="flag", dtype="bool", dims=(1,))
SCALE = Slot(name="scale", dtype="float16", dims=())


def made(tree, *given: Slot, batch: int = 2, seed: int = 1):
    return inputs.from_specification(tree, given, batch, seed)


def refused(call, *arguments, **options) -> str:
    with pytest.raises(WorkerError) as caught:
        call(*arguments, **options)
    assert caught.value.failed.phase == "inputs"
    assert caught.value.failed.kind == "inputs"
    return caught.value.failed.message


def test_from_specification__list_by_position():
    feeds = made(("float32[batch,3,8,16]", "int64[batch,5] < 7"), IMAGE, IDS)
    assert feeds.paths == {"image": "inputs[0]", "ids": "inputs[1]"}
    assert feeds.arrays["image"].shape == (2, 3, 8, 16)
    assert feeds.arrays["image"].dtype == np.float32
    assert abs(float(feeds.arrays["image"].std()) - 1) < 0.2
    assert feeds.arrays["ids"].dtype == np.int64
    assert set(feeds.arrays["ids"].ravel()) <= set(range(7))


def test_from_specification__table_by_name_in_the_models_order():
    feeds = made({"ids": "int64[2*batch,5]", "image": "float32[4,3,8,1]"}, IMAGE, IDS)
    assert list(feeds.arrays) == ["image", "ids"]
    assert feeds.paths["ids"] == "inputs.ids"
    assert feeds.arrays["ids"].shape == (4, 5)


def test_from_specification__values_depend_on_seed_and_own_path():
    both = made({"image": "float32[2,3,8,4]", "ids": "int64[2,5] < 1000"}, IMAGE, IDS)
    alone = made({"ids": "int64[2,5] < 1000"}, IDS)
    assert np.array_equal(both.arrays["ids"], alone.arrays["ids"])
    again = made({"ids": "int64[2,5] < 1000"}, IDS, seed=2)
    assert not np.array_equal(again.arrays["ids"], alone.arrays["ids"])
    # By name and by place are two paths.
    assert not np.array_equal(made(("int64[2,5] < 1000",), IDS).arrays["ids"], alone.arrays["ids"])


def test_from_specification__numbers_for_single_elements():
    feeds = made({"flag": True, "scale": 0.5}, FLAG, SCALE)
    assert feeds.arrays["flag"].tolist() == [True]
    assert feeds.arrays["flag"].dtype == np.bool_
    assert feeds.arrays["scale"].shape == ()
    assert feeds.arrays["scale"].dtype == np.float16


def test_from_specification__sizes_that_another_input_tells():
    feeds = made({"ids": "int64[3,5]"}, Slot(name="mask", dtype="int64", dims=("N", 5)), IDS)
    assert list(feeds.arrays) == ["mask", "ids"]
    assert feeds.arrays["mask"].shape == (3, 5)
    other = Slot(name="mask", dtype="int64", dims=("M", 5))
    assert "dimension 0 (M)" in refused(made, {"ids": "int64[3,5]"}, other, IDS)


def test_from_specification__suggests_keys_that_can_be_written():
    message = refused(made, (), Slot(name="input.1", dtype="float32", dims=("N", 3)))
    assert "inputs = {\"input.1\" = 'float32[batch,3]'}" in message


def test_from_specification__number_for_a_dimension_without_a_size():
    assert made({"x": 3}, Slot(name="x", dtype="int64", dims=("N",))).arrays["x"].tolist() == [3]


def test_from_specification__file_that_says_it_all():
    fixed = Slot(name="x", dtype="int32", dims=(2, 3))
    feeds = made((), fixed, FLAG)
    assert feeds.arrays["x"].shape == (2, 3)
    assert set(feeds.arrays["x"].ravel()) == {0, 1}
    assert feeds.paths == {"x": "inputs[0]", "flag": "inputs[1]"}


@pytest.mark.parametrize(
    ("tree", "parts"),
    [
        ((), ["dimension 0 (N)", "'image'", "inputs = {image = 'float32[batch,3,8,SIZE]'}"]),
        (("float32[batch,3,8,4]", "int64[batch,6]"), ["inputs[1]", "dimension 1 is 5 in the file and 6"]),
        (("int64[batch,3,8,4]", "int64[batch,5]"), ["inputs[0] = 'int64[batch,3,8,4]'", "another dtype", "float32"]),
        (("float32[batch,3,8]", "int64[batch,5]"), ["inputs[0]", "3 dimensions", "give 4"]),
        (("float32[batch,4,8,4]", "int64[batch,5]"), ["inputs[0]", "dimension 1 is 3 in the file and 4", "dynamic"]),
        (("float32[batch,3,8,4]", "int64[3,5]"), ["inputs[1]", "dimension 0 (N) is 3", "inputs[0] made it 2"]),
        ({"image": "float32[batch,3,8,4]", "id": "int64[2,5]"}, ["no input 'id'", "image, ids"]),
        (("float32[2,3,8,4]", "int64[2,5]", "int64[2]"), ["3 inputs are given", "takes 2 (image, ids)"]),
        (("float32[2,3,8,4]", ("int64[2,5]",)), ["inputs[1]", "takes tensors", "list"]),
        (("float32[2,3,8,4]", 3), ["inputs[1]", "not a single number"]),
        (("float32[2,3,8,4] < 3", "int64[2,5]"), ["inputs[0]", "only integers"]),
        (("float32[2,3,8,4]", "int64[2,5] < 0"), ["inputs[1]", "has to be from 1"]),
        (("nonsense", "int64[2,5]"), ["inputs[0]", "not an input"]),
    ],
)
def test_from_specification__names_the_place(tree, parts):
    message = refused(made, tree, IMAGE, IDS)
    for part in parts:
        assert part in message


def test_from_specification__a_number_has_to_fit_the_dtype():
    assert "0.5 is not whole" in refused(made, {"flag": 0.5}, FLAG)
    assert "from 1 to 256" in refused(made, ("uint8[2] < 300",), Slot(name="x", dtype="uint8", dims=(2,)))


def test_from_function__tuple_dict_and_one_value():
    image, ids = np.zeros((2, 3, 8, 4), np.float32), np.zeros((2, 5), np.int64)
    by_place = inputs.from_function(lambda: (image, ids), (IMAGE, IDS), 2, "cpu")
    by_name = inputs.from_function(lambda: {"ids": ids, "image": image}, (IMAGE, IDS), 2, "cpu")
    assert list(by_place.arrays) == list(by_name.arrays) == ["image", "ids"]
    assert by_name.paths["ids"] == "make_inputs.ids"
    assert by_place.paths["ids"] == "make_inputs[1]"
    single = inputs.from_function(lambda batch: np.ones((batch, 5), np.int64), (IDS,), 3, "cpu")
    assert single.arrays["ids"].shape == (3, 5)
    # What the user's code does to its own arrays later must not change what is run.
    image[:] = 7
    assert by_place.arrays["image"].max() == 0


@pytest.mark.torch
def test_from_function__torch_tensors():
    torch = pytest.importorskip("torch")
    feeds = inputs.from_function(lambda: torch.ones(2, 5, dtype=torch.int64, requires_grad=False), (IDS,), 2, "cpu")
    assert feeds.arrays["ids"].dtype == np.int64
    grad = torch.ones(2, 3, 8, 4, requires_grad=True)
    assert inputs.from_function(lambda: grad, (IMAGE,), 2, "cpu").arrays["image"].sum() == 192
    message = refused(inputs.from_function, lambda: torch.ones(2, 5, dtype=torch.bfloat16), (IDS,), 2, "cpu")
    assert "no bfloat16" in message


@pytest.mark.parametrize(
    ("value", "parts"),
    [
        ((np.zeros((2, 3, 8, 4), np.float32),), ["nothing for the model's input 'ids'"]),
        ({"image": np.zeros((2, 3, 8, 4)), "ids": np.zeros((2, 5), np.int64)}, ["make_inputs.image", "another dtype"]),
        ((np.zeros((2, 3, 8, 4), np.float32), [[1, 2]]), ["make_inputs[1] is a list", "return numpy arrays"]),
        ({"images": np.zeros(3)}, ["make_inputs", "no input 'images'"]),
        ((np.zeros((2, 3, 8, 4), np.float32), np.zeros((3, 5), np.int64)), ["make_inputs[1]", "made it 2"]),
    ],
)
def test_from_function__names_the_place(value, parts):
    message = refused(inputs.from_function, lambda: value, (IMAGE, IDS), 2, "cpu")
    for part in parts:
        assert part in message


def test_slots__as_a_session_tells_them():
    given = [
        SimpleNamespace(name="x", type="tensor(float)", shape=["N", 3, None]),
        SimpleNamespace(name="old", type="tensor(int8)", shape=[-1, ""]),
        SimpleNamespace(name="flag", type="tensor(bool)", shape=[]),
    ]
    found = slots(SimpleNamespace(get_inputs=lambda: given))
    assert [slot.text for slot in found] == ["float32[N,3,?]", "int8[?,?]", "bool[]"]


@pytest.mark.parametrize("kind", ["bfloat16", "float8e4m3fn", "int4", "string", "complex64"])
def test_slots__dtypes_that_numpy_does_not_have(kind):
    given = [SimpleNamespace(name="x", type=f"tensor({kind})", shape=[2])]
    with pytest.raises(WorkerError) as caught:
        slots(SimpleNamespace(get_inputs=lambda: given))
    assert caught.value.failed.kind == "unsupported"
    assert f"'x' has the dtype {kind}" in caught.value.failed.message


def test_slots__sequences_are_no_tensors():
    given = [SimpleNamespace(name="x", type="seq(tensor(float))", shape=[])]
    with pytest.raises(WorkerError, match="not a tensor"):
        slots(SimpleNamespace(get_inputs=lambda: given))
