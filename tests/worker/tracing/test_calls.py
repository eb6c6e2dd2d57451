"""What counts as an operator call, and what it was given."""

# mypy: allow-subclassing-any
from __future__ import annotations

import json

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812

from perfgate import wire  # noqa: E402
from perfgate.graph.build import build  # noqa: E402
from perfgate.records.graph import Trace  # noqa: E402
from perfgate.worker.tracing import trace_callable  # noqa: E402
from perfgate.worker.tracing.building import without_weights  # noqa: E402
from tests.worker.tracing.reading import only, operand, ops  # noqa: E402

pytestmark = pytest.mark.torch

# Dispatched operators that are no views, of torchvision's models at their own input size.
KERNELS = {
    "alexnet": 19, "vgg11": 27, "vgg16": 37, "resnet18": 68, "resnet34": 124, "resnet50": 174, "resnet101": 344,
    "resnet152": 514, "resnext50_32x4d": 174, "wide_resnet50_2": 174, "densenet121": 430, "googlenet": 195,
    "inception_v3": 312, "squeezenet1_0": 64, "mobilenet_v2": 151, "mobilenet_v3_small": 155,
    "mobilenet_v3_large": 185, "mnasnet1_0": 151, "shufflenet_v2_x1_0": 184, "efficientnet_b0": 238,
    "efficientnet_v2_s": 509, "regnet_y_400mf": 269, "convnext_tiny": 138, "vit_b_16": 197, "vit_b_32": 197,
    "swin_t": 424, "maxvit_t": 646,
}  # fmt: skip
SIZES = {"inception_v3": 299, "efficientnet_v2_s": 384}


@pytest.mark.parametrize("name", KERNELS)
def test_calls__as_many_as_published_models_have_kernels(name):
    models = pytest.importorskip("torchvision.models")
    options = {"init_weights": False} if name in {"googlenet", "inception_v3"} else {}
    with without_weights():
        model = getattr(models, name)(**options).eval()
    size = SIZES.get(name, 224)

    trace = trace_callable(model, (torch.empty(1, 3, size, size, device="meta"),))

    assert (trace.source, trace.notes, trace.untraced) == ("meta", (), ())
    assert len(trace.calls) == KERNELS[name]


def test_calls__views_and_bookkeeping_are_none():
    def views(x):
        y = x.view(16)[1:].unsqueeze(0).expand(3, 15)
        return y, x.detach(), torch.empty(4), torch.empty_like(x), x.t().reshape(4, 4).permute(1, 0)

    assert ops(trace_callable(views, (torch.ones(4, 4),))) == []


def test_calls__reshape_counts_where_it_copies():
    x = torch.ones(4, 4)
    assert ops(trace_callable(lambda x: x.reshape(16), (x,))) == []
    assert ops(trace_callable(lambda x: x.t().reshape(16), (x,))) == ["clone"]


def test_calls__inference_mode_of_the_users_own_hides_nothing():
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True).eval()
    x = torch.ones(1, 4, 8)

    hidden = trace_callable(torch.inference_mode()(layer), (x,))

    assert ops(hidden) == ops(trace_callable(layer, (x,)))
    assert "addmm" in ops(hidden)
    assert torch.backends.mha.get_fastpath_enabled()


def test_call__operands_and_attributes_by_the_names_of_the_schema():
    conv = nn.Conv2d(4, 8, 3, stride=2, padding=1, groups=2, bias=False)

    trace = trace_callable(conv, (torch.ones(1, 4, 8, 8),))
    call = only(trace, "convolution")

    assert (call.op, call.overload, call.module_class) == ("aten::convolution", "default", "Conv2d")
    assert call.operands.keys() == {"input", "weight", "bias"}
    assert call.operands["bias"] == (-1,)
    assert operand(trace, call, "weight").shape == (8, 2, 3, 3)
    assert call.attributes == {
        "stride": (2, 2),
        "padding": (1, 1),
        "dilation": (1, 1),
        "transposed": False,
        "output_padding": (0, 0),
        "groups": 2,
    }
    assert [trace.values[index].shape for index in call.outputs] == [(1, 8, 4, 4)]
    assert call.writes == ()


