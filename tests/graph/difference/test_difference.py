from __future__ import annotations

import random
import time
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn
from torch.nn import functional as F  # noqa: N812

from perfgate import wire
from perfgate.graph.build import build
from perfgate.graph.difference import compare
from perfgate.records.graph import Difference, Graph, Operator
from tests.graph.handmade import graph, linear, operator
from tests.graph.networks import Decoder, Residual, graph_of, images, tokens
from tests.graph.random_traces import relabelled, traces


class Renamed(nn.Module):  # type: ignore[misc]
    """``networks.Residual`` with other names, its activations by the function and in the parent."""

    def __init__(self, width: int = 16) -> None:
        super().__init__()
        self.first = nn.Conv2d(3, width, 3, padding=1)
        self.stages = nn.ModuleDict({name: RenamedStage(width) for name in ("early", "middle", "late")})
        self.classifier = nn.Linear(width, 10)

    def forward(self, image):
        y = self.first(image)
        for stage in self.stages.values():
            y = F.relu(stage(y), inplace=True)
        return self.classifier(y.mean((2, 3)))


class RenamedStage(nn.Module):  # type: ignore[misc]
    def __init__(self, width: int) -> None:
        super().__init__()
        self.body = nn.Sequential(
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
            nn.ReLU(inplace=True),
            nn.Conv2d(width, width, 3, padding=1),
            nn.BatchNorm2d(width),
        )

    def forward(self, y):
        return self.body(y).add_(y)


class Wrapped(nn.Module):  # type: ignore[misc]
    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.backbone = inner

    def forward(self, *given):
        return self.backbone(*given)


class Branches(nn.Module):  # type: ignore[misc]
    """Three branches from one input, in the order asked for."""

    def __init__(self, order: str, size: int = 4) -> None:
        super().__init__()
        self.order = order
        self.parts = nn.ModuleDict({"a": nn.Linear(8, 4), "b": nn.Linear(8, 4), "c": nn.Linear(8, size)})

    def forward(self, x):
        made = {name: torch.tanh(self.parts[name](x)) for name in self.order}
        return made["a"] * made["b"] + made["c"].sum(-1, keepdim=True)


def empty(found: Difference) -> bool:
    return found.equal and not (found.changes or found.more or found.flop or found.bytes or found.kernels)


@pytest.mark.parametrize("train", [False, True])
def test_compare__renames_and_moves_give_an_empty_difference(train):
    base = graph_of(Residual(), images(), train=train)
    for model in (Renamed(), Wrapped(Residual()), Wrapped(Renamed())):
        found = compare(base, graph_of(model, images(), train=train))
        assert empty(found)
        assert found.sentences == found.notes == ()


def test_compare__the_order_of_independent_branches_does_not_matter():
    x = torch.zeros(2, 8)
    graphs = [graph_of(Branches(order), x) for order in ("abc", "cab", "bca")]
    assert all(empty(compare(graphs[0], other)) for other in graphs[1:])


def test_compare__finds_a_change_behind_renames():
    model = Renamed()
    model.stages["middle"].body[3] = nn.Conv2d(16, 16, 3, padding=2, dilation=2)
    found = compare(graph_of(Residual(), images()), graph_of(Wrapped(model), images()))
    assert [(change.name, change.how) for change in found.changes] == [
        ("backbone.stages.middle.body.3", ("padding 1 → 2", "dilation 1 → 2"))
    ]


def test_compare__finds_a_change_among_reordered_branches():
    x = torch.zeros(2, 8)
    found = compare(graph_of(Branches("abc"), x), graph_of(Branches("cab", size=6), x))
    assert found.changes[0].name == "parts.c"
    assert found.changes[0].how[0] == "output features 4 → 6"
    assert {change.name for change in found.changes} == {"parts.c", "/tanh", "/sum"}


@given(traces(), st.integers(0, 1000))
@settings(max_examples=60, deadline=None)
def test_compare__relabelled_traces_are_equal(base, seed):
    assert empty(compare(build(base), build(relabelled(base, seed))))


@given(traces(), traces())
@settings(max_examples=150, deadline=None)
def test_compare__findings_add_up_to_the_difference_of_the_totals(one, other):
    found = compare(build(one), build(other))
    assert found.more == 0
    assert sum(change.flop for change in found.changes) == found.flop
    assert sum(change.bytes for change in found.changes) == found.bytes
    assert sum(change.calls for change in found.changes) == found.kernels
    assert found.equal == (build(one).totals.fingerprint == build(other).totals.fingerprint)


def test_compare__the_other_way_round_has_opposite_signs():
    base, head = graph_of(Decoder(), tokens()), graph_of(Decoder(layers=4, hidden=96), tokens())
    there, back = compare(base, head), compare(head, base)
    assert (there.flop, there.bytes, there.kernels) == (-back.flop, -back.bytes, -back.kernels)
    swapped = {"added": "removed", "removed": "added", "changed": "changed"}
    assert {swapped[change.what] for change in there.changes} == {change.what for change in back.changes}


def test_compare__travels_by_wire():
    found = compare(graph_of(Decoder(), tokens()), graph_of(Decoder(layers=4), tokens()))
    assert wire.loads(Difference, wire.dumps(found)) == found


def test_compare__shows_an_example_of_both_sides():
    found = compare(graph(linear("a"), linear("b")), graph(linear("a"), linear("b", dtype="bfloat16")))
    assert found.changes[0].base == "float32[8,64], float32[64,64] → float32[8,64]"
    assert found.changes[0].head == "bfloat16[8,64], bfloat16[64,64] → bfloat16[8,64]"


