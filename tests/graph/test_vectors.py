"""Figures that a right counter prints, from a model to its totals. Traffic in MB, rounded as published."""

from __future__ import annotations

import math
from typing import Any

import pytest

from perfgate.graph.build import build
from perfgate.records.graph import Graph
from tests.graph.book import named, ops

torch = pytest.importorskip("torch")
torchvision = pytest.importorskip("torchvision")

from torch import nn  # noqa: E402
from torch.nn import functional  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402

# model, input, parameters, F in GFLOP, kernels, M eager, M min (MB), I eager, I max
MODELS = """
alexnet             224  61100840  1.428  19  254.4 245.0  5.6   5.8
vgg11               224 132863336 15.218  27  675.7 532.1 22.5  28.6
vgg16               224 138357544 30.941  37  795.6 554.0 38.9  55.8
resnet18            224  11689512  3.628  68  118.6  47.4 30.6  76.5
resnet34            224  21797672  7.328 124  196.7  87.9 37.2  83.4
resnet50            224  25557032  8.178 174  427.8 103.0 19.1  79.4
resnet101           224  44549160 15.603 344  668.0 179.2 23.4  87.1
resnet152           224  60192808 23.027 514  933.2 242.0 24.7  95.2
resnext50_32x4d     224  25028904  8.461 174  504.7 101.0 16.8  83.8
wide_resnet50_2     224  68883240 22.796 174  680.1 276.4 33.5  82.5
densenet121         224   7978856  5.668 430  464.5  32.9 12.2 172.5
googlenet           224  13004888  2.997 195  148.4  27.2 20.2 110.3
inception_v3        299  27161264 11.426 312  389.7  96.6 29.3 118.3
squeezenet1_0       224   1248424  1.638  64  106.9   5.6 15.3 292.5
mobilenet_v2        224   3504872  0.602 151  173.2  14.8  3.5  40.7
mobilenet_v3_small  224   2542856  0.113 155   47.8  10.8  2.4  10.4
mobilenet_v3_large  224   5483032  0.433 185  136.1  22.6  3.2  19.1
mnasnet1_0          224   4383312  0.629 151  147.6  18.3  4.3  34.4
shufflenet_v2_x1_0  224   2278604  0.290 184   68.1   9.8  4.3  29.6
efficientnet_b0     224   5288548  0.772 238  209.6  21.9  3.7  35.2
efficientnet_v2_s   384  21458488 16.731 509 1092.3  88.2 15.3 189.6
regnet_y_400mf      224   4344144  0.804 269  129.2  18.1  6.2  44.4
convnext_tiny       224  28589128  8.911 138  358.0 115.0 24.9  77.5
vit_b_16            224  86567656 35.128 197  803.7 346.9 43.7 101.3
vit_b_32            224  88224232  8.818 197  452.5 353.5 19.5  24.9
swin_t              224  28288354  8.981 424  528.9 113.8 17.0  78.9
maxvit_t            224  30919624 11.116 646  962.5 124.5 11.5  89.3
""".strip().splitlines()

# Published M min of these two counts the weights of auxiliary heads, which evaluation does not use: 52.7 and 109.9 MB.
UNUSED_HEADS = {"googlenet": (52.7, ("aux1", "aux2")), "inception_v3": (109.9, ("AuxLogits",))}

SLOW_TO_BUILD = {"googlenet": {"init_weights": False}, "inception_v3": {"init_weights": False}}


def model(name: str) -> Any:
    """A torchvision model without weights; those that look at values while they are built get real ones."""
    make = getattr(torchvision.models, name)
    more = {"weights": None, **SLOW_TO_BUILD.get(name, {})}
    try:
        with torch.device("meta"):
            return make(**more).eval()
    except (RuntimeError, NotImplementedError):
        return make(**more).eval()


def count(module: Any, *args: Any, **more: Any) -> Graph:
    return build(trace_callable(module, args, **more))


def image(batch: int, side: int) -> Any:
    return torch.empty(batch, 3, side, side, device="meta")


@pytest.mark.parametrize("row", MODELS, ids=lambda row: row.split()[0])
def test_model__prints_the_published_figures(row):
    name, side, params, gflop, kernels, eager, least, intensity, largest = row.split()
    module = model(name)
    totals = count(module, image(1, int(side))).totals
    assert totals.params == int(params)
    assert f"{totals.flop / 1e9:.3f}" == gflop
    assert totals.kernels == int(kernels)
    assert f"{totals.traffic.eager / 1e6:.1f}" == eager
    assert f"{totals.traffic.min / 1e6:.1f}" == least
    assert f"{totals.flop / totals.traffic.eager:.1f}" == intensity
    assert f"{totals.flop / totals.traffic.min:.1f}" == largest
    assert totals.traffic.min < totals.traffic.fused < totals.traffic.eager
    assert totals.not_counted == ()
    if name in UNUSED_HEADS:
        published, heads = UNUSED_HEADS[name]
        unused = [
            tensor
            for head in heads
            for tensor in (*getattr(module, head).parameters(), *getattr(module, head).buffers())
        ]
        hidden = sum(tensor.nbytes for tensor in unused if tensor.is_floating_point())
        assert round((totals.traffic.min + hidden) / 1e6, 1) == published


