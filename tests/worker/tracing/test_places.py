"""In which module and phase an operator runs, forward and backward."""

# mypy: allow-subclassing-any
from __future__ import annotations

from collections import Counter

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402
from tests.worker.tracing.reading import ops, places  # noqa: E402

pytestmark = pytest.mark.torch


class Block(nn.Module):
    def __init__(self):
        super().__init__()
        self.a = nn.Linear(8, 8)
        self.b = nn.Linear(8, 8)

    def forward(self, x):
        return x + self.b(torch.relu(self.a(x)))


class Net(nn.Module):
    def __init__(self, inner=None):
        super().__init__()
        self.layers = nn.ModuleList([Block(), Block()])
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


X = torch.ones(4, 8)


def test_module__path_of_the_innermost_one():
    trace = trace_callable(Net(), (X,))

    assert places(trace) == [
        ("addmm", "layers.0.a"),
        ("relu", "layers.0"),
        ("addmm", "layers.0.b"),
        ("add", "layers.0"),
        ("addmm", "layers.1.a"),
        ("relu", "layers.1"),
        ("addmm", "layers.1.b"),
        ("add", "layers.1"),
        ("addmm", "head"),
    ]
    assert [call.module_class for call in trace.calls[:2]] == ["Linear", "Block"]


def test_module__a_shared_one_has_the_path_that_was_registered_first():
    layer = nn.Linear(4, 4)
    trace = trace_callable(nn.Sequential(layer, nn.ReLU(), layer), (torch.ones(2, 4),))
    assert places(trace) == [("addmm", "0"), ("relu", "1"), ("addmm", "0")]


def test_module__one_that_is_made_on_the_fly_is_named_by_its_class():
    class Made(nn.Module):
        def forward(self, x):
            return nn.Softmax(dim=-1)(x)

    trace = trace_callable(nn.Sequential(Made()), (X,))
    assert places(trace) == [("_softmax", "0.Softmax")]


def test_module__those_of_a_plain_callable_have_the_names_that_hold_them():
    class Pipeline:
        def __init__(self):
            self.encoder = nn.Linear(8, 8)
            self.parts = {"decoder": nn.Linear(8, 2)}

        def __call__(self, x):
            return self.parts["decoder"](self.encoder(x))

    trace = trace_callable(Pipeline(), (X,))

    assert places(trace) == [("addmm", "encoder"), ("addmm", "parts.decoder")]
    assert trace.parameters == 8 * 8 + 8 + 8 * 2 + 2
    model = Net()
    assert places(trace_callable(lambda x: model.head(x) * 1, (X,))) == [("addmm", "model.head"), ("mul", "")]


def test_module__one_in_a_plain_list_is_found():
    class Hides(nn.Module):
        def __init__(self):
            super().__init__()
            self.hidden = [nn.Linear(8, 8)]

        def forward(self, x):
            return self.hidden[0](x)

    trace = trace_callable(Hides(), (X,))
    assert places(trace) == [("addmm", "hidden.0")]
    assert {value.name for value in trace.values if value.role == "parameter"} == {"hidden.0.weight", "hidden.0.bias"}
    # As torch counts them.
    assert trace.parameters == 0


def test_module__compilation_leaves_no_mark_on_the_path():
    model = Net()
    model.layers[1] = torch.compile(model.layers[1])

    trace = trace_callable(torch.compile(model), (X,))

    assert ("addmm", "layers.1.a") in places(trace)
    assert len(trace.calls) == 9
    assert {value.name for value in trace.values if value.name.startswith("layers.1.a")} == {
        "layers.1.a.weight",
        "layers.1.a.bias",
    }


def test_module__compiled_methods_run_as_they_are_written():
    # M43
    class Compiled(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)

        @torch.compile
        def inner(self, x):
            return self.layer(x).relu()

        def forward(self, x):
            return self.inner(x)

    trace = trace_callable(Compiled(), (X,))
    assert (trace.source, places(trace)) == ("meta", [("addmm", "layer"), ("relu", "")])


def test_backward__operators_belong_to_the_module_of_their_forward_operator():
    trace = trace_callable(Net(), (X.clone().requires_grad_(),), train=True)

    backward = Counter(places(trace, "backward"))
    for name in ("layers.0.a", "layers.0.b", "layers.1.a", "layers.1.b", "head"):
        # Gradients of the input and of the weight, and of the bias.
        assert backward["mm", name] == 2
        assert backward["sum", name] == 1
    assert backward["threshold_backward", "layers.0"] == backward["threshold_backward", "layers.1"] == 1
    # The input's own gradient is summed up from step to step, as nobody resets it.
    assert [place for place in backward if not place[1]] == [
        ("div", ""),
        ("pow", ""),
        ("mul", ""),
        ("add_", ""),
    ]


