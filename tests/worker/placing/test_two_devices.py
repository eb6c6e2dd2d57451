"""A second device that is simulated, reached through the entry points that any package can use."""

# mypy: allow-subclassing-any
from __future__ import annotations

import importlib
import subprocess
import sys
import threading

import pytest

pytest.importorskip("torch")

import torch

from perfgate.pipeline import place_problem
from perfgate.placement import exact
from perfgate.records.placement import LATENCY, Device, Target
from perfgate.records.placing import NO_TIME, Build, Lowered, Part, ProfileNodes
from perfgate.records.workload import Workload
from perfgate.worker.placing import deploying
from perfgate.worker.placing.deployed import placed
from perfgate.worker.placing.libraries.registry import Registry
from perfgate.worker.placing.profiling import Profiler
from tests.worker.placing import fake_device, models

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]

CPU = Target(name="host", library="torch-onednn", device="cpu", threads=1)
SIM = Target(name="simulated", library="simulated", device="sim:0", whole=True)
WORKLOAD = Workload(model="net", mode="infer", batch=1, dtype="float32", device="cpu", compile="eager")


@pytest.fixture
def device(monkeypatch, tmp_path):
    """The simulated library's module, installed."""
    fake_device.install(tmp_path / "packages")
    monkeypatch.syspath_prepend(str(tmp_path / "packages"))
    sys.modules.pop("fakelib", None)
    yield importlib.import_module("fakelib")
    sys.modules.pop("fakelib", None)


def test_registry__a_library_of_another_package_is_found(device):
    registry = Registry(torch_model=True)
    (found,) = (one for one in registry.found if one.name == "simulated")
    assert (found.device, found.version, found.missing, found.whole) == ("sim:0", "1.0", "", True)
    assert "simulated" in registry.usable


def test_build__pieces_run_in_order_and_tensors_move_at_the_seams_only(device, lowered, tmp_path):
    model = lowered("Chain")
    parts = (
        Part(target="host", nodes=(0,)),
        Part(target="simulated", nodes=(1,)),
        Part(target="simulated", nodes=(2,)),
        Part(target="host", nodes=(3,)),
    )
    request = Build(parts=parts, targets=(CPU, SIM), folder=str(tmp_path / "plan"))
    built = deploying.build(model, Registry(torch_model=True), request, WORKLOAD)
    assert [piece.device for piece in built.plan.pieces] == ["cpu", "sim:0", "sim:0", "cpu"]
    deployed = placed.load(tmp_path / "plan")
    module, (x,), _ = models.made("Chain")
    device.EVENTS.clear()
    got = deployed(x)
    with torch.no_grad():
        torch.testing.assert_close(got, module(x))
    size = x.numel() * 4
    kinds = [(kind, what if kind == "run" else what == size) for kind, what in device.EVENTS]
    assert [kind for kind, _ in kinds] == ["upload", "run", "run", "download"]
    assert "cumsum" in kinds[1][1]
    assert "sigmoid" in kinds[2][1]
    assert kinds[0][1]
    assert kinds[3][1]


def test_build__a_value_for_two_pieces_is_sent_once(device, lowered, tmp_path):
    class Fork(torch.nn.Module):
        def forward(self, x):
            y = torch.tanh(x)
            return torch.cumsum(y, 0), torch.sigmoid(y)

    model = lowered("Fork", Fork().eval(), (torch.ones(3, 3),))
    parts = (
        Part(target="host", nodes=(0,)),
        Part(target="simulated", nodes=(1,)),
        Part(target="simulated", nodes=(2,)),
    )
    request = Build(parts=parts, targets=(CPU, SIM), folder=str(tmp_path / "plan"))
    deploying.build(model, Registry(torch_model=True), request, WORKLOAD)
    deployed = placed.load(tmp_path / "plan")
    device.EVENTS.clear()
    deployed(torch.ones(3, 3))
    assert [kind for kind, _ in device.EVENTS] == ["upload", "run", "run", "download", "download"]


def test_stream__each_device_works_on_another_request(device, lowered, tmp_path):
    model = lowered("Chain")
    parts = (Part(target="simulated", nodes=(0, 1, 2)), Part(target="host", nodes=(3,)))
    deploying.build(
        model,
        Registry(torch_model=True),
        Build(parts=parts, targets=(CPU, SIM), folder=str(tmp_path / "plan")),
        WORKLOAD,
    )
    deployed = placed.load(tmp_path / "plan")
    module, (x,), _ = models.made("Chain")
    first, last = deployed.runners
    begun = threading.Event()
    runs, goes_on, waits = first.run, last.run, first.wait
    calls, waited = [], []

    def wait():
        waited.append("device")
        waits()

    def on_device(values):
        calls.append("device")
        if len(calls) == 2:
            begun.set()
        return runs(values)

    def on_host(values):
        # Of the first request: the device has to begin with the second one before this ends.
        assert begun.wait(60)
        # What an accelerator has only queued is not handed on.
        assert waited
        waited.pop()
        return goes_on(values)

    first.run, last.run, first.wait = on_device, on_host, wait
    requests = [x * number for number in range(1, 5)]
    with torch.no_grad():
        torch.testing.assert_close(list(deployed.stream(requests)), [module(one) for one in requests])


