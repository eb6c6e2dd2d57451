"""What a model holds, against figures worked out by hand."""

# mypy: allow-subclassing-any
from __future__ import annotations

import os
import warnings

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.worker import counting  # noqa: E402

pytestmark = pytest.mark.torch


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


def test_parameters__shared_module_counts_once():
    layer = nn.Linear(8, 8)
    assert counting.parameters(nn.Sequential(layer, nn.ReLU(), layer)) == 72


def test_total__a_weight_that_two_models_share_counts_once():
    one, other = nn.Linear(8, 8), nn.Linear(8, 8)
    other.weight = one.weight
    assert counting.total(counting.parameters, [one, other]) == 64 + 8 + 8
    assert counting.total(counting.weight_bytes, [one, other]) == 4 * (64 + 8 + 8)
    assert counting.total(counting.parameters, []) == 0


def test_weight_bytes__buffers_and_narrow_types():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.BatchNorm2d(4)).to(torch.bfloat16)
    # 12 + 4 weights and biases, 8 of the norm, 8 running statistics at two bytes; a 64-bit counter.
    assert counting.weight_bytes(model) == 2 * (12 + 4 + 8 + 8) + 8


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_parameters__quantised_layers_are_not_empty():
    # M46
    model = nn.Sequential(nn.Linear(64, 32), nn.Linear(32, 16))
    quantised = torch.ao.quantization.quantize_dynamic(model, {nn.Linear}, dtype=torch.qint8)

    assert sum(p.numel() for p in quantised.parameters()) == 0
    assert counting.parameters(quantised) == 64 * 32 + 32 + 32 * 16 + 16
    # One byte for each weight, four for each bias.
    assert counting.weight_bytes(quantised) == 64 * 32 + 4 * 32 + 32 * 16 + 4 * 16


def test_parameters__four_bit_weights_count_as_many_as_they_stand_for():
    # M46: two in a byte; who packed them keeps the shape.
    packed = nn.Parameter(torch.zeros(64 * 32 // 2, 1, dtype=torch.uint8), requires_grad=False)
    packed.quant_state = type("State", (), {"shape": (64, 32)})()
    model = nn.ParameterList([packed, nn.Parameter(torch.zeros(32))])

    assert counting.parameters(model) == 64 * 32 + 32
    assert counting.weight_bytes(model) == 64 * 32 // 2 + 4 * 32
    assert (counting.logical(packed), counting.logical(model[1])) == (64 * 32, None)


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
def test_parameters__quantised_embeddings_are_whole_tables():
    ao = torch.ao.quantization
    bag = nn.Sequential(nn.EmbeddingBag(300, 8))
    setups = (ao.float_qparams_weight_only_qconfig, ao.float_qparams_weight_only_qconfig_4bit)
    bytes8, bytes4 = (ao.quantize_dynamic(bag, {nn.EmbeddingBag: setup}) for setup in setups)
    table = torch.ao.nn.quantized.Embedding(300, 8)

    assert [counting.parameters(model) for model in (table, bytes8, bytes4)] == [2400, 2400, 2400]
    assert [counting.weight_bytes(model) for model in (table, bytes8, bytes4)] == [2400, 2400, 1200]


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize(
    ("layer", "gates"), [(nn.LSTM, 4), (nn.GRU, 3), (nn.LSTMCell, 4), (nn.GRUCell, 3), (nn.RNNCell, 1)]
)
def test_parameters__quantised_recurrent_layers_are_not_empty(layer, gates):
    plain = nn.Sequential(layer(16, 8))
    quantised = torch.ao.quantization.quantize_dynamic(plain, {layer}, dtype=torch.qint8)

    matrices, biases = gates * 8 * (16 + 8), 2 * gates * 8
    assert counting.parameters(quantised) == counting.parameters(plain) == matrices + biases
    assert counting.weight_bytes(quantised) == matrices + 4 * biases


@pytest.mark.filterwarnings("ignore::UserWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("layer", [nn.LSTM, nn.Linear])
def test_weight_bytes__dynamic_half_precision_takes_two_bytes(layer):
    quantised = torch.ao.quantization.quantize_dynamic(nn.Sequential(layer(16, 8)), {layer}, dtype=torch.float16)

    matrices, biases = (4 * 8 * (16 + 8), 64) if layer is nn.LSTM else (16 * 8, 8)
    assert counting.weight_bytes(quantised) == 2 * matrices + 4 * biases


def test_parameters__packed_elements_where_nobody_says_what_they_stand_for():
    packed = nn.Parameter(torch.zeros(100, dtype=torch.uint8), requires_grad=False)
    assert counting.parameters(nn.ParameterList([packed])) == 100


class Wrapped(torch.Tensor):  # type: ignore[name-defined]
    """A weight of logical float32 that holds bytes and scales, as packages for quantisation make them."""

    @staticmethod
    def __new__(cls, data, scale):
        return torch.Tensor._make_wrapper_subclass(cls, data.shape, dtype=torch.float32)

    def __init__(self, data, scale):
        self.data_, self.scale_, self.note = data, scale, "no tensor"

    def __tensor_flatten__(self):
        return ["data_", "scale_", "note"], None

    @staticmethod
    def __tensor_unflatten__(inner, _context, _size, _stride):
        return Wrapped(inner["data_"], inner["scale_"])

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Wrapped(args[0].data_, args[0].scale_)
        raise NotImplementedError(func)


def test_weight_bytes__of_a_wrapper_are_those_inside():
    weight = nn.Parameter(Wrapped(torch.zeros(8, 4, dtype=torch.int8), torch.ones(8)), requires_grad=False)
    model = nn.ParameterList([weight])

    assert counting.parameters(model) == 32
    assert counting.weight_bytes(model) == 32 + 4 * 8
    assert [inner.dtype for inner in counting.inner_tensors(weight)] == [torch.int8, torch.float32]


def test_weight_bytes__sparse_weights_are_what_they_store():
    model = nn.Module()
    # Each element with its row and its column; a compressed one has bounds of rows instead, one more than rows.
    model.register_buffer("mask", torch.eye(100).to_sparse())
    assert counting.weight_bytes(model) == 100 * (4 + 2 * 8)
    for layout in (torch.sparse_csr, torch.sparse_csc):
        model.register_buffer("mask", compressed(torch.eye(100), layout))
        assert counting.weight_bytes(model) == 100 * (4 + 8) + 8 * 101


def compressed(tensor, layout):
    with warnings.catch_warnings():
        # Compressed layouts are in beta.
        warnings.simplefilter("ignore")
        return tensor.to_sparse(layout=layout)


def test_structure__counts_classes_and_their_own_bytes():
    found = counting.structure(nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)))

    assert found == {
        "modules": {"Linear": 2, "ReLU": 1, "Sequential": 1},
        "parameter_bytes": {"Linear": 4 * (6 + 3 + 3 + 1)},
    }


@pytest.mark.skipif(not hasattr(torch.compiler, "set_stance"), reason="older releases skip what ran uncompiled once")
def test_uncompiled__compiled_functions_run_as_written_and_are_compiled_again_afterwards():
    import torch._dynamo

    def double(x):
        return x * (3 if torch.compiler.is_compiling() else 2)

    before = torch.compile(double, backend="eager")
    with counting.uncompiled():
        inside = torch.compile(double, backend="eager")
        assert [f(torch.ones(1)).item() for f in (before, inside)] == [2, 2]
    assert before(torch.ones(1)).item() == 3
    assert "TORCHDYNAMO_DISABLE" not in os.environ