def test_backward__every_convolution_and_norm_of_a_real_network_is_found_again():
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        model = models.resnet18()

    trace = trace_callable(model, (torch.empty(2, 3, 64, 64, device="meta"),), train=True)

    forward, backward = Counter(places(trace)), Counter(places(trace, "backward"))
    for op, its_backward in (
        ("convolution", "convolution_backward"),
        ("native_batch_norm", "native_batch_norm_backward"),
    ):
        found = {module: count for (name, module), count in backward.items() if name == its_backward}
        assert found == {module: count for (name, module), count in forward.items() if name == op}
    assert set(ops(trace, "optimizer")) == {"add_"}


# Some releases warn of themselves.
@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("reentrant", [False, True])
def test_backward__recomputed_operators_keep_their_module(reentrant):
    class Checkpointed(Net):
        def forward(self, x):
            for layer in self.layers:
                x = checkpoint(layer, x, use_reentrant=reentrant)
            return self.head(x)

    trace = trace_callable(Checkpointed(), (X.clone().requires_grad_(),), train=True)

    again = [place for place in places(trace, "backward") if place[0] in {"addmm", "relu"}]
    # The last product of a block is not needed for its gradients; only the newer way knows.
    block = [("addmm", "layers.{}.a"), ("relu", "layers.{}"), ("addmm", "layers.{}.b")][: 3 if reentrant else 2]
    assert again == [(op, module.format(number)) for number in (1, 0) for op, module in block]
    assert Counter(places(trace, "backward"))["mm", "layers.0.a"] == 2


def test_backward__of_a_function_of_the_users_own():
    class Square(torch.autograd.Function):  # type: ignore[name-defined]
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, gradient):
            return gradient * 2 * ctx.saved_tensors[0]

    class Act(nn.Module):
        def forward(self, x):
            return Square.apply(x)

    trace = trace_callable(nn.Sequential(nn.Linear(8, 8), Act(), nn.Linear(8, 2)), (X,), train=True)

    assert [place for place in places(trace, "backward") if place[1] == "1"] == [("mul", "1"), ("mul", "1")]


def test_backward__gradients_inside_of_the_forward_pass():
    class Force(nn.Module):
        def __init__(self):
            super().__init__()
            self.energy = nn.Linear(8, 1)

        def forward(self, x):
            x = x.detach().requires_grad_()
            with torch.enable_grad():
                energy = self.energy(x).sum()
            return torch.autograd.grad(energy, x)[0]

    trace = trace_callable(nn.Sequential(Force()), (X,))
    assert ("mm", "0.energy") in places(trace, "backward")


def test_backward__sums_of_a_shared_parameters_gradients_belong_to_its_owner():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = nn.Parameter(torch.ones(8))

        def forward(self, x):
            return x * self.scale

    model = nn.Sequential(Twice())

    def learn(x):
        with torch.enable_grad():
            for _ in range(2):
                model(x).sum().backward()

    added = [call for call in trace_callable(learn, (X,)).calls if call.op == "aten::add_"]
    assert {call.module for call in added} == {"model.0"}


def test_optimizer__its_operators_and_those_between_are_its_phase():
    model = nn.Linear(8, 2)

    def step(x):
        optimizer = torch.optim.Adam(model.parameters())
        with torch.enable_grad():
            loss = model(x).sum()
            loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()

    trace = trace_callable(step, (X,))

    phases = [call.phase for call in trace.calls]
    assert phases == sorted(phases, key=["forward", "backward", "optimizer"].index)
    assert {"linalg_vector_norm", "sqrt"} <= set(ops(trace, "optimizer"))
    assert "addmm" not in ops(trace, "optimizer")


def test_module__an_exception_on_the_way_does_not_shift_what_follows():
    class Fails(nn.Module):
        def forward(self, x):
            raise KeyError

    class Tries(nn.Module):
        def __init__(self):
            super().__init__()
            self.first = nn.Sequential(nn.ReLU(), Fails())
            self.second = nn.Linear(8, 8)

        def forward(self, x):
            try:
                return self.first(x)
            except KeyError:
                return self.second(x) + 1

    assert places(trace_callable(Tries(), (X,))) == [("relu", "first.0"), ("addmm", "second"), ("add", "")]
