"""Which kernels hardly any measured group has, and what that does to an answer."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from perfgate.estimator import columns, features, fit, saved, support
from perfgate.estimator.support import Support
from perfgate.records.estimate import STEP_TIME
from perfgate.records.graph import KernelGroup
from tests.estimator import steps

LINEAR, SOFTMAX = "32-bit linear", "32-bit softmax"


def asked(example):
    return replace(example, targets={})


def resize(example, share, *, kind="pooling", dtype="float32"):
    """With a kernel beside the others that reads and writes ``share`` of what they move."""
    moved = sum(one.bytes * one.calls for one in example.kernels)
    size = int(share * moved)
    # Reads a quarter of what it writes.
    return replace(
        example,
        kernels=(
            *example.kernels,
            KernelGroup(name="up", kind=kind, dtype=dtype, flop=0, bytes=size, calls=1, written_bytes=size - size // 5),
        ),
    )


def shares_of(**given):
    found = np.zeros(len(support.KINDS))
    for name, share in given.items():
        found[support.KINDS.index({"linear": LINEAR, "softmax": SOFTMAX}[name])] = share
    return found


def table(*rows):
    return np.stack([shares_of(**row) for row in rows])


def test_shares__are_those_of_the_estimated_time_by_class_and_width():
    example = steps.examples(1)[0]
    both = replace(example, kernels=(*example.kernels, replace(example.kernels[0], dtype="float16", name="half")))
    ones = np.ones((1, len(features.NAMES)))
    found = support.shares([both], ones)[0]
    whole = columns.of([both], STEP_TIME).x[0].sum()
    assert found.shape == (len(support.KINDS),)
    assert 0 < found.sum() <= 1
    halves = [name for name, share in zip(support.KINDS, found, strict=True) if share > 0 and name.startswith("16")]
    assert len(halves) == 1
    # Bytes and calls alone are of a class that is no product.
    alone = columns.of([replace(both, kernels=(both.kernels[2],))], STEP_TIME).x[0]
    own = [features.kernel_class(name) in {"activation", "combination", "broadcast"} for name in features.NAMES]
    parts = [
        share
        for name, share in zip(support.KINDS, found, strict=True)
        if name.removeprefix("32-bit ") in {"activation", "combination", "broadcast"}
    ]
    assert sum(parts) == pytest.approx(alone[own].sum() / whole)


def test_rare__names_the_kind_the_share_and_how_many_have_as_much():
    rows = [{"linear": 0.6, "softmax": 0.001}] * 39 + [{"linear": 0.6, "softmax": 0.2}]
    known = support.support([f"g{number}" for number in range(40)], table(*rows))
    assert support.rare(shares_of(linear=0.7), known) == ()
    (one,) = support.rare(shares_of(linear=0.5, softmax=0.3), known)
    assert (one.kind, one.having, one.groups) == (SOFTMAX, 1, 40)
    assert one.text() == (
        "hardly measured: 30.0 % of its time is in softmax (32-bit elements); "
        "of 40 measured groups 1 has half as much of it"
    )
    # As much as many have it is nothing new, and twice as many groups that have it tell its constant.
    assert support.rare(shares_of(linear=0.5, softmax=0.001), known) == ()
    rows[:3] = [{"linear": 0.6, "softmax": 0.2}] * 3
    assert support.rare(shares_of(softmax=0.3), support.support([str(i) for i in range(40)], table(*rows))) == ()


def test_rare__members_of_one_group_are_one_witness():
    rows = [{"linear": 0.6}] * 30 + [{"softmax": 0.2}] * 10
    groups = [f"g{number}" for number in range(30)]
    assert support.rare(shares_of(softmax=0.3), support.support([*groups, *["one"] * 10], table(*rows)))
    assert not support.rare(
        shares_of(softmax=0.3), support.support([*groups, *[f"h{i}" for i in range(10)]], table(*rows))
    )


def test_rare__what_no_group_has_may_take_the_most():
    known = support.support([f"g{number}" for number in range(40)], table(*[{"linear": 0.6}] * 40))
    (one,) = support.rare(shares_of(linear=0.9, softmax=0.02), known)
    assert (one.kind, one.having) == (SOFTMAX, 0)
    assert "of 40 measured groups none has" in one.text()
    (more,) = support.rare(shares_of(linear=0.9, softmax=0.04), known)
    assert more.more == pytest.approx(2 * one.more)


def test_rare__says_nothing_where_few_groups_were_measured():
    known = support.support([f"g{number}" for number in range(5)], table(*[{"linear": 0.6}] * 5))
    assert support.rare(shares_of(softmax=0.9), known) == ()
    assert support.rare(shares_of(softmax=0.9), Support()) == ()


def test_chosen__is_even_by_group_and_all_of_few():
    assert list(support.chosen(["a"] * 30, 0)) == list(range(30))
    groups = ["a"] * 5000 + ["b"] * 600 + ["c"] * 400
    rows = support.chosen(groups, 0)
    assert len(rows) == len(set(rows)) == 1500
    counts = [sum(groups[row] == one for row in rows) for one in "abc"]
    assert min(counts) == 400
    assert max(counts) - min(counts) <= 200
    assert list(rows) == list(support.chosen(groups, 0))


@pytest.fixture(scope="module")
def measured():
    return steps.examples(240)


@pytest.fixture(scope="module")
def model(measured):
    """Two of ten families have very little of a kernel that eight do not have."""
    return fit.fit([resize(one, 1e-4) if one.group == "beta" else one for one in measured], targets=(STEP_TIME,))


def test_estimate__of_kernels_that_hardly_any_group_has_is_wide_and_names_them(model):
    one = asked(steps.examples(30, seed=9)[4])
    one = replace(one, group="other", model="other")
    known, found = model.estimate(one), model.estimate(resize(one, 0.5))
    assert not any("hardly measured" in text for text in known.novel)
    (text,) = [text for text in found.novel if text.startswith("hardly measured")]
    assert "upsampling" in text
    assert "of 10 measured groups" in text
    assert np.log(found.high / found.value) > 1.75 * np.log(known.high / known.value)
    assert np.log(found.low / found.value) < 1.5 * np.log(known.low / known.value)


def test_estimate__a_measured_relative_tells_its_kernels_too(model):
    one = replace(resize(steps.examples(30, seed=9)[4], 0.5), group="other", model="other")
    assert any("hardly measured" in text for text in model.estimate(asked(one)).novel)
    found = model.estimate(asked(one), anchors=[one])
    assert found.anchor == "other"
    assert not any("hardly measured" in text for text in found.novel)


def test_saved__support_is_kept(model):
    again = saved.loads(saved.dumps(model))
    known = again.fitted[STEP_TIME].seen.support
    assert known == model.fitted[STEP_TIME].seen.support
    assert known.groups == 10
