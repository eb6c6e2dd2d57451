from __future__ import annotations

import io
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from perfgate.graph.build import build
from perfgate.records.protocol import Failed, Finish, Finished, Sample, Sampled, Time, Timed
from perfgate.records.sampling import FAMILIES, OPTIMIZERS, Condition, Network
from perfgate.sampling.work import work
from perfgate.worker.failures import WorkerError
from perfgate.worker.networks import families, sampling
from perfgate.worker.networks.step import make_step
from tests.worker.helpers import must_prepare, prepare, started

SIDE: Any = SimpleNamespace(request=SimpleNamespace(checkout="/nowhere"))

SMALL = {
    "convolution": {"depth": 4, "width": 8, "kernel": 3, "resolution": 33, "stem": 2, "stages": 2, "normalise": 1},
    "residual": {
        "stages": 2, "blocks": 2, "width": 16, "kernel": 3, "resolution": 33, "stem": 2, "bottleneck": 1, "groups": 2,
    },
    "depthwise": {
        "stages": 2, "blocks": 2, "width": 8, "expansion": 4, "kernel": 5, "resolution": 33, "stem": 2, "squeeze": 1,
    },
    "unet": {"levels": 2, "blocks": 2, "width": 8, "kernel": 3, "resolution": 32},
    "branches": {
        "join": 0, "stages": 2, "blocks": 2, "width": 16, "kernel": 3, "resolution": 33, "stem": 2, "pool": 0,
        "dropout": 1,
    },
    "fully-connected": {"inputs": 64, "depth": 3, "width": 96, "normalise": 1},
    "embedding": {"tables": 3, "rows": 1_000, "dimension": 16, "lookups": 5, "depth": 2, "width": 64},
    "recurrent": {"cell": 1, "layers": 2, "width": 32, "inputs": 16, "sequence": 6, "bidirectional": 1},
    "encoder": {"layers": 2, "heads": 2, "head_size": 32, "sequence": 16, "expansion": 2, "vocabulary": 1_000},
    "decoder": {
        "layers": 2, "heads": 2, "head_size": 32, "sequence": 16, "expansion": 2, "vocabulary": 1_000, "memory": 8,
    },
    "patches": {"layers": 2, "heads": 2, "head_size": 32, "patch": 16, "resolution": 64, "expansion": 4},
}  # fmt: skip


def condition(family="fully-connected", *, mode="infer", batch=2, parameters=None, **changes):
    network = Network(family=family, parameters=SMALL[family] if parameters is None else parameters)
    optimizer = "sgd" if mode == "train" else ""
    return Condition(network=network, mode=mode, batch=batch, **{"optimizer": optimizer, **changes})


def counted(one):
    traced = sampling.trace(Sample(condition=one, trace=True), SIDE).trace
    assert traced is not None
    return build(traced).totals


def test_families__all_are_tested():
    assert tuple(SMALL) == FAMILIES


@pytest.mark.parametrize("family", FAMILIES)
def test_sample__every_family_infers_and_trains(family):
    for mode, dtype in (("infer", "float32"), ("train", "float32"), ("train", "amp-bfloat16")):
        session, sampled = sampling.sample(Sample(condition=condition(family, mode=mode, dtype=dtype)), SIDE)
        timed = session.time(Time(samples=2, discard_calls=0, discard_ns=0))
        assert min(timed.samples_ns) > 0
        assert sampled.first_step_ns > 0
        assert sampled.params > 0
        assert sampled.weight_bytes >= 4 * sampled.params
        assert sampled.disk_bytes > sampled.weight_bytes
        assert sampled.input_bytes > 0


@pytest.mark.parametrize("family", FAMILIES)
def test_trace__is_what_planning_expects(family):
    one = condition(family)
    found, planned = counted(one), work(one.network)
    assert found.flop == pytest.approx(2 * planned.flop, rel=1e-9)
    assert planned.weights == pytest.approx(found.params, rel=0.05)
    assert 0.5 < planned.kernels / found.kernels < 1.5
    assert not found.not_counted


@pytest.mark.parametrize("family", ["convolution", "recurrent", "decoder"])
def test_trace__other_parameters_are_planned_alike(family):
    more = {"convolution": {"stages": 3, "normalise": 0, "kernel": 5, "stem": 1}, "recurrent": {"cell": 0},
            "decoder": {"memory": 0}}[family]  # fmt: skip
    one = condition(family, parameters={**SMALL[family], **more}, batch=1)
    assert counted(one).flop == pytest.approx(work(one.network).flop, rel=1e-9)


@pytest.mark.parametrize("changes", [{"bottleneck": 0, "groups": 1}, {"bottleneck": 0, "stages": 1}, {"stages": 3}])
def test_trace__residual_networks_of_all_kinds_are_planned(changes):
    one = condition("residual", parameters={**SMALL["residual"], **changes}, batch=1)
    assert counted(one).flop == pytest.approx(work(one.network).flop, rel=1e-9)


