"""Times by module and operator of real models; the arithmetic is tested in test_profile_times.py."""

# mypy: allow-subclassing-any
from __future__ import annotations

import subprocess
import sys
import textwrap
import time
from contextlib import nullcontext
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.autograd import profiler  # noqa: E402
from torch.nn.modules import module as hooks  # noqa: E402
from torch.utils import checkpoint  # noqa: E402

from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER  # noqa: E402
from perfgate.worker import profiling  # noqa: E402
from perfgate.worker.device import CpuDevice, Devices  # noqa: E402
from perfgate.worker.profile_events import DeviceEvent, HostEvent, Recording  # noqa: E402
from perfgate.worker.profile_ranges import STEP, WAIT, ModuleRanges  # noqa: E402
from perfgate.worker.profile_times import PYTHON, Key, attribute  # noqa: E402
from perfgate.worker.stepping import GeneratorStep, Step  # noqa: E402
from tests.worker.fakes import FakeClock, make_devices  # noqa: E402
from tests.worker.helpers import make_open, must_open, must_prepare, prepare, started, write_files  # noqa: E402

pytestmark = [
    pytest.mark.torch,
    # Some releases warn of themselves in activation checkpoints.
    pytest.mark.filterwarnings("ignore:.*autocast.*:FutureWarning", "ignore:None of the inputs have requires_grad"),
]


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


class Sleepy(nn.Module):
    def forward(self, x):
        time.sleep(0.02)
        return x + 1


class Resize(nn.Module):
    """Some twenty milliseconds of numpy, and microseconds of torch."""

    def forward(self, x):
        image = x.detach().numpy()
        for _ in range(60):
            image = np.kron(image, np.ones((16, 16), dtype=np.float32))[::16, ::16]
        return torch.from_numpy(np.ascontiguousarray(image))


class Item(nn.Module):
    def forward(self, x):
        return x * x.sum().item()


class Exponential(torch.autograd.Function):  # type: ignore[name-defined]
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        time.sleep(0.005)
        return gradient * ctx.saved_tensors[0].exp()


class Custom(nn.Module):
    def forward(self, x):
        return Exponential.apply(x)


class Parts(nn.Module):
    """One part after the other, ``again`` being the first one under a second name."""

    def __init__(self, *parts):
        super().__init__()
        self.first = nn.Linear(8, 8)
        self.middle = nn.Sequential(*parts)
        self.again = self.first

    def forward(self, x):
        return self.again(self.middle(self.first(x)))


class Checkpointed(nn.Module):
    def __init__(self, *, reentrant):
        super().__init__()
        self.before = nn.Linear(8, 8)
        self.inner = nn.Sequential(nn.Linear(8, 8), nn.ReLU())
        self.reentrant = reentrant

    def forward(self, x):
        return checkpoint.checkpoint(self.inner, self.before(x), use_reentrant=self.reentrant)


def host():
    return Devices([CpuDevice("cpu")])


def make_step(call, kind=Step, *, no_grad=False):
    return kind(call, items=1, no_grad=no_grad, dtype="float32", device="cpu")


def train(model, *inputs):
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-3)

    def call():
        optimizer.zero_grad()
        model(*inputs).square().mean().backward()
        optimizer.step()

    return make_step(call)


def infer(model, *inputs):
    model.eval()
    return make_step(lambda: model(*inputs), no_grad=True)


def tables(step, model, count=2):
    ranges = ModuleRanges(model)
    with profiling._undisturbed(step, host()), ranges.installed():
        profiling._record(step, host(), 1, cuda=False)
        seen, _ = profiling._record(step, host(), count, cuda=False)
    return attribute(seen.host, seen.device, ranges.paths)


def profiled(step, model, **options):
    notes: list[str] = []
    profile = profiling.profile(step, host(), model, budget_ns=1_000_000, notes=notes, **options)
    assert profile is not None, notes
    assert notes == []
    return profile, {(time.module, time.op, time.phase): time for time in profile.times}


def conserves(steps):
    for step in steps:
        assert sum(part.host for part in step.sums.values()) + step.waited == step.end - step.start
    return {key: part for step in steps[-1:] for key, part in step.sums.items()}


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


