"""The estimator of a run, on records of runs that follow a law: kernels by size, and a fixed time for each call."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from perfgate.gate.judge import judge
from perfgate.pipeline import estimator_report
from perfgate.pipeline.working_tree import ESTIMATOR_FILE
from perfgate.records.cost import CostPolicy, Requirements
from perfgate.records.graph import KernelGroup, Traffic
from perfgate.records.protocol import Software
from perfgate.report.comment import comment
from perfgate.store.from_evidence import records_of
from perfgate.store.memory import MemoryStore
from tests.gate.builders import cell, graph_totals, ok, pairs, policy, run, workload
from tests.pipeline.test_cost import L4

PI, BETA, CALL_NS = 20e12, 200e9, 4000.0


def step(seed):
    """A net of a few layers and the time that the law gives it, in ns."""
    rng = random.Random(seed)
    groups = []
    for kind in ("matmul", "convolution", "pointwise", "normalization"):
        flop = int(rng.uniform(1e9, 2e10)) if kind in {"matmul", "convolution"} else 0
        size = int(rng.uniform(1e6, 1e8))
        groups.append(
            KernelGroup(name=kind, kind=kind, dtype="float16", flop=flop, bytes=size, calls=rng.randint(1, 30))
        )
    ns = sum(one.calls * (one.flop / PI * 1e9 + one.bytes / BETA * 1e9 + CALL_NS) for one in groups)
    moved = sum(one.calls * one.bytes for one in groups)
    totals = graph_totals(
        flop=sum(one.calls * one.flop for one in groups), traffic=Traffic(eager=moved, fused=moved, min=1),
        eager_kernels=tuple(groups), kernels=sum(one.calls for one in groups), weight_bytes=10**8,
        peak_activation_bytes=10**8,
    )  # fmt: skip
    return totals, ns


def measured(model, seed, *, factor=1.0, head_factor=1.0, nonce="run", rules=None):
    totals, ns = step(seed)
    side = ok(totals=totals, software=Software(versions={"torch": "2.14.1"}, threads=2))
    of = cell(model, device="cuda:0", dtype="float16", batch=8)
    made = pairs(head_factor, base_ns=ns * factor)
    ran = run(workload(of=of, base=side, now=side, measured=made), environment=L4)
    chosen = rules or policy()
    return replace(ran, run=replace(ran.run, nonce=nonce), policy=chosen)


@pytest.fixture
def store():
    """60 models of 12 families that were measured before, on the same kind of machine."""
    with MemoryStore() as kept:
        for number in range(60):
            records = records_of(measured(f"net{number}", number, nonce=f"run-{number}"))
            kept.record(
                [
                    replace(
                        one, namespace="base", hyper_parameters={**one.hyper_parameters, "family": f"f{number % 12}"}
                    )
                    for one in records
                ]
            )
        yield kept


def asked(store, tmp_path, **changes):
    """The evidence with the estimator's answers, and these alone."""
    found = estimator_report.estimated(measured("new", 1000, **changes), store, tmp_path)
    return found, said(found)


def said(measurements):
    assert measurements.estimator is not None
    return measurements.estimator


def both(found):
    [entry] = found.workloads
    assert entry.base is not None
    assert entry.head is not None
    assert entry.head.runner is not None
    return entry.base, entry.head


def test_estimated__structure_explains_what_was_measured(store, tmp_path):
    _, found = asked(store, tmp_path)
    assert found.used, found.reason
    assert (found.groups, found.examples) == (12, 60)
    base, head = both(found)
    assert head.runner.low <= step(1000)[1] <= head.runner.high
    assert head.runner.value == pytest.approx(step(1000)[1], rel=0.15)
    assert head.surprise == base.surprise == ""
    [accuracy] = [one for one in found.accuracy if one.target == "step_time"]
    assert accuracy.median_ape < 0.1


def test_estimated__a_head_that_is_slower_than_its_structure_is_a_finding(store, tmp_path):
    ran, found = asked(store, tmp_path, head_factor=1.8)
    _, head = both(found)
    assert head.surprise.startswith("slower than its structure explains: ")
    report = judge(ran, policy())
    assert head.surprise in report.models[0].reasons
    assert "slower than its structure explains" in comment(report)
    assert "Estimator: what the structure explains" in comment(report)


def test_estimated__a_model_that_was_odd_before_is_no_finding_of_this_change(store, tmp_path):
    _, found = asked(store, tmp_path, factor=2.5)
    assert both(found)[1].surprise == ""


def test_estimated__this_run_teaches_nothing_about_itself(store, tmp_path):
    ran = measured("new", 1000, factor=3.0, nonce="mine")
    store.record([replace(one, namespace="base") for one in records_of(ran)])
    assert said(estimator_report.estimated(ran, store, tmp_path)).examples == 60


def test_estimated__pull_requests_teach_nothing(store, tmp_path):
    other = measured("poison", 7, factor=100.0, nonce="other")
    store.record([replace(one, namespace="pr/3", pull_request=3) for one in records_of(other)])
    assert asked(store, tmp_path)[1].examples == 60


def test_estimated__same_content_is_not_fitted_again(store, tmp_path, monkeypatch):
    _, first = asked(store, tmp_path)
    monkeypatch.setattr("perfgate.estimator.fit.fit", None)
    _, second = asked(store, tmp_path)
    assert second.content == first.content
    assert second.workloads == first.workloads


@pytest.mark.parametrize("text", ["", "{", '{"format": 99}', "[]"])
def test_estimated__a_damaged_cache_is_fitted_again(store, tmp_path, text):
    (tmp_path / ".perfgate").mkdir()
    (tmp_path / ESTIMATOR_FILE).write_text(text)
    assert asked(store, tmp_path)[1].used


def test_estimated__too_few_records_say_what_to_do(tmp_path):
    with MemoryStore() as empty:
        found = said(estimator_report.estimated(measured("new", 1000), empty, tmp_path))
    assert not found.used
    assert "run `perfgate sample`" in found.reason
    report = judge(replace(measured("new", 1000), estimator=found), policy())
    assert "Estimator: what" not in comment(report)


def test_estimated__platforms_that_the_user_lists(store, tmp_path):
    rules = policy(cost=CostPolicy(requirements=Requirements(devices=("l40s", "l4"))))
    _, head = both(asked(store, tmp_path, rules=rules)[1])
    [there] = head.devices
    assert there.platform == "l40s"
    assert there.step_time.value < head.runner.value
    assert any("l40s" in cause.lower() or "hardware" in cause for cause in there.step_time.novel)


def test_estimated__nothing_counted_is_nothing_said(store, tmp_path):
    assert estimator_report.estimated(run(workload()), store, tmp_path).estimator is None
