from __future__ import annotations

import dataclasses

import pytest

from perfgate.records import metrics
from perfgate.records.evidence import Block, SideEvidence
from perfgate.records.protocol import Digest, Failed
from perfgate.store.from_evidence import input_bytes, namespace, records_of, software_facts
from perfgate.store.identity import short_hash
from perfgate.store.open import open_store
from perfgate.store.summary import noisy_values
from tests.store.helpers import (
    HARDWARE,
    RESNET,
    a_digest,
    a_pair,
    a_part,
    a_probe,
    a_side,
    ci_run,
    commit,
    measured,
    measurements,
)


def test_records_of__one_for_each_side_with_all_that_is_known():
    base, head = records_of(measurements(ci=ci_run("push")), model_key_prefix="o/r:")
    assert (base.commit, head.commit) == (commit(1), commit(2))
    assert (base.metrics["latency"], head.metrics["latency"]) == (20.0, 40.0)
    software = {"torch": "2.6.0", "threads": "2", "interop_threads": "1", "flag:tf32": "off"}
    assert head.model_key == "o/r:resnet"
    assert head.workload == RESNET
    assert (head.hardware, head.hardware_id) == (HARDWARE, "cpu-1")
    assert (head.software, head.software_id) == (software, short_hash(software))
    assert (head.input_checksum, head.output_checksum) == ("c0ffee", "0ff1ce")
    assert head.input_bytes == 8 * 3 * 32 * 32 * 4 + 8
    assert head.structure == {"Conv2d": 20}
    assert head.files == ("models/blocks.py", "models/resnet.py")
    assert head.hyper_parameters == {"batch": "8", "items": "8"}
    assert head.resources == {"device": "cpu", "threads": "2", "condition:governor": "performance"}
    assert (head.run_nonce, head.recorded_at) == ("n0", "2025-01-31T12:00:00Z")
    assert (head.repository, head.run_id, head.attempt, head.workflow, head.event) == ("o/r", "77", 2, "perf", "push")


def test_records_of__metrics_are_in_the_registrys_units():
    head = records_of(measurements())[1]
    assert head.metrics == {
        "latency": 40.0,
        "span:token": 20.0,
        "first_step": 500.0,
        "peak_memory": 4096.0,
        "energy": 6.0 / (3 * 8),
        "throughput": 8 * 1e9 / 40,
        "utilisation": 0.25,
        "params": 100.0,
        "flop": 8.18e9,
    }
    assert head.units == {name: metrics.metric(name).unit for name in head.metrics}
    assert head.utilisation == 0.25
    assert head.samples["latency"] == (20.0, 40.0, 60.0)


def test_records_of__every_record_is_one_that_a_store_takes():
    with open_store("memory:") as store:
        assert len(store.record(records_of(measurements()))) == 2
        assert len(store.record(records_of(measurements(ci=ci_run("push"))))) == 2


def test_records_of__void_pairs_do_not_count():
    pairs = (a_pair(0), a_pair(1, head=a_part(9000), void="throttled"))
    assert records_of(measurements(measured(pairs=pairs)))[1].metrics["latency"] == 40.0


def test_records_of__samples_are_capped_in_time_order():
    samples = tuple(range(1000, 0, -1))
    head = records_of(measurements(measured(pairs=(a_pair(head=a_part(*samples)),))))[1]
    assert len(head.samples["latency"]) == 64
    assert list(head.samples["latency"]) == sorted(head.samples["latency"], reverse=True)
    assert head.metrics["latency"] == 500.5  # of all samples, not of the kept ones


def test_records_of__a_side_that_did_not_run_has_no_record():
    failure = Failed(kind="raised", phase="build", message="ValueError: no")
    failed = measured(head=SideEvidence(status="failed", failure=failure), pairs=())
    absent = measured(base=SideEvidence(status="absent"), pairs=())
    assert [record.commit for record in records_of(measurements(failed, absent))] == [commit(1), commit(2)]


def test_records_of__one_side_without_pairs_keeps_its_exact_metrics():
    base, head = records_of(measurements(measured(pairs=(), end="budget")))
    assert base.metrics == {"params": 100.0, "flop": 8.18e9}
    assert base.samples == {}
    assert head.utilisation is None


def test_records_of__the_second_look_is_not_recorded():
    assert records_of(measurements(measured(informative=True))) == ()