def test_build__the_folder_loads_the_package_by_itself(device, lowered, tmp_path):
    model = lowered("Chain")
    parts = (Part(target="simulated", nodes=(0, 1, 2)), Part(target="host", nodes=(3,)))
    request = Build(parts=parts, targets=(CPU, SIM), folder=str(tmp_path / "plan"))
    deploying.build(model, Registry(torch_model=True), request, WORKLOAD)
    # Only a library's own side may need perfgate: loading and running do not.
    code = "import sys; sys.modules['perfgate'] = None; import placed; sys.exit(placed.check(placed.load().folder, 1))"
    paths = f"import sys; sys.path[:0] = [{str(tmp_path / 'plan')!r}, {str(tmp_path / 'packages')!r}]; {code}"
    done = subprocess.run([sys.executable, "-c", paths], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_profile__tells_times_support_borders_and_wholes(device, lowered):
    model = lowered("Chain")
    request = ProfileNodes(targets=(CPU, SIM), budget_s=20.0)
    profiled = Profiler(model, Registry(torch_model=True), request).run()
    refused = [one for one in profiled.supports if one.reason]
    assert [(one.target, one.name, one.how) for one in refused] == [("simulated", "pow", "asked the simulation")]
    assert "has no kernel for aten.pow" in refused[0].reason
    calls = {one.name: one.piece_s for one in profiled.targets}
    assert calls["simulated"] >= device.CALL_S
    times = {(one.signature, one.target): one for one in profiled.times}
    scan = model.parts.nodes[1].signature
    assert times[scan, "simulated"].raw_s >= device.CALL_S + device.SLOWDOWN_S
    assert 0 < times[scan, "simulated"].seconds < times[scan, "simulated"].raw_s
    (up,) = (one for one in profiled.borders if one.target == "simulated")
    assert up.source == "host"
    assert up.receive_s + up.receive_s_per_byte * 4e6 > 0.25 * device.LINK_S_PER_BYTE * 4e6
    whole = {one.target: one for one in profiled.wholes}
    assert whole["simulated"].seconds is None
    assert "no kernel" in whole["simulated"].reason
    host = whole["host"]
    nodes = sum(times[node.signature, "host"].seconds for node in model.parts.nodes)
    assert host.factor * nodes + calls["host"] == pytest.approx(host.seconds)


def test_place__a_mixed_plan_is_found_and_runs_in_order(device, lowered, tmp_path):
    """The device is fast at a sigmoid, slow at a running sum, has no kernel for powers, and little memory."""
    device.SLOWDOWN_S = 0.004
    model = lowered("Chain")
    registry = Registry(torch_model=True)
    facts = Lowered(
        framework="torch",
        nodes=model.parts.nodes,
        values=model.crossing,
        inputs=model.parts.inputs,
        outputs=model.parts.outputs,
        fingerprint=model.fingerprint,
        libraries=registry.found,
    )
    asked = place_problem.targets(facts, devices=("cpu", "sim:0"), libraries=("slow-host", "simulated"), threads=(1,))
    assert [(one.name, one.default) for one in asked] == [("simulated sim:0", True), ("slow-host cpu", False)]
    profiled = Profiler(model, registry, ProfileNodes(targets=asked, budget_s=20.0)).run()
    places = (Device(name="cpu"), Device(name="sim:0", memory_bytes=1024))
    posed = place_problem.problem(facts, profiled, places, objective=LATENCY)
    found = exact.solve(posed, 20.0)
    assert found is not None
    on = {node.name: posed.targets[target].name for node, target in zip(posed.nodes, found.targets, strict=True)}
    assert on == {
        "mix": "slow-host cpu",  # its weights do not fit
        "cumsum": "slow-host cpu",
        "sigmoid": "simulated sim:0",
        "pow": "slow-host cpu",
    }
    request = Build(parts=place_problem.parts(posed, found), targets=profiled.targets, folder=str(tmp_path / "plan"))
    deploying.build(model, registry, request, WORKLOAD)
    deployed = placed.load(tmp_path / "plan")
    module, (x,), _ = models.made("Chain")
    device.EVENTS.clear()
    got = deployed(x)
    with torch.no_grad():
        torch.testing.assert_close(got, module(x))
    assert [kind for kind, _ in device.EVENTS] == ["host", "upload", "run", "download", "host"]
    assert "sigmoid" in device.EVENTS[2][1]


# https://github.com/apache/tvm/pull/12105: without a cache of what was measured, compiling takes for ever.
def test_profile__equal_nodes_are_timed_once(device, lowered):
    device.SLOWDOWN_S = 0
    model = lowered("Residual")
    request = ProfileNodes(targets=(SIM,), budget_s=20.0)
    profiled = Profiler(model, Registry(torch_model=True), request).run()
    assert len(model.parts.nodes) == 5
    assert profiled.distinct == profiled.measured == 4
    assert len({one.signature for one in profiled.times}) == 4
    assert profiled.unmeasured == ()


# https://github.com/apache/tvm/pull/12105: the budget of all measurements is kept.
def test_profile__the_budget_is_kept_and_what_is_lacking_is_said(device, lowered):
    model = lowered("Residual")
    profiled = Profiler(model, Registry(torch_model=True), ProfileNodes(targets=(CPU, SIM), budget_s=0.0)).run()
    assert profiled.times == ()
    assert any("no time was left for 4 distinct nodes" in one for one in profiled.unmeasured)
    assert all(one.seconds is None and one.reason == NO_TIME for one in profiled.wholes)


def test_profile__only_some_nodes(device, lowered):
    model = lowered("Chain")
    request = ProfileNodes(targets=(CPU,), budget_s=20.0, nodes=("cumsum",))
    profiled = Profiler(model, Registry(torch_model=True), request).run()
    assert [one.signature for one in profiled.times] == [model.parts.nodes[1].signature]
    assert profiled.wholes[0].factor == 1.0


def test_profile__a_library_that_is_not_here_is_said(device, lowered):
    gone = Target(name="far", library="tract", device="cpu")
    profiled = Profiler(lowered("Chain"), Registry(torch_model=True), ProfileNodes(targets=(gone,), budget_s=5)).run()
    assert profiled.targets == ()
    assert any("far: there is no library 'tract'" in one for one in profiled.unmeasured)