def test_resnet50__to_the_byte():
    graph = count(model("resnet50"), image(1, 224))
    totals = graph.totals
    assert (totals.flop, totals.flop // 2) == (8_178_368_512, 4_089_184_256)
    assert (totals.traffic.eager, totals.traffic.min) == (427_813_952, 103_046_720)
    assert f"{sum(operator.read_bytes for operator in graph.operators) / 1e6:.1f}" == "275.8"
    assert f"{sum(operator.written_bytes for operator in graph.operators) / 1e6:.1f}" == "152.1"
    assert named(graph, "layer3.0.conv2").outputs == ("float32[1,256,14,14]",)
    assert named(graph, "layer3.0/add_").kind == "pointwise"


def test_vit_b_16__to_the_byte():
    totals = count(model("vit_b_16"), image(1, 224)).totals
    assert totals.flop == 35_127_656_448
    assert (totals.traffic.eager, totals.traffic.min) == (803_675_688, 346_876_736)


def test_resnet18__training_costs_three_times_the_forward_pass_but_for_the_first_layer():
    module = model("resnet18")
    forward = count(module, image(2, 224))
    training = count(module.train(), image(2, 224), train=True).totals
    # Nobody needs the gradient of the image.
    assert training.flop == 3 * forward.totals.flop - (named(forward, "conv1").flop or 0)
    assert training.not_counted == ()


@pytest.mark.parametrize(
    ("module", "shape", "dtype", "flop", "traffic", "intensity"),
    [
        (lambda: nn.Linear(64, 32), (8, 64), "float32", 32_768, 11_392, "2.876"),
        (lambda: nn.Linear(4096, 4096), (1, 4096), "float16", 33_554_432, 33_579_008, "0.999"),
        (lambda: nn.Linear(4096, 4096), (512, 4096), "float16", 17_179_869_184, 41_951_232, "409.520"),
        (lambda: nn.Conv2d(16, 16, 3, padding=1), (1, 16, 8, 8), "float32", 294_912, 17_472, "16.879"),
        (lambda: nn.Conv2d(16, 16, 3, padding=1, groups=16), (1, 16, 8, 8), "float32", 18_432, 8_832, "2.087"),
        (lambda: nn.ConvTranspose2d(16, 8, 4, 2, 1), (1, 16, 8, 8), "float32", 262_144, 20_512, "12.780"),
        (lambda: nn.ConvTranspose2d(16, 16, 2, 2, groups=4), (1, 16, 8, 8), "float32", 32_768, 21_568, "1.519"),
        (lambda: nn.ConvTranspose2d(6, 6, 2, 2, groups=3), (2, 6, 8, 8), "float32", 12_288, 15_576, "0.789"),
    ],
)
def test_operator__prints_the_published_figures(module, shape, dtype, flop, traffic, intensity):
    dtype = getattr(torch, dtype)
    with torch.device("meta"):
        totals = count(module().to(dtype).eval(), torch.empty(shape, dtype=dtype)).totals
    assert totals.flop == flop
    assert totals.traffic.eager == totals.traffic.fused == totals.traffic.min == traffic
    assert f"{flop / traffic:.3f}" == intensity


def test_embedding__has_no_flop_and_reads_rows():
    totals = count(nn.Embedding(30522, 768), torch.zeros(8, 128, dtype=torch.long)).totals
    assert (totals.flop, totals.traffic.eager) == (0, 6_299_648)


def test_tied_head__counts_its_weight_once():
    class Tied(nn.Module):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.embedding = nn.Embedding(1000, 64)
            self.head = nn.Linear(64, 1000, bias=False)
            self.head.weight = self.embedding.weight

        def forward(self, tokens):
            return self.head(self.embedding(tokens))

    totals = count(Tied().eval(), torch.zeros(10, dtype=torch.long)).totals
    assert (totals.params, totals.flop // 2) == (64_000, 640_000)
    # One table, the tokens, the result.
    assert totals.traffic.min == 64_000 * 4 + 10 * 8 + 10 * 1000 * 4


class Step(nn.Module):  # type: ignore[misc]
    """A layer before the one in question, so that the latter's input needs a gradient."""

    def __init__(self, layer: nn.Module, before: nn.Module) -> None:
        super().__init__()
        self.before, self.layer = before, layer

    def forward(self, x):
        return self.layer(self.before(x))


@pytest.mark.parametrize(("groups", "forward"), [(16, 18_432), (4, 73_728), (1, 294_912)])
def test_training__of_a_grouped_convolution_is_three_times_its_forward_pass(groups, forward):
    layer = nn.Conv2d(16, 16, 3, padding=1, groups=groups, bias=False)
    graph = count(Step(layer, nn.Conv2d(16, 16, 1)).train(), torch.zeros(1, 16, 8, 8), train=True)
    assert sum(operator.flop or 0 for operator in graph.operators if operator.module == "layer") == 3 * forward
    assert named(graph, "layer/convolution_backward").flop == 2 * forward
    # The first layer needs no gradient of its input.
    assert named(graph, "before/convolution_backward").flop == named(graph, "before").flop


def test_training__of_linear_layers_and_their_names():
    graph = count(nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4)).train(), torch.zeros(2, 8), train=True)
    assert named(graph, "0").flop == 2 * 2 * 8 * 16
    assert named(graph, "0/mm@backward").flop == 2 * 2 * 8 * 16
    assert sum(operator.flop or 0 for operator in graph.operators if operator.module == "2") == 3 * 2 * 2 * 16 * 4
    updates = {operator.name for operator in graph.operators if operator.phase == "optimizer"}
    assert updates == {operator.name for operator in graph.operators if operator.name.startswith("optimizer/")}
    assert graph.operators[-1].phase == "optimizer"


