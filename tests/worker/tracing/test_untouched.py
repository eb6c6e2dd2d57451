"""Nothing of the model, of torch or of the process is different after a trace, also after an exception (M42)."""

# mypy: allow-subclassing-any
from __future__ import annotations

import gc
import os
import random
import sys
import warnings

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.nn.modules import module as modules  # noqa: E402
from torch.optim import optimizer as optimizers  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402

pytestmark = pytest.mark.torch


class Restless(nn.Module):
    """Sets attributes, buffers and hooks while it runs, draws numbers, and may fail half way."""

    def __init__(self, *, fail=False, look=False):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.drop = nn.Dropout(0.5)
        self.frozen = nn.Parameter(torch.ones(4), requires_grad=False)
        self.register_buffer("steps", torch.zeros(()))
        self.table = torch.arange(4.0)
        self.history = []
        self.cache = {"a": torch.ones(4), "deep": [torch.ones(4)]}
        self.seen = set()
        self.count = 0
        self.fail, self.look = fail, look

    def forward(self, x):
        self.count += 1
        self.last = x * 2
        self.steps += 1
        self.table.mul_(2)
        self.history.append(x)
        self.cache["a"].add_(1)
        self.cache["b"] = x
        self.cache["deep"][0].zero_()
        self.cache["deep"].append(1)
        self.seen.add(1)
        self.register_buffer("late", x.detach().clone())
        self.extra = nn.Linear(2, 2)
        self.layer.register_forward_hook(lambda *_: None)
        self.layer.weight.requires_grad_(False)
        with torch.no_grad():
            self.frozen.add_(1)
        y = self.norm(self.layer(x + self.table)) + self.drop(torch.rand_like(x))
        y = y * random.random() * float(np.random.rand())
        if self.look:
            y = y * y.detach().sum().item()
        if self.fail:
            raise ValueError("in the middle")
        return y + self.frozen * self.layer.bias


def snapshot(model):
    """Everything that a user could notice."""
    containers = (model.history, model.cache, model.cache["deep"], model.seen)
    return {
        "state": {name: (id(t), t._is_view(), t.clone()) for name, t in model.state_dict(keep_vars=True).items()},
        "attributes": {name: sorted(vars(child)) for name, child in model.named_modules()},
        "values": {name: id(value) for name, value in vars(model).items()},
        "containers": [(id(c), list(map(id, c.values() if isinstance(c, dict) else c))) for c in containers],
        "contents": [model.table.clone(), model.cache["a"].clone(), model.cache["deep"][0].clone()],
        "training": [child.training for child in model.modules()],
        "gradients": [(p.requires_grad, p.grad) for p in model.parameters()],
        "hooks": [
            (len(child._forward_hooks), len(child._forward_pre_hooks), len(child._backward_hooks))
            for child in model.modules()
        ],
        "classes": [type(child) for child in model.modules()],
        "process": process(),
        "generators": [torch.get_rng_state(), *tuple(np.random.get_state())[1:3]],
        "python": random.getstate(),
    }


def process():
    """Global hooks, functions, flags and modes."""
    return {
        "hooks": (
            len(modules._global_forward_hooks),
            len(modules._global_forward_pre_hooks),
            len(modules._global_forward_hooks_always_called),
            len(optimizers._global_optimizer_pre_hooks),
            len(optimizers._global_optimizer_post_hooks),
        ),
        "functions": (F.linear, F.scaled_dot_product_attention, torch.empty, torch.Tensor.backward, nn.Module.__call__),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "attention": (
            torch.backends.cuda.math_sdp_enabled(),
            torch.backends.cuda.flash_sdp_enabled(),
            torch.backends.cuda.mem_efficient_sdp_enabled(),
        ),
        "modes": (torch._C._len_torch_dispatch_stack(), torch._C._len_torch_function_stack()),
        "gradients": (torch.is_grad_enabled(), torch._C._is_multithreading_enabled()),
        "collector": gc.isenabled(),
        "script": torch._C._get_graph_executor_optimize(),
        "switch": os.environ.get("TORCHDYNAMO_DISABLE"),
        "finders": list(map(id, sys.meta_path)),
        "filters": len(warnings.filters),
        "dtype": torch.get_default_dtype(),
    }


