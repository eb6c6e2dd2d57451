"""Tensors: storages, layouts, roles and names."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402
from tests.worker.tracing.reading import only, operand, ops  # noqa: E402

pytestmark = pytest.mark.torch


def test_value__one_for_each_layout_of_a_storage():
    trace = trace_callable(lambda x: (x + 1, x + 2, x.t() + 1, x[0] + 1), (torch.ones(2, 3),))

    read = [operand(trace, call, "self") for call in trace.calls]
    assert len({value.storage for value in read}) == 1
    assert [(value.shape, value.strides, value.offset) for value in read] == [
        ((2, 3), (), 0),
        ((2, 3), (), 0),
        ((3, 2), (1, 3), 0),
        ((3,), (), 0),
    ]
    assert trace.calls[0].operands == trace.calls[1].operands


def test_value__strides_of_channels_last_and_expanded_inputs_are_kept():
    image = torch.ones(1, 3, 4, 4).contiguous(memory_format=torch.channels_last)
    row = torch.ones(1, 3).expand(5, 3)

    trace = trace_callable(lambda x, y: (x + 1, y * 1), (image, row))

    assert operand(trace, only(trace, "add"), "self").strides == image.stride()
    assert operand(trace, only(trace, "mul"), "self").strides == (0, 1)


@pytest.mark.parametrize("real", [False, True])
def test_value__a_freed_address_is_not_taken_for_the_tensor_that_was_there(real):
    def work(x):
        for _ in range(50):
            x = torch.cat([x + 1])
        return x

    trace = trace_callable(work, (torch.ones(64),), real=real)

    made = [trace.values[call.outputs[0]].storage for call in trace.calls]
    assert len(set(made)) == len(made) == 100


def test_value__roles_and_names():
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(3, 3)
            self.register_buffer("scale", torch.ones(3))
            self.shift = torch.ones(3)

        def forward(self, x, *, options):
            return self.layer(x) * self.scale + self.shift + options["mask"] + torch.tensor([1.0, 2.0, 3.0])

    trace = trace_callable(Net(), (torch.ones(2, 3),), {"options": {"mask": torch.ones(3)}})

    known = {(value.role, value.name) for value in trace.values}
    assert known == {
        ("parameter", "layer.weight"),
        ("parameter", "layer.bias"),
        ("buffer", "scale"),
        ("input", "inputs[0]"),
        ("input", "inputs.options['mask']"),
        ("constant", ""),
        ("intermediate", ""),
    }


def test_value__a_tied_weight_has_its_first_name_and_one_storage():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 4)
            self.head = nn.Linear(4, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, tokens):
            return self.head(self.embed(tokens))

    trace = trace_callable(Tied(), (torch.zeros(3, dtype=torch.int64),))

    looked_up = operand(trace, only(trace, "embedding"), "weight")
    multiplied = operand(trace, only(trace, "mm"), "mat2")
    assert looked_up.storage == multiplied.storage
    assert looked_up.name == multiplied.name == "embed.weight"
    assert (trace.parameters, trace.weight_bytes) == (40, 160)


def test_value__parameters_that_share_one_block_share_it_in_the_trace():
    flat = torch.ones(12)

    class Flat(nn.Module):
        def __init__(self):
            super().__init__()
            self.one = nn.Parameter(flat[:6])
            self.two = nn.Parameter(flat[6:])

        def forward(self, x):
            return x * self.one + self.two

    trace = trace_callable(Flat(), (torch.ones(6),))

    one, two = operand(trace, only(trace, "mul"), "other"), operand(trace, only(trace, "add"), "other")
    assert (one.storage, one.offset, one.name) == (two.storage, 0, "one")
    assert (two.offset, two.name) == (6, "two")


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("float64", 64), ("bfloat16", 16), ("int8", 8), ("bool", 8), ("complex128", 128), ("float8_e4m3fn", 8)],
)
def test_value__bits_of_an_element(dtype, bits):
    x = torch.zeros(4).to(getattr(torch, dtype))
    trace = trace_callable(lambda x: x.clone(), (x,))
    value = operand(trace, only(trace, "clone"), "self")
    assert (value.dtype, value.bits, value.logical) == (dtype, bits, None)


class FourBit(nn.Module):
    """Two weights in a byte, as packages for quantisation keep them."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.zeros(16, 1, dtype=torch.uint8), requires_grad=False)
        self.weight.quant_state = type("State", (), {"shape": torch.Size([8, 4])})()

    def forward(self, x):
        return x + self.weight.sum()


