"""Exact counts against figures worked out by hand or published for torchvision's models."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from perfgate.worker import counting  # noqa: E402

pytestmark = pytest.mark.torch


def flop_of(module, *inputs):
    module.eval()
    shapes = [x.to("meta") for x in inputs]

    def call_with(given):
        def call():
            with torch.no_grad():
                return module(*given)

        return call

    return counting.count_flop(module, call_with(shapes), call_with(inputs))


class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = nn.Embedding(1000, 64)
        self.head = nn.Linear(64, 1000, bias=False)
        self.head.weight = self.embed.weight

    def forward(self, tokens):
        return self.head(self.embed(tokens))


def test_parameters__tied_weights_count_once():
    # M44
    model = Tied()
    assert counting.parameters(model) == 64_000
    assert counting.weight_bytes(model) == 256_000
    assert flop_of(model, torch.zeros(10, dtype=torch.int64)) == (2 * 640_000, "")


def test_parameters__shared_module_counts_once():
    layer = nn.Linear(8, 8)
    assert counting.parameters(nn.Sequential(layer, nn.ReLU(), layer)) == 72


def test_weight_bytes__buffers_and_narrow_types():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).to(torch.bfloat16)
    # 12 + 4 weights and biases, 8 of the norm, 8 running statistics at two bytes; a 64-bit counter.
    assert counting.weight_bytes(model) == 2 * (12 + 4 + 8 + 8) + 8


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_parameters__quantised_layers_are_not_empty():
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16))
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    assert sum(p.numel() for p in quantised.parameters()) == 0
    assert counting.parameters(quantised) == 64 * 32 + 32 + 32 * 16 + 16
    # One byte for each weight, four for each bias.
    assert counting.weight_bytes(quantised) == 64 * 32 + 4 * 32 + 32 * 16 + 4 * 16


def test_flop__attention_is_counted():
    # A CPU kernel that torch's counter does not know: 12 heads of 64 x 64 twice.
    class Attend(nn.Module):
        def forward(self, q):
            return F.scaled_dot_product_attention(q, q, q)

    assert flop_of(Attend(), torch.ones(1, 12, 64, 64)) == (12_582_912, "")


def test_flop__multi_head_attention_without_its_fast_path():
    # Projections 4 x 16 x 64 x 64 and two products 16 x 16 x 64, multiply-accumulates.
    layer = nn.MultiheadAttention(64, 4, batch_first=True)

    class Attend(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = layer

        def forward(self, x):
            return self.layer(x, x, x, need_weights=False)[0]

    expected = 2 * (4 * 16 * 64 * 64 + 2 * 16 * 16 * 64)
    assert flop_of(Attend(), torch.ones(1, 16, 64)) == (expected, "")
    assert torch.backends.mha.get_fastpath_enabled()


@pytest.mark.parametrize(
    ("name", "size", "giga_mac"),
    [("resnet18", 224, 1.814), ("mobilenet_v3_small", 224, 0.057), ("vit_b_32", 224, 4.409)],
)
def test_flop__agrees_with_published_figures(name, size, giga_mac):
    models = pytest.importorskip("torchvision.models")
    with torch.device("meta"):
        model = getattr(models, name)()

    flop, note = flop_of(model, torch.ones(1, 3, size, size, device="meta"))

    assert note == ""
    assert abs(flop / 2e9 - giga_mac) < 0.001


def test_flop__models_that_look_at_values_are_counted_for_real():
    class Looks(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(8, 8)
            self.norm = nn.BatchNorm1d(8)

        def forward(self, x):
            y = self.norm(self.layer(x))
            q = y.reshape(1, 1, -1, 8)
            return F.scaled_dot_product_attention(q, q, q) if y.sum().item() != 0.5 else y

    model = Looks().train()
    flop, note = counting.count_flop(
        model, lambda: model(torch.ones(4, 8, device="meta")), lambda: model(torch.ones(4, 8))
    )

    assert flop == 2 * 4 * 8 * 8 + 2 * 2 * 4 * 4 * 8
    assert "real tensors" in note
    assert torch.equal(model.norm.running_mean, torch.zeros(8))


def test_flop__what_cannot_run_is_not_counted():
    def fail():
        raise ValueError("no")

    flop, note = counting.count_flop(nn.Linear(1, 1), fail, fail)
    assert flop is None
    assert "ValueError" in note


def test_flop__training_counts_the_backward_pass():
    model = nn.Sequential(nn.Linear(8, 16), nn.Linear(16, 4))
    x = torch.ones(2, 8, device="meta")

    flop, _ = counting.count_flop(model, lambda: model(x).sum().backward(), lambda: None)

    forward = 2 * 2 * (8 * 16 + 16 * 4)
    # Gradients of both weights, and of the inner activation but not of the input.
    assert flop == forward + forward + 2 * 2 * 16 * 4


def test_operators__counts_work_and_no_views():
    x = torch.ones(4, 4)
    assert counting.operators(lambda: torch.relu(x.t().reshape(16)[2:] + 1)) == 3
    assert counting.operators(lambda: (x.view(16)[1:].unsqueeze(0), x.detach())) == 0


class Caches(nn.Module):
    """Sets attributes, buffers and hooks while it runs, and may fail."""

    def __init__(self, fail=False):
        super().__init__()
        self.layer = nn.Linear(4, 4)
        self.norm = nn.BatchNorm1d(4)
        self.register_buffer("steps", torch.zeros(()))
        self.table = torch.arange(4.0)
        self.fail = fail

    def forward(self, x):
        self.cache = x * 2
        self.steps += 1
        self.register_buffer("late", x.detach().clone())
        y = self.norm(self.layer(x + self.table)) + torch.rand_like(x)
        if self.fail:
            raise ValueError("in the middle")
        return y


def snapshot(model):
    return {
        "state": {name: (id(t), t.clone()) for name, t in model.state_dict(keep_vars=True).items()},
        "attributes": {name: sorted(vars(child)) for name, child in model.named_modules()},
        "training": [child.training for child in model.modules()],
        "grad": [(p.requires_grad, p.grad) for p in model.parameters()],
        "hooks": [len(child._forward_hooks) for child in model.modules()],
        "generator": torch.get_rng_state(),
        "fast path": torch.backends.mha.get_fastpath_enabled(),
        "linear": F.linear,
        "table": model.table,
    }


def same(one, other):
    for key in one:
        if key == "state":
            assert one[key].keys() == other[key].keys()
            for name in one[key]:
                assert one[key][name][0] == other[key][name][0], name
                assert torch.equal(one[key][name][1], other[key][name][1]), name
        elif key == "generator":
            assert torch.equal(one[key], other[key])
        elif key == "table":
            assert one[key] is other[key]
        else:
            assert one[key] == other[key], key


@pytest.mark.parametrize("fail", [False, True])
def test_count_flop__leaves_no_trace_in_the_model(fail):
    # M42
    model = Caches(fail).train()
    before = snapshot(model)

    def train(x):
        model(x).sum().backward()

    flop, note = counting.count_flop(
        model, lambda: train(torch.ones(2, 4, device="meta")), lambda: train(torch.ones(2, 4))
    )

    same(before, snapshot(model))
    assert (flop is None) == fail
    assert bool(note) == fail


def test_stand_in__real_tensors_share_weights_but_nothing_else():
    model = Caches().train()
    before = snapshot(model)
    weight = model.layer.weight

    with counting.stand_in(model, meta=False):
        assert model.layer.weight is not weight
        assert model.layer.weight.data_ptr() == weight.data_ptr()
        model(torch.ones(2, 4)).sum().backward()
        assert model.steps == 1

    same(before, snapshot(model))


def test_stand_in__tied_weights_are_tied_inside_too():
    model = Tied()
    with counting.stand_in(model, meta=True):
        assert model.head.weight is model.embed.weight
        assert model.head.weight.is_meta
    assert model.head.weight is model.embed.weight
    assert not model.head.weight.is_meta


def test_structure__counts_classes_and_their_own_bytes():
    found = counting.structure(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))

    assert found == {
        "modules": {"Linear": 2, "ReLU": 1, "Sequential": 1},
        "parameter_bytes": {"Linear": 4 * (6 + 3 + 3 + 1)},
    }
