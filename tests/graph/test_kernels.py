from __future__ import annotations

import pytest
from hypothesis import given, settings

from perfgate.graph import kernels
from perfgate.graph.build import build
from perfgate.records.graph import BACKWARD, BUFFER, INPUT, OPTIMIZER, PARAMETER, KernelGroup, Totals
from tests.graph.book import Book
from tests.graph.counting_traces import traces
from tests.graph.test_fusion import attention, chain, fused

FLOAT = 4
MATRIX = 16 * 16 * FLOAT


def total(groups: tuple[KernelGroup, ...], field: str) -> int:
    return sum(getattr(group, field) * group.calls for group in groups)


def only(groups: tuple[KernelGroup, ...], kind: str) -> KernelGroup:
    found = [group for group in groups if group.kind == kind]
    assert len(found) == 1
    return found[0]


def linear(book: Book, x: int, w: int, *, phase: str = "forward", dtype: str = "float32") -> int:
    """x w, 16 x 16 each."""
    out = book.value(16, 16, dtype=dtype)
    book.call("aten::mm", {"self": x, "mat2": w}, out, phase=phase)
    return out


@settings(max_examples=150, deadline=None)
@given(traces())
def test_groups__come_to_the_totals(trace):
    totals = build(trace).totals
    for groups in (totals.eager_kernels, totals.fused_kernels):
        assert total(groups, "flop") == totals.flop
        assert all(group.written_bytes <= group.bytes and group.weight_bytes <= group.bytes for group in groups)
        assert [group.bytes * group.calls for group in groups] == sorted(
            (group.bytes * group.calls for group in groups), reverse=True
        )
    assert total(totals.fused_kernels, "bytes") == totals.traffic.fused
    assert sum(group.calls for group in totals.fused_kernels) <= totals.kernels
    found, moves, _ = fused(trace)
    flash = {number for number, moved in found.moved.items() if moved.flash}
    alone = [number for number, kernel in enumerate(found.kernel) if kernel not in flash]
    repeats = [call.repeat for call in trace.calls]
    assert sum(group.calls for group in totals.eager_kernels) == len(flash) + sum(repeats[number] for number in alone)
    expected = sum((moves[number].read + moves[number].written) * repeats[number] for number in alone)
    expected += sum(found.moved[number].read + found.moved[number].written for number in flash)
    assert total(totals.eager_kernels, "bytes") == expected
    assert flash or expected == totals.traffic.eager


def test_groups__equal_kernels_are_one_with_the_name_of_the_first():
    book = Book()
    x, w = book.value(16, 16, role=INPUT), book.value(16, 16, role=PARAMETER)
    for number in range(3):
        out = book.value(16, 16)
        book.call("aten::mm", {"self": x, "mat2": w}, out, module=f"layer{number}")
        x = out
    (group,) = book.graph(results=(4,)).totals.eager_kernels
    assert group == KernelGroup(
        name="layer0",
        kind="matmul",
        dtype="float32",
        flop=2 * 16**3,
        bytes=3 * MATRIX,
        calls=3,
        written_bytes=MATRIX,
        weight_bytes=MATRIX,
    )


def test_groups__of_a_fused_chain_are_one_kernel_with_the_work_of_its_product():
    book = chain("aten::add", "aten::relu")
    (group,) = book.graph(results=(len(book.values) - 1,)).totals.fused_kernels
    assert (group.kind, group.flop, group.bytes, group.calls) == ("matmul", 2 * 16**3, 3 * MATRIX, 1)
    assert group.written_bytes == group.weight_bytes == MATRIX


def test_groups__loops_count_each_time():
    book = chain()
    book.call("aten::relu", {"self": 2}, book.value(16, 16), repeat=5)
    totals = book.graph(results=(3,)).totals
    for groups in (totals.eager_kernels, totals.fused_kernels):
        group = only(groups, "pointwise")
        assert (group.calls, group.bytes) == (5, 2 * MATRIX)


def test_groups__what_nobody_can_count_has_no_work_but_its_bytes():
    book = chain("mylib::unknown")
    group = only(book.graph().totals.eager_kernels, "custom")
    assert (group.flop, group.bytes) == (0, 2 * MATRIX)


def test_groups__torch_s_own_attention_is_one_kernel_with_or_without_a_compiler():
    totals = attention(backward=True).graph().totals
    for groups in (totals.eager_kernels, totals.fused_kernels):
        kernels = [group for group in groups if group.kind == "attention"]
        assert [group.phase for group in kernels] in (["backward", "forward"], ["forward", "backward"])
        assert total(groups, "flop") == totals.flop == sum(group.flop for group in kernels)
    assert sum(group.calls for group in totals.eager_kernels) == 2


