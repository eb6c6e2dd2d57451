from __future__ import annotations

import pytest
from hypothesis import given, settings

from perfgate.graph.build import build
from perfgate.graph.flow import OUTSIDE, follow
from perfgate.graph.fusion import Fused, fuse
from perfgate.graph.operators import table
from perfgate.graph.operators.definition import Operands
from perfgate.graph.traffic import Memory, Moved
from perfgate.graph.work import work
from perfgate.records.graph import BACKWARD, INPUT, PARAMETER, Trace
from tests.graph.book import Book
from tests.graph.counting_traces import traces

FLOAT = 4


def fused(trace: Trace) -> tuple[Fused, list[Moved], Memory]:
    memory = Memory(trace)
    moves, kinds = [], []
    for call in trace.calls:
        operands, definition = Operands(trace, call), table.lookup(call.op)
        moves.append(memory.moved(operands, definition))
        kinds.append(work(operands, definition, {}).kind)
    return fuse(memory, kinds, moves, follow(memory, moves)), moves, memory


def chain(*ops: str, phase: str = "forward") -> Book:
    """A matrix product and operators one after another, each on the result of the one before."""
    book = Book()
    x, w = book.value(16, 16, role=INPUT), book.value(16, 16, role=PARAMETER)
    last = book.value(16, 16)
    book.call("aten::mm", {"self": x, "mat2": w}, last)
    for op in ops:
        new = book.value(16, 16)
        book.call(op, {"self": last}, new, phase=phase)
        last = new
    return book


@settings(max_examples=150, deadline=None)
@given(traces())
def test_fuse__is_never_below_min_nor_above_eager(trace):
    found, moves, memory = fused(trace)
    repeats = [call.repeat for call in trace.calls]
    eager = sum((one.read + one.written) * repeat for one, repeat in zip(moves, repeats, strict=True))
    assert memory.least(moves, repeats) <= found.bytes <= eager


@settings(max_examples=80, deadline=None)
@given(traces())
def test_fuse__kernels_can_run_in_the_order_of_their_beginnings(trace):
    found, moves, memory = fused(trace)
    flow = follow(memory, moves)
    for number in range(len(trace.calls)):
        assert found.kernel[found.kernel[number]] == found.kernel[number] <= number
        for producers in flow.producers[number].values():
            assert all(found.kernel[producer] <= found.kernel[number] for producer in producers if producer != OUTSIDE)


def test_fuse__a_chain_costs_what_its_ends_cost():
    book = chain("aten::add", "aten::relu", "aten::native_layer_norm")
    totals = book.graph(results=(len(book.values) - 1,)).totals
    assert totals.traffic.fused == totals.traffic.min == 3 * 16 * 16 * FLOAT
    assert totals.traffic.eager == totals.traffic.min + 6 * 16 * 16 * FLOAT


def test_fuse__what_others_need_is_written_all_the_same():
    book = chain("aten::relu")
    book.call("aten::mm", {"self": 2, "mat2": 1}, book.value(16, 16))
    found, _, _ = fused(book.trace(results=(3, 4)))
    assert found.kernel == (0, 0, 2)
    # The first product is read by the second one: read x and w, write both, read product and w, write.
    assert found.bytes == 7 * 16 * 16 * FLOAT


def test_fuse__a_branch_joins_the_later_producer():
    book = chain("aten::relu")
    early, late = 3, book.value(16, 16)
    book.call("aten::mm", {"self": 0, "mat2": 1}, late)
    book.call("aten::add", {"self": early, "other": late}, book.value(16, 16))
    found, _, _ = fused(book.trace())
    assert found.kernel == (0, 0, 2, 2)


@pytest.mark.parametrize("op", ["aten::clone", "aten::mm", "aten::sort", "mylib::unknown", "aten::max_pool2d"])
def test_fuse__other_kinds_begin_a_kernel_of_their_own(op):
    found, _, _ = fused(chain(op).trace())
    assert found.kernel == (0, 1)


@pytest.mark.parametrize("op", ["mylib::unknown", "aten::sort", "aten::_local_scalar_dense"])
def test_fuse__nothing_joins_what_nobody_can_extend(op):
    found, _, _ = fused(chain(op, "aten::relu").trace())
    assert found.kernel == (0, 1, 2)


def test_fuse__the_backward_pass_joins_no_forward_kernel():
    found, _, _ = fused(chain("aten::relu", phase=BACKWARD).trace())
    assert found.kernel == (0, 1)


