from __future__ import annotations

from dataclasses import replace

from perfgate.graph.difference.matching import match
from perfgate.graph.difference.modulemap import ModuleMap
from perfgate.records.graph import Graph
from tests.graph.handmade import graph, linear, operator


def named(base: Graph, head: Graph) -> dict[str, str]:
    found = match(base, head)
    return {base.operators[i].name: head.operators[j].name for i, j in found.pairs()}


def test_match__equal_operators_keep_their_names_where_structure_does_not_tell():
    base = graph(operator("in"), *(linear(name, sources=(0,)) for name in "qkv"), chain=False)
    head = graph(operator("in"), *(linear(name, sources=(0,)) for name in "vqk"), chain=False)
    assert named(base, head) == {"in": "in", "q": "q", "k": "k", "v": "v"}


def test_match__structure_comes_before_names():
    # The names of two equal layers were swapped: the first one is still the first one.
    base = graph(operator("in", "exp"), linear("a"), linear("b"), operator("out", "sum"))
    head = graph(operator("in", "exp"), linear("b"), linear("a"), operator("out", "sum"))
    assert named(base, head) == {"in": "in", "a": "b", "b": "a", "out": "out"}


def test_match__a_layer_put_in_leaves_the_others_paired():
    base = graph(*(linear(f"layer{n}", size=64) for n in range(5)), operator("out"))
    head = graph(*base.operators[:2], operator("new", "dropout"), *base.operators[2:])
    relinked = graph(*(replace(found, sources=()) for found in head.operators))
    assert named(base, relinked) == {found.name: found.name for found in base.operators}
    assert match(base, relinked).added() == [2]


def test_match__changed_operators_are_paired_by_order_under_other_names():
    base = graph(operator("a"), linear("b"), operator("c", "gelu"), linear("d"))
    head = graph(operator("u"), linear("v", dtype="half"), operator("w", "gelu"), linear("x", dtype="half"))
    assert named(base, head) == {"a": "u", "b": "v", "c": "w", "d": "x"}


def test_match__sizes_come_before_names_of_another_layer():
    # Moved up by one: what is now called 1 was called 0, and everything has another dtype.
    base = graph(linear("0", size=32), linear("1", size=48), linear("2", size=96))
    head = graph(*(linear(str(n), size=size, dtype="half") for n, size in enumerate((16, 32, 48, 96))))
    assert named(base, head) == {"0": "1", "1": "2", "2": "3"}


def test_match__other_operators_are_never_paired():
    found = match(graph(operator("a", "relu")), graph(operator("a", "gelu")))
    assert found.pairs() == []
    assert (found.removed(), found.added()) == ([0], [0])


def test_match__in_place_or_not_is_the_same_work():
    assert named(graph(operator("a", "relu_")), graph(operator("a", "relu"))) == {"a": "a"}


def test_match__another_phase_is_another_operator():
    assert named(graph(operator("a")), graph(operator("a", phase="backward"))) == {}


def test_match__code_moved_to_another_place_of_its_module_is_found():
    base = graph(linear("m.a"), operator("m/exp", "exp", module="m"), linear("m.b", size=32), linear("c", size=16))
    moved = [base.operators[n] for n in (0, 2, 1, 3)]
    head = graph(*(replace(found, sources=()) for found in moved))
    assert len(match(base, head).pairs()) == 4


def test_match__operators_that_read_nothing_are_known_by_where_they_end():
    # Two tables, each looked up for its own layer: the first of two equal layers is gone.
    def layers(*numbers: int) -> Graph:
        found = [operator("in", "exp", sources=())]
        for number in numbers:
            found.append(operator(f"l{number}/index", "index", sources=()))
            found.append(operator(f"l{number}/add", "add", sources=(len(found) - 2, len(found) - 1)))
        return graph(*found, chain=False)

    assert named(layers(0, 1, 2), layers(0, 1)) == {
        name: name for name in ("in", "l0/index", "l0/add", "l1/index", "l1/add")
    }


def test_match__a_block_put_in_before_its_like_is_added_as_a_whole():
    def stage(blocks: int) -> Graph:
        parts = [operator("stem", "exp"), linear("s.0.first", width=32)]
        parts += [linear("s.0.second"), operator("s.0.act")]
        for number in range(1, blocks):
            parts += [linear(f"s.{number}.first"), linear(f"s.{number}.second"), operator(f"s.{number}.act")]
        return graph(*parts, operator("out", "sum"))

    base, head = stage(2), stage(3)
    assert {head.operators[j].module for j in match(base, head).added()} == {"s.2.first", "s.2.second", "s.2.act"}


def test_gaps__hold_what_is_unmatched_between_pairs_in_order():
    base = graph(operator("a"), operator("x", "one"), operator("b", "exp"), operator("y", "two"))
    head = graph(operator("a"), operator("b", "exp"), operator("z", "three"), operator("w", "four"))
    assert [gap for gap in match(base, head).gaps() if any(gap)] == [([1], []), ([3], [2, 3])]


def test_module_map__containers_follow_from_their_modules():
    found = ModuleMap([("layer3.0.conv2", "backbone.stage3.0.conv2"), ("fc", "backbone.fc")])
    assert found.head("layer3") == "backbone.stage3"
    assert found.base("backbone.stage3.0") == "layer3.0"
    assert found.head("") == "backbone"
    assert found.base("") is None


def test_module_map__the_majority_decides_and_equal_names_win_ties():
    found = ModuleMap([("a", "x"), ("a", "y"), ("a", "y"), ("b", "b"), ("b", "c")], ["free"])
    assert (found.head("a"), found.base("x")) == ("y", None)
    assert found.head("b") == "b"
    assert found.base("free") == "free"
