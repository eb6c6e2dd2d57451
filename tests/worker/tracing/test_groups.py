"""Composite calls: which operators came from one."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402, N812
from torch.utils.checkpoint import checkpoint  # noqa: E402

from perfgate.worker.tracing import trace_callable  # noqa: E402
from tests.worker.tracing.reading import only, operand, ops  # noqa: E402

pytestmark = pytest.mark.torch


class Attend(nn.Module):
    def __init__(self):
        super().__init__()
        self.q = nn.Linear(8, 8)

    def forward(self, x):
        return F.scaled_dot_product_attention(self.q(x), x, x)


def groups(trace, phase="forward"):
    return [(call.op.split("::")[1], call.group) for call in trace.calls if call.phase == phase]


def test_group__each_attention_has_its_number():
    trace = trace_callable(nn.Sequential(Attend(), Attend()), (torch.ones(1, 2, 4, 8),))

    assert [group for op, group in groups(trace) if op == "bmm"] == [
        "scaled_dot_product_attention#1",
        "scaled_dot_product_attention#1",
        "scaled_dot_product_attention#2",
        "scaled_dot_product_attention#2",
    ]
    assert ("addmm", "") in groups(trace)


def test_group__the_outer_call_counts():
    layer = nn.MultiheadAttention(8, 2)
    x = torch.ones(3, 1, 8)

    trace = trace_callable(lambda x: layer(x, x, x, need_weights=False)[0], (x,))

    assert {call.group for call in trace.calls} == {"multi_head_attention_forward#1"}


@pytest.mark.parametrize(("layer", "name"), [(nn.LSTM, "lstm"), (nn.GRU, "gru"), (nn.RNN, "rnn")], ids=str)
def test_group__recurrent_layers(layer, name):
    trace = trace_callable(layer(4, 8, bidirectional=True, num_layers=2), (torch.ones(3, 2, 4),))

    named = [group for op, group in groups(trace) if op in {"addmm", "mm"}]
    assert named
    assert set(named) == {f"{name}#1"}


def test_group__packed_sequences():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.LSTM(4, 8, batch_first=True, bidirectional=True)

        def forward(self, x, lengths):
            packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
            output, _ = self.layer(packed)
            return nn.utils.rnn.pad_packed_sequence(output, batch_first=True)[0]

    trace = trace_callable(Packed(), (torch.ones(2, 5, 4), torch.tensor([5, 2])))

    # Lengths are looked at, so that they keep their values; nothing else has any.
    assert trace.source == "meta"
    assert "values of small tensors" in trace.notes[0]
    assert trace.untraced == ()
    products = [call for call in trace.calls if call.op in {"aten::addmm", "aten::mm"}]
    assert {call.group for call in products} == {"lstm#1"}
    # Five time steps, of which the last three have one row, in each direction.
    rows = [operand(trace, call, "mat1").shape[0] for call in products if operand(trace, call, "mat1").shape[1] == 8]
    assert sorted(rows) == [1] * 6 + [2] * 4


def test_group__the_backward_pass_belongs_to_it():
    trace = trace_callable(nn.Sequential(Attend(), Attend()), (torch.ones(1, 2, 4, 8),), train=True)

    backward = groups(trace, "backward")
    assert [group for op, group in backward if op == "_softmax_backward_data"] == [
        "scaled_dot_product_attention#2",
        "scaled_dot_product_attention#1",
    ]
    assert {group for op, group in backward if op == "mm"} == {""}


# Some releases warn of themselves.
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_group__what_is_recomputed_is_a_call_of_its_own():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = Attend()

        def forward(self, x):
            return checkpoint(self.inner, x, use_reentrant=False)

    trace = trace_callable(Checkpointed(), (torch.ones(1, 2, 4, 8),), train=True)

    again = [group for op, group in groups(trace, "backward") if op in {"_safe_softmax", "_softmax"}]
    assert again == ["scaled_dot_product_attention#2"]


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("compiled", [False, True])
def test_group__flex_attention_is_one_call(compiled):
    flex = pytest.importorskip("torch.nn.attention.flex_attention")

    class Flex(nn.Module):
        def __init__(self):
            super().__init__()
            self.qkv = nn.Linear(16, 48)
            self.attend = torch.compile(flex.flex_attention) if compiled else flex.flex_attention

        def forward(self, x):
            q, k, v = self.qkv(x).view(2, 32, 3, 2, 8).permute(2, 0, 3, 1, 4)
            return self.attend(q, k, v, score_mod=lambda score, b, h, i, j: score + (i - j))

    trace = trace_callable(Flex(), (torch.ones(2, 32, 16),))
    call = only(trace, "flex_attention")

    assert trace.source == "meta"
    assert "fake tensors" in trace.notes[0]
    assert (call.op, call.module_class, call.group) == (
        "higher_order::flex_attention",
        "Flex",
        "flex_attention#1",
    )
    assert [operand(trace, call, name).shape for name in ("query", "key", "value")] == [(2, 2, 32, 8)] * 3
    assert trace.values[call.outputs[0]].shape == (2, 2, 32, 8)
    assert call.attributes["scale"] == pytest.approx(8**-0.5)
    assert trace.untraced == ()


def test_higher_order__control_flow_is_traced_step_by_step():
    def choose(x):
        return torch.cond(x.sum() > 0, lambda x: x @ x, lambda x: x.sin(), (x,))

    assert "mm" in ops(trace_callable(choose, (torch.ones(3, 3),)))
    assert "sin" in ops(trace_callable(choose, (-torch.ones(3, 3),)))

    from torch._higher_order_ops import while_loop

    def loop(x):
        return while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, x @ x), (torch.tensor(0), x))

    assert ops(trace_callable(loop, (torch.ones(3, 3),))).count("mm") == 3


def test_higher_order__mapped_and_scanned_functions():
    from torch._higher_order_ops.map import map as mapped

    scan = pytest.importorskip("torch._higher_order_ops.scan").scan
    trace = trace_callable(lambda x: mapped(lambda row: row @ row, x), (torch.ones(4, 3, 3),))
    assert ops(trace).count("mm") == 4
    assert trace.values[trace.results[0]].shape == (4, 3, 3)

    summed = trace_callable(lambda x: scan(lambda c, row: (c + row, c * row), torch.zeros(3), x), (torch.ones(4, 3),))
    assert (ops(summed).count("add"), ops(summed).count("mul")) == (4, 4)
    assert [summed.values[index].shape for index in summed.results] == [(3,), (4, 3)]