def test_call__attributes_are_json_with_defaults_filled_in():
    def work(x):
        y = x.to(torch.bfloat16)
        z = torch.zeros(2, dtype=torch.float64, device=x.device)
        return y, z, torch.full((2,), float("inf")), x.clamp(max=3), x.clone(memory_format=torch.channels_last)

    trace = trace_callable(work, (torch.ones(1, 2, 3, 3),))

    assert only(trace, "_to_copy").attributes["dtype"] == "bfloat16"
    assert only(trace, "_to_copy").attributes["non_blocking"] is False
    assert only(trace, "zeros").attributes["dtype"] == "float64"
    assert only(trace, "full").attributes["fill_value"] == "inf"
    assert only(trace, "clamp").attributes == {"min": None, "max": 3}
    assert only(trace, "clone").attributes["memory_format"] == "channels_last"
    # What travels is what was there.
    text = json.dumps(wire.to_tree(trace, lean=True), allow_nan=False)
    assert wire.loads(Trace, text) == trace


def test_call__lists_and_absent_tensors():
    trace = trace_callable(lambda x: torch.cat([x, x[:1]])[:, torch.tensor([0, 1])], (torch.ones(2, 3),))

    assert [len(call.operands["tensors"]) for call in trace.calls if call.op == "aten::cat"] == [2]
    index = only(trace, "index")
    assert index.operands["indices"][0] == -1
    assert operand(trace, index, "indices", 1).dtype == "int64"


def test_call__what_it_writes():
    def work(x):
        x = x * 1
        x.add_(1)
        torch.mul(x, 2, out=x)
        return x

    trace = trace_callable(work, (torch.ones(2),))
    made, added, multiplied = trace.calls

    assert made.writes == ()
    assert added.writes == added.outputs == made.outputs
    assert multiplied.writes == multiplied.operands["out"] == made.outputs


def test_call__batch_norm_writes_its_running_statistics_in_training_only():
    x = torch.ones(2, 4)
    norm = nn.BatchNorm1d(4)

    training = trace_callable(norm.train(), (x,))
    call = only(training, "native_batch_norm")
    written = {training.values[index].name for index in call.writes}
    assert written == {"running_mean", "running_var"}
    assert only(trace_callable(norm.eval(), (x,)), "native_batch_norm").writes == ()


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_call__packed_weights_are_operands():
    quantization = torch.ao.quantization
    model = quantization.quantize_dynamic(nn.Sequential(nn.Linear(8, 4)), {nn.Linear}, dtype=torch.qint8)

    trace = trace_callable(model, (torch.ones(2, 8),))
    call = only(trace, "linear_dynamic")

    weight, bias = (trace.values[index] for index in call.operands["W_prepack"])
    assert (weight.shape, weight.dtype, weight.bits, weight.role, weight.name) == (
        (4, 8),
        "qint8",
        8,
        "parameter",
        "0.weight",
    )
    assert (bias.shape, bias.name) == ((4,), "0.bias")
    assert trace.parameters == 4 * 8 + 4


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_call__the_table_of_a_quantised_embedding_is_one_operand():
    table = torch.ao.nn.quantized.Embedding(3000, 8)

    trace = trace_callable(table, (torch.zeros(2, 3, dtype=torch.int64),))

    (weight,) = (trace.values[index] for index in only(trace, "embedding_byte").operands["weight"])
    assert (weight.shape, weight.bits, weight.role, weight.name) == ((3000, 8), 8, "parameter", "weight")
    assert (trace.parameters, trace.weight_bytes) == (24_000, 24_000)
    # Six rows, their indices, and the result.
    assert build(trace).totals.traffic.eager == 6 * 8 + 6 * 8 + 6 * 8 * 4


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_call__the_weights_of_a_quantised_recurrent_layer_are_operands():
    plain = nn.Sequential(nn.LSTM(16, 8, num_layers=2, bidirectional=True))
    model = torch.ao.quantization.quantize_dynamic(plain, {nn.LSTM}, dtype=torch.qint8)

    trace = trace_callable(model, (torch.ones(5, 4, 16),))

    held = [trace.values[index] for index in only(trace, "quantized_lstm").operands["params"]]
    assert {value.name: value.shape for value in held} == {
        name: tuple(parameter.shape) for name, parameter in plain.named_parameters()
    }
    assert {value.bits for value in held if len(value.shape) == 2} == {8}
    assert trace.parameters == sum(parameter.numel() for parameter in plain.parameters())
    matrices = sum(parameter.numel() for parameter in plain.parameters() if parameter.dim() == 2)
    assert build(trace).totals.flop == 2 * 5 * 4 * matrices


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("cell", [nn.LSTMCell, nn.GRUCell])
def test_call__a_quantised_cell_reads_each_bias_once(cell):
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(cell(16, 8)), {cell}, dtype=torch.qint8)

    trace = trace_callable(model, (torch.ones(4, 16),))

    (call,) = [call for call in trace.calls if "cell_dynamic" in call.op]
    matrices = [trace.values[index] for name in ("w_ih", "w_hh") for index in call.operands[name]]
    assert [value.name for value in matrices] == ["0.weight_ih", "0.weight_hh"]