@pytest.mark.parametrize("changes", [{"join": 1, "pool": 1}, {"join": 2, "stages": 3}, {"join": 2, "kernel": 5}])
def test_trace__branches_of_all_kinds_are_planned(changes):
    one = condition("branches", parameters={**SMALL["branches"], **changes}, batch=1)
    found, planned = counted(one), work(one.network)
    assert found.flop == pytest.approx(planned.flop, rel=1e-9)
    assert planned.weights == pytest.approx(found.params, rel=0.05)


@pytest.mark.parametrize(("family", "changes"), [("convolution", {"window": 3}), ("residual", {"pool": 1})])
def test_trace__pools_over_three_pixels_are_planned(family, changes):
    one = condition(family, parameters={**SMALL[family], **changes}, batch=1)
    assert counted(one).flop == pytest.approx(work(one.network).flop, rel=1e-9)


def test_trace__dropout_is_drawn_in_training_alone():
    one = condition("convolution", mode="train", parameters={**SMALL["convolution"], "dropout": 1})
    assert "random" in counted(one).kinds
    assert "random" not in counted(replace(one, mode="infer", optimizer="")).kinds


def test_build__parameters_of_earlier_releases_are_enough():
    # What was recorded before there were other pools and dropout can be built and planned again.
    assert not {"window", "pool", "dropout"} & {*SMALL["convolution"], *SMALL["residual"]}
    for family in ("convolution", "residual", "depthwise"):
        one = condition(family)
        assert counted(one).flop == pytest.approx(2 * work(one.network).flop, rel=1e-9)


def test_trace__needs_no_memory_for_weights():
    # 40 GB of weights.
    huge = {"tables": 10, "rows": 10_000_000, "dimension": 100, "lookups": 1, "depth": 1, "width": 8}
    found = counted(condition("embedding", parameters=huge))
    assert found.params > 10**10
    assert found.weight_bytes == 4 * found.params


def test_sample__accumulation_does_equal_work_and_the_same_update():
    def trained(accumulation):
        one = condition("fully-connected", mode="train", batch=4, accumulation=accumulation)
        torch.manual_seed(0)
        module = families.build(one.network)
        given = families.arguments(one.network, 4)
        # The same rows in two halves, so that the mean gradient is that of the whole batch.
        half = given.args[0][:2]
        rows = half if accumulation == 2 else torch.cat((half, half))
        step = make_step(one, module, module, type(given)(args=(rows,)))
        with step.context():
            step.call()
        return [parameter.detach().clone() for parameter in module.parameters()]

    for left, right in zip(trained(1), trained(2), strict=True):
        assert torch.allclose(left, right, atol=1e-7)
    whole = counted(condition(mode="train", batch=4))
    parts = counted(condition(mode="train", batch=4, accumulation=2))
    assert parts.flop == whole.flop
    assert parts.kernels > whole.kernels


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_sample__every_optimiser_changes_the_weights(name):
    one = condition(mode="train", optimizer=name)
    module = families.build(one.network)
    before = [parameter.detach().clone() for parameter in module.parameters()]
    step = make_step(one, module, module, families.arguments(one.network, 2))
    with step.context():
        step.call()
    assert any(not torch.equal(old, new) for old, new in zip(before, module.parameters(), strict=True))


def test_sample__disk_is_the_size_of_the_saved_file():
    one = condition("convolution")
    _, sampled = sampling.sample(Sample(condition=one), SIDE)
    buffer = io.BytesIO()
    torch.save(families.build(one.network).state_dict(), buffer)
    assert sampled.disk_bytes == pytest.approx(buffer.getbuffer().nbytes, rel=1e-3)


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        (condition(mode="train", optimizer="lion"), "no optimiser 'lion'"),
        (condition(mode="train", batch=3, accumulation=2), "has no 2 equal parts"),
        (condition(mode="dream"), "'dream' is neither infer nor train"),
        (condition(parameters={"inputs": 4, "width": 4}), "the parameter 'depth' is not there"),
        (Condition(network=Network(family="quantum"), mode="infer", batch=1), "no family 'quantum'"),
    ],
)
def test_sample__what_cannot_be_built_is_named(wrong, says):
    with pytest.raises(WorkerError, match=says):
        sampling.sample(Sample(condition=wrong), SIDE)


def test_sample__a_real_worker_steps_and_another_one_traces(shim, tmp_path):
    one = condition("convolution", mode="train", optimizer="adam")
    with started(shim, tmp_path / "log") as factory:
        must_prepare(factory, prepare(tmp_path))
        child = factory.fork("steps")
        sampled = child.ask(Sample(condition=one))
        assert isinstance(sampled, Sampled), sampled
        assert (sampled.resting_bytes or 0) > 2**20
        again = child.ask(Sample(condition=one))
        assert isinstance(again, Failed)
        assert "open already" in again.message
        timed = child.ask(Time(samples=3, discard_calls=0, discard_ns=0))
        assert isinstance(timed, Timed)
        assert len(timed.samples_ns) == 3
        assert timed.items == 2
        finished = child.ask(Finish())
        assert isinstance(finished, Finished)
        traced = factory.fork("traces").ask(Sample(condition=one, trace=True))
        assert isinstance(traced, Sampled), traced
        assert traced.trace is not None
        assert traced.trace.batch == 2
        assert any(call.phase == "optimizer" for call in traced.trace.calls)
        assert traced.weight_bytes == sampled.weight_bytes
