"""On which tensors a step is traced, and what is said about it."""

# mypy: allow-subclassing-any
from __future__ import annotations

import dataclasses

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from perfgate.worker.tracing import building, trace_callable  # noqa: E402
from tests.worker.tracing.reading import only, operand, ops  # noqa: E402

pytestmark = pytest.mark.torch


def test_run__without_contents_where_that_works():
    trace = trace_callable(nn.Linear(4, 2), (torch.ones(3, 4),))
    assert (trace.source, trace.notes, trace.software) == ("meta", (), f"torch {torch.__version__.partition('+')[0]}")


def test_run__on_real_tensors_where_that_is_asked_for():
    trace = trace_callable(nn.Linear(4, 2), (torch.ones(3, 4),), real=True)
    assert (trace.source, trace.notes) == ("real", ())
    assert {value.device for value in trace.values} == {"meta"}


def test_run__values_of_integers_are_there_when_the_model_looks():
    def work(tokens, x):
        longest = int(tokens.max())
        return x[:longest] * 2

    trace = trace_callable(work, (torch.tensor([1, 3]), torch.ones(10_000)))

    assert trace.source == "meta"
    assert trace.notes[0].startswith("traced with the values of small tensors and of integer inputs")
    assert "in work, test_fallbacks.py line" in trace.notes[0]
    assert operand(trace, only(trace, "mul"), "self").shape == (3,)
    assert "_local_scalar_dense" in ops(trace)


def test_run__a_model_that_looks_at_what_it_computed_runs_for_real():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 16)
            self.norm = nn.BatchNorm1d(16)

        def forward(self, x):
            y = self.norm(self.layer(x))
            return y + 1 if float(y.detach().sum()) > 1e9 else y * 2

    model = Looks().train()
    trace = trace_callable(model, (torch.ones(4, 16),))

    assert trace.source == "real"
    assert trace.notes[0].startswith("traced on real tensors, since the model refuses tensors without contents")
    assert "Tensor.item() cannot be called on meta tensors, in forward, test_fallbacks.py line" in trace.notes[0]
    assert ops(trace)[-1] == "mul"
    # Both of its steps are undone.
    assert torch.equal(model.norm.running_mean, torch.zeros(16))


def test_run__what_fails_everywhere_is_the_users_error():
    def work(x):
        return x @ torch.ones(7, 7)

    with pytest.raises(RuntimeError, match="shape"):
        trace_callable(work, (torch.ones(2, 4),))


def test_mixed__constants_and_factories_of_the_host_work_beside_tensors_without_contents():
    class Mixes(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)
            self.tables = [torch.arange(4.0)]

        def forward(self, x):
            y = self.layer(x) + torch.arange(4) + self.tables[0]
            y = y.to("cpu") * torch.tensor([1.0, 2, 3, 4])
            kept = torch.zeros(5, 4)
            kept[torch.tensor([0, 2])] = y
            return kept + 1

    trace = trace_callable(Mixes(), (torch.ones(2, 4),))

    assert (trace.source, trace.notes) == ("meta", ())
    assert ops(trace)[-2:] == ["index_put_", "add"]
    assert ops(trace_callable(Mixes(), (torch.ones(2, 4),), real=True))[-2:] == ["index_put_", "add"]


def test_mixed__a_real_tensor_that_was_written_without_contents_has_none_either():
    def work(x):
        kept = torch.zeros(2)
        kept[0] = x.sum()
        return kept * 2 if kept[0].item() > 0 else kept - 1

    # Its zero would be a lie.
    trace = trace_callable(work, (torch.ones(100_000),))
    assert (trace.source, ops(trace)[-1]) == ("real", "mul")


def test_mixed__a_small_tensor_that_becomes_a_large_one_takes_no_memory():
    def work(x):
        return torch.ones(1, 1).expand(1 << 20, 1 << 20) + x, torch.ones(1).repeat(1 << 40)

    trace = trace_callable(work, (torch.ones(1),))
    assert trace.source == "meta"
    assert trace.values[trace.calls[-1].outputs[0]].shape == (1 << 40,)


