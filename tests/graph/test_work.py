from __future__ import annotations

import pytest

from perfgate.graph.build import build
from perfgate.records.graph import NotCounted
from tests.graph.book import Book, named


def custom(op: str = "mylib::fused", dtype: str = "float32", **attributes) -> Book:
    book = Book()
    operands = {"x": book.value(3, 4, dtype=dtype), "weights": [book.value(4, 5), book.value(5, 6)], "mask": -1}
    book.call(op, operands, (book.value(3, 6), -1), module="mlp", **attributes)
    return book


def counted(formula: str, **attributes) -> int:
    return build(custom(**attributes).trace(), {"mylib::fused": formula}).totals.flop


def reason(book: Book, formulas: dict[str, str] | None = None) -> str:
    totals = build(book.trace(), formulas).totals
    assert totals.flop == 0
    (entry,) = totals.not_counted
    return entry.reason


def test_work__a_custom_operator_is_not_counted_and_told_how():
    graph = custom().graph()
    (entry,) = graph.totals.not_counted
    assert (entry.op, entry.calls, entry.first) == ("mylib::fused", 1, "mlp")
    assert "[operators] in perfgate.toml" in entry.reason
    assert '"mylib::fused" = ' in entry.reason
    assert (named(graph, "mlp").kind, named(graph, "mlp").flop) == ("custom", None)


def test_work__a_custom_operator_without_tensors_is_not_counted_either():
    book = Book()
    book.call("mylib::tick", {})
    assert [entry.op for entry in book.graph().totals.not_counted] == ["mylib::tick"]


@pytest.mark.parametrize(
    ("shape", "dtype", "counted"),
    [((3, 4), "float32", False), ((3, 4), "bfloat16", False), ((12,), "float32", True), ((3, 4), "int64", True)],
)
def test_work__an_unknown_operator_of_torch_counts_only_where_it_cannot_be_heavy(shape, dtype, counted):
    book = Book()
    book.call("aten::some_future_thing", {"self": book.value(*shape, dtype=dtype)}, book.value(1))
    totals = book.graph().totals
    assert (totals.not_counted == ()) == counted
    assert book.graph().operators[0].kind == "other"


@pytest.mark.parametrize("op", ["higher_order::while_loop", "com.acme::Op", "triton::kernel", "aten_::mm"])
def test_work__what_may_do_anything_is_not_counted(op):
    assert "perfgate" in reason(custom(op))


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("2 * numel(x) * weights0[1]", 2 * 12 * 5),
        ("2 * in0[0] * in1[0] * in2[-1]", 2 * 3 * 4 * 6),
        ("numel(out0)", 18),
        ("groups * numel(x)", 24),
        ("kernel[1]", 7),
        ("max(x[0], x[1])", 4),
    ],
)
def test_work__a_users_formula_knows_shapes_and_whole_numbers(formula, expected):
    assert counted(formula, groups=2, kernel=[3, 7]) == expected


def test_work__a_users_formula_comes_before_perfgates():
    book = Book()
    book.call("aten::mm", {"self": book.value(3, 4), "mat2": book.value(4, 5)}, book.value(3, 5))
    assert build(book.trace(), {"aten::mm": "7"}).totals.flop == 7
    assert build(book.trace()).totals.flop == 2 * 3 * 4 * 5


def test_work__a_formula_that_does_not_fit_gives_its_sentence():
    found = reason(custom(), {"mylib::fused": "2 * numel(y)"})
    assert found.startswith("the formula of mylib::fused in perfgate.toml: there is no 'y'; known are in0")


def test_work__a_formula_below_zero_gives_its_sentence():
    assert "no count" in reason(custom(), {"mylib::fused": "0 - 1"})


def test_work__a_formula_that_is_none_is_refused_by_name():
    with pytest.raises(ValueError, match=r"operators\.mylib::fused: .* is not allowed in a formula"):
        build(custom().trace(), {"mylib::fused": "__import__('os')"})


def test_work__a_call_that_lacks_what_its_formula_needs():
    book = Book()
    book.call("aten::mm", {"self": book.value(3, 4)}, book.value(3, 5))
    assert reason(book) == "its formula needs 'mat2', which this call does not have"


def test_not_counted__gathers_calls_of_one_operator():
    book = custom()
    book.call("mylib::fused", {"x": 0}, 3, module="later", repeat=4)
    (entry,) = book.graph().totals.not_counted
    assert entry == NotCounted(op="mylib::fused", calls=5, first="mlp", reason=entry.reason)


def test_notes__say_once_where_a_count_is_a_bound():
    book = Book()
    for _ in range(2):
        operands = {"compressed_A": book.value(30), "dense_B": book.value(5, 7)}
        book.call("aten::_cslt_sparse_mm", operands, book.value(3, 7))
    (note,) = book.graph().totals.notes
    assert "upper bound" in note
