from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from perfgate.errors import MeasuringError
from perfgate.pipeline import place_problem
from perfgate.placement import evaluate
from perfgate.records.placement import Border, Device, Placement, Single, Support, Target
from perfgate.records.placing import (
    NO_TIME,
    CrossingValue,
    LibraryFound,
    Lowered,
    LoweredNode,
    NodeTime,
    Profiled,
    WholeTime,
)

CPU = (Device(name="cpu"),)


def node(name: str, *sources: int, **fields: Any) -> LoweredNode:
    values: dict[str, Any] = {"kind": "matmul", "ops": ("mm",), "signature": f"s-{name}", "outputs": (f"{name}.out",)}
    return LoweredNode(name=name, sources=sources, **{**values, **fields})


def lowered(*nodes: LoweredNode, libraries: tuple[LibraryFound, ...] = ()) -> Lowered:
    values = tuple(
        CrossingValue(name=f"{one.name}.out", dtype="float32", shape=(25,), bytes=100, maker=number)
        for number, one in enumerate(nodes)
    )
    return Lowered(
        framework="torch",
        nodes=nodes,
        values=values,
        inputs=("x",),
        outputs=("y",),
        fingerprint="f",
        libraries=libraries,
    )


def profiled(
    times: dict[tuple[str, str], float],
    factors: dict[str, float],
    said: tuple[tuple[str, str, str], ...] = (),
    **fields: Any,
) -> Profiled:
    names = list(factors)
    wholes = [WholeTime(target=name, seconds=1.0, nodes_s=1.0, factor=factor) for name, factor in factors.items()]
    return Profiled(
        targets=tuple(Target(name=name, library=name, device="cpu", piece_s=1e-6) for name in names),
        times=tuple(
            NodeTime(signature=f"s-{one}", target=name, seconds=value, raw_s=value, low_s=value, high_s=value, blocks=3)
            for (one, name), value in times.items()
        ),
        wholes=tuple(wholes),
        borders=(Border(source="a", target="b", send_s_per_byte=1e-9, receive_s=2e-6),),
        supports=supports(*said),
        **fields,
    )


LIBRARIES = (
    LibraryFound(name="onednn"),
    LibraryFound(name="inductor", compiler=True),
    LibraryFound(name="openvino", missing="pip install openvino"),
    LibraryFound(name="cuda", device="cuda:0"),
)


def targets(**fields: Any) -> list[str]:
    asked: dict[str, Any] = {"devices": ["cpu"], "libraries": (), "threads": (1,), **fields}
    return [one.name for one in place_problem.targets(lowered(node("a"), libraries=LIBRARIES), **asked)]


def test_targets__are_what_is_there_on_the_devices_that_are_wanted():
    assert targets() == ["onednn cpu", "inductor cpu"]
    assert targets(devices=["cpu", "cuda:0"], libraries=("cuda", "onednn")) == ["onednn cpu", "cuda cuda:0"]


# https://github.com/microsoft/onnxruntime/pull/13021: how threads are shared is part of the assignment.
def test_targets__threads_are_part_of_a_cpu_target_and_of_no_other():
    assert targets(threads=(1, 2), devices=["cpu", "cuda:0"], libraries=("cuda", "onednn")) == [
        "onednn cpu 1",
        "onednn cpu 2",
        "cuda cuda:0",
    ]


def test_targets__the_compiler_is_the_default_and_there_is_always_one():
    found = place_problem.targets(
        lowered(node("a"), libraries=LIBRARIES), devices=["cpu"], libraries=(), threads=(2, 1)
    )
    assert [one.name for one in found if one.default] == ["inductor cpu 2"]
    found = place_problem.targets(
        lowered(node("a"), libraries=LIBRARIES), devices=["cpu"], libraries=("onednn",), threads=(1,)
    )
    assert [one.default for one in found] == [True]


def test_problem__times_are_in_place():
    posed = place_problem.problem(
        lowered(node("p"), node("q", 0, weight_bytes=7)),
        profiled({("p", "a"): 1.0, ("q", "a"): 2.0, ("p", "b"): 4.0}, {"a": 0.5, "b": 1.5}),
        CPU,
        objective="latency",
    )
    assert [one.seconds for one in posed.nodes] == [(0.5, 6.0), (1.0, None)]
    assert [one.output_bytes for one in posed.nodes] == [100.0, 100.0]
    assert posed.nodes[1].memory_bytes == 7


def test_problem__what_is_changed_in_place_stays_together_before_what_is_tied():
    posed = place_problem.problem(
        lowered(node("p", together="w"), node("q", 0, together="w", state="cache"), node("r", 1, state="cache")),
        profiled({("p", "a"): 1.0, ("q", "a"): 1.0, ("r", "a"): 1.0}, {"a": 1.0}),
        CPU,
        objective="latency",
    )
    assert [one.together for one in posed.nodes] == ["w", "cache", "cache"]


def supports(*said: tuple[str, str, str]) -> tuple[Support, ...]:
    return tuple(
        Support(target=target, signature=f"s-{name}", name=name, kind="x", reason=reason)
        for name, target, reason in said
    )


