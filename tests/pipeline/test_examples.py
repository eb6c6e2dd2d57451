from __future__ import annotations

from dataclasses import replace

import pytest

from perfgate.pipeline.examples import examples
from perfgate.records.hardware import MeasuredRoofline
from perfgate.records.protocol import Software
from perfgate.store.from_evidence import records_of
from tests.gate.builders import cell, ok, run, workload
from tests.pipeline.test_cost import L4, totals


def records(*, device="cuda:0", environment=L4, batch=4):
    software = Software(versions={"torch": "2.14.1+cu130"}, threads=2)
    side = ok(totals=totals(), software=software)
    made = workload(of=cell("resnet", device=device, dtype="float16", batch=batch), base=side, now=side)
    return records_of(run(made, environment=environment))


def test_examples__of_a_gates_record():
    base, head = examples(records())
    assert base.model == base.group == "resnet"
    assert (base.mode, base.batch, base.dtype, base.software) == ("infer", 4, "float16", "torch 2.14.1")
    assert base.machine.name == "l4"
    assert base.machine.bandwidth_bytes_per_s == pytest.approx(300e9, rel=0.01)
    assert base.targets["step_time"] == pytest.approx(1e7, rel=0.01)
    assert sum(group.flop * group.calls for group in base.kernels) == totals().flop
    assert base.weight_bytes == 10**9
    assert base.peak_activation_bytes == 10**9
    assert base.threads == 0
    assert head.kernels == base.kernels


def test_examples__family_of_a_sample_is_its_group():
    [record, _] = records()
    sample = replace(record, model_key="sample:conv-1", hyper_parameters={"family": "conv", "items": "8"})
    [found] = examples([sample])
    assert (found.group, found.items) == ("conv", 8)


def test_examples__probe_of_the_same_threads_goes_before_the_catalogue():
    probe = MeasuredRoofline(
        device="cpu", label="c", flop_per_s={"float16": 1e12}, bandwidth_bytes_per_s=2e10, probe_bytes=1,
        measured_at="2026-11-30T00:00:00Z", threads=2,
    )  # fmt: skip
    made = records(device="cpu")
    hardware_id = made[0].hardware_id
    found = examples(made, {hardware_id: (replace(probe, threads=8), probe)})[0]
    assert found.machine.bandwidth_bytes_per_s == 2e10
    assert found.threads == 2
    other = examples(made, {hardware_id: (replace(probe, threads=8),)})[0]
    assert (other.machine.bandwidth_bytes_per_s, other.machine.flop_per_s) == (0.0, {})
    assert other.machine.name == f"{hardware_id}/cpu"


@pytest.mark.parametrize(
    "changes",
    [
        {"structure": None},
        {"metrics": {}},
        {"metrics": {"latency": 0.0}},
        {"resources": {"threads": "1", "waited_share": "0.6"}},
    ],
)
def test_examples__records_that_teach_nothing_are_left_out(changes):
    assert examples([replace(records()[0], **changes)]) == []


def test_examples__resources_that_are_numbers():
    [record, _] = records()
    found = examples([replace(record, resources={"threads": "1", "cache_bytes": "33554432", "disk_bytes": "n/a"})])[0]
    assert found.resources == {"cache_bytes": 33554432.0, "input_bytes": 4.0}