def lstm(**more: Any) -> Any:
    return nn.LSTM(12, 128, **more).eval()


def test_lstm__reads_its_weights_once_a_kernel():
    # As one operator once; as single steps the recurrent matrix in each of them.
    graph = count(lstm(), torch.zeros(250, 1, 12), real=True)
    assert (graph.totals.flop, graph.totals.not_counted) == (35_840_000, ())
    (layer,) = ops(graph, "mkldnn_rnn_layer")
    assert layer.read_bytes == 290_816 + 250 * 12 * 4 + 2 * 128 * 4
    steps = count(lstm(), torch.zeros(250, 1, 12))
    assert (steps.totals.flop, steps.totals.not_counted) == (35_840_000, ())
    assert steps.totals.traffic.eager > 250 * 4 * 128 * 128 * 4
    assert steps.totals.traffic.min == graph.totals.traffic.min


@pytest.mark.filterwarnings("ignore:LSTM with projections is not supported with oneDNN")
@pytest.mark.parametrize(
    ("more", "elements"),
    [
        ({"bidirectional": True}, 2 * 512 * (12 + 128)),
        ({"num_layers": 2}, 512 * (12 + 128) + 512 * (128 + 128)),
        ({"num_layers": 2, "bidirectional": True}, 2 * 512 * (12 + 128) + 2 * 512 * (256 + 128)),
        ({"batch_first": True}, 512 * (12 + 128)),
        ({"proj_size": 32}, 512 * (12 + 32) + 32 * 128),
    ],
)
def test_lstm__forms(more, elements):
    shape = (3, 10, 12) if "batch_first" in more else (10, 3, 12)
    for real in (False, True):
        assert count(lstm(**more), torch.zeros(shape), real=real).totals.flop == 2 * 30 * elements


def test_lstm__packed_sequences_count_their_real_steps():
    packed = nn.utils.rnn.pack_padded_sequence(torch.zeros(5, 3, 12), torch.tensor([5, 3, 2]))
    for real in (False, True):
        assert count(lstm(), packed, real=real).totals.flop == 2 * (5 + 3 + 2) * 512 * (12 + 128)


def test_gru__is_three_quarters_of_it():
    for real in (False, True):
        assert count(nn.GRU(12, 128).eval(), torch.zeros(50, 1, 12), real=real).totals.flop == 2 * 50 * 384 * 140


def heads() -> Any:
    return torch.zeros(1, 12, 64, 64)


def test_attention__in_plain_products():
    graph = count(functional.scaled_dot_product_attention, heads(), heads(), heads())
    assert graph.totals.flop == 12_582_912
    core = [operator for operator in graph.operators if operator.kind in {"matmul", "softmax"}]
    assert sum(operator.read_bytes + operator.written_bytes for operator in core) == 1_572_864
    # One flash kernel: Q, K, V, O and one number a row.
    assert graph.totals.traffic.fused == 789_504


