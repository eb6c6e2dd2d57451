from __future__ import annotations

import random
from typing import Any

import pytest

from perfgate.errors import MeasuringError
from perfgate.pipeline.place_measure import judged
from perfgate.records.evidence import SideEvidence, WorkloadEvidence
from perfgate.records.protocol import Failed
from perfgate.records.workload import ModelSpec
from tests.stats.helpers import pairs

LOOKS = (5, 8, 12)


def evidence(plan_ns: float, other_ns: float, count: int, **fields: Any) -> WorkloadEvidence:
    """Pairs whose sides scatter by half a percent."""
    draw = random.Random(1)
    sides = [(plan_ns * draw.gauss(1, 0.005), other_ns * draw.gauss(1, 0.005)) for _ in range(count)]
    (workload,) = ModelSpec(name="placement", entry="a:b", modes=("infer",)).workloads
    ok = SideEvidence(status="ok")
    values: dict[str, Any] = {"workload": workload, "base": ok, "head": ok, "end": "decided"}
    return WorkloadEvidence(**{**values, **fields}, pairs=pairs(*((round(a), round(b)) for a, b in sides)))


def test_judged__certainly_faster_and_by_how_much():
    found = judged(evidence(2e6, 2.5e6, 12), alpha=0.01, looks=LOOKS)
    assert found.certain
    assert found.plan_s == pytest.approx(2e-3, rel=0.01)
    assert found.other_s == pytest.approx(2.5e-3, rel=0.01)
    assert found.faster[0] < -0.2 < found.faster[1] < -0.15
    assert found.low_s < found.plan_s < found.high_s


def test_judged__a_step_of_many_requests_is_told_by_request():
    one, many = (judged(evidence(2e6, 2.5e6, 12), alpha=0.01, looks=LOOKS, requests=count) for count in (1, 16))
    assert many.plan_s == pytest.approx(one.plan_s / 16)
    assert many.low_s == pytest.approx(one.low_s / 16)
    assert many.faster == one.faster


@pytest.mark.parametrize(("plan", "other"), [(2e6, 2e6), (2.5e6, 2e6), (2e6, 2.005e6)])
def test_judged__equal_slower_or_hardly_faster_is_not_certain(plan, other):
    assert not judged(evidence(plan, other, 12), alpha=0.01, looks=LOOKS).certain


def test_judged__too_few_pairs_say_why():
    failure = Failed(kind="oom", phase="timing", message="out of memory")
    lost = evidence(2e6, 2e6, 1, head=SideEvidence(status="failed", failure=failure), end="failed")
    with pytest.raises(MeasuringError, match="out of memory"):
        judged(lost, alpha=0.01, looks=LOOKS)
    with pytest.raises(MeasuringError, match="raise the budget"):
        judged(evidence(2e6, 2e6, 2, end="budget"), alpha=0.01, looks=LOOKS)