class Masked(nn.Module):
    """Attention that looks whether its mask hides anything, as packages for language models do."""

    def __init__(self):
        super().__init__()
        self.q = nn.Linear(16, 16)
        self.unused = nn.Parameter(torch.zeros(16, 16))

    def forward(self, x, mask):
        mask = mask.to(device=x.device, dtype=torch.bool)
        if mask.all():
            return self.q(x)
        seen = torch.ones(mask.shape, dtype=torch.bool, device=x.device)
        assert (seen & mask).any()
        steps = torch.tensor([0, 2], device=x.device)
        x[:, mask[0]] = 0
        q = self.q(x) + torch.zeros_like(x) + x[:, mask[0]].sum()
        return F.scaled_dot_product_attention(q, x, x, attn_mask=mask[:, None])[:, steps]


@pytest.mark.parametrize("train", [False, True])
def test_mixed__values_stay_where_a_model_takes_them(train):
    x, mask = torch.ones(2, 4, 16), torch.tensor([[1, 1, 1, 0], [1, 1, 1, 1]])

    trace = trace_callable(Masked(), (x, mask), train=train)

    assert trace.source == "meta"
    assert "in forward, test_fallbacks.py line" in trace.notes[0]
    real = trace_callable(Masked(), (x, mask), train=train, real=True)
    # The host's mask needs no copy where it is.
    copies = {"_to_copy", "clone", "copy_", "scalar_tensor", "fill_", "masked_fill_", "where", "zeros", "full_like"}
    assert [op for op in ops(trace) if op not in copies] == [op for op in ops(real) if op not in copies]
    assert trace.values[trace.results[0]].shape == real.values[real.results[0]].shape
    # Three of four positions are chosen by the mask.
    (index,) = [call for call in trace.calls if call.op == "aten::index" and len(call.operands["indices"]) == 2][:1]
    assert trace.values[index.outputs[0]].shape == (2, 3, 16)


def test_mixed__a_grouped_product_in_any_precision():
    x, weight, ends = torch.ones(6, 16), torch.ones(2, 16, 32), torch.tensor([2, 6], dtype=torch.int32)
    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is None:
        pytest.skip("this release has none")
    trace = trace_callable(lambda x, w, ends: grouped(x, w, offs=ends), (x, weight, ends))
    result = trace.values[trace.results[0]]
    assert (trace.source, result.shape, result.dtype) == ("meta", (6, 32), "float32")


def test_mixed__experts_of_any_size_take_no_memory():
    grouped = getattr(torch, "_grouped_mm", None)
    if grouped is None:
        pytest.skip("this release has none")
    product = grouped

    class Experts(nn.Module):
        def __init__(self):
            super().__init__()
            # A hundred thousand million weights: 400 GB.
            self.weight = nn.Parameter(torch.empty(1024, 8192, 12_288))

        def forward(self, x, ends):
            return product(x, self.weight, offs=ends)

    with building.without_weights():
        experts = Experts()
    trace = trace_callable(experts, (torch.ones(6, 8192), torch.full((1024,), 6, dtype=torch.int32)))

    assert (trace.source, trace.parameters) == ("meta", 1024 * 8192 * 12_288)
    assert trace.values[trace.results[0]].shape == (6, 12_288)


