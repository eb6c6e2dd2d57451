"""Times by module and operator of real models; the arithmetic is tested in test_profile_times.py."""

# mypy: allow-subclassing-any
from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER  # noqa: E402
from perfgate.worker import profiling  # noqa: E402
from perfgate.worker.profile_events import DeviceEvent, HostEvent, Recording  # noqa: E402
from perfgate.worker.profile_ranges import STEP, WAIT, ModuleRanges  # noqa: E402
from perfgate.worker.profile_times import PYTHON, Key  # noqa: E402
from perfgate.worker.stepping import GeneratorStep  # noqa: E402
from tests.worker.fakes import FakeClock, make_devices  # noqa: E402
from tests.worker.profiled import (  # noqa: E402
    MARKS,
    Checkpointed,
    Custom,
    Item,
    Parts,
    Resize,
    Sleepy,
    conserves,
    infer,
    make_step,
    profiled,
    tables,
    train,
)

pytestmark = MARKS


@pytest.mark.parametrize("kernels", [True, False])
def test_profile__on_a_gpu_host_and_device_time_are_apart(monkeypatch, kernels):
    # M10
    seen = Recording()
    seen.host += [
        HostEvent(STEP, 0, 100, 1, id=1),
        HostEvent("aten::mm", 10, 20, 1, id=2),
        HostEvent(WAIT, 30, 100, 1, id=3),
    ]
    seen.device += [DeviceEvent(15, 95, 2)] if kernels else []
    monkeypatch.setattr(profiling, "_record", lambda *_, **__: (seen, 100))
    monkeypatch.setattr(profiling, "_undisturbed", lambda *_: nullcontext())
    notes: list[str] = []
    clock = FakeClock()

    profile = profiling.profile(make_step(lambda: None), make_devices(clock, "cuda:0"), None, budget_ns=1, notes=notes)

    assert profile is not None
    times = {time.op: time for time in profile.times}
    assert (times["aten::mm"].host_ns, times["aten::mm"].device_ns) == (10, 80 if kernels else None)
    assert times[PYTHON].host_ns == 20
    assert profile.step_ns == 100
    assert len(notes) == (0 if kernels else 1)
    assert kernels or "CUPTI" in notes[0]


@pytest.mark.parametrize("build", [lambda: Parts(Sleepy(), Item(), Custom()), lambda: Checkpointed(reentrant=True),
                                   lambda: Checkpointed(reentrant=False)])  # fmt: skip
def test_attribute__every_nanosecond_of_a_real_step_has_one_place(build):
    model = build()
    names = {name for name, _ in model.named_modules(remove_duplicate=True)}

    for steps in (tables(train(model, torch.rand(4, 8)), model), tables(infer(model, torch.rand(4, 8)), model)):
        assert len(steps) == 2
        sums = conserves(steps)
        assert {key.module for key in sums} <= names
        assert all(part.calls > 0 and part.host >= 0 for part in sums.values())


def test_profile__a_sleep_shows_at_its_module():
    model = Parts(Sleepy(), nn.ReLU())

    profile, found = profiled(infer(model, torch.rand(4, 8)), model)

    assert profile.steps == 3
    assert found["middle.0", PYTHON, FORWARD].host_ns >= 20e6
    assert profile.step_ns >= 20e6
    assert ("middle.0", "aten::add", FORWARD) in found
    assert all(time.device_ns is None for time in profile.times)


def test_profile__numpy_in_a_forward_shows_at_its_module():
    model = Parts(Resize())

    _, found = profiled(infer(model, torch.rand(64, 8)), model)

    here = {op: time.host_ns for (module, op, _), time in found.items() if module == "middle.0"}
    assert here.keys() > {PYTHON}
    assert here[PYTHON] > 10 * sum(ns for op, ns in here.items() if op != PYTHON)


def test_profile__a_synchronising_item_shows_at_its_module():
    model = Parts(nn.ReLU(), Item())

    _, found = profiled(infer(model, torch.rand(4, 8)), model)

    assert found["middle.1", "aten::item", FORWARD].calls == 1


def test_profile__a_shared_module_has_its_first_name_and_all_its_calls():
    model = Parts(nn.ReLU())

    _, found = profiled(train(model, torch.rand(4, 8)), model)

    assert found["first", "aten::linear", FORWARD].calls == 2
    assert found["first", PYTHON, FORWARD].calls == 2
    # The first input needs no gradient: one product less.
    assert found["first", "aten::mm", BACKWARD].calls == 3
    assert not any(module == "again" for module, _, _ in found)


def test_profile__a_function_of_the_users_own_has_its_module_both_ways():
    model = Parts(Custom())

    _, found = profiled(train(model, torch.rand(4, 8)), model)

    assert found["middle.0", "aten::exp", FORWARD].calls == 1
    assert found["middle.0", "aten::exp", BACKWARD].calls == 1
    assert found["middle.0", PYTHON, BACKWARD].host_ns >= 5e6


