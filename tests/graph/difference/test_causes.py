"""Which findings are causes: names of findings in order, causes before what follows."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from perfgate.graph.difference import compare
from perfgate.records.graph import Difference, Graph, Operator
from tests.graph.handmade import graph, linear, operator

HALF = "bfloat16[8,64]"


def names(found: Difference) -> list[str]:
    return [change.name for change in found.changes]


def cast(name: str, before: str, after: str) -> Operator:
    return operator(name, "_to_copy", kind="cast", inputs=(f"{before}[8,64]",), outputs=(f"{after}[8,64]",))


def test_causes__what_is_behind_a_change_of_size_follows():
    base = graph(linear("fc1"), operator("act"), linear("fc2"), linear("head", size=10))
    wide = "float32[8,96]"
    head = graph(linear("fc1", size=96), operator("act", inputs=(wide,), outputs=(wide,)), linear("fc2", width=96),
                 linear("head", size=10))  # fmt: skip
    found = compare(base, head)
    assert names(found)[0] == "fc1"
    assert set(names(found)[1:]) == {"fc2", "act"}
    assert found.sentences == (
        "fc1 has 96 output features instead of 64, and 2 operators after it follow: F +65.5 kFLOP",
    )


def test_causes__a_cast_follows_from_the_layer_that_needs_it():
    base = graph(linear("a", dtype="bfloat16"), linear("b", dtype="bfloat16"), linear("c", dtype="bfloat16"))
    head = graph(linear("a", dtype="bfloat16"), cast("b/_to_copy", "bfloat16", "float32"), linear("b"),
                 cast("b/_to_copy#2", "float32", "bfloat16"), linear("c", dtype="bfloat16"))  # fmt: skip
    found = compare(base, head)
    assert names(found) == ["b", "b/_to_copy"]
    assert found.changes[0].how == ("bfloat16 → float32",)
    assert found.sentences[0].startswith("b went from bfloat16 to float32, and 2 operators after it follow")


def test_causes__a_cast_that_nothing_needs_is_the_cause():
    base = graph(linear("a", dtype="bfloat16"), operator("act", inputs=(HALF,), outputs=(HALF,)))
    head = graph(linear("a", dtype="bfloat16"), cast("/_to_copy", "bfloat16", "float32"), operator("act"))
    found = compare(base, head)
    assert names(found) == ["/_to_copy", "act"]
    assert found.changes[0].what == "added"


def test_causes__autocast_leaving_a_layer_out_names_the_layer():
    def autocast(inner: tuple[Operator, ...]) -> Graph:
        return graph(cast("a/_to_copy", "float32", "bfloat16"), linear("a", dtype="bfloat16"), *inner)

    weight = operator("b/_to_copy#2", "_to_copy", inputs=("float32[64,64]",), outputs=("bfloat16[64,64]",),
                      origins=("b.weight",), sources=(0,))  # fmt: skip
    base = autocast((weight, linear("b", dtype="bfloat16", sources=(1, 2), origins=("", ""))))
    head = autocast((cast("b/_to_copy", "bfloat16", "float32"), linear("b")))
    assert names(compare(base, head))[0] == "b"


def test_causes__autocast_is_told_by_its_layers_and_not_by_its_casts():
    def weight(name: str) -> Operator:
        return operator(f"{name}/_to_copy", "_to_copy", inputs=("float32[64,64]",), outputs=("bfloat16[64,64]",),
                        origins=(f"{name}.weight",), sources=(-1,))  # fmt: skip

    base = graph(*(linear(f"m.{name}") for name in "abc"))
    operators = [cast("m/_to_copy", "float32", "bfloat16")]
    for name in "abc":
        before = len(operators)
        cast_weight = weight(f"m.{name}")
        layer = linear(f"m.{name}", dtype="bfloat16", origins=("", ""), sources=(before - 1, before))
        operators += [cast_weight, layer]
    found = compare(base, graph(*operators))
    assert [(change.name, change.what, change.count) for change in found.changes] == [
        ("m.*", "changed", 3),
        ("m.*/_to_copy", "added", 4),
    ]


def test_causes__several_layers_keep_their_name_beside_what_follows_in_the_same_way():
    act: dict[str, Any] = {"inputs": (HALF,), "outputs": (HALF,)}
    parts, other = [operator("in", "exp", **act)], [operator("in", "exp", **act)]
    for number in range(3):
        at = f"l.{number}"
        parts += [
            linear(f"{at}.conv2", dtype="bfloat16"),
            operator(f"{at}.bn", "bn", **act),
            operator(f"{at}.act", **act),
        ]
        other += [cast(f"{at}/_to_copy", "bfloat16", "float32"), linear(f"{at}.conv2"), operator(f"{at}.bn", "bn")]
        other += [cast(f"{at}/_to_copy#2", "float32", "bfloat16"), operator(f"{at}.act", **act)]
    found = compare(graph(*parts), graph(*other))
    assert [change.name for change in found.changes] == ["l.*.conv2", "l.*/_to_copy", "l.*.bn"]
    assert found.sentences[0].startswith(
        "l.*.conv2 (3 operators) and 3 operators after it went from bfloat16 to float32"
    )


def test_causes__copies_behind_a_lost_layout_follow():
    last = "float32[1,8,4,4] channels_last"
    plain = "float32[1,8,4,4]"

    def model(layout: str, *more: Operator) -> Graph:
        conv = operator(
            "conv", "convolution", inputs=(layout, "float32[8,8,1,1]"), outputs=(layout,), origins=("x", "w")
        )
        return graph(conv, *more, operator("flat", "sum", inputs=(plain,), outputs=("float32[8]",)))

    copy = operator("/clone", "clone", kind="copy", inputs=(last,), outputs=(plain,))
    found = compare(model(plain), model(last, copy))
    assert names(found) == ["conv", "/clone"]
    assert found.sentences[0].startswith("conv went from contiguous to channels_last, and 1 operator after it follows")


def test_causes__two_changes_are_two_causes_the_larger_first():
    base = graph(operator("a"), *(operator(f"m{n}", "exp") for n in range(4)), linear("b"))
    head = graph(
        operator("a", "gelu", read_bytes=4096), *base.operators[1:5], linear("b", attributes={"x": "1"}, flop=10**9)
    )
    found = compare(base, graph(*(replace(one, sources=()) for one in head.operators)))
    assert names(found) == ["b", "a"]
    assert len(found.sentences) == 2


def test_causes__equal_causes_in_several_places_are_one_finding():
    base = graph(*(linear(f"layers.{n}.fc", size=64) for n in range(4)))
    head = graph(*(replace(one, attributes={"groups": "4"}) for one in base.operators))
    found = compare(base, head)
    assert [(change.name, change.count) for change in found.changes] == [("layers.*.fc", 4)]
    assert found.sentences == ("layers.*.fc (4 operators) have groups 4 instead of default",)


def test_causes__the_backward_pass_follows_from_the_forward_pass():
    def step(**more) -> Graph:
        return graph(
            linear("fc", **more),
            operator("fc/mm@backward", "mm", phase="backward", flop=10**8 if more else 10**6,
                     inputs=(f"float32[8,{more.get('size', 64)}]",)),
            operator("optimizer/add_", "add_", module="", phase="optimizer",
                     inputs=(f"float32[64,{more.get('size', 64)}]",)),
        )  # fmt: skip

    found = compare(step(), step(size=96))
    assert [change.phase for change in found.changes] == ["forward", "backward", "optimizer"]
    assert found.sentences[0].startswith("fc has 96 output features instead of 64, and 2 operators after it follow")


def test_causes__another_optimizer_is_a_cause_of_its_own():
    def step(act: str, optimizer: str) -> Graph:
        return graph(operator("act", act), linear("fc"), operator(f"optimizer/{optimizer}", optimizer, module="",
                                                                  phase="optimizer", sources=(1,)))  # fmt: skip

    found = compare(step("relu", "add_"), step("gelu", "_fused_adamw_"))
    assert len(found.sentences) == 2
    assert any(text.startswith("optimizer/_fused_adamw_ went from add_ to _fused_adamw_ in the optimizer")
               for text in found.sentences)  # fmt: skip


def test_causes__each_layer_with_a_size_of_its_own_is_named():
    base = graph(*(linear(f"l{chr(97 + n)}") for n in range(5)))
    sizes = (64, 60, 52, 47, 39, 64)
    head = graph(*(linear(f"l{chr(97 + n)}", width=sizes[n], size=sizes[n + 1]) for n in range(5)))
    assert set(names(compare(base, head))) >= {"la", "lb", "lc", "ld"}


def test_causes__a_module_that_was_taken_out_is_one_finding():
    extra = [linear("neck.a.fc"), operator("neck.a.act"), linear("neck.b.fc"), operator("neck.b.act")]
    base = graph(linear("stem", size=64), *extra, linear("head", size=10))
    head = graph(linear("stem", size=64), linear("head", size=10))
    found = compare(base, head)
    assert [(change.what, change.name, change.count, change.calls) for change in found.changes] == [
        ("removed", "neck", 4, -4)
    ]
    assert found.sentences[0].startswith("neck (4 operators) were removed (mm + relu + mm + relu)")
