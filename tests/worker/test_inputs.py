# mypy: allow-subclassing-any
from __future__ import annotations

import dataclasses
from collections import OrderedDict, namedtuple
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

torch = pytest.importorskip("torch")

from perfgate.worker import inputs, trees  # noqa: E402
from perfgate.worker.checksums import MAX_VALUES  # noqa: E402
from perfgate.worker.digest import digest  # noqa: E402
from perfgate.worker.failures import WorkerError  # noqa: E402
from perfgate.worker.inputs import Arguments  # noqa: E402

pytestmark = pytest.mark.torch

Pair = namedtuple("Pair", ["left", "right"])  # noqa: PYI024


@dataclasses.dataclass(frozen=True)
class Config:
    mask: Any
    scale: float = 2.0
    derived: object = dataclasses.field(init=False, default=None)

    def __post_init__(self):
        if self.derived is not None:
            raise AssertionError("must not run again")


@dataclasses.dataclass(slots=True)
class Slotted:
    x: Any


def one(text, batch=3, seed=1, path="inputs[0]"):
    return inputs.tensor_from_text(text, path, batch, seed)


@pytest.mark.parametrize(
    ("text", "dtype", "shape"),
    [
        ("float32[batch,3,8,8]", torch.float32, (3, 3, 8, 8)),
        (" float64 [ 2 , batch ] ", torch.float64, (2, 3)),
        ("bfloat16[4*batch]", torch.bfloat16, (12,)),
        ("int64[batch,5] < 30522", torch.int64, (3, 5)),
        ("uint8[2]<256", torch.uint8, (2,)),
        ("bool[batch]", torch.bool, (3,)),
        ("complex64[2]", torch.complex64, (2,)),
        ("float32[]", torch.float32, ()),
        ("float32[0,4]", torch.float32, (0, 4)),
    ],
)
def test_tensor_from_text__dtype_and_shape(text, dtype, shape):
    tensor = one(text)
    assert tensor.dtype is dtype
    assert tuple(tensor.shape) == shape


def test_tensor_from_text__integers_stay_below_their_bound():
    assert set(one("int64[1000] < 3").tolist()) == {0, 1, 2}
    assert set(one("int32[1000]").tolist()) == {0, 1}
    assert set(one("bool[1000]").tolist()) == {False, True}


def test_tensor_from_text__values_depend_on_seed_and_path_only():
    first = one("float32[5]")
    torch.rand(7)
    assert torch.equal(first, one("float32[5]"))
    assert not torch.equal(first, one("float32[5]", seed=2))
    assert not torch.equal(first, one("float32[5]", path="inputs[1]"))


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("float32", "is not an input"),
        ("float32[batch", "is not an input"),
        ("floaty[2]", "no dtype 'floaty'"),
        ("nn[2]", "no dtype 'nn'"),
        ("float32[bacth]", "'bacth'"),
        ("float32[2,,3]", "neither a number"),
        ("float32[-1]", "neither a number"),
        ("float32[2] < 5", "only integers"),
        ("int64[2] < 0", "at least 1"),
        ("int64[2] > 3", "is not an input"),
    ],
)
def test_tensor_from_text__mistakes_name_place_and_form(text, part):
    with pytest.raises(WorkerError) as caught:
        one(text, path="inputs.mask")
    failed = caught.value.failed
    assert (failed.kind, failed.phase) == ("inputs", "inputs")
    assert failed.message.startswith("inputs.mask:")
    assert part in failed.message


def test_from_specification__list_table_and_plain_values():
    positional = inputs.from_specification(("float32[2]", 3, True, ("bool[1]", {"k": "int64[1]"})), 1, 1)
    assert positional.args[1:3] == (3, True)
    # Lists arrive as tuples over the wire and are lists for the model.
    assert isinstance(positional.args[3], list)
    assert positional.args[3][1]["k"].dtype is torch.int64

    keywords = inputs.from_specification({"x": "float32[batch]", "flag": False}, 4, 1)
    assert keywords.args == ()
    assert keywords.kwargs["x"].shape == (4,)
    assert keywords.kwargs["flag"] is False


