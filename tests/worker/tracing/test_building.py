"""Models that are built without weights, and what a worker counts of them."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.records.protocol import Count, Counted, Failed, Opened  # noqa: E402
from perfgate.worker.tracing import trace_callable  # noqa: E402
from perfgate.worker.tracing.building import without_weights  # noqa: E402
from tests.worker.helpers import make_open, must_prepare, prepare, started, write_files  # noqa: E402

pytestmark = pytest.mark.torch

GIB = 1 << 30

FILES = {
    "zoo.py": """
        import numpy
        import torch
        from torch import nn
        from torch.nn import functional as F

        class Norm(nn.Module):
            def __init__(self, width):
                super().__init__()
                self.weight = nn.Parameter(torch.ones(width))

            def forward(self, x):
                return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.weight

        class Attention(nn.Module):
            def __init__(self, width, heads, shared):
                super().__init__()
                self.heads, self.shared, self.size = heads, shared, width // heads
                self.q = nn.Linear(width, width, bias=False)
                self.k = nn.Linear(width, shared * self.size, bias=False)
                self.v = nn.Linear(width, shared * self.size, bias=False)
                self.o = nn.Linear(width, width, bias=False)
                powers = torch.arange(0, self.size, 2).float() / self.size
                self.register_buffer("frequencies", 5e5 ** -powers, persistent=False)

            def turned(self, x):
                angles = torch.arange(x.shape[-2])[:, None] * self.frequencies
                a, b = x[..., ::2], x[..., 1::2]
                cos, sin = angles.cos(), angles.sin()
                return torch.stack((a * cos - b * sin, a * sin + b * cos), -1).flatten(-2).to(x.dtype)

            def forward(self, x):
                batch, length, width = x.shape
                q, k, v = (f(x).view(batch, length, -1, self.size).transpose(1, 2) for f in (self.q, self.k, self.v))
                k, v = (t.repeat_interleave(self.heads // self.shared, 1) for t in (self.turned(k), v))
                y = F.scaled_dot_product_attention(self.turned(q), k, v, is_causal=True)
                return self.o(y.transpose(1, 2).reshape(batch, length, width))

        class Layer(nn.Module):
            def __init__(self, width, heads, shared, inner):
                super().__init__()
                self.before, self.attention = Norm(width), Attention(width, heads, shared)
                self.between = Norm(width)
                self.gate, self.up = (nn.Linear(width, inner, bias=False) for _ in range(2))
                self.down = nn.Linear(inner, width, bias=False)

            def forward(self, x):
                x = x + self.attention(self.before(x))
                y = self.between(x)
                return x + self.down(F.silu(self.gate(y)) * self.up(y))

        class Decoder(nn.Module):
            def __init__(self, words, width, layers, heads, shared, inner):
                super().__init__()
                self.embed = nn.Embedding(words, width)
                self.layers = nn.ModuleList(Layer(width, heads, shared, inner) for _ in range(layers))
                self.norm, self.head = Norm(width), nn.Linear(width, words, bias=False)
                # A constructor may look at what it computes.
                self.rates = [rate.item() for rate in torch.linspace(0, 0.1, layers)]

            def forward(self, tokens):
                x = self.embed(tokens)
                for layer in self.layers:
                    x = layer(x)
                return self.head(self.norm(x))

        def seventy_billion():
            return Decoder(128256, 8192, 80, 64, 8, 28672)

        def small():
            return Decoder(100, 64, 2, 4, 2, 96)

        class Checks(nn.Module):
            '''Looks at its weights while it is built.'''

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(300, 300)
                assert not torch.isnan(self.layer.weight).any()

            def forward(self, x):
                return self.layer(x)

        class Routes(nn.Module):
            '''Looks at what it computes.'''

            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(300, 300)

            def forward(self, x):
                y = self.layer(x)
                return y if y.mean().item() > 1e9 else y * 2

        class Lazy(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.LazyLinear(3)

            def forward(self, x):
                return self.layer(x)

        class Tokens(nn.Module):
            def __init__(self):
                super().__init__()
                self.embed = nn.Embedding(50_000, 1000)

            def forward(self, tokens, lengths):
                return self.embed(tokens)[:, : int(lengths.max())].sum()

        def numpy_inputs(batch):
            tokens = torch.from_numpy(numpy.arange(batch * 8).reshape(batch, 8))
            return tokens, torch.tensor([3, 5])

        def words(model, tokens):
            x = model.embed(tokens)
            yield "embed"
            model.head(x)
            yield "head"
            return 7

        def fails():
            raise ValueError("no weights here")

        def nothing():
            return None
        """,
}


@pytest.fixture(scope="module")
def factory(tmp_path_factory, shim):
    checkout = write_files(tmp_path_factory.mktemp("counted"), FILES)
    with started(shim, checkout.parent / f"{checkout.name}.log") as worker:
        must_prepare(worker, prepare(checkout, "zoo"))
        yield worker


def counted(factory, entry, inputs=("float32[batch,4]",), **options):
    request = make_open(f"zoo:{entry}", inputs, **options)
    child = factory.fork()
    reply = child.ask(Count(workload=request.workload, spec=request.spec, seed=1))
    child.close()
    return reply


def test_count__seventy_billion_parameters_fit_into_little_memory(factory):
    reply = counted(factory, "seventy_billion", ("int64[batch,2048] < 128256",), batch=1, dtype="bfloat16")

    assert isinstance(reply, Counted), reply
    trace = reply.trace
    assert (trace.source, reply.notes, trace.untraced) == ("meta", (), ())
    assert trace.parameters == 70_553_706_496
    # Two bytes each, and the tables of 80 layers.
    assert trace.weight_bytes == 2 * trace.parameters + 80 * 2 * 64
    assert 0 < (reply.peak_rss_bytes or 0) < 3 * GIB
    products = [call for call in trace.calls if call.op == "aten::mm"]
    assert len(products) == 80 * 7 + 1
    assert products[-1].module == "head"
    assert {value.dtype for value in trace.values if value.role == "parameter"} == {"bfloat16"}
    # Its logits alone are 128256 x 2048 numbers of two bytes.
    assert (trace.peak_bytes or 0) > 2 * 128_256 * 2048


def test_count__is_what_the_real_build_gives(factory):
    request = make_open("zoo:small", ("int64[batch,16] < 100",), probe=True)
    child = factory.fork()
    opened = child.ask(request)
    child.close()
    assert isinstance(opened, Opened), opened
    assert opened.probe is not None
    built = opened.probe.trace
    assert built is not None

    trace = counted(factory, "small", ("int64[batch,16] < 100",)).trace

    assert (trace.parameters, trace.weight_bytes) == (built.parameters, built.weight_bytes)
    assert trace.calls == built.calls
    assert trace.values == built.values
    assert trace.peak_bytes == built.peak_bytes


def test_count__training_and_mixed_precision(factory):
    reply = counted(factory, "small", ("int64[batch,16] < 100",), mode="train", dtype="amp-bfloat16")

    assert (reply.trace.source, reply.notes) == ("meta", ())
    assert {call.phase for call in reply.trace.calls} == {"forward", "backward", "optimizer"}
    assert any(call.op == "aten::_to_copy" for call in reply.trace.calls)
    assert reply.trace.batch == 2


def test_count__a_step_that_yields_spans(factory):
    reply = counted(factory, "small", ("int64[batch,16] < 100",), mode="step", step="zoo:words")
    assert [(call.op, call.span) for call in reply.trace.calls] == [("aten::embedding", "embed"), ("aten::mm", "head")]
    assert reply.trace.batch == 7


def test_count__a_device_that_is_not_here(factory):
    reply = counted(factory, "small", ("int64[batch,16] < 100",), device="cuda:0")
    assert isinstance(reply, Counted), reply
    assert reply.trace.source == "meta"


def test_count__a_constructor_that_looks_at_its_weights_is_built_with_them(factory):
    reply = counted(factory, "Checks", ("float32[batch,300]",))

    assert reply.trace.source == "meta"
    assert "built with its weights, since it cannot be counted without" in reply.notes[0]
    assert [call.op for call in reply.trace.calls] == ["aten::addmm"]


def test_count__a_model_that_looks_at_what_it_computes_runs_for_real(factory):
    reply = counted(factory, "Routes", ("float32[batch,300]",))

    assert reply.trace.source == "real"
    assert [note.split(",")[0] for note in reply.notes] == ["built with its weights", "traced on real tensors"]
    assert reply.trace.calls[-1].op == "aten::mul"


def test_count__lazy_parameters_get_their_shapes(factory):
    assert counted(factory, "Lazy").trace.parameters == 4 * 3 + 3


def test_count__values_of_the_users_own_inputs_stay_usable(factory):
    reply = counted(factory, "Tokens", (), make_inputs="zoo:numpy_inputs")

    assert reply.trace.source == "meta"
    shapes = [reply.trace.values[call.operands["self"][0]].shape for call in reply.trace.calls if "sum" in call.op]
    assert shapes == [(2, 5, 1000)]
    assert reply.trace.parameters == 50_000_000


def test_count__faults_of_the_users_own(factory):
    failed = counted(factory, "fails")
    assert isinstance(failed, Failed)
    assert (failed.phase, failed.message) == ("build", "ValueError: no weights here")

    failed = counted(factory, "nothing")
    assert "entry returned NoneType, neither a torch.nn.Module nor callable" in failed.message

    failed = counted(factory, "small", ("float32[batch,16]",))
    assert isinstance(failed, Failed)
    assert failed.phase == "probe"
    assert "embedding" in failed.message


def test_count__comes_before_anything_else(factory):
    request = make_open("zoo:small", ("int64[batch,16] < 100",))
    child = factory.fork()
    assert isinstance(child.ask(request), Opened)
    reply = child.ask(Count(workload=request.workload, spec=request.spec))
    child.close()
    assert (reply.kind, reply.message) == (
        "protocol",
        "a workload is open already: count it in a process of its own",
    )


def test_count__an_onnx_file_needs_no_worker(factory):
    request = make_open("net.onnx")
    child = factory.fork()
    reply = child.ask(Count(workload=request.workload, spec=request.spec))
    child.close()
    assert (reply.kind, reply.phase) == ("unsupported", "build")


@pytest.mark.parametrize(
    "make",
    [
        lambda: torch.empty(60_000, 60_000),
        lambda: torch.Tensor(60_000, 60_000),
        lambda: torch.ones(2).new_zeros(60_000, 60_000),
        lambda: torch.randn(60_000, 60_000, generator=torch.Generator().manual_seed(0)),
        lambda: torch.ones(10).repeat(1000, 1_000_000),
        lambda: torch.ones(100_000, 1) * torch.ones(1, 100_000),
        lambda: nn.Linear(60_000, 60_000).to(torch.bfloat16).weight,
        lambda: nn.init.orthogonal_(torch.empty(60_000, 60_000)),
        lambda: nn.init.trunc_normal_(nn.Parameter(torch.empty(60_000, 60_000))),
    ],
)
def test_without_weights__large_tensors_have_no_contents(make):
    with without_weights():
        assert make().is_meta


def test_without_weights__small_ones_do():
    with without_weights():
        assert [rate.item() for rate in torch.linspace(0, 1, 3)] == [0, 0.5, 1]
        table = torch.arange(7)[:, None] - torch.arange(7)
        assert table.max().item() == 6
        assert len(torch.unique(table)) == 13


def test_without_weights__ends_with_the_block_also_after_an_exception():
    with pytest.raises(KeyError), without_weights():
        raise KeyError
    assert not torch.empty(100, 1000).is_meta


@pytest.mark.parametrize("name", ["swin_t", "regnet_y_400mf", "maxvit_t"])
def test_without_weights__tables_and_schedules_in_constructors(name):
    models = pytest.importorskip("torchvision.models")
    make = getattr(models, name)
    with without_weights():
        model = make().eval()
    real = make().eval()

    assert {k: (v.shape, v.dtype) for k, v in model.state_dict().items()} == {
        k: (v.shape, v.dtype) for k, v in real.state_dict().items()
    }
    x = torch.empty(1, 3, 224, 224, device="meta")
    assert trace_callable(model, (x,)) == trace_callable(real, (x,))
