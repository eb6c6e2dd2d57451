"""A profile that fails, or costs too much, leaves a note and nothing else."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.autograd import profiler  # noqa: E402
from torch.nn.modules import module as hooks  # noqa: E402

from perfgate.worker import profiling  # noqa: E402
from tests.worker.profiled import (  # noqa: E402
    MARKS,
    host,
    infer,
    make_step,
    profiled,
)

pytestmark = MARKS


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