@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning")
class TestScript:
    @pytest.fixture
    def script(self):
        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 4)
                self.norm = nn.BatchNorm1d(4)

            def forward(self, x):
                return torch.relu(self.norm(self.layer(x)))

        return torch.jit.script(Net())

    def test_run__compiled_torchscript(self, script):
        before = {name: tensor.clone() for name, tensor in script.state_dict().items()}

        trace = trace_callable(script, (torch.ones(2, 4),), train=True)

        assert (trace.source, trace.notes) == ("meta", ())
        assert ops(trace)[:4] == ["addmm", "add_", "native_batch_norm", "relu"]
        assert ops(trace, "optimizer") == ["add_"] * 4
        assert operand(trace, only(trace, "addmm"), "mat2").name == "layer.weight"
        assert all(torch.equal(tensor, before[name]) for name, tensor in script.state_dict().items())
        assert all(parameter.grad is None for parameter in script.parameters())

    def test_run__compiled_torchscript_for_real(self, script):
        before = {name: tensor.clone() for name, tensor in script.state_dict().items()}

        trace_callable(script, (torch.ones(2, 4),), train=True, real=True)

        assert all(torch.equal(tensor, before[name]) for name, tensor in script.state_dict().items())
        assert all(parameter.grad is None for parameter in script.parameters())

    def test_run__inside_of_another_model(self, script):
        model = nn.Sequential(nn.Linear(4, 4), script).eval()
        trace = trace_callable(model, (torch.ones(2, 4),))
        assert [(call.op, call.module) for call in trace.calls] == [
            ("aten::addmm", "0"),
            ("aten::addmm", "1"),
            ("aten::native_batch_norm", "1"),
            ("aten::relu", "1"),
        ]
        assert model[1] is script

    def test_run__traced_and_frozen(self, script):
        frozen = torch.jit.freeze(script.eval())
        assert ops(trace_callable(frozen, (torch.ones(2, 4),)))[-1] == "relu"


def test_run__lazy_layers_stay_lazy():
    model = nn.Sequential(nn.LazyLinear(3), nn.ReLU())

    trace = trace_callable(model, (torch.ones(2, 5),))

    assert ops(trace) == ["addmm", "relu"]
    assert (trace.parameters, trace.weight_bytes) == (18, 72)
    assert operand(trace, only(trace, "addmm"), "mat2").name == "0.weight"
    assert type(model[0]) is nn.LazyLinear
    assert torch.nn.parameter.is_lazy(model[0].weight)
    assert model(torch.ones(1, 7)).shape == (1, 3)


def test_run__arguments_of_any_kind():
    # M57
    @dataclasses.dataclass
    class Options:
        mask: object
        factor: int = 2

    def work(x, options, *, names=None, extra=(None, 3)):
        return {"out": (x * options.mask * options.factor, [extra[1]])}

    trace = trace_callable(work, (torch.ones(2), Options(torch.ones(2))), {"names": ["a"]})

    assert (trace.source, ops(trace)) == ("meta", ["mul", "mul"])
    assert operand(trace, trace.calls[0], "other").name == "inputs[1].mask"


def test_untraced__a_tensor_that_nothing_wrote():
    class Fills(nn.Module):
        def forward(self, x):
            made = torch.empty(3)
            made.numpy()[:] = 1
            return made + x

    trace = trace_callable(nn.Sequential(Fills()), (torch.ones(3),), real=True)

    (sentence,) = trace.untraced
    assert sentence.startswith("0: a tensor that is read by aten::add was filled by something that is not traced")
    assert "numpy" in sentence


def test_untraced__a_result_that_nothing_wrote():
    trace = trace_callable(lambda x: torch.empty(3), (torch.ones(3),))
    assert len(trace.untraced) == 1
    assert "that is returned" in trace.untraced[0]


def test_untraced__what_numpy_makes_of_a_tensor():
    trace = trace_callable(lambda x: torch.from_numpy(x.numpy() * 2) + 1, (torch.ones(3),))
    assert len(trace.untraced) == 1
    assert "handed to numpy" in trace.untraced[0]


def test_untraced__ordinary_constants_and_blank_tensors_are_fine():
    def work(x):
        blank = torch.empty(3)
        blank.copy_(x)
        torch.mul(x, 2, out=torch.empty(3))
        return blank + torch.tensor([1.0, 2, 3]), torch.empty_like(x).normal_()

    assert trace_callable(work, (torch.ones(3),), real=True).untraced == ()