def plain_attention(group: str, softmax: str, *, dtype: str = "float32") -> tuple[KernelGroup, ...]:
    """Eager kernels of softmax(Q K) V in plain products, which compute in float32."""
    book = Book()
    query, key, value = (book.value(4, 8, 8, role=INPUT, dtype=dtype) for _ in range(3))
    scores, weights, out = (book.value(4, 8, 8) for _ in range(3))
    book.call("aten::bmm", {"self": query, "mat2": key}, scores, group=group)
    book.call(softmax, {"self": scores}, weights, group=group)
    book.call("aten::bmm", {"self": weights, "mat2": value}, out, group=group)
    return book.graph(results=(out,)).totals.eager_kernels


@pytest.mark.parametrize(
    ("group", "softmax", "kinds"),
    [
        ("scaled_dot_product_attention#1", "aten::_softmax", {"attention"}),
        # Only its plain form has this softmax.
        ("multi_head_attention_forward#1", "aten::_safe_softmax", {"attention"}),
        ("multi_head_attention_forward#1/scaled_dot_product_attention#2", "aten::_softmax", {"attention"}),
        # Weights are wanted: torch does run this operator by operator, and flex attention too.
        ("multi_head_attention_forward#1", "aten::_softmax", {"matmul", "softmax"}),
        ("flex_attention#1", "aten::_softmax", {"matmul", "softmax"}),
        ("", "aten::_softmax", {"matmul", "softmax"}),
    ],
)
def test_groups__without_a_compiler_other_attention_runs_operator_by_operator(group, softmax, kinds):
    assert {kernel.kind for kernel in plain_attention(group, softmax)} == kinds


def test_dtype__of_fused_attention_is_that_of_what_it_is_given():
    (kernel,) = plain_attention("scaled_dot_product_attention#1", "aten::_safe_softmax", dtype="float16")
    assert kernel.dtype == "float16"
    first, *_ = plain_attention("multi_head_attention_forward#1", "aten::_softmax")
    assert first.dtype == "float32"


@pytest.mark.parametrize(
    ("op", "operands", "expected"),
    [
        ("aten::mm", {"self": "bfloat16", "mat2": "bfloat16"}, "bfloat16"),
        ("aten::mm", {"self": "complex64", "mat2": "complex64"}, "float32"),
        ("aten::_int_mm", {"self": "int8", "mat2": "int8"}, "int8"),
        ("aten::_scaled_mm", {"self": "float8_e4m3fn", "mat2": "float8_e4m3fn"}, "float8_e4m3fn"),
        ("quantized::linear", {"X": "quint8"}, "int8"),
        ("quantized::linear_dynamic", {"X": "float32"}, "int8"),
        ("quantized::linear_dynamic_fp16", {"X": "float32"}, "float16"),
        # The scale is a float, the product is not.
        ("ai.onnx::QLinearConv", {"x": "uint8", "x_scale": "float32"}, "int8"),
        ("aten::_weight_int8pack_mm", {"self": "bfloat16", "mat2": "int8", "scales": "bfloat16"}, "bfloat16"),
        # Numbers of a mask go before the numbers that count.
        ("aten::where", {"condition": "bool", "self": "float16"}, "float16"),
        ("aten::add", {"self": "int64"}, "int64"),
        ("aten::relu", {"self": "uint8"}, "uint8"),
    ],
)
def test_dtype__is_what_is_computed_in(op, operands, expected):
    book = Book()
    given = {name: book.value(16, 16, dtype=dtype, role=INPUT) for name, dtype in operands.items()}
    out = book.value(16, 16, dtype=operands.get("self", "float32"))
    book.call(op, given, out)
    assert [group.dtype for group in book.graph().totals.eager_kernels] == [expected]


def test_dtype__of_what_reads_nothing_is_that_of_what_it_writes():
    book = Book()
    book.call("aten::zeros", {}, book.value(16, 16, dtype="float16"))
    assert book.graph().totals.eager_kernels[0].dtype == "float16"


def test_weight_bytes__follow_the_cast_of_a_parameter():
    book = Book()
    x = book.value(16, 16, role=INPUT, dtype="float16")
    w, half = book.value(16, 16, role=PARAMETER), book.value(16, 16, dtype="float16")
    book.call("aten::_to_copy", {"self": w}, half)
    out = linear(book, x, half, dtype="float16")
    product, cast = book.graph(results=(out,)).totals.eager_kernels
    assert (cast.kind, cast.weight_bytes, cast.bytes) == ("cast", 16 * 16 * 6, 16 * 16 * 6)
    assert (product.weight_bytes, product.bytes) == (16 * 16 * 2, 16 * 16 * 6)


def test_weight_bytes__of_a_parameter_that_every_item_gets_are_read_once():
    book = Book()
    token = book.value(1, 16, role=PARAMETER)
    seen = book.value(8, 16, role=PARAMETER, storage=token, strides=(0, 1))
    copies = book.value(8, 16)
    book.call("aten::clone", {"self": seen}, copies)
    book.call("aten::relu", {"self": copies}, book.value(8, 16))
    clone, relu = sorted(book.graph().totals.eager_kernels, key=lambda group: group.bytes)
    assert (clone.weight_bytes, clone.bytes) == (16 * FLOAT, 9 * 16 * FLOAT)
    assert relu.weight_bytes == 0