def test_value__packed_weights_have_their_logical_number_of_elements():
    # M46
    trace = trace_callable(FourBit(), (torch.ones(2),))

    value = operand(trace, only(trace, "sum"), "self")
    assert (value.dtype, value.shape, value.bits, value.logical) == ("uint8", (16, 1), 4, 32)
    assert (trace.parameters, trace.weight_bytes) == (32, 16)


def test_value__sparse_tensors_hold_what_they_hold():
    eye = torch.eye(4).to_sparse()
    trace = trace_callable(lambda s, x: s @ x, (eye, torch.ones(4, 2)))

    value = operand(trace, only(trace, "mm"), "self")
    # A row and a column of eight bytes for each element.
    assert (value.shape, value.logical, value.bits) == ((4, 4), 4, 32 + 2 * 64)
    assert only(trace, "mm").attributes["self_layout"] == "sparse_coo"


@pytest.mark.filterwarnings("ignore:Sparse CSR tensor support:UserWarning")
@pytest.mark.parametrize("layout", [torch.sparse_csr, torch.sparse_csc])
def test_value__compressed_sparse_tensors_have_indices(layout):
    dense = torch.zeros(64, 64)
    dense[::4, ::4] = 1

    trace = trace_callable(lambda s, x: s @ x, (dense.to_sparse(layout=layout), torch.ones(64, 2)))

    call = only(trace, "mm")
    value = operand(trace, call, "self")
    assert value.logical == 16 * 16
    # 65 bounds of rows (columns) are no whole number of bits for each of 256 elements.
    assert value.logical * value.bits // 8 == pytest.approx(256 * (4 + 8) + 65 * 8, abs=256 / 16)
    assert call.attributes["self_layout"] == str(layout).removeprefix("torch.")
    assert "mat2_layout" not in call.attributes


@pytest.mark.filterwarnings("ignore::UserWarning")
def test_value__ragged_sizes_are_not_known():
    nested = torch.nested.nested_tensor([torch.ones(2, 4), torch.ones(3, 4)])

    trace = trace_callable(lambda x: x + 1, (nested,))

    assert operand(trace, trace.calls[0], "self").shape == (2, -1, 4)


class Int8(torch.Tensor):  # type: ignore[name-defined]
    """A wrapper of a quantised weight that handles operators itself."""

    @staticmethod
    def __new__(cls, data, scale, shape):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=torch.float32, device=data.device)

    def __init__(self, data, scale, shape):
        self.inner, self.factor = data, scale

    def __tensor_flatten__(self):
        return ["inner", "factor"], tuple(self.shape)

    @staticmethod
    def __tensor_unflatten__(inner, shape, _size, _stride):
        return Int8(inner["inner"], inner["factor"], shape)

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        if func is torch.ops.aten.detach.default:
            return Int8(args[0].inner, args[0].factor, tuple(args[0].shape))
        plain = [a.inner.to(torch.float32) * a.factor if isinstance(a, Int8) else a for a in args]
        return func(*plain, **(kwargs or {}))


@pytest.mark.parametrize("real", [False, True])
def test_value__what_is_inside_a_tensor_subclass_is_traced(real):
    layer = nn.Linear(8, 4)
    weight = Int8(torch.ones(4, 8, dtype=torch.int8), torch.ones(4, 1), (4, 8))
    layer.weight = nn.Parameter(weight, requires_grad=False)

    trace = trace_callable(layer, (torch.ones(2, 8),), real=real)

    assert ops(trace) == ["_to_copy", "mul", "addmm"]
    value = operand(trace, only(trace, "_to_copy"), "self")
    assert (value.dtype, value.bits, value.role, value.name) == ("int8", 8, "parameter", "weight")
    assert (trace.parameters, trace.weight_bytes) == (4 * 8 + 4, 4 * 8 + 4 * 4 + 4 * 4)


def test_value__device_of_tensors_elsewhere():
    def work(x):
        return (x.to("cpu") + 1).to("meta"), torch.zeros(3, device="cpu")

    from perfgate.worker.inputs import Arguments
    from perfgate.worker.tracing.attempt import Job, attempt

    def make(model, given):
        return lambda _tracer: model(*given.args)

    job = Job(plain=work, modules={}, arguments=Arguments(args=(torch.ones(3),)), make=make, device="cuda:0")
    trace = attempt(job, "meta")

    devices = [trace.values[call.outputs[0]].device for call in trace.calls]
    assert operand(trace, trace.calls[0], "self").device == "meta"
    assert devices[:2] == ["cpu", "cpu"]
    assert devices[-1] == "cpu"
