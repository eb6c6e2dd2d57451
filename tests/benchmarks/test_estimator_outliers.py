"""What the estimator's benchmark says of families that are far off."""

from __future__ import annotations

from dataclasses import replace

import pytest

from benchmarks.estimator import outliers
from perfgate.records.estimate import FITTED, STEP_TIME, Estimate
from tests.estimator import steps


def answer(value, width=1.2, novel=()):
    return Estimate(
        target=STEP_TIME, value=value, low=value / width, high=value * width, coverage=0.9, source=FITTED, novel=novel
    )


@pytest.fixture
def examples():
    """100 in 10 families, each of which takes 100 ns."""
    return [replace(one, targets={STEP_TIME: 100.0}) for one in steps.examples(100)]


def answers(examples, name, found):
    return [found if one.group == name else answer(100.0) for one in examples]


def test_of__names_families_that_are_far_off_and_what_was_said_of_them(examples):
    estimates = answers(examples, "beta", answer(20.0, novel=("hardly measured: x",)))
    found = outliers.of(examples, estimates)
    (family,) = found.families
    assert (family.name, family.n, family.covered, family.flagged) == ("beta", 10, 0.0, 1.0)
    assert family.error == pytest.approx(-0.8)
    assert family.width == pytest.approx(1.44)
    assert family.why == "hardly measured: x"
    assert (found.worst_flagged, found.worst_answered, found.others_flagged) == pytest.approx((1.0, 1.0, 8 / 98))


@pytest.mark.parametrize(
    ("said", "words"),
    [
        (answer(20.0), "neither covered nor flagged"),
        (answer(300.0), "+200% off"),
        (answer(20.0, width=6.0), None),
        (answer(65.0), None),
    ],
)
def test_missed__is_far_off_with_neither_a_wide_interval_nor_a_cause(examples, said, words):
    found = outliers.missed("a", outliers.of(examples, answers(examples, "beta", said)))
    assert len(found) == (words is not None)
    assert words is None or words in found[0]


def test_missed__a_cause_is_an_answer_and_a_flag_on_everything_is_none(examples):
    named = answer(20.0, novel=("hardly measured: x",))
    alone = [one for one in examples if one.group == "beta"]
    assert outliers.missed("a", outliers.of(alone, [answer(20.0)] * len(alone)))
    assert not any("beta" in line for line in outliers.missed("a", outliers.of(alone, [named] * len(alone))))
    two = [named if number < 2 else answer(100.0) for number in range(100)]
    assert outliers.missed("a", outliers.of(examples, two)) == []
    every = [replace(answer(100.0), novel=("x",)) for _ in examples]
    (line,) = outliers.missed("a", outliers.of(examples, every))
    assert "ordinary answers are flagged" in line