def test_weight_bytes__of_a_lookup_are_none():
    book = Book()
    table, index = book.value(1000, 16, role=PARAMETER), book.value(8, dtype="int64", role=INPUT)
    book.call("aten::embedding", {"weight": table, "indices": index}, book.value(8, 16))
    (group,) = book.graph().totals.eager_kernels
    assert group.weight_bytes == 0


def test_weight_bytes__are_gradients_and_all_of_the_optimizer():
    book = Book()
    x, w = book.value(8, 16, role=INPUT), book.value(16, 16, role=PARAMETER)
    y, slope = book.value(8, 16), book.value(8, 16, role=INPUT)
    book.call("aten::mm", {"self": x, "mat2": w}, y)
    half, gradient = book.value(16, 16, dtype="float16"), book.value(16, 16)
    book.call("aten::mm", {"self": x, "mat2": slope}, half, phase=BACKWARD)
    book.call("aten::_to_copy", {"self": half}, gradient, phase=BACKWARD)
    book.call("aten::add_", {"self": w, "other": gradient}, w, writes=[w], phase=OPTIMIZER)
    groups = {group.name: group for group in book.graph(results=(y,)).totals.eager_kernels}
    by = {(group.phase, group.kind): group for group in groups.values()}
    assert by["forward", "matmul"].weight_bytes == MATRIX
    assert by["backward", "matmul"].weight_bytes == MATRIX // 2
    assert by["backward", "cast"].weight_bytes == by["backward", "cast"].bytes == MATRIX * 3 // 2
    assert by["optimizer", "pointwise"].weight_bytes == by["optimizer", "pointwise"].bytes == 3 * MATRIX


def test_weight_bytes__of_a_chain_are_those_of_its_members():
    book = Book()
    x, w, scale = book.value(8, 16, role=INPUT), book.value(16, 16, role=PARAMETER), book.value(16, role=BUFFER)
    y, z = book.value(8, 16), book.value(8, 16)
    book.call("aten::mm", {"self": x, "mat2": w}, y)
    book.call("aten::mul", {"self": y, "other": scale}, z)
    (group,) = book.graph(results=(z,)).totals.fused_kernels
    assert group.weight_bytes == MATRIX + 16 * FLOAT
    assert group.bytes == group.weight_bytes + 2 * 8 * 16 * FLOAT


def many(count: int) -> Totals:
    """A step of ``count`` products of as many different sizes."""
    book = Book()
    for size in range(1, count + 1):
        x, w = book.value(size, 64, role=INPUT), book.value(64, size + 7, role=PARAMETER)
        book.call("aten::mm", {"self": x, "mat2": w}, book.value(size, size + 7), repeat=1 + size % 3)
    return book.graph().totals


def test_groups__beyond_the_limit_are_averaged_and_sums_stay_exact():
    totals = many(3 * kernels.MOST)
    groups = totals.eager_kernels
    assert len(groups) <= kernels.MOST < 3 * kernels.MOST
    assert total(groups, "flop") == totals.flop
    assert total(groups, "bytes") == totals.traffic.eager
    assert sum(group.calls for group in groups) == totals.kernels
    # Those with the most bytes stay as they are.
    size = max(range(1, 3 * kernels.MOST + 1), key=lambda size: (1 + size % 3) * size**2)
    assert (2 * size * 64 * (size + 7), 1 + size % 3) in {(group.flop, group.calls) for group in groups}


def test_groups__averaged_are_alike():
    """An intensity of an average lies among those of the exact kernels of about its size."""
    totals = many(3 * kernels.MOST)
    exact = sorted(2 * s * 64 * (s + 7) / (FLOAT * (64 * s + 64 * (s + 7) + s * (s + 7))) for s in range(2, 1201))
    for group in totals.eager_kernels:
        if group.bytes > 100_000:
            assert exact[0] * 0.9 <= group.flop / group.bytes <= exact[-1] * 1.1


def test_groups__at_the_limit_stay_as_they_are():
    assert len(many(kernels.MOST).eager_kernels) == kernels.MOST


torch = pytest.importorskip("torch")


@pytest.mark.torch
def test_weight_bytes__tell_the_traffic_at_another_batch():
    """bytes(2 b) = weights + 2 (bytes(b) - weights), in a whole training step, within a hundredth."""
    from perfgate.worker.tracing import trace_callable
    from tests.graph.networks import Residual

    def step(batch: int) -> Totals:
        model = Residual(width=32).train()
        return build(trace_callable(model, (torch.zeros(batch, 3, 16, 16),), train=True, real=False)).totals

    small, large = step(2), step(4)
    for name in ("eager_kernels", "fused_kernels"):
        here, there = getattr(small, name), getattr(large, name)
        weights = total(here, "weight_bytes")
        assert weights == total(there, "weight_bytes") > small.weight_bytes
        expected = 2 * total(here, "bytes") - weights
        assert expected == pytest.approx(total(there, "bytes"), rel=0.01)
