"""Torch models as nodes: what stays together, what crosses borders, what is folded."""

# mypy: allow-subclassing-any
from __future__ import annotations

import pytest

pytest.importorskip("torch")

import torch

from perfgate.worker.failures import WorkerError
from perfgate.worker.inputs import Arguments
from perfgate.worker.placing import exporting
from tests.worker.placing import models

pytestmark = [
    pytest.mark.torch,
    pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"),
]


def nodes(model):
    return {node.name: node for node in model.parts.nodes}


def test_lowering__normalisation_and_arithmetic_go_with_the_convolution_before_them(lowered):
    found = nodes(lowered("Residual"))
    assert list(found) == ["stem.0", "one.0", "two.0", "mean", "head"]
    assert [op.split(".")[1] for op in found["one.0"].ops] == ["conv2d", "relu", "add", "relu"]
    assert found["one.0"].kind == "convolution"
    assert found["one.0"].sources == (0,)
    assert found["head"].sources == (3,)


def test_lowering__equal_blocks_have_one_signature(lowered):
    found = nodes(lowered("Residual"))
    assert found["one.0"].signature == found["two.0"].signature
    assert found["one.0"].signature != found["stem.0"].signature


def test_lowering__a_signature_follows_shapes_and_attributes(lowered):
    def signature(**options):
        layer = torch.nn.Conv2d(2, 2, 3, **options).eval()
        return lowered("c", layer, (torch.ones(1, 2, 8, 8),)).parts.nodes[0].signature

    assert signature() == signature()
    assert len({signature(), signature(stride=2), signature(padding=1), signature(bias=False)}) == 4


def test_lowering__values_at_borders_have_shapes_and_bytes(lowered):
    model = lowered("Residual")
    values = {value.name: value for value in model.crossing}
    (given,) = model.parts.inputs
    assert values[given].shape == (2, 3, 12, 12)
    assert values[given].maker == -1
    stem = model.parts.nodes[0]
    assert values[stem.outputs[0]].bytes == 2 * 8 * 12 * 12 * 4
    assert values[stem.outputs[0]].maker == 0
    assert stem.weight_bytes == (8 * 3 * 9 + 8) * 4


def test_lowering__views_belong_to_what_made_their_tensor(lowered):
    found = nodes(lowered("Attention"))
    assert list(found) == ["norm", "qkv", "scaled_dot_product_attention", "out", "tanh"]
    assert len(found["qkv"].outputs) == 3


def test_lowering__tables_made_in_each_call_are_constants(lowered):
    model = lowered("Chain")
    assert not any("arange" in op for node in model.parts.nodes for op in node.ops)
    assert nodes(model)["mix"].weight_bytes == (32 * 32 + 32) * 4 + 32 * 4


def test_lowering__functions_that_libraries_differ_in_are_nodes_of_their_own(lowered):
    assert [node.kind for node in lowered("Chain").parts.nodes] == ["matmul", "scan", "sigmoid", "pow"]


def test_lowering__tied_weights_belong_together(lowered):
    found = nodes(lowered("Tied"))
    assert found["words"].together
    assert found["words"].together == found["score"].together
    assert found["inner"].together == ""


def test_lowering__a_tuple_inside_the_graph_crosses_no_border(lowered):
    model = lowered("Recurrent")
    assert [node.kind for node in model.parts.nodes] == ["rnn", "matmul"]
    assert len(model.parts.outputs) == 2


def test_lowering__state_that_changes_stays_in_one_node(lowered):
    model = lowered("Counting")
    (keeper,) = (node for node in model.parts.nodes if node.state)
    assert keeper.state == "total"
    assert sum("total" in node.state for node in model.parts.nodes) == 1


def test_lowering__folding_changes_no_result(lowered):
    for name in ("Residual", "Attention", "Chain", "Tied", "Recurrent", "Counting"):
        model = lowered(name)
        values = model.capture(model.parts.outputs)
        for name_, wanted in zip(model.parts.outputs, model.reference(), strict=True):
            assert torch.allclose(values[name_], wanted, atol=1e-5), name


def test_lowering__capturing_leaves_state_as_it_was(lowered):
    model = lowered("Counting")
    first = model.capture(model.parts.outputs)
    second = model.capture(model.parts.outputs)
    assert all(torch.equal(first[name], second[name]) for name in first)


def test_lowering__a_fingerprint_is_of_the_graph_and_not_of_weights(lowered):
    first = lowered("Chain").fingerprint
    module = models.Chain().eval()
    assert lowered("Chain", module, (torch.randn(4, 32),)).fingerprint == first
    assert lowered("Chain", module, (torch.randn(5, 32),)).fingerprint != first


def test_lowering__control_flow_on_values_is_told_with_torchs_reason():
    module, args, _ = models.made("Branching")
    with pytest.raises(WorkerError, match=r"torch\.export cannot take this model") as caught:
        exporting.export(module, Arguments(args=args), "net")
    assert caught.value.failed.kind == "unsupported"
    assert "data-dependent" in str(caught.value).lower()


def test_lowering__a_function_is_no_module():
    with pytest.raises(WorkerError, match="return a module"):
        exporting.export(torch.relu, Arguments(args=(torch.ones(1),)), "net")


def test_lowering__an_input_that_is_returned_is_made_by_a_node(lowered):
    class Echo(torch.nn.Module):
        def forward(self, x):
            return x, torch.tanh(x)

    model = lowered("echo", Echo(), (torch.ones(2),))
    made = {name for node in model.parts.nodes for name in node.outputs}
    assert set(model.parts.outputs) <= made


class Noisy(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x) + torch.rand_like(x)


class Dropping(torch.nn.Module):
    """Dropout in three forms, off in inference."""

    def __init__(self):
        super().__init__()
        self.drop = torch.nn.Dropout(0.5)
        self.lstm = torch.nn.LSTM(8, 8, num_layers=2, dropout=0.5, batch_first=True)

    def forward(self, x):
        y, _ = self.lstm(self.drop(x))
        return torch.nn.functional.scaled_dot_product_attention(y, y, y)


def test_lowering__a_step_that_draws_random_numbers_is_refused(lowered):
    with pytest.raises(WorkerError, match=r"models.Noisy: a step draws random numbers \(rand_like\)"):
        lowered("Noisy", Noisy().eval(), (torch.ones(2, 3),))


def test_lowering__dropout_that_is_off_draws_none(lowered):
    model = lowered("Dropping", Dropping().eval(), (torch.ones(2, 5, 8),))
    assert model.graph.random == ()
    assert {"rnn", "attention"} <= {node.kind for node in model.parts.nodes}


class Selecting(torch.nn.Module):
    def forward(self, x):
        return torch.tanh(x[x > 0])


def test_lowering__sizes_that_depend_on_the_data_are_refused(lowered):
    with pytest.raises(WorkerError, match=r"makes a tensor whose size depends on the data|torch\.export cannot take"):
        lowered("Selecting", Selecting().eval(), (torch.randn(4),))