def test_attention__as_one_kernel():
    flash = torch.ops.aten._scaled_dot_product_flash_attention_for_cpu
    totals = count(lambda q, k, v: flash(q, k, v)[0], heads(), heads() + 1, heads() + 2, real=True).totals
    assert totals.flop == 12_582_912
    assert totals.traffic.eager == 789_504


class Attention(nn.Module):  # type: ignore[misc]
    def __init__(self, *, flash: bool) -> None:
        super().__init__()
        self.into = nn.Linear(64, 192)
        self.flash = flash

    def forward(self, x):
        query, key, value = self.into(x).unflatten(-1, (3, 4, 16)).permute(2, 0, 3, 1, 4)
        if self.flash:
            return torch.ops.aten._scaled_dot_product_flash_attention_for_cpu(query, key, value)[0]
        return functional.scaled_dot_product_attention(query, key, value)


def test_attention__training_moves_the_same_bytes_fused_whatever_the_backend():
    plain = count(Attention(flash=False).train(), torch.zeros(2, 16, 64), train=True).totals
    flash = count(Attention(flash=True).train(), torch.zeros(2, 16, 64), train=True, real=True).totals
    assert plain.traffic.fused == flash.traffic.fused
    assert plain.traffic.eager > flash.traffic.eager
    # A flash kernel computes the scores again in its backward pass.
    assert flash.flop - plain.flop == 2 * 2 * 4 * 16 * 16 * 16


def test_attention__grows_with_the_square_of_its_length():
    short, long = (
        count(functional.scaled_dot_product_attention, *[torch.zeros(1, 2, n, 8)] * 3).totals.flop for n in (16, 32)
    )
    assert long == 4 * short


@pytest.mark.parametrize("need_weights", [False, True])
def test_multi_head_attention(need_weights):
    module = nn.MultiheadAttention(64, 4, batch_first=True).eval()
    x = torch.zeros(1, 16, 64)
    totals = count(module, x, x, x, kwargs={"need_weights": need_weights}).totals
    assert totals.flop // 2 == 294_912


def test_encoder_layer():
    module = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True).eval()
    assert count(module, torch.zeros(2, 16, 64)).totals.flop // 2 == 1_114_112


def test_product_with_its_own_transpose():
    assert count(lambda x: x @ x.transpose(-1, -2), heads()).totals.flop // 2 == 3_145_728


def test_functional_convolution():
    def step(x, weight):
        return functional.conv2d(x, weight, padding=1)

    totals = count(step, torch.zeros(1, 16, 8, 8), torch.zeros(16, 16, 3, 3)).totals
    assert totals.flop // 2 == 147_456


@pytest.mark.filterwarnings("ignore:torch.ao.quantization is deprecated", "ignore:torch.quantize_per_tensor")
def test_dynamic_quantisation_is_counted():
    module = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(64, 32)), {nn.Linear})
    totals = count(module, torch.zeros(8, 64)).totals
    assert (totals.flop, totals.not_counted) == (32_768, ())


def test_a_custom_operator_is_listed_or_counted_by_the_users_formula():
    @torch.library.custom_op("perfgatetest::fused", mutates_args=(), schema="(Tensor x, Tensor w) -> Tensor")
    def fused(x, w):
        return x @ w

    fused.register_fake(lambda x, w: x.new_empty(x.shape[0], w.shape[1]))
    trace = trace_callable(lambda x, w: fused(x, w).relu(), (torch.zeros(3, 4), torch.zeros(4, 5)))
    assert [entry.op for entry in build(trace).totals.not_counted] == ["perfgatetest::fused"]
    totals = build(trace, {"perfgatetest::fused": "2 * numel(x) * w[1]"}).totals
    assert (totals.flop, totals.not_counted) == (2 * 3 * 4 * 5, ())


@pytest.mark.parametrize(
    ("name", "side"),
    [
        ("alexnet", 64),
        ("mobilenet_v3_small", 32),
        ("shufflenet_v2_x0_5", 32),
        ("convnext_tiny", 32),
        ("vit_b_32", 224),
        ("swin_v2_t", 64),
    ],
)
def test_training__leaves_no_operator_of_a_family_uncounted(name, side):
    totals = count(model(name).train(), image(2, side), train=True).totals
    assert totals.not_counted == ()
    assert totals.traffic.min < totals.traffic.fused < totals.traffic.eager
    assert not set(totals.kinds) & {"custom"}
    assert math.isfinite(totals.flop / totals.traffic.eager)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "side"),
    [("googlenet", 64), ("densenet121", 32), ("efficientnet_b0", 32), ("maxvit_t", 224), ("regnet_y_400mf", 32)],
)
def test_training__of_large_families_leaves_no_operator_uncounted(name, side):
    assert count(model(name).train(), image(2, side), train=True).totals.not_counted == ()