def test_compare__keeps_fifty_findings_and_counts_the_rest():
    base = graph(*(linear(f"layer{chr(97 + n // 26)}{chr(97 + n % 26)}") for n in range(70)))
    head = graph(*(linear(found.name, size=64 + n) for n, found in enumerate(base.operators, 1)))
    found = compare(base, head)
    assert len(found.changes) == 50
    assert found.more == 20
    assert len(found.sentences) == 5


def test_compare__says_when_only_the_connections_changed():
    chain = [operator("a"), operator("b"), operator("c")]
    base = graph(*chain, fingerprint="1")
    head = graph(*chain[:2], replace(chain[2], sources=(0,)), fingerprint="2")
    found = compare(base, head)
    assert [(change.name, change.how) for change in found.changes] == [("c", ("reads from others", "b → a"))]
    assert found.sentences == ("c reads from a instead of b",)


def test_compare__says_when_no_operator_tells_the_difference():
    base, head = graph(operator("a"), fingerprint="1"), graph(operator("a"), fingerprint="2")
    found = compare(base, head)
    assert not found.equal
    assert found.changes == ()
    assert "what is returned differ" in found.notes[0]


def test_compare__says_that_software_may_be_the_reason():
    base = graph(operator("a"))
    head = graph(operator("a"), operator("b"))
    head = replace(head, totals=replace(head.totals, software="torch 2.14.1"))
    assert compare(base, head).notes == ("operators may be made of others with unknown → torch 2.14.1",)


def test_compare__of_empty_graphs_is_empty():
    assert empty(compare(graph(), graph()))
    assert compare(graph(), graph(operator("a"))).changes[0].what == "added"
    assert compare(graph(operator("a")), graph()).changes[0].what == "removed"


def test_compare__bears_texts_that_nobody_expects():
    names = ["a\nb", "x" * 5000, "", "*", "…", "\u202eabc", "a|b`c", "]["]
    strange = ("float32[" + "9" * 5000 + "]", "]]", "", "float32[-1,?]", "[]", "a[1] \n b")
    base = graph(*(operator(name, "mm", inputs=strange, sources=(5, -3, 99)) for name in names))
    head = graph(*(operator(f"{name}!", "mm", outputs=strange, attributes={"p": "[" * 70}) for name in names))
    found = compare(base, head)
    assert found.changes
    assert all("\n" not in sentence and len(sentence) < 1000 for sentence in found.sentences)


def test_compare__unknown_flop_counts_as_none():
    found = compare(graph(operator("a")), graph(operator("a"), operator("b", "fused", flop=None)))
    assert found.changes[0].flop == 0


@cache
def transformer(blocks: int, *, dtype: str = "float32", width: int = 64, prefix: str = "layers") -> Graph:
    """Ten operators a block."""
    operators: list[Operator] = []
    for number in range(blocks):
        at, start, x = f"{prefix}.{number}", len(operators), f"{dtype}[8,{width}]"
        weighted: dict[str, Any] = {"size": width, "width": width, "dtype": dtype}
        plain: dict[str, Any] = {"inputs": (x,), "outputs": (x,)}
        operators += [
            operator(f"{at}.norm", "native_layer_norm", **plain),
            *(linear(f"{at}.{part}", sources=(start,), **weighted) for part in "qkv"),
            operator(f"{at}/mul", "mul", sources=(start + 1, start + 2), **plain),
            operator(f"{at}/_softmax", "_softmax", **plain),
            operator(f"{at}/mul#2", "mul", sources=(start + 3, start + 5), **plain),
            linear(f"{at}.proj", **weighted),
            operator(f"{at}.act", "gelu", **plain),
            operator(f"{at}/add", "add", sources=(start, start + 8), **plain),
        ]
    return graph(*operators)


def half(found: Graph, seed: int) -> Graph:
    """Every other operator or so is gone."""
    count = len(found.operators)
    kept = sorted(random.Random(seed).sample(range(count), count // 2))
    place = {old: new for new, old in enumerate(kept)}
    operators = [found.operators[old] for old in kept]
    return graph(
        *(replace(one, sources=tuple(place[s] for s in one.sources if s in place)) for one in operators), chain=False
    )


def flat(found: Graph) -> Graph:
    """As a model without modules has it: no name tells anything."""
    named = (replace(one, module="", name=f"/{one.op}#{n}", sources=()) for n, one in enumerate(found.operators))
    return graph(*named, chain=False)


BIG = {
    "equal": lambda: transformer(500),
    "all of another dtype": lambda: transformer(500, dtype="bfloat16"),
    "all of another size": lambda: transformer(500, width=96),
    "all renamed and of another dtype": lambda: transformer(500, dtype="bfloat16", prefix="backbone.stage"),
    "half of the layers": lambda: transformer(250),
    "half of the operators": lambda: half(transformer(500), 1),
    "half of the operators, renamed, of another dtype": lambda: half(transformer(500, dtype="half", prefix="b"), 2),
    "nothing in common": lambda: graph(*(operator(f"z{n}", f"other{n % 7}") for n in range(5000))),
    "without modules": lambda: flat(half(transformer(500, dtype="bfloat16"), 3)),
}


@pytest.mark.parametrize("kind", BIG)
def test_compare__of_5000_operators_is_no_matter_of_minutes(kind):
    base, head = transformer(500), BIG[kind]()
    before = time.process_time()
    found = compare(base, head)
    # It takes half a second; a quadratic step would take minutes.
    assert time.process_time() - before < 10
    assert found.equal == (kind == "equal")


def test_compare__all_of_another_dtype_is_one_finding():
    found = compare(transformer(50), transformer(50, dtype="bfloat16", prefix="backbone.stage"))
    assert [(change.name, change.count, change.how) for change in found.changes] == [
        ("backbone.stage.*", 500, ("float32 → bfloat16",))
    ]
    assert found.sentences[0].startswith("backbone.stage.* (500 operators) went from float32 to bfloat16")