@pytest.mark.parametrize("reentrant", [False, True])
def test_profile__recomputation_of_a_checkpoint_is_backward_in_its_modules(reentrant):
    model = Checkpointed(reentrant=reentrant)

    _, found = profiled(train(model, torch.rand(4, 8)), model)

    assert found["inner.0", "aten::linear", FORWARD].calls == 1
    assert found["inner.0", "aten::linear", BACKWARD].calls == 1
    assert found["inner.1", "aten::threshold_backward", BACKWARD].calls == 1
    assert found["inner.0", "aten::mm", BACKWARD].calls == 2
    assert found["before", "aten::mm", BACKWARD].calls == 1
    assert ("before", "aten::linear", BACKWARD) not in found


def test_profile__resnet18_in_training():
    models = pytest.importorskip("torchvision.models")
    model = models.resnet18()
    convolutions = {name for name, child in model.named_modules() if isinstance(child, nn.Conv2d)}

    step = train(model, torch.rand(2, 3, 32, 32))

    conserves(tables(step, model))
    profile, found = profiled(step, model)

    assert {module for module, op, _ in found if op == "aten::conv2d"} == convolutions
    assert {module for module, op, _ in found if op == "aten::convolution_backward"} == convolutions
    assert ("layer1.0", "aten::add_", FORWARD) in found
    assert found["", "aten::add_", OPTIMIZER].calls == len(list(model.parameters()))
    assert {phase for _, _, phase in found} == {FORWARD, BACKWARD, OPTIMIZER}
    # Medians of parts do not add up to the median of the whole, but no part of a step is longer than that step.
    assert 0 < profile.times[0].host_ns <= profile.step_ns


def test_profile__a_generator_step_and_a_loss_module():
    model, loss = nn.Linear(8, 8), nn.MSELoss()

    def generate():
        y = model(torch.rand(4, 8))
        yield "first"
        loss(y, torch.zeros(4, 8)).backward()
        yield "second"

    def sync():
        time.sleep(0.01)

    step = make_step(generate, GeneratorStep)
    step.sync = sync

    (table, _) = tables(step, model)
    profile, found = profiled(step, model)

    conserves([table])
    # What is waited for at the end of a span is nobody's.
    assert table.waited >= 20e6
    assert step.sync is sync
    assert step.take_spans() == {"first": 0, "second": 0}
    assert profile.step_ns >= 20e6
    assert found["MSELoss", "aten::mse_loss", FORWARD].calls == 1
    assert found["MSELoss", "aten::mse_loss_backward", BACKWARD].calls == 1


def test_profile__a_step_without_a_module():
    _, found = profiled(make_step(lambda: torch.rand(4).exp()), None)

    assert found["", "aten::exp", FORWARD].calls == 1


def test_ranges__paths_are_first_names_without_a_compilers_wrapper():
    class Wrapper(nn.Module):
        def __init__(self, inner):
            super().__init__()
            self._orig_mod = inner

    layer = nn.Linear(2, 2)

    assert ModuleRanges(nn.Sequential(layer, Wrapper(nn.Sequential(nn.ReLU(), layer)))).paths == ["", "0", "1", "1.0"]
    assert ModuleRanges(Wrapper(layer)).paths == [""]
    assert ModuleRanges(None).paths == []


def test_ranges__survive_what_is_no_ordinary_exception():
    class Stop(BaseException):
        pass

    class Stops(nn.Module):
        def forward(self, x):
            raise Stop

    model = nn.Sequential(nn.ReLU(), Stops())

    def call():
        try:
            model(torch.rand(4))
        except Stop:
            return torch.rand(4).exp()

    table, _ = tables(make_step(call), model)

    conserves([table])
    # The next call of the root closes what was left open, or else the end of the profile does.
    assert Key("0", "aten::relu", FORWARD) in table.sums


def test_profile__does_not_import_the_compiler():
    code = """
        import sys, torch
        from torch import nn
        from perfgate.worker import profiling
        from perfgate.worker.device import CpuDevice, Devices
        from perfgate.worker.stepping import Step
        model, x = nn.Sequential(nn.Linear(4, 4), nn.ReLU()), torch.rand(2, 4)
        step = Step(lambda: model(x).sum().backward(), items=1, no_grad=False, dtype="float32", device="cpu")
        notes = []
        before = set(sys.modules)
        assert profiling.profile(step, Devices([CpuDevice("cpu")]), model, budget_ns=1, notes=notes), notes
        added = sorted(name for name in set(sys.modules) - before if name.startswith("torch."))
        assert not any("_dynamo" in name or "_inductor" in name for name in added), added
        assert "torch._dynamo" not in sys.modules
    """
    run = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True, text=True, check=False, cwd=Path(__file__).parents[2],
    )  # fmt: skip

    assert run.returncode == 0, run.stderr
