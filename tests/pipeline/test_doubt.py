from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from perfgate.errors import UsageError
from perfgate.graph.build import build
from perfgate.pipeline.doubt import Doubt, of_estimator
from perfgate.pipeline.sample_record import Surroundings, question
from perfgate.records.estimate import STEP_TIME, Estimate
from perfgate.records.evidence import Environment
from perfgate.records.protocol import Software
from perfgate.records.sampling import Condition, Network
from tests.pipeline.test_sample import trace_of

AROUND = Surroundings(environment=Environment(hardware_id="h"), nonce="n")


def asked(batch=4):
    network = Network(family="fully-connected", parameters={"width": 8})
    condition = Condition(network=network, mode="infer", batch=batch)
    return question(condition, build(trace_of(condition)).totals, Software(), AROUND)


def known(count):
    return [replace(asked(), metrics={"latency": 1e6 + number}) for number in range(count)]


class Fit:
    """Remembers what it was given; its model is ``batch`` times unsure."""

    def __init__(self, low: float = 1.0) -> None:
        self.low = low
        self.sizes: list[int] = []
        self.questions: list[Any] = []

    def __call__(self, examples):
        self.sizes.append(len(examples))
        return self

    def estimates(self, examples, target):
        assert target == STEP_TIME
        self.questions += examples
        return [
            Estimate(target=target, value=1.0, low=self.low, high=float(one.batch), coverage=0.9, source="fitted")
            for one in examples
        ]


def test_doubt__is_the_width_of_the_interval():
    fit = Fit()
    assert Doubt(fit)(known(20), [asked(2), asked(8)]) == [pytest.approx(math.log(2)), pytest.approx(math.log(8))]
    assert [(one.batch, one.targets) for one in fit.questions] == [(2, {}), (8, {})]
    assert all(one.kernels for one in fit.questions)


def test_doubt__too_few_records_teach_nothing():
    fit = Fit()
    assert Doubt(fit)(known(19), [asked()]) == [0.0]
    assert fit.sizes == []


def test_doubt__disturbed_records_teach_nothing():
    fit = Fit()
    noisy = [replace(record, resources={**record.resources, "waited_share": "0.6"}) for record in known(15)]
    assert Doubt(fit)([*noisy, *known(19)], [asked()]) == [0.0]
    assert Doubt(fit)([*noisy, *known(20)], [asked()]) == [pytest.approx(math.log(4))]
    assert fit.sizes == [20]


def test_doubt__a_fit_that_finds_nothing_to_learn_is_no_fault():
    def refuse(examples):
        raise UsageError("nothing to learn from")

    assert Doubt(refuse)(known(20), [asked()]) == [0.0]


def test_of_estimator__learns_from_records_and_doubts_what_is_far_from_them():
    records = [
        replace(asked(2**power), metrics={"latency": 1e4 * (1 + 2**power / 64)}, units={"latency": "ns"})
        for power in range(8)
        for _ in range(4)
    ]
    near, far = of_estimator()(records, [asked(24), asked(2**22)])
    assert 0 < near < far


def test_doubt__learns_anew_when_there_is_enough_to_learn():
    fit = Fit()
    doubt = Doubt(fit)
    for count in (20, 21, 29, 30, 39, 400, 439, 440):
        doubt(known(count), [asked()])
    assert fit.sizes == [20, 30, 400, 440]


def test_doubt__what_cannot_be_asked_is_no_doubt_and_no_interval_is_the_greatest():
    nothing = replace(asked(), structure=None)
    assert Doubt(Fit())(known(20), [nothing, asked(2)]) == [0.0, pytest.approx(math.log(2))]
    assert Doubt(Fit(low=0.0))(known(20), [asked(2)]) == [math.inf]
