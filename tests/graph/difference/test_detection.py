"""Twenty-one kinds of change to real models: the right operator has to be named first."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import cache

import pytest
import torch
from torch import nn
from torch.nn import functional as F  # noqa: N812

from perfgate.graph.difference import compare
from perfgate.records.graph import Graph
from tests.graph import networks
from tests.graph.networks import Decoder, Residual, graph_of, images, tokens
from tests.graph.profiles import Cell, profile, true_ns

LAST = torch.channels_last


@dataclass(frozen=True, kw_only=True)
class Case:
    """``name``, ``what``, ``op`` and ``how`` of the finding that has to come first; ``extra``: ns of no operator."""

    base: Callable[[], Graph]
    head: Callable[[], Graph]
    name: str
    what: str
    op: str
    how: str = ""
    extra: Mapping[Cell, float] = field(default_factory=dict)


@cache
def residual() -> Graph:
    return graph_of(Residual(), images())


@cache
def residual_train() -> Graph:
    return graph_of(Residual(), images(), train=True)


@cache
def decoder() -> Graph:
    return graph_of(Decoder(), tokens())


@cache
def decoder_train() -> Graph:
    return graph_of(Decoder(), tokens(), train=True)


@cache
def decoder_real() -> Graph:
    return graph_of(Decoder(), tokens(), real=True)


def bfloat16() -> Graph:
    return graph_of(Residual().bfloat16(), images().bfloat16())


def float_layer() -> Graph:
    model = Residual(block=networks.InFloat)
    for name, part in model.named_modules():
        if not name.endswith("conv2") and not list(part.children()):
            part.bfloat16()
    return graph_of(model, images().bfloat16())


def channels_last() -> Graph:
    return graph_of(Residual().to(memory_format=LAST), images().to(memory_format=LAST), real=True)


def contiguous_inside() -> Graph:
    class Contiguous(networks.Block):
        def before(self, y, x):
            return y.contiguous()

    model = Residual()
    model.blocks[1] = Contiguous()
    return graph_of(model.to(memory_format=LAST), images().to(memory_format=LAST), real=True)


def with_block(number: int, block: nn.Module) -> Graph:
    model = Residual()
    model.blocks[number] = block
    return graph_of(model, images())


def with_conv2(make: Callable[[], nn.Module], *, train: bool = False) -> Graph:
    model = Residual()
    for block in model.blocks:
        block.conv2 = make()
    return graph_of(model, images(), train=train)


def with_stem(stem: nn.Module) -> Graph:
    model = Residual()
    model.stem = stem
    return graph_of(model, images())


def unfused() -> Graph:
    model = Decoder()
    for layer in model.layers:
        layer.fc1 = networks.Unfused(32, 64)
    return graph_of(model, tokens())


def dropping() -> Graph:
    model = Decoder().eval()
    model.layers[1].drop.train()
    return graph_of(model, tokens(), modes=True)


def fed(change: Callable[[torch.Tensor], torch.Tensor]) -> Graph:
    class Fed(Residual):
        def forward(self, x):
            return super().forward(change(x))

    return graph_of(Fed(), images())


CASES = {
    "precision of one layer": Case(
        base=bfloat16, head=float_layer, name="blocks.*.conv2", what="changed", op="aten::convolution",
        how="bfloat16 → float32"),
    "channels_last lost": Case(
        base=channels_last, head=lambda: graph_of(Residual(), images(), real=True), name="stem", what="changed",
        op="aten::convolution", how="channels_last → contiguous"),
    "channels_last lost inside": Case(
        base=channels_last, head=contiguous_inside, name="blocks.1/clone", what="added", op="aten::clone"),
    "extra cat": Case(
        base=residual, head=lambda: with_block(1, networks.Wide()), name="blocks.1/cat", what="added", op="aten::cat"),
    "attention by hand": Case(
        base=lambda: graph_of(Decoder(form="torch"), tokens()), head=decoder, name="layers.*.attn/bmm", what="changed",
        op="aten::bmm", how="scaled_dot_product_attention → bmm + mul + _softmax + bmm"),
    "unfused bias": Case(
        base=decoder, head=unfused, name="layers.*.fc1", what="changed", op="aten::mm", how="addmm → mm + add"),
    "duplicate layer": Case(
        base=decoder, head=lambda: graph_of(Decoder(layers=4), tokens()), name="layers.3", what="added",
        op="aten::addmm", how="the same as layers.0"),
    "layer called twice": Case(
        base=decoder, head=lambda: graph_of(networks.Twice(), tokens()), name="layers.1.*", what="added",
        op="aten::native_layer_norm", how="once more"),
    "larger hidden size": Case(
        base=decoder, head=lambda: graph_of(Decoder(hidden=128), tokens()), name="layers.*.fc1", what="changed",
        op="aten::addmm", how="output features 64 → 128"),
    "larger hidden size, training": Case(
        base=decoder_train, head=lambda: graph_of(Decoder(hidden=128), tokens(), train=True), name="layers.*.fc1",
        what="changed", op="aten::addmm", how="output features 64 → 128"),
    "wider model": Case(
        base=decoder, head=lambda: graph_of(Decoder(width=64), tokens()), name="emb", what="changed",
        op="aten::embedding", how="[2,8,32] → [2,8,64]"),
    "removed inplace": Case(
        base=residual, head=lambda: with_block(1, networks.Block(act=nn.ReLU())), name="blocks.1.act1", what="changed",
        op="aten::relu", how="in place → out of place"),
    "added cast": Case(
        base=lambda: graph_of(Decoder().bfloat16(), tokens()),
        head=lambda: graph_of(Decoder(layer=networks.LayerInFloat).bfloat16(), tokens()),
        name="layers.*/_to_copy", what="added", op="aten::_to_copy"),
    "changed stride": Case(
        base=residual, head=lambda: with_stem(nn.Conv2d(3, 16, 3, padding=1, stride=2)), name="stem", what="changed",
        op="aten::convolution", how="stride 1 → 2"),
    "dropout left on in eval": Case(
        base=decoder, head=dropping, name="layers.1.drop", what="added", op="aten::bernoulli_"),
    "dropout function in eval": Case(
        base=decoder, head=lambda: graph_of(networks.DropsAlways(), tokens()), name="/bernoulli_", what="added",
        op="aten::bernoulli_"),
    "graph break by a branch": Case(
        base=decoder_real, head=lambda: graph_of(networks.Branching(), tokens(), real=True),
        name="/_local_scalar_dense", what="added", op="aten::_local_scalar_dense"),
    "synchronising item": Case(
        base=decoder_real, head=lambda: graph_of(networks.Waiting(), tokens(), real=True),
        name="/_local_scalar_dense", what="added", op="aten::_local_scalar_dense"),
    "input resize in the model": Case(
        base=residual, head=lambda: fed(lambda x: F.interpolate(x, scale_factor=1.5, mode="bilinear")),
        name="/upsample_bilinear2d", what="added", op="aten::upsample_bilinear2d"),
    "norm replaced": Case(
        base=residual, head=lambda: graph_of(Residual(norm=lambda width: nn.GroupNorm(4, width)), images()),
        name="blocks.*.bn1", what="changed", op="aten::native_group_norm", how="BatchNorm2d → GroupNorm"),
    "activation replaced": Case(
        base=decoder, head=lambda: graph_of(Decoder(act=nn.SiLU()), tokens()), name="layers.0.act/silu", what="changed",
        op="aten::silu", how="gelu → silu"),
    "checkpointing on": Case(
        base=decoder_train, head=lambda: graph_of(networks.Checkpointed(), tokens(), train=True), name="layers.*",
        what="added", op="aten::native_layer_norm", how="computed again in the backward pass"),
    "tied weights untied": Case(
        base=decoder, head=lambda: graph_of(Decoder(tied=False), tokens()), name="head", what="changed", op="aten::mm",
        how="emb.weight → own weight"),
    "tied weights untied, training": Case(
        base=decoder_train, head=lambda: graph_of(Decoder(tied=False), tokens(), train=True), name="head",
        what="changed", op="aten::mm", how="emb.weight → own weight"),
    "padding added": Case(
        base=residual, head=lambda: fed(lambda x: F.pad(x, (1, 1, 1, 1))), name="/constant_pad_nd", what="added",
        op="aten::constant_pad_nd"),
    "padding of a convolution": Case(
        base=residual, head=lambda: with_stem(nn.Conv2d(3, 16, 3, padding=3)), name="stem", what="changed",
        op="aten::convolution", how="padding 1 → 3"),
    "groups changed": Case(
        base=residual, head=lambda: with_conv2(lambda: nn.Conv2d(16, 16, 3, padding=1, groups=4)),
        name="blocks.*.conv2", what="changed", op="aten::convolution", how="groups 1 → 4"),
    "larger kernel, training": Case(
        base=residual_train, head=lambda: with_conv2(lambda: nn.Conv2d(16, 16, 5, padding=2), train=True),
        name="blocks.*.conv2", what="changed", op="aten::convolution", how="kernel 3×3 → 5×5"),
    "python loop instead of a batched operator": Case(
        base=decoder, head=lambda: graph_of(Decoder(form="loop"), tokens()), name="layers.*.attn/bmm", what="changed",
        op="aten::bmm", how="bmm + mul + _softmax + bmm → 8 × bmm + 4 × mul + 4 × _softmax + stack"),
    "input resize on the CPU": Case(
        base=residual, head=residual, name="/python", what="slower", op="python",
        extra={("", "python", "forward"): 1e5}),
    "sleep in a layer": Case(
        base=residual, head=residual, name="blocks.1/python", what="slower", op="python",
        extra={("blocks.1", "python", "forward"): 1e5}),
    "slower kernel of an unchanged operator": Case(
        base=residual, head=residual, name="blocks.2.conv1", what="slower", op="aten::convolution",
        extra={("blocks.2.conv1", "aten::conv2d", "forward"): 1e5}),
}  # fmt: skip

CHANGED = {name: case for name, case in CASES.items() if not case.extra}


@cache
def graphs(name: str) -> tuple[Graph, Graph]:
    return CASES[name].base(), CASES[name].head()


@pytest.mark.parametrize("name", CHANGED)
def test_compare__names_the_changed_operator_first(name):
    case = CASES[name]
    found = compare(*graphs(name))
    first = found.changes[0]
    assert (first.name, first.what, first.op) == (case.name, case.what, case.op)
    assert not case.how or case.how in first.how
    assert not found.equal
    assert found.sentences[0].startswith(case.name)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("name", CASES)
def test_compare__names_it_first_with_noisy_profiles(name, seed):
    """Head is profiled while the machine is 30 % slower, and every time is off by a twentieth."""
    case = CASES[name]
    base, head = graphs(name)
    step = true_ns(base)
    ratio = true_ns(head, case.extra) / step
    found = compare(
        base,
        head,
        base_profile=profile(base, seed),
        head_profile=profile(head, 1000 + seed, speed=1.3, extra=case.extra),
        base_step_ns=step,
        ratio=ratio,
    )
    assert (found.changes[0].name, found.changes[0].what) == (case.name, case.what)
    shares = [change.share for change in found.changes if change.share is not None]
    assert all(0 < share <= 1 for share in shares)
    whole = (ratio - 1) * step
    along = [change.time_ns for change in found.changes if change.time_ns and change.time_ns * whole > 0]
    against = [change.time_ns for change in found.changes if change.time_ns and change.time_ns * whole < 0]
    if abs(ratio - 1) > 0.01:
        assert abs(sum(along)) <= abs(whole - sum(against)) * 1.0001


def test_compare__attributes_most_of_a_large_change():
    parts = []
    for seed in range(5):
        base, head = graphs("python loop instead of a batched operator")
        step = true_ns(base)
        found = compare(
            base,
            head,
            base_profile=profile(base, seed),
            head_profile=profile(head, 100 + seed, speed=0.8),
            base_step_ns=step,
            ratio=true_ns(head) / step,
        )
        assert found.changes[0].share is not None
        parts.append(found.changes[0].share)
    assert statistics.median(parts) > 0.85
