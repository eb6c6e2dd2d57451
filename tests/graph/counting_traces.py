"""Random traces with what makes traffic hard: views, expansion, partial writes, phases, loops, composite calls."""

from __future__ import annotations

from hypothesis import strategies as st

from perfgate.records.graph import BACKWARD, BUFFER, CONSTANT, FORWARD, INPUT, PARAMETER, Trace
from tests.graph.book import Book

SIDE = 8
ROLES = (INPUT, PARAMETER, BUFFER, CONSTANT)
DTYPES = ("float32", "float16", "int64", "bool")


@st.composite
def traces(draw, largest: int = 24) -> Trace:
    """Square tensors, whole or in part, read and written by calls of every kind of traffic."""
    book = Book()
    for number in range(draw(st.integers(1, 4))):
        role, dtype = draw(st.sampled_from(ROLES)), draw(st.sampled_from(DTYPES))
        book.value(SIDE, SIDE, dtype=dtype, role=role, name=f"outside{number}")
    whole = list(range(len(book.values)))
    backward = draw(st.integers(2, largest))
    for number in range(draw(st.integers(1, largest))):
        phase = FORWARD if number < backward else BACKWARD
        draw(st.sampled_from(_WRITERS))(draw, book, whole, phase)
    results = tuple(draw(st.lists(st.sampled_from(whole), min_size=1, max_size=2)))
    lasting = tuple(draw(st.lists(st.sampled_from(whole), max_size=2)))
    return book.trace(results, lasting)


def _read(draw, book: Book, whole: list[int]) -> int:
    """A tensor, or a view of one: some rows, some columns, its transpose, one row stretched over all."""
    index: int = draw(st.sampled_from(whole))
    kind = draw(st.integers(0, 7))
    if kind > 3:
        return index
    value = book.values[index]
    first = draw(st.integers(0, SIDE - 2))
    shape, strides, offset = (
        ((2, SIDE), (), first * SIDE),
        ((SIDE, 2), (SIDE, 1), first),
        ((SIDE, SIDE), (1, SIDE), 0),
        ((SIDE, SIDE), (0, 1), first * SIDE),
    )[kind]
    return book.value(*shape, dtype=value.dtype, role=value.role, storage=value.storage, strides=strides, offset=offset)


def _fresh(draw, book: Book, whole: list[int], *, dtype: str = "float32") -> int:
    whole.append(book.value(SIDE, SIDE, dtype=dtype))
    return whole[-1]


def _pointwise(draw, book, whole, phase):
    operands = {"self": _read(draw, book, whole), "other": _read(draw, book, whole)}
    op = draw(
        st.sampled_from(("aten::add", "aten::_softmax", "aten::sum", "aten::native_layer_norm", "aten::_to_copy"))
    )
    repeat = draw(st.sampled_from((1, 1, 1, 3)))
    book.call(op, operands, _fresh(draw, book, whole), phase=phase, repeat=repeat)


def _product(draw, book, whole, phase):
    operands = {"self": _read(draw, book, whole), "mat2": _read(draw, book, whole)}
    book.call(draw(st.sampled_from(("aten::mm", "mylib::unknown"))), operands, _fresh(draw, book, whole), phase=phase)


def _in_place(draw, book, whole, phase):
    target = _read(draw, book, whole)
    operands = {"self": target, "other": _read(draw, book, whole)}
    book.call(draw(st.sampled_from(("aten::add_", "aten::copy_", "aten::zero_"))), operands, target, writes=[target],
              phase=phase)  # fmt: skip


def _rows(draw, book, whole, phase):
    index = book.value(draw(st.integers(1, 20)), dtype="int64", role=CONSTANT)
    table = draw(st.sampled_from(whole))
    if draw(st.booleans()):
        count = book.values[index].shape[0]
        whole_out = book.value(count, SIDE)
        book.call("aten::index_select", {"self": table, "index": index}, whole_out, dim=0, phase=phase)
        return
    source = book.value(book.values[index].shape[0], SIDE, role=INPUT)
    op = draw(st.sampled_from(("aten::index_add_", "aten::index_copy_")))
    book.call(op, {"self": table, "index": index, "source": source}, table, writes=[table], dim=0, phase=phase)


def _attention(draw, book, whole, phase):
    """A composite attention call in plain products."""
    group = f"scaled_dot_product_attention#{len(book.calls)}"
    query, key, value = (draw(st.sampled_from(whole)) for _ in range(3))
    scores, weights, out = (book.value(SIDE, SIDE) for _ in range(3))
    more = {"phase": phase, "group": group}
    book.call("aten::bmm", {"self": query, "mat2": key}, scores, **more)
    book.call("aten::_safe_softmax", {"self": scores}, weights, **more)
    book.call("aten::bmm", {"self": weights, "mat2": value}, out, **more)
    whole.append(out)
    if draw(st.booleans()):
        whole.append(weights)


_WRITERS = (_pointwise, _pointwise, _pointwise, _product, _in_place, _rows, _attention)
