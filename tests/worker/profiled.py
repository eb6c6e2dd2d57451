"""Models with one costly habit each, and their profiles, for the tests of profiling."""

# mypy: allow-subclassing-any
from __future__ import annotations

import time

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils import checkpoint

from perfgate.worker import profiling
from perfgate.worker.device import CpuDevice, Devices
from perfgate.worker.profile_ranges import ModuleRanges
from perfgate.worker.profile_times import attribute
from perfgate.worker.stepping import Step

MARKS = [
    pytest.mark.torch,
    # Some releases warn of themselves in activation checkpoints.
    pytest.mark.filterwarnings("ignore:.*autocast.*:FutureWarning", "ignore:None of the inputs have requires_grad"),
]


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


class Exponential(torch.autograd.Function):
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