class Watched(nn.Module):
    """Random, with hooks of its own, and fails from some call on."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.register_buffer("steps", torch.zeros(()))
        self.layer.register_forward_hook(lambda *_: None)
        self.calls = 0
        self.fails_at = -1

    def forward(self, x):
        self.calls += 1
        y = nn.functional.dropout(self.layer(x), 0.5, training=True)
        if self.calls == self.fails_at:
            raise ValueError("in the middle")
        return y


def surroundings(model):
    return {
        "state": {name: (id(t), t.clone()) for name, t in model.state_dict(keep_vars=True).items()},
        "attributes": {name: sorted(vars(child)) for name, child in model.named_modules()},
        "flags": [child.training for child in model.modules()],
        "gradients": [(p.requires_grad, p.grad) for p in model.parameters()],
        "hooks": [(len(child._forward_hooks), len(child._forward_pre_hooks)) for child in model.modules()],
        "global hooks": [
            dict(getattr(hooks, name))
            for name in ("_global_forward_hooks", "_global_forward_pre_hooks", "_global_forward_hooks_always_called")
        ],
        "generator": torch.get_rng_state().tolist(),
        "profiler": (profiler._is_profiler_enabled, torch.autograd._profiler_enabled()),
        "gradient mode": (torch.is_grad_enabled(), torch.is_inference_mode_enabled()),
        "call": nn.Module.__call__,
        "linear": nn.functional.linear,
    }


@pytest.mark.parametrize("fails_at", [-1, 1, 3])
def test_profile__leaves_no_trace_in_the_model_or_in_torch(fails_at):
    # M42
    model, x = Watched().eval(), torch.rand(2, 4)
    before = surroundings(model)
    model.fails_at = fails_at
    notes: list[str] = []

    profile = profiling.profile(infer(model, x), host(), model, budget_ns=1_000_000, notes=notes)

    after = surroundings(model)
    for name, (kept, value) in before.pop("state").items():
        now, contents = after["state"][name]
        assert now == kept
        assert torch.equal(contents, value)
    del after["state"]
    assert after == before
    if fails_at < 0:
        assert profile is not None
        assert notes == []
    else:
        assert profile is None
        assert notes == ["operators could not be profiled: ValueError: in the middle"]
        assert model.calls == fails_at


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


def test_profile__without_kineto_there_is_a_note(monkeypatch):
    monkeypatch.setattr(torch.autograd, "kineto_available", lambda: False)
    notes: list[str] = []

    assert profiling.profile(make_step(lambda: None), host(), None, budget_ns=1, notes=notes) is None
    assert notes == ["operators could not be profiled: RuntimeError: this build of torch has no Kineto"]


def test_profile__a_profiler_that_does_not_start_leaves_nothing(monkeypatch):
    def refuse(*_, **__):
        raise RuntimeError("CUPTI at /usr/local/lib/libcupti.so: not permitted")

    # Some releases cannot prepare a second time once they failed to start.
    monkeypatch.setattr(profiler, "_prepare_profiler", lambda *_, **__: None)
    monkeypatch.setattr(profiler, "_enable_profiler", refuse)
    notes: list[str] = []

    assert profiling.profile(make_step(lambda: None), host(), None, budget_ns=1, notes=notes) is None
    assert notes == ["operators could not be profiled: RuntimeError: CUPTI at libcupti.so: not permitted"]
    assert not profiler._is_profiler_enabled
    monkeypatch.undo()
    assert profiled(make_step(lambda: torch.rand(4).exp()), None)


def test_profile__a_step_that_profiles_itself_is_not_profiled():
    def call():
        with profiler.profile(use_kineto=True):
            return torch.rand(4).exp()

    notes: list[str] = []

    assert profiling.profile(make_step(call), host(), None, budget_ns=1, notes=notes) is None
    assert len(notes) == 1
    assert not torch.autograd._profiler_enabled()
    assert profiled(make_step(lambda: torch.rand(4).exp()), None)


def test_profile__a_step_that_takes_too_long_is_left_out(monkeypatch):
    monkeypatch.setattr(profiling, "_LONGEST_NS", 1_000)
    calls: list[int] = []
    notes: list[str] = []

    assert profiling.profile(make_step(lambda: calls.append(1)), host(), None, budget_ns=1, notes=notes) is None
    assert len(calls) == 1
    assert notes[0].startswith("operators were not profiled: one step takes")


@pytest.mark.parametrize(
    ("budget_ns", "step_ns", "events", "steps"),
    [(100, 10, 50, 10), (100, 90, 50, 3), (10_000, 10, 50, 20), (10_000, 10, 240_000, 2), (1, 1, 10**9, 1)],
)
def test_affordable__three_to_twenty_steps_unless_they_have_too_many_events(budget_ns, step_ns, events, steps):
    assert profiling._affordable(budget_ns, step_ns, events) == steps


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


MODEL = """
    from torch import nn

    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.one, self.two = nn.Linear(4, 4), nn.Linear(4, 4)

        def forward(self, x):
            x = self.one(x)
            print("between")
            return self.two(x)
"""


@pytest.fixture(scope="module")
def factory(shim, tmp_path_factory):
    checkout = write_files(tmp_path_factory.mktemp("profiled") / "co", {"net.py": MODEL})
    with started(shim, tmp_path_factory.mktemp("logs") / "log") as worker:
        must_prepare(worker, prepare(checkout, "net", "torch._dynamo"))
        yield worker


@pytest.mark.parametrize(("mode", "phases"), [("infer", {FORWARD}), ("train", {FORWARD, BACKWARD, OPTIMIZER})])
def test_probe__has_a_profile(factory, mode, phases):
    probe = must_open(factory, make_open("net:Net", probe=True, mode=mode)).probe

    assert probe is not None
    assert probe.profile is not None
    assert {time.phase for time in probe.profile.times} == phases
    assert ("two", "aten::linear") in {(time.module, time.op) for time in probe.profile.times}
    assert probe.breaks == ()
    assert "graph_breaks" not in probe.exact
    assert not any("profile" in note for note in probe.notes)


def test_probe__a_compiled_model_is_profiled_as_it_was_written(factory):
    probe = must_open(factory, make_open("net:Net", probe=True, compile_="default")).probe

    assert probe is not None
    assert probe.profile is not None
    assert ("two", "aten::linear") in {(time.module, time.op) for time in probe.profile.times}
    assert any("profiled uncompiled" in note for note in probe.notes)
    assert probe.breaks == ('net.py:11: call of print(): print("between")',)
    assert probe.exact["graph_breaks"] == 1


def test_open__a_process_that_is_timed_is_not_profiled(factory):
    assert must_open(factory, make_open("net:Net")).probe is None