def test_from_specification__another_input_does_not_change_the_first():
    one_only = inputs.from_specification(("float32[4]",), 1, 1)
    two = inputs.from_specification(("float32[4]", "float32[4]"), 1, 1)
    assert torch.equal(one_only.args[0], two.args[0])
    assert not torch.equal(two.args[0], two.args[1])


def test_from_function__gets_what_it_accepts():
    assert inputs.from_function(lambda: (1, 2), 4, "cpu").args == (1, 2)
    assert inputs.from_function(lambda batch: {"n": batch}, 4, "cpu").kwargs == {"n": 4}
    assert inputs.from_function(lambda *, device, batch: (device, batch), 4, "cpu").args == ("cpu", 4)
    assert inputs.from_function(lambda **anything: (anything,), 4, "cpu").args == ({"batch": 4, "device": "cpu"},)
    assert inputs.from_function(lambda other=5: other, 4, "cpu").args == (5,)


def test_arguments_of__forms():
    assert Arguments.of([1, 2]).args == ([1, 2],)
    assert Arguments.of(Pair(1, 2)).args == (Pair(1, 2),)
    assert Arguments.of({1: 2}).args == ({1: 2},)
    assert Arguments.of(None).args == (None,)


def test_placed__moves_nested_tensors_and_leaves_the_rest():
    # M57: dataclasses, named tuples, None, numbers and strings among the inputs.
    x = torch.ones(2)
    other = object()
    config = Config(mask=torch.ones(3))
    arguments = Arguments(
        args=(x, config, Pair([x], 4), Slotted(x)),
        kwargs={"a": None, "b": "text", "c": other, "d": OrderedDict(k=torch.zeros(1, dtype=torch.int64))},
    )

    moved = inputs.placed(arguments, "meta", None)

    assert moved.args[0].is_meta
    assert isinstance(moved.args[1], Config)
    assert moved.args[1].mask.is_meta
    assert moved.args[1].scale == 2.0
    assert isinstance(moved.args[2], Pair)
    assert moved.args[2].left[0].is_meta
    # One tensor given twice stays one tensor.
    assert moved.args[2].left[0] is moved.args[0]
    assert moved.args[3].x is moved.args[0]
    assert moved.kwargs["c"] is other
    assert moved.kwargs["a"] is None
    assert isinstance(moved.kwargs["d"], OrderedDict)
    assert moved.kwargs["d"]["k"].is_meta
    # The user's own objects are not changed.
    assert not config.mask.is_meta
    assert not arguments.args[3].x.is_meta


def test_placed__nothing_to_do_returns_the_same_objects():
    arguments = Arguments(args=([torch.ones(1)], Config(mask=None)))
    placed = inputs.placed(arguments, "cpu", None)
    assert placed.args[0] is arguments.args[0]
    assert placed.args[1] is arguments.args[1]


def test_placed__casts_single_precision_only():
    arguments = Arguments(args=(torch.ones(1), torch.ones(1, dtype=torch.float64), torch.ones(1, dtype=torch.int64)))
    placed = inputs.placed(arguments, "cpu", torch.bfloat16)
    assert [t.dtype for t in placed.args] == [torch.bfloat16, torch.float64, torch.int64]


def test_placed__packed_sequences_keep_their_lengths():
    packed = torch.nn.utils.rnn.pack_sequence([torch.ones(3, 2), torch.ones(1, 2)])
    moved = inputs.placed(Arguments(args=(packed,)), "cpu", torch.bfloat16).args[0]
    assert moved.data.dtype is torch.bfloat16
    assert torch.equal(moved.batch_sizes, packed.batch_sizes)


def test_map_tensors__containers_that_hold_themselves():
    ring: list = [torch.ones(1)]
    ring.append(ring)
    assert trees.map_tensors(lambda t: t, ring) is ring
    assert [path for path, _ in trees.leaves(ring)] == ["[0]"]


NESTED = st.recursive(
    st.one_of(st.integers(), st.none(), st.text(max_size=3), st.just("tensor")),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(st.text(max_size=2), inner, max_size=3),
        inner.map(Slotted),
        st.tuples(inner, inner).map(lambda p: Pair(*p)),
    ),
    max_leaves=12,
)