def test_fuse__a_loop_and_what_is_outside_of_it_stay_apart():
    book = chain()
    book.call("aten::relu", {"self": 2}, book.value(16, 16), repeat=5)
    found, _, _ = fused(book.trace())
    assert found.kernel == (0, 1)


def test_fuse__in_place_is_a_link_of_the_chain():
    book = chain()
    book.call("aten::relu_", {"self": 2}, 2, writes=[2])
    assert book.graph(results=(2,)).totals.traffic.fused == 3 * 16 * 16 * FLOAT


def attention(*, backward: bool) -> Book:
    """Four heads of 8 x 8 with width 2, in plain products."""
    book = Book()
    query, key, value = (book.value(4, 8, 2, role=INPUT) for _ in range(3))
    scores, weights, out = book.value(4, 8, 8), book.value(4, 8, 8), book.value(4, 8, 2)
    group = "scaled_dot_product_attention#1"
    book.call("aten::bmm", {"self": query, "mat2": key}, scores, group=group)
    book.call("aten::_safe_softmax", {"self": scores}, weights, group=group)
    book.call("aten::bmm", {"self": weights, "mat2": value}, out, group=group)
    if backward:
        gradient = book.value(4, 8, 2, role=INPUT)
        of_value, of_weights, of_scores = book.value(4, 8, 2), book.value(4, 8, 8), book.value(4, 8, 8)
        of_query, of_key = book.value(4, 8, 2), book.value(4, 8, 2)
        more = {"group": group, "phase": BACKWARD}
        book.call("aten::bmm", {"self": weights, "mat2": gradient}, of_value, **more)
        book.call("aten::bmm", {"self": gradient, "mat2": value}, of_weights, **more)
        book.call("aten::_softmax_backward_data", {"grad_output": of_weights, "output": weights}, of_scores, **more)
        book.call("aten::bmm", {"self": of_scores, "mat2": key}, of_query, **more)
        book.call("aten::bmm", {"self": of_scores, "mat2": query}, of_key, **more)
    return book


def test_fuse__attention_in_plain_products_is_one_flash_kernel():
    book = attention(backward=False)
    found, _, _ = fused(book.trace(results=(5,)))
    assert found.kernel == (0, 0, 0)
    assert found.bytes == (4 * 4 * 8 * 2 + 4 * 8) * FLOAT  # Q, K, V, O and one number a row


def test_fuse__attention_backward_reads_what_a_flash_kernel_reads():
    book = attention(backward=True)
    forward = (4 * 4 * 8 * 2 + 4 * 8) * FLOAT
    found, _, _ = fused(book.trace(results=(5,), lasting=(7, 10, 11)))
    assert found.kernel == (0, 0, 0, 3, 3, 3, 3, 3)
    # Q, K, V, O, the gradient of O and one number a row are read, three gradients written.
    assert found.bytes == forward + (8 * 4 * 8 * 2 + 4 * 8) * FLOAT


def test_fuse__attention_inside_of_a_multi_head_call_is_found():
    book = attention(backward=False)
    book.calls = []
    group = "multi_head_attention_forward#1"
    projected = book.value(4, 8, 2)
    book.call("aten::mm", {"self": 0, "mat2": 1}, projected, group=group)
    book.call("aten::bmm", {"self": projected, "mat2": 1}, 3, group=group)
    book.call("aten::_softmax", {"self": 3}, 4, group=group)
    book.call("aten::bmm", {"self": 4, "mat2": 2}, 5, group=group)
    book.call("aten::mm", {"self": 5, "mat2": 1}, book.value(4, 8, 2), group=group)
    found, _, _ = fused(book.trace())
    assert found.kernel == (0, 1, 1, 1, 4)


def test_fuse__a_foreign_call_in_between_keeps_attention_apart():
    book = attention(backward=False)
    stranger = book.value(4, 8, 8)
    book.calls.insert(1, book.calls[1].__class__(op="aten::sort", operands={"self": (3,)}, outputs=(stranger,)))
    found, _, _ = fused(book.trace())
    assert found.kernel == (0, 1, 0, 3)


def test_build__fused_index_is_the_first_operator_of_the_kernel():
    graph = build(chain("aten::relu", "aten::tanh").trace())
    assert [operator.fused for operator in graph.operators] == [0, 0, 0]