def test_records_of__what_two_processes_count_differently_is_not_exact():
    probes = (a_probe(), a_probe(exact={"params": 100.0, "flop": 9.0}, outputs=a_digest("different")))
    head = records_of(measurements(measured(head=a_side(probes=probes))))[1]
    assert head.metrics["params"] == 100.0
    assert "flop" not in head.metrics
    assert head.output_checksum is None
    assert head.input_checksum == "c0ffee"


def test_records_of__an_exact_peak_stands_for_the_noisy_one():
    probes = (a_probe(exact={"peak_memory": 8192}), a_probe(exact={"peak_memory": 8192}))
    assert records_of(measurements(measured(head=a_side(probes=probes))))[1].metrics["peak_memory"] == 8192.0


@pytest.mark.parametrize("event", ["push", "schedule", "workflow_dispatch", "release"])
def test_namespace__default_branch_is_base(event):
    assert namespace(ci_run(event)) == "base"


@pytest.mark.parametrize(
    ("event", "ref", "expected"),
    [
        ("push", "refs/heads/main", "base"),
        ("push", "refs/heads/feature/main", "unmerged"),
        ("push", "refs/tags/main", "unmerged"),
        ("workflow_dispatch", "refs/heads/feature", "unmerged"),
        ("schedule", "refs/heads/main", "base"),
        ("release", "refs/tags/v1", "base"),
        ("merge_group", "refs/heads/main", "unmerged"),
        ("pull_request_target", "refs/heads/main", "unmerged"),
        ("issue_comment", "refs/heads/main", "unmerged"),
        ("an_event_of_next_year", "refs/heads/main", "unmerged"),
    ],
)
def test_namespace__b41_only_what_is_on_the_default_branch(event, ref, expected):
    assert namespace(ci_run(event, ref=ref), "main") == expected


def test_namespace__nothing_beside_a_pull_request_becomes_a_baseline():
    records = records_of(measurements(ci=ci_run("pull_request", pull_request=7)), default_branch="main")
    assert [(record.namespace, record.pull_request) for record in records] == [("pr/7", 7), ("pr/7", 7)]


def test_namespace__a_merge_queue_belongs_to_its_pull_request():
    ref = f"refs/heads/gh-readonly-queue/release/2.x/pr-12-{commit(1)}"
    assert namespace(ci_run("merge_group", ref=ref), "main") == "pr/12"


def test_namespace__outside_ci_is_local():
    assert namespace(None, "main") == "local"


def test_software_facts__nothing_known():
    assert software_facts(None) == {}


@pytest.mark.parametrize(
    ("layout", "expected"),
    [
        ((), 0),
        (("x float32[2,3]",), 24),
        (("x float16[2, 3]", "y int64[]", "z complex64[2]"), 12 + 8 + 16),
        (("x bfloat16[0,3]", "y float8_e4m3fn[4]", "z bool[3]"), 4 + 3),
        (("x float32[2,3]", "mystery"), None),
        (("x posit16[2]",), None),
    ],
)
def test_input_bytes__of_a_layout(layout, expected):
    assert input_bytes(Digest(checksum="", layout=layout)) == expected


def test_noisy_values__percentiles_need_enough_samples():
    few, _ = noisy_values([a_part(*range(1, 10))], threads=1)
    some, _ = noisy_values([a_part(*range(1, 12))], threads=1)
    many, _ = noisy_values([a_part(*range(101))], threads=1)
    assert {"latency_p90", "latency_p99"}.isdisjoint(few)
    assert some["latency_p90"] == 10.0
    assert "latency_p99" not in some
    assert (many["latency_p90"], many["latency_p99"]) == (90.0, 99.0)


def test_noisy_values__energy_is_per_item_of_all_inner_calls():
    values, _ = noisy_values([dataclasses.replace(a_part(1, 2, 3), inner=10)], threads=1)
    assert values["energy"] == 6.0 / (3 * 10 * 8)


def test_noisy_values__what_was_not_measured_is_absent():
    part = a_part(blocks=(Block(samples_ns=(5,)),), first_step_ns=0, peak_bytes=None)
    values, raw = noisy_values([part], threads=1)
    assert set(values) == {"latency", "throughput"}
    assert set(raw) == {"latency"}
    assert noisy_values([], threads=1) == ({}, {})