def with_tensors(tree):
    if tree == "tensor":
        return torch.ones(2)
    if isinstance(tree, Pair):
        return Pair(*map(with_tensors, tree))
    if isinstance(tree, (list, tuple)):
        return type(tree)(map(with_tensors, tree))
    if isinstance(tree, dict):
        return {key: with_tensors(value) for key, value in tree.items()}
    if isinstance(tree, Slotted):
        return Slotted(with_tensors(tree.x))
    return tree


def shape_of(tree):
    return [(path, "tensor" if isinstance(leaf, torch.Tensor) else leaf) for path, leaf in trees.leaves(tree)]


@settings(max_examples=150, deadline=None)
@given(NESTED)
def test_map_tensors__changes_each_tensor_and_nothing_else(tree):
    tree = with_tensors(tree)
    before = shape_of(tree)

    doubled = trees.map_tensors(lambda t: t * 2, tree)

    assert type(doubled) is type(tree)
    assert shape_of(doubled) == before
    assert all(torch.equal(t, torch.full((2,), 2.0)) for _, t in trees.tensors(doubled))
    assert all(torch.equal(t, torch.ones(2)) for _, t in trees.tensors(tree))


def test_digest__equal_for_equal_and_different_for_any_change():
    base = {"a": torch.arange(6.0).reshape(2, 3), "b": (1, None)}
    changed = [
        {"a": torch.arange(6.0).reshape(3, 2), "b": (1, None)},
        {"a": torch.arange(6.0).reshape(2, 3).double(), "b": (1, None)},
        {"a": torch.arange(6.0).reshape(2, 3) + 1e-6, "b": (1, None)},
        {"a": torch.arange(6.0).reshape(2, 3), "b": (2, None)},
        {"c": torch.arange(6.0).reshape(2, 3), "b": (1, None)},
    ]
    same = {"a": torch.arange(6.0).reshape(3, 2).t().t().reshape(2, 3).clone(), "b": (1, None)}

    assert digest(base).checksum == digest(same).checksum
    checksums = {digest(each).checksum for each in (base, *changed)}
    assert len(checksums) == 1 + len(changed)


def test_digest__strides_do_not_matter():
    x = torch.arange(6.0).reshape(2, 3)
    assert digest(x.t().contiguous().t()).checksum == digest(x).checksum


def test_digest__values_are_evenly_spaced_over_all_tensors():
    tree = [torch.arange(1000.0), torch.arange(1000.0, 2000.0)]
    values = digest(tree).values

    assert len(values) == MAX_VALUES
    assert values[0] == 0.0
    assert values[128] == 1000.0
    assert digest([torch.ones(3), torch.zeros(2)]).values == (1, 1, 1, 0, 0)


def test_digest__not_finite_values_are_counted_and_none():
    found = digest((torch.tensor([1.0, float("nan"), float("inf")]),))
    assert found.nonfinite == 2
    assert found.values == (1.0, None, None)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.ones(3, dtype=torch.bfloat16),
        torch.ones((), dtype=torch.int32),
        torch.ones(0),
        torch.ones(2, dtype=torch.complex64),
        torch.tensor([True, False]),
        torch.eye(3).to_sparse(),
        torch.ones(2, device="meta"),
        torch.ones(3, requires_grad=True),
    ],
    ids=lambda t: str(t.dtype) + str(t.layout),
)
def test_digest__every_kind_of_tensor(tensor):
    found = digest({"out": tensor})
    assert len(found.checksum) == 64
    assert found.layout[0].startswith("['out']")


@pytest.mark.filterwarnings("ignore:.*quantize.*:UserWarning", "ignore:.*quantize.*:DeprecationWarning")
def test_digest__quantised_tensors():
    found = digest(torch.quantize_per_tensor(torch.ones(4), 0.1, 0, torch.qint8))
    assert found.layout == (". qint8[4]",)
    assert found.values == pytest.approx((1.0,) * 4)


def test_digest__objects_count_by_type_not_by_address():
    assert digest([object()]).checksum == digest([object()]).checksum
