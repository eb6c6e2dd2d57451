from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.cost.times import RooflineTimes
from perfgate.estimator import fit
from perfgate.hardware import catalogue
from perfgate.pipeline.examples import examples
from perfgate.pipeline.times import EstimatedTimes
from perfgate.records.cost import Device, Way
from perfgate.records.estimate import STEP_TIME
from perfgate.store.from_evidence import records_of
from tests.pipeline.test_estimator_report import measured, step

L4, L40S = (Device(platform=catalogue.find(name)) for name in ("l4", "l40s"))


@pytest.fixture(scope="module")
def times():
    """The roofline, and an estimator that has measured 40 models on an L4."""
    records = [records_of(measured(f"net{number}", number, nonce=f"run-{number}"))[0] for number in range(40)]
    known = [replace(one, group=f"g{number % 8}") for number, one in enumerate(examples(records))]
    return EstimatedTimes(fit.fit(known, targets=(STEP_TIME,)), RooflineTimes())


def way(**changes):
    totals, _ = step(500)
    return replace(
        Way(mode="infer", batch=8, dtype="float16", compile="eager", totals=totals, items=8), **changes
    )  # fmt: skip


def test_times__estimator_answers_where_it_has_measurements(times):
    here, elsewhere = times(way(), [L4, L40S])
    assert (here.source, elsewhere.source) == ("estimated", "roofline")
    assert here.ns == pytest.approx(step(500)[1], rel=0.15)
    assert here.low_ns < here.ns < here.high_ns
    [alone] = RooflineTimes()(way(), [L40S])
    assert alone is not None
    assert elsewhere.ns == pytest.approx(alone.ns)


@pytest.mark.parametrize("changes", [{"dtype": "float32"}, {"mode": "train"}, {"compile": "default"}])
def test_times__conditions_that_were_never_measured_are_the_rooflines(times, changes):
    [found] = times(way(**changes), [L4])
    assert found.source == "roofline"


def test_times__half_a_device_is_not_what_was_measured(times):
    [found] = times(way(), [replace(L4, share=0.5)])
    assert found.source == "roofline"
