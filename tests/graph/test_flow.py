from __future__ import annotations

from perfgate.records.graph import BUFFER, INPUT, PARAMETER
from tests.graph.book import Book


def sources(book: Book) -> list[tuple[int, ...]]:
    return [operator.sources for operator in book.graph().operators]


def test_sources__are_the_last_writers_of_what_is_read():
    book = Book()
    x, y, z = book.value(4, 4, role=INPUT), book.value(4, 4), book.value(4, 4)
    book.call("aten::relu", {"self": x}, y)
    book.call("aten::tanh", {"self": x}, z)
    book.call("aten::add", {"self": y, "other": z}, book.value(4, 4))
    assert sources(book) == [(), (), (0, 1)]


def test_sources__see_through_views():
    book = Book()
    x, y = book.value(4, 4, role=INPUT), book.value(4, 4)
    turned = book.value(4, 4, storage=y, strides=(1, 4))
    book.call("aten::relu", {"self": x}, y)
    book.call("aten::tanh", {"self": turned}, book.value(4, 4))
    assert sources(book) == [(), (0,)]


def test_sources__keep_the_order_of_writing_in_place():
    book = Book()
    x = book.value(4, 4, role=INPUT)
    y = book.value(4, 4)
    book.call("aten::tanh", {"self": x}, y)
    book.call("aten::relu_", {"self": y}, y, writes=[y])
    book.call("aten::neg_", {"self": y}, y, writes=[y])
    book.call("aten::exp", {"self": y}, book.value(4, 4))
    assert sources(book) == [(), (0,), (1,), (2,)]


def test_sources__of_a_part_are_who_wrote_that_part():
    book = Book()
    target = book.value(4, 4)
    upper, lower = (book.value(2, 4, storage=target, offset=offset) for offset in (0, 8))
    one, other = book.value(2, 4, role=INPUT), book.value(2, 4, role=INPUT)
    book.call("aten::copy_", {"self": upper, "src": one}, upper, writes=[upper])
    book.call("aten::copy_", {"self": lower, "src": other}, lower, writes=[lower])
    book.call("aten::exp", {"self": lower}, book.value(2, 4))
    book.call("aten::exp", {"self": target}, book.value(4, 4))
    assert sources(book) == [(), (), (1,), (0, 1)]


def test_sources__what_is_written_anew_forgets_its_past():
    book = Book()
    x, y = book.value(4, 4, role=INPUT), book.value(4, 4)
    book.call("aten::tanh", {"self": x}, y)
    book.call("aten::zero_", {"self": y}, y, writes=[y])
    book.call("aten::exp", {"self": y}, book.value(4, 4))
    assert sources(book) == [(), (), (1,)]


def test_sources__changing_a_part_comes_after_making_the_whole():
    book = Book()
    x, y = book.value(4, 4, role=INPUT), book.value(4, 4)
    index, rows = book.value(2, dtype="int64", role=INPUT), book.value(2, 4, role=INPUT)
    book.call("aten::tanh", {"self": x}, y)
    book.call("aten::index_copy_", {"self": y, "index": index, "source": rows}, y, writes=[y], dim=0)
    book.call("aten::exp", {"self": y}, book.value(4, 4))
    assert sources(book) == [(), (0,), (0, 1)]


def test_sources__a_buffer_that_was_changed_has_its_writer():
    book = Book()
    cache, row = book.value(4, 4, role=BUFFER), book.value(1, 4, role=INPUT)
    place = book.value(1, 4, storage=cache, role=BUFFER, offset=8)
    book.call("aten::copy_", {"self": place, "src": row}, place, writes=[place])
    total = book.value()
    book.call("aten::sum", {"self": cache}, total)
    graph = book.graph(results=(total,))
    assert [operator.sources for operator in graph.operators] == [(), (0,)]
    # The other rows come from memory, in whatever kernel.
    assert graph.totals.traffic.fused == graph.totals.traffic.eager


def test_sources__another_dtype_of_the_same_memory_is_seen():
    book = Book()
    x, y = book.value(4, 4, role=INPUT), book.value(4, 4)
    bits = book.value(4, 4, dtype="int32", storage=y)
    book.call("aten::tanh", {"self": x}, y)
    book.call("aten::bitwise_not", {"self": bits}, book.value(4, 4, dtype="int32"))
    assert sources(book) == [(), (0,)]


def test_sources__the_update_comes_after_the_gradient():
    book = Book()
    w, x, gradient = book.value(4, 4, role=PARAMETER), book.value(4, 4, role=INPUT), book.value(4, 4)
    book.call("aten::mm", {"self": x, "mat2": w}, gradient, phase="backward")
    book.call("aten::_foreach_add_", {"self": [w], "other": [gradient]}, (), writes=[w], phase="optimizer")
    assert sources(book) == [(), (0,)]


def test_sources__of_thousands_of_writes_to_one_buffer_stay_quick_and_right():
    book = Book()
    cache = book.value(3000, 4, role=BUFFER)
    for number in range(3000):
        row = book.value(4, storage=cache, role=BUFFER, offset=4 * number)
        book.call("aten::copy_", {"self": row, "src": book.value(4, role=INPUT)}, row, writes=[row])
    book.call("aten::sum", {"self": cache}, book.value())
    assert len(sources(book)[-1]) == 3000
