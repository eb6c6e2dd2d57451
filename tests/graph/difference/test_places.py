"""What replaced what, and what came or went beside it: casts and copies are findings of their own."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import nn

from perfgate.graph.difference import compare
from perfgate.records.graph import Difference, Graph
from tests.graph.handmade import graph, operator
from tests.graph.networks import graph_of

Function = Callable[[torch.Tensor], torch.Tensor]
TO_DOUBLE = ("float32 → float64", "float64 → float32")


class Layers(nn.Module):  # type: ignore[misc]
    def __init__(self, act: Function, count: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(count))
        self.act = act

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        for layer in self.layers:
            x = self.act(layer(x))
        return x


def layers(act: Function, count: int = 6) -> Graph:
    return graph_of(Layers(act, count), torch.zeros(4, 16))


def in_double(x: torch.Tensor) -> torch.Tensor:
    return torch.sigmoid(x).double().float()


def told(found: Difference) -> dict[tuple[str, str], tuple[int, int, tuple[str, ...]]]:
    return {(one.what, one.op): (one.count, one.calls, one.how) for one in found.changes}


def test_places__casts_beside_a_replaced_activation_are_a_finding():
    found = compare(layers(torch.relu), layers(in_double))
    assert told(found) == {
        ("added", "aten::_to_copy"): (12, 12, TO_DOUBLE),
        ("changed", "aten::sigmoid"): (6, 0, ("relu → sigmoid",)),
    }
    assert found.sentences == (
        "/_to_copy (12 operators) were added (float32 → float64, float64 → float32): M +9.00 KiB, +12 kernel calls",
        "/sigmoid (6 operators) went from relu to sigmoid",
    )


def test_places__casts_that_went_beside_a_replaced_activation_are_a_finding():
    found = compare(layers(in_double), layers(torch.relu))
    assert told(found)["removed", "aten::_to_copy"] == (12, -12, TO_DOUBLE)
    assert told(found)["changed", "aten::relu"] == (6, 0, ("sigmoid → relu",))


@pytest.mark.parametrize(
    ("act", "how"),
    [(lambda x: torch.sigmoid(x).clone(), ()),
     (lambda x: torch.sigmoid(x).t().contiguous().t(), ("transposed → contiguous",))],
)  # fmt: skip
def test_places__copies_beside_a_replaced_activation_are_a_finding(act, how):
    found = compare(layers(torch.relu), layers(act))
    assert told(found)["added", "aten::clone"] == (6, 6, how)
    assert told(found)["changed", "aten::sigmoid"] == (6, 0, ("relu → sigmoid",))


def test_places__an_activation_that_now_runs_in_double_is_told_apart_from_its_casts():
    class Double(nn.Module):  # type: ignore[misc]
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return nn.functional.silu(x.double()).float()

    def model(act: nn.Module) -> Graph:
        return graph_of(nn.Sequential(nn.Conv2d(3, 8, 3), act, nn.Conv2d(8, 8, 3)), torch.zeros(1, 3, 16, 16))

    found = compare(model(nn.ReLU()), model(Double()))
    assert told(found)["added", "aten::_to_copy"] == (2, 2, TO_DOUBLE)
    assert told(found)["changed", "aten::silu"][0] == 1
    assert len(found.sentences) == 2


def test_places__an_activation_with_another_argument_does_not_hide_a_cast():
    gelu = nn.functional.gelu
    found = compare(layers(gelu), layers(lambda x: gelu(x, approximate="tanh").double().float()))
    assert told(found)["added", "aten::_to_copy"] == (12, 12, TO_DOUBLE)
    assert any(text.startswith("/_to_copy (12 operators) were added") for text in found.sentences)


def test_places__one_cast_says_its_dtypes():
    cast = operator("b/_to_copy", "_to_copy", inputs=("float32[8,64]",), outputs=("float64[8,64]",))
    found = compare(graph(operator("a"), operator("c", "exp")), graph(operator("a"), cast, operator("c", "exp")))
    assert found.changes[0].how == ("float32 → float64",)
    assert found.sentences[0].startswith("b/_to_copy was added (float32 → float64)")


def test_places__casts_inside_of_what_was_added_are_named():
    found = compare(layers(torch.relu), layers(lambda x: torch.sigmoid(torch.relu(x).double()).float()))
    named = [line for change in found.changes for line in change.how]
    assert any("float32 → float64" in line for line in named)


def test_places__the_activations_of_new_layers_came_with_them():
    found = compare(layers(torch.relu, 3), layers(in_double, 30))
    assert told(found)["changed", "aten::sigmoid"] == (3, 0, ("relu → sigmoid",))
    assert told(found)["added", "aten::sigmoid"][:2] == (27, 27)
    assert told(found)["added", "aten::_to_copy"] == (60, 60, TO_DOUBLE)
    back = compare(layers(in_double, 30), layers(torch.relu, 3))
    assert told(back)["removed", "aten::sigmoid"][:2] == (27, -27)
    assert told(back)["changed", "aten::relu"] == (3, 0, ("sigmoid → relu",))


@pytest.mark.parametrize(
    ("base", "head", "place"),
    [(lambda x: torch.sigmoid(x) - torch.tanh(x), lambda x: torch.tanh(x) - torch.sigmoid(x), ", first at /sub"),
     (lambda x: x[:2] + 1, lambda x: x[2:] + 1, ""),
     (lambda x: (x.sin(), x.cos())[0], lambda x: (x.sin(), x.cos())[1], "")],
)  # fmt: skip
def test_compare__says_that_the_same_operators_are_connected_differently(base, head, place):
    one, other = graph_of(_Called(base), torch.zeros(4, 16)), graph_of(_Called(head), torch.zeros(4, 16))
    found = compare(one, other)
    assert not found.equal
    assert not found.changes
    assert found.sentences == found.notes
    assert found.sentences[0].startswith("the same operators are connected differently")
    assert found.sentences[0].endswith(f"differ{place}")
    assert compare(one, one).sentences == ()


class _Called(nn.Module):  # type: ignore[misc]
    def __init__(self, function: Function) -> None:
        super().__init__()
        self.function = function

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.function(x)