def test_homeless__an_operator_without_a_target_is_named_with_what_each_said():
    graph = lowered(node("p"), node("q", 0))
    known = profiled({("p", "a"): 1.0}, {"a": 1.0, "b": 1.0}, said=(("q", "a", "no kernel"), ("q", "b", "it differs")))
    posed = place_problem.problem(graph, known, CPU, objective="latency")
    assert place_problem.homeless(posed, known) == (
        "no library takes q (a: no kernel; b: it differs); leave --libraries out, or install more libraries"
    )
    known = profiled({("p", "a"): 1.0}, {"a": 1.0, "b": 1.0}, said=(("q", "a", "no kernel"),))
    assert place_problem.homeless(posed, known) == (
        "q has no target (a: no kernel; b: not measured in time); raise the budget"
    )
    known = profiled({("p", "a"): 1.0, ("q", "b"): 1.0}, {"a": 1.0, "b": 1.0})
    assert place_problem.homeless(place_problem.problem(graph, known, CPU, objective="latency"), known) == ""


def singles(**values: float | None) -> list[Single]:
    return [Single(target=name, value=value) for name, value in values.items()]


TIMES = {"p": {"a": 1.0, "b": 9.0}, "q": {"a": 1.0, "b": 1.5}, "r": {"a": 1.0}}


def whole(**fields: Any) -> Profiled:
    """``name=seconds``, or a reason."""
    wholes = [
        WholeTime(target=name, reason=it) if isinstance(it, str) else WholeTime(target=name, seconds=it)
        for name, it in fields.items()
    ]
    return replace(profiled({}, {}), wholes=tuple(wholes))


def test_best_single__is_the_fastest_measured_of_those_that_keep_the_limits():
    found = place_problem.best_single(whole(a=3.0, b=2.0, c="no kernel"), singles(a=3.0, b=2.0, c=1.0))
    assert found is not None
    assert found.target == "b"
    found = place_problem.best_single(whole(a=3.0, b=2.0), singles(a=3.0, b=None))
    assert found is not None
    assert found.target == "a"
    assert place_problem.best_single(whole(a=3.0, b=2.0), singles(a=None, b=None)) is None


def test_best_single__where_all_refuse_the_whole_model_there_is_none():
    refused = whole(a="no conv", b="no scan")
    assert place_problem.best_single(refused, singles(a=1.0, b=1.0)) is None
    assert list(place_problem.alone(refused)) == ["no library runs the whole model: a: no conv; b: no scan"]
    assert list(place_problem.alone(whole(a=1.0, b="no scan"))) == []


def test_parted__what_refuses_the_whole_is_left_by_the_node_that_loses_least():
    given = place_problem.problem(
        lowered(node("p"), node("q", 0), node("r", 1)),
        profiled({(one, name): time for one, ours in TIMES.items() for name, time in ours.items()}, {"a": 1, "b": 1}),
        CPU,
        objective="latency",
    )
    all_on_a = Placement(targets=(0, 0, 0), value=3.0)
    found = place_problem.parted(given, all_on_a, whole(a="differs", b="no scan"))
    assert found is not None
    assert [one.seconds[0] is None for one in found.nodes] == [False, True, False]
    assert [one.seconds[1] for one in found.nodes] == [one.seconds[1] for one in given.nodes]
    # It takes the whole, or may; it is not everything; nothing else takes anything.
    assert place_problem.parted(given, all_on_a, whole(a=1.0, b="no scan")) is None
    assert place_problem.parted(given, all_on_a, whole(a=NO_TIME, b="no scan")) is None
    assert place_problem.parted(given, Placement(targets=(0, 1, 0), value=3.0), whole(a="differs")) is None
    alone = replace(given, nodes=tuple(replace(one, seconds=(one.seconds[0], None)) for one in given.nodes))
    assert place_problem.parted(alone, all_on_a, whole(a="differs")) is None


def test_best_single__without_time_for_any_says_to_raise_the_budget():
    with pytest.raises(MeasuringError, match=r"on no library \(a: no conv; b: no time was left\); raise the budget"):
        place_problem.best_single(whole(a="no conv", b=NO_TIME), singles(a=1.0, b=1.0))


def test_cautious__borders_cost_more_and_operators_the_same():
    posed = place_problem.problem(
        lowered(node("p"), node("q", 0)),
        profiled({(one, name): 1.0 for one in "pq" for name in "ab"}, {"a": 1.0, "b": 1.0}),
        CPU,
        objective="latency",
    )
    dear = place_problem.cautious(posed, 3.0)
    alone, mixed = (0, 0), (0, 1)
    border = 100e-9 + 2e-6
    assert evaluate.value(posed, mixed) == pytest.approx(2.0 + border + 2e-6)
    assert evaluate.value(dear, mixed) == pytest.approx(2.0 + 3 * (border + 2e-6))
    assert evaluate.value(dear, alone) == pytest.approx(2.0 + 3e-6)


def test_parts__are_runs_of_one_target_in_order():
    posed = place_problem.problem(
        lowered(node("p"), node("q", 0), node("r", 1)),
        profiled({(one, name): 1.0 for one in "pqr" for name in "ab"}, {"a": 1.0, "b": 1.0}),
        CPU,
        objective="latency",
    )
    found = place_problem.parts(posed, Placement(targets=(0, 0, 1), value=3.0))
    assert [(one.target, one.nodes) for one in found] == [("a", (0, 1)), ("b", (2,))]