def test_call__custom_operators_are_one_call():
    schema = "(Tensor x, int factor=2) -> Tensor"
    twice = torch.library.custom_op(
        "perfgate_tests::twice", lambda x, factor=2: x * factor, mutates_args=(), schema=schema
    )

    trace = trace_callable(lambda x: twice(x) + 1, (torch.ones(3),))
    assert [call.op for call in trace.calls] == ["perfgate_tests::twice", "aten::add"]
    assert trace.calls[0].attributes == {"factor": 2}
    assert trace.source == "real"
    assert "fake impl" in trace.notes[0]

    twice.register_fake(lambda x, factor=2: torch.empty_like(x))
    described = trace_callable(lambda x: twice(x) + 1, (torch.ones(3),))
    assert (described.source, described.notes) == ("meta", ())
    assert [call.op for call in described.calls] == [call.op for call in trace.calls]


def test_call__vmap_and_function_transforms():
    batched = trace_callable(lambda x, w: torch.vmap(lambda row: w @ row)(x), (torch.ones(5, 4), torch.ones(3, 4)))
    assert ops(batched) == ["mm"]

    gradient = trace_callable(
        lambda x, w: torch.func.grad(lambda v: (v @ x).sum())(w), (torch.ones(4, 2), torch.ones(3, 4))
    )
    assert ops(gradient).count("mm") == 2


def test_call__complex_and_boolean_tensors():
    trace = trace_callable(lambda x: torch.fft.fft(x).abs() > 1, (torch.ones(2, 4),))

    spectrum = operand(trace, only(trace, "abs"), "self")
    assert (spectrum.dtype, spectrum.bits) == ("complex64", 64)
    (mask,) = (trace.values[index] for index in only(trace, "gt").outputs)
    assert (mask.dtype, mask.bits) == ("bool", 8)


def test_call__autocast_casts_are_calls():
    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(4, 4)

        def forward(self, x):
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.layer(x)

    trace = trace_callable(Mixed(), (torch.ones(2, 4),))

    assert ops(trace) == ["_to_copy", "_to_copy", "_to_copy", "addmm"]
    assert operand(trace, only(trace, "addmm"), "mat1").bits == 16
    # Not news: a tensor without contents that has a device does as well.
    assert (trace.source, trace.notes) == ("meta", ())


@pytest.mark.parametrize("real", [False, True])
def test_call__attention_comes_as_products_whichever_tensors_there_are(real):
    q = torch.ones(1, 2, 4, 8)
    trace = trace_callable(lambda q: F.scaled_dot_product_attention(q, q, q), (q,), real=real)
    first, second, scores, softmax, result = ops(trace)
    assert (first, second, scores, result) == ("mul", "mul", "bmm", "bmm")
    assert softmax in {"_safe_softmax", "_softmax"}


def test_convolution__lies_as_on_a_device_whatever_its_input_was_made_of():
    # Tokens of one item seen as an image: strides of channels_last by chance, which torch does not take for it.
    class Tokens(nn.Module):
        def __init__(self):
            super().__init__()
            self.mix = nn.Conv2d(16, 16, 3, padding=1)

        def forward(self, tokens):
            image = self.mix(tokens.transpose(1, 2).reshape(1, 16, 8, 8))
            return image.flatten(2).transpose(1, 2).contiguous().relu()

    for last in (False, True):
        model = Tokens().to(memory_format=torch.channels_last) if last else Tokens()
        tokens = torch.randn(1, 64, 16)
        assert operators(trace_callable(model, (tokens,))) == operators(trace_callable(model, (tokens,), real=True))


def operators(trace):
    return [(call.op, [trace.values[index].strides for index in call.outputs]) for call in trace.calls]
