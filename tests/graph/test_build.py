from __future__ import annotations

import time

from hypothesis import given, settings

from perfgate.graph.build import build
from perfgate.graph.fingerprint import fingerprint
from perfgate.records.graph import BUFFER, INPUT, OPTIMIZER, PARAMETER, Share
from tests.graph.book import Book, named
from tests.graph.counting_traces import traces


def small() -> Book:
    book = Book()
    x = book.value(1, 8, 6, 6, role=INPUT, name="inputs[0]", strides=(288, 1, 48, 8))
    w = book.value(16, 8, 3, 3, role=PARAMETER, name="conv.weight")
    y, z = book.value(1, 16, 4, 4), book.value(1, 16, 4, 4)
    operands = {"input": x, "weight": w, "bias": -1}
    book.call(
        "aten::convolution", operands, y, module="conv", stride=(1, 1), groups=1, transposed=False, bias_sizes=None
    )
    book.call("aten::relu", {"self": y}, z, module="act", group="block#1")
    return book


def test_build__tells_of_an_operator_what_people_need():
    graph = build(small().trace(results=(3,)))
    conv = named(graph, "conv")
    assert conv.inputs == ("float32[1,8,6,6] channels_last", "float32[16,8,3,3]")
    assert conv.outputs == ("float32[1,16,4,4]",)
    assert conv.origins == ("inputs[0]", "conv.weight")
    assert conv.attributes == {"stride": "[1, 1]", "groups": "1", "transposed": "False"}
    assert (conv.op, conv.kind, conv.phase, conv.module) == ("aten::convolution", "convolution", "forward", "conv")
    assert named(graph, "act").sources == (0,)
    assert named(graph, "act").origins == ("",)
    assert named(graph, "act").group == "block#1"


def test_build__totals_are_the_sums_of_the_operators():
    trace = small().trace(
        results=(3,), parameters=1152, weight_bytes=4608, peak_bytes=2048, batch=4, software="torch 2.14.1",
        notes=("traced on real tensors",), untraced=("a kernel wrote to x",),
    )  # fmt: skip
    totals = build(trace).totals
    assert totals.flop == 2 * 16 * 16 * 8 * 9
    assert totals.kernels == 2
    assert totals.kinds == {
        "convolution": Share(calls=1, flop=totals.flop, bytes=4 * (288 + 1152 + 256)),
        "pointwise": Share(calls=1, flop=0, bytes=4 * 512),
    }
    assert totals.traffic.eager == sum(share.bytes for share in totals.kinds.values())
    assert totals.traffic.fused == totals.traffic.min == 4 * (288 + 1152 + 256)
    assert (totals.params, totals.weight_bytes, totals.peak_activation_bytes) == (1152, 4608, 2048)
    assert (totals.batch, totals.software) == (4, "torch 2.14.1")
    assert totals.notes == ("traced on real tensors", "a kernel wrote to x")
    assert totals.fingerprint == fingerprint(trace)


@settings(max_examples=60, deadline=None)
@given(traces())
def test_build__holds_together_for_any_trace(trace):
    graph = build(trace)
    totals = graph.totals
    assert totals.traffic.min <= totals.traffic.fused <= totals.traffic.eager
    assert sum(share.bytes for share in totals.kinds.values()) == totals.traffic.eager
    assert sum(share.flop for share in totals.kinds.values()) == totals.flop
    assert sum(share.calls for share in totals.kinds.values()) == totals.kernels
    assert len({operator.name for operator in graph.operators}) == len(graph.operators) == len(trace.calls)
    for number, operator in enumerate(graph.operators):
        assert all(source < number for source in operator.sources)
        assert len(operator.origins) == len(operator.inputs)
    unknown = sum(operator.repeat for operator in graph.operators if operator.flop is None)
    assert unknown == sum(entry.calls for entry in totals.not_counted)


def test_build__an_empty_step_is_a_graph_too():
    totals = Book().graph().totals
    assert (totals.flop, totals.kernels, totals.traffic.eager) == (0, 0, 0)


def test_build__five_thousand_operators_are_quick():
    book = Book()
    last = book.value(64, 64, role=INPUT)
    for number in range(2500):
        weight, made = book.value(64, 64, role=PARAMETER, name=f"layers.{number}.weight"), book.value(64, 64)
        book.call("aten::mm", {"self": last, "mat2": weight}, made, module=f"layers.{number}")
        last = book.value(64, 64)
        book.call("aten::add", {"self": made, "other": weight}, last, module=f"layers.{number}", alpha=1)
    trace = book.trace(results=(last,))
    begun = time.process_time()
    graph = build(trace)
    # About half a second; far more would mean that something grows with the square.
    assert time.process_time() - begun < 10
    assert graph.totals.flop == 2500 * 2 * 64**3


def test_build__optimisers_are_named_and_not_fused_with_the_backward_pass():
    book = Book()
    w, gradient = book.value(4, 4, role=PARAMETER), book.value(4, 4)
    state = book.value(4, 4, role=BUFFER)
    book.call("aten::mm", {"self": w, "mat2": w}, gradient, phase="backward", module="fc")
    book.call("aten::_foreach_lerp_", {"self": [state], "tensors1": [gradient]}, (), writes=[state], phase=OPTIMIZER)
    graph = book.graph()
    assert [operator.name for operator in graph.operators] == ["fc/mm@backward", "optimizer/_foreach_lerp_"]
    assert [operator.fused for operator in graph.operators] == [0, 1]
    assert graph.operators[1].kind == "pointwise"
