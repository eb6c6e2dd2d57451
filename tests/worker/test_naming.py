"""Weights seeded by parameter name, against models whose layers shift."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.worker import naming, seeds  # noqa: E402

pytestmark = pytest.mark.torch


def build(make, seed=1):
    seeds.set_all(seed)
    with naming.recording(seed) as recorder:
        module = make()
    notes = naming.rename(module, recorder, seed)
    assert notes == ()
    return module


def common(one, other):
    first, second = one.state_dict(), other.state_dict()
    names = [name for name in first if name in second and first[name].shape == second[name].shape]
    assert names
    return [(name, first[name], second[name]) for name in names]


class Block(nn.Module):
    def __init__(self, init):
        super().__init__()
        self.one = nn.Linear(16, 16)
        self.conv = nn.Conv2d(3, 8, 3)
        self.norm = nn.BatchNorm2d(8)
        self.table = nn.Embedding(10, 16, padding_idx=3)
        self.free = nn.Parameter(torch.randn(5, 16) * 0.02)
        self.register_buffer("noise", torch.rand(7))
        for module in self.modules():
            if isinstance(module, (nn.Linear, nn.Conv2d)):
                init(module.weight)


class Plain(nn.Module):
    def __init__(self, init):
        super().__init__()
        self.body = Block(init)
        self.head = nn.Linear(16, 4)


class WithExtra(nn.Module):
    def __init__(self, init):
        super().__init__()
        self.extra = nn.Linear(16, 16)
        self.body = Block(init)
        self.head = nn.Linear(16, 4)
        nn.init.normal_(self.extra.weight)


def part_by_part(weight):
    with torch.no_grad():
        weight[: weight.shape[0] // 2].normal_()
        weight[weight.shape[0] // 2 :].uniform_(2, 3).mul_(10)


INITS = {
    "kaiming": lambda w: nn.init.kaiming_normal_(w, mode="fan_out"),
    "xavier": nn.init.xavier_uniform_,
    # Redraws what falls outside: the number of turns must not depend on other layers.
    "truncated": lambda w: nn.init.trunc_normal_(w, std=0.02),
    "truncated-hard": lambda w: nn.init.trunc_normal_(w, std=1.0, a=-0.5, b=0.5),
    # Random numbers that pass through other tensors before they reach the weight.
    "orthogonal": nn.init.orthogonal_,
    "data": lambda w: w.data.normal_(0, 0.02),
    "assigned": lambda w: setattr(w, "data", torch.randn_like(w) * 0.1),
    "parts": part_by_part,
    "sparse": lambda w: nn.init.sparse_(w, 0.5) if w.dim() == 2 else nn.init.normal_(w),
}


@pytest.mark.parametrize("init", INITS.values(), ids=INITS.keys())
def test_rename__an_added_layer_leaves_all_others_equal(init):
    one, other = build(lambda: Plain(init)), build(lambda: WithExtra(init))

    assert all(torch.equal(a, b) for _, a, b in common(one, other))


@pytest.mark.parametrize("name", ["kaiming", "truncated", "orthogonal"])
def test_rename__without_it_the_same_models_differ(name):
    torch.manual_seed(1)
    one = Plain(INITS[name])
    torch.manual_seed(1)
    other = WithExtra(INITS[name])

    different = {n for n, a, b in common(one, other) if not torch.equal(a, b)}
    assert {"head.weight", "body.one.weight", "body.conv.weight", "body.noise"} <= different


def test_rename__layers_of_one_shape_are_not_copies_of_each_other():
    model = build(lambda: nn.Sequential(*(nn.Linear(8, 8) for _ in range(3))))

    weights = [layer.weight for layer in model]
    assert not torch.equal(weights[0], weights[1])
    assert not torch.equal(weights[1], weights[2])


def test_rename__another_seed_gives_other_weights():
    one, other = build(lambda: nn.Linear(8, 8), 1), build(lambda: nn.Linear(8, 8), 2)

    assert not torch.equal(one.weight, other.weight)


def test_rename__keeps_each_initialisers_distribution():
    model = build(lambda: WithExtra(lambda w: nn.init.trunc_normal_(w, std=0.02)))
    weight = model.body.one.weight

    assert 0.015 < weight.std() < 0.025
    assert weight.abs().max() < 0.2
    assert torch.equal(model.body.table.weight[3], torch.zeros(16))
    assert model.body.noise.min() >= 0
    assert model.body.noise.max() <= 1
    assert 0.01 < model.body.free.std() < 0.03


def test_rename__loaded_weights_stay_as_they_are():
    torch.manual_seed(99)
    trained = nn.Linear(8, 8).state_dict()

    def make():
        model = nn.Sequential(nn.Linear(8, 8), nn.Linear(8, 8))
        model[1].load_state_dict(trained)
        return model

    model = build(make)
    assert torch.equal(model[1].weight, trained["weight"])
    assert torch.equal(model[1].bias, trained["bias"])


def test_rename__assigned_pretrained_tensors_stay_too():
    values = torch.arange(64.0).reshape(8, 8)

    def make():
        layer = nn.Linear(8, 8)
        layer.load_state_dict({"weight": values.clone(), "bias": torch.ones(8)}, assign=True)
        return layer

    assert torch.equal(build(make).weight, values)


def test_rename__a_generator_of_the_users_own_is_respected():
    def make():
        return nn.Linear(4, 4), torch.Generator().manual_seed(5)

    def with_generator():
        layer, generator = make()
        nn.init.normal_(layer.weight, generator=generator)
        return layer

    expected = torch.empty(4, 4).normal_(generator=torch.Generator().manual_seed(5))
    assert torch.equal(build(with_generator).weight, expected)


def test_rename__tied_weights_stay_tied():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

    model = build(Tied)
    assert model.head.weight is model.embed.weight


def test_rename__copies_of_one_layer_stay_equal():
    model = build(lambda: nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16), 2, enable_nested_tensor=False))

    assert torch.equal(model.layers[0].linear1.weight, model.layers[1].linear1.weight)


def test_rename__dtype_changed_inside_the_factory():
    one = build(lambda: nn.Sequential(nn.Linear(4, 4)).to(torch.bfloat16))
    other = build(lambda: nn.ModuleDict({"extra": nn.Linear(4, 4), "0": nn.Linear(4, 4)}).to(torch.bfloat16))

    assert one[0].weight.dtype is torch.bfloat16
    assert torch.equal(one[0].weight, other["0"].weight)


def test_rename__weight_norm_and_other_parametrisations():
    def make(extra):
        layers = {"extra": nn.Linear(4, 4)} if extra else {}
        layers["main"] = nn.utils.parametrizations.weight_norm(nn.Linear(4, 4))
        return nn.ModuleDict(layers)

    one, other = build(lambda: make(False)), build(lambda: make(True))
    assert all(torch.equal(a, b) for _, a, b in common(one, other))


def test_rename__lstm():
    one = build(lambda: nn.ModuleDict({"rnn": nn.LSTM(4, 8, 2)}))
    other = build(lambda: nn.ModuleDict({"front": nn.Linear(4, 4), "rnn": nn.LSTM(4, 8, 2)}))

    assert all(torch.equal(a, b) for _, a, b in common(one, other))


def torchvision_models():
    models = pytest.importorskip("torchvision.models")
    return {
        "resnet": lambda: models.ResNet(models.resnet.BasicBlock, [1, 1, 1, 1], num_classes=10),
        "vit": lambda: models.VisionTransformer(32, 16, 2, 2, 32, 64),
        "swin": lambda: models.SwinTransformer([4, 4], 16, [1, 1], [2, 2], [4, 4]),
        "mobilenet": models.mobilenet_v3_small,
    }


@pytest.mark.parametrize("name", ["resnet", "vit", "swin", "mobilenet"])
def test_rename__torchvision_models(name):
    make = torchvision_models()[name]

    def behind():
        class Behind(nn.Module):
            def __init__(self):
                super().__init__()
                self.extra = nn.Conv2d(3, 3, 3)
                for key, child in make().named_children():
                    self.add_module(key, child)

        return Behind()

    plain, shifted = build(make), build(behind)

    pairs = common(plain, shifted)
    assert len(pairs) >= len(plain.state_dict()) - 2
    assert all(torch.equal(a, b) for _, a, b in pairs)


def test_recording__global_hook_and_mode_are_gone_afterwards_also_after_an_error():
    def fail():
        nn.Linear(2, 2)
        raise ValueError("no")

    with pytest.raises(ValueError, match="no"), naming.recording(1) as recorder:
        fail()

    from torch.nn.modules import module

    assert not module._global_parameter_registration_hooks
    layer = nn.Linear(2, 2)
    assert recorder.content(layer.weight) is None


def test_set_all__seeds_python_numpy_and_torch():
    import random

    numpy = pytest.importorskip("numpy")

    def draw():
        return random.random(), numpy.random.rand(), torch.rand(1).item()

    seeds.set_all(3)
    first = draw()
    seeds.set_all(3)
    assert draw() == first
    seeds.set_all(4)
    assert draw() != first


def test_derive__is_stable_and_splits_names():
    assert seeds.derive(1, "layer.weight", 0) == 84726426897863841
    assert seeds.derive(1, "ab", "c") != seeds.derive(1, "a", "bc")
    assert 0 <= seeds.derive(0) < 2**63