def same(one, other):
    for key in one.keys() | other.keys():
        if key == "state":
            assert one[key].keys() == other[key].keys()
            for name, (identity, view, value) in one[key].items():
                assert other[key][name][:2] == (identity, view), name
                assert torch.equal(value, other[key][name][2]), name
        elif key == "contents":
            assert all(torch.equal(a, b) for a, b in zip(one[key], other[key], strict=True))
        elif key == "generators":
            assert torch.equal(one[key][0], other[key][0])
            assert (one[key][1] == other[key][1]).all()
            assert one[key][2] == other[key][2]
        else:
            assert one[key] == other[key], key


@pytest.mark.parametrize("fail", [False, True])
@pytest.mark.parametrize("look", [False, True])
@pytest.mark.parametrize("train", [False, True])
@pytest.mark.parametrize("real", [False, True])
def test_trace__leaves_the_model_and_the_process_as_they_were(fail, look, train, real):
    model = Restless(fail=fail, look=look).train()
    model.layer.weight.grad = torch.ones(4, 4)
    x = torch.ones(2, 4)
    before = snapshot(model)

    if fail:
        with pytest.raises(ValueError, match="in the middle"):
            trace_callable(model, (x,), train=train, real=real)
    else:
        trace = trace_callable(model, (x,), train=train, real=real)
        # Its weights are so small that they keep their values, unless they are trained.
        assert trace.source == ("real" if real or (look and train) else "meta")

    same(before, snapshot(model))
    assert torch.equal(x, torch.ones(2, 4))


def test_trace__gives_up_nothing_when_fake_tensors_are_tried():
    class Picky(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            if x.device.type == "meta":
                raise TypeError("not on meta")
            return self.layer(x)

    model = Picky()
    state, around = model.state_dict(keep_vars=True), process()

    trace = trace_callable(model, (torch.ones(2, 4),), train=True)

    assert trace.source == "meta"
    assert "fake tensors" in trace.notes[0]
    assert [id(t) for t in state.values()] == [id(t) for t in model.state_dict(keep_vars=True).values()]
    assert model.layer.weight.grad is None
    assert process() == around


def test_trace__weights_are_as_before_after_training_for_real():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    before = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    pointers = [tensor.data_ptr() for tensor in model.state_dict().values()]

    trace_callable(model, (torch.rand(3, 4),), train=True, real=True)

    after = model.state_dict()
    assert all(torch.equal(tensor, after[name]) for name, tensor in before.items())
    assert [tensor.data_ptr() for tensor in after.values()] == pointers


def test_trace__constants_of_the_users_own_are_as_before():
    counter, table = torch.zeros(()), torch.ones(4)

    def work(x):
        counter.add_(1)
        table[0] = x.sum()
        return x * table

    for real in (False, True):
        trace_callable(work, (torch.ones(4),), real=real)
        assert counter == 0
        assert torch.equal(table, torch.ones(4))


def test_trace__one_after_another_gives_the_same():
    # A counter that leaks counts more each time.
    model = Restless().eval()
    x = torch.ones(2, 4)
    first = trace_callable(model, (x,))
    with pytest.raises(ValueError):
        trace_callable(Restless(fail=True), (x,))
    assert trace_callable(model, (x,)) == first


def test_trace__hooks_on_gradients_take_part():
    model = nn.Linear(4, 2)
    model.weight.register_hook(lambda gradient: gradient.clamp(max=1))

    def double(parameter):
        parameter.grad.mul_(2)

    model.bias.register_post_accumulate_grad_hook(double)

    trace = trace_callable(model, (torch.ones(3, 4),), train=True)

    assert {"aten::clamp", "aten::mul_"} <= {call.op for call in trace.calls if call.phase == "backward"}
    assert model.weight._backward_hooks
