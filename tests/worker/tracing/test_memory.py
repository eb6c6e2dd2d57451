"""Memory of a step: its peak, and what outlives it."""

# mypy: allow-subclassing-any
from __future__ import annotations

from typing import Any

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402

pytestmark = pytest.mark.torch

# Bytes of one tensor in these tests.
UNIT = 4 * 1000
both = pytest.mark.parametrize("real", [False, True])


@both
def test_peak__two_tensors_of_a_chain_are_alive_at_once(real):
    def chain(x):
        for _ in range(5):
            x = x + 1
        return x

    trace = trace_callable(chain, (torch.ones(1000),), real=real)
    # The input was there before.
    assert trace.peak_bytes == 2 * UNIT


@both
def test_peak__what_is_kept_adds_up(real):
    trace = trace_callable(lambda x: [x + n for n in range(5)], (torch.ones(1000),), real=real)
    assert trace.peak_bytes == 5 * UNIT


@both
def test_peak__views_and_in_place_operators_need_none(real):
    def work(x):
        y = x + 1
        return y.view(10, 100).t().relu_()

    assert trace_callable(work, (torch.ones(1000),), real=real).peak_bytes == UNIT


@both
def test_peak__a_freed_tensor_makes_room_and_blank_ones_take_it(real):
    def work(x):
        y = torch.empty(3000)
        del y
        return torch.empty(2000).fill_(0), x + 1

    assert trace_callable(work, (torch.ones(1000),), real=real).peak_bytes == 3 * UNIT


@both
def test_peak__cycles_do_not_wait_for_the_collector(real):
    def work(x):
        for _ in range(4):
            ring = [x + 1]
            ring.append(ring)
        return x

    # Without collection they stay, on every run alike.
    assert trace_callable(work, (torch.ones(1000),), real=real).peak_bytes == 4 * UNIT


@both
def test_peak__training_holds_activations_until_their_gradient(real):
    model = nn.Sequential(*(nn.Sequential(nn.Linear(8, 8, bias=False), nn.ReLU()) for _ in range(3)))
    x = torch.ones(100, 8)

    plain = trace_callable(model, (x,), real=real)
    trained = trace_callable(model, (x,), train=True, real=real)

    layer = 4 * 100 * 8
    # What goes into a layer, and what its two modules make.
    assert plain.peak_bytes == 3 * layer
    assert trained.peak_bytes is not None
    assert trained.peak_bytes >= 6 * layer
    assert trained.peak_bytes == trace_callable(model, (x,), train=True, real=real).peak_bytes


def test_peak__is_the_same_with_and_without_contents():
    models = pytest.importorskip("torchvision.models")
    model = models.squeezenet1_1().eval()
    x = torch.ones(1, 3, 64, 64)
    assert trace_callable(model, (x,)).peak_bytes == trace_callable(model, (x,), real=True).peak_bytes


def test_lasting__results_gradients_and_nothing_else():
    model = nn.Linear(4, 2)
    trace = trace_callable(model, (torch.ones(3, 4),), train=True)

    shapes = sorted(trace.values[index].shape for index in trace.lasting)
    assert shapes == [(), (1, 2), (2, 4)]
    assert [trace.values[index].shape for index in trace.results] == [()]

    inferred = trace_callable(model, (torch.ones(3, 4),))
    assert inferred.lasting == inferred.results


def test_results__in_any_nesting_and_each_once():
    def work(x):
        y = x + 1
        return {"a": (y, [y]), "b": x, "c": None, "d": y.t()}

    trace = trace_callable(work, (torch.ones(2, 3),))

    found = [trace.values[index] for index in trace.results]
    assert [(value.shape, value.role) for value in found] == [
        ((2, 3), "intermediate"),
        ((2, 3), "input"),
        ((3, 2), "intermediate"),
    ]


def test_step__is_a_warm_one():
    class Caches(nn.Module):
        def __init__(self):
            super().__init__()
            self.table = None

        def forward(self, x):
            if self.table is None:
                self.table = torch.outer(x[0], x[0])
            return x @ self.table

    model = Caches()
    trace = trace_callable(model, (torch.ones(2, 4),))

    # The table is made once and used in every step that is timed.
    assert [call.op for call in trace.calls] == ["aten::mm"]
    assert model.table is None


def test_step__the_optimisers_state_is_there_already():
    model = nn.Linear(4, 2)
    optimizers: list[Any] = []

    def step(x):
        if not optimizers:
            optimizers.append(torch.optim.Adam(model.parameters()))
        optimizers[0].zero_grad()
        with torch.enable_grad():
            model(x).sum().backward()
        optimizers[0].step()

    trace = trace_callable(step, (torch.ones(3, 4),))
    assert "aten::zeros_like" not in {call.op for call in trace.calls}
    # Its state was there before the step, so that only the gradients are new and stay.
    assert sorted(trace.values[index].shape for index in trace.lasting) == [(1, 2), (2, 4)]
