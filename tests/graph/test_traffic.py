from __future__ import annotations

import pytest

from perfgate.records.graph import BUFFER, CONSTANT, INPUT, PARAMETER
from tests.graph.book import Book, named

ROW = 16 * 4  # bytes of a row of 16 float32


def moved(book: Book, number: int = 0) -> tuple[int, int]:
    operator = book.graph().operators[number]
    return operator.read_bytes, operator.written_bytes


def test_eager__reads_each_tensor_once_and_writes_the_result():
    book = Book()
    x = book.value(8, 16)
    book.call("aten::add", {"self": x, "other": x}, book.value(8, 16))
    book.call("aten::add", {"self": x, "other": book.value(8, 16)}, book.value(8, 16))
    assert moved(book) == (8 * ROW, 8 * ROW)
    assert moved(book, 1) == (16 * ROW, 8 * ROW)


def test_eager__a_matrix_and_its_transpose_are_read_once():
    book = Book()
    x = book.value(16, 16)
    turned = book.value(16, 16, storage=x, strides=(1, 16))
    book.call("aten::mm", {"self": x, "mat2": turned}, book.value(16, 16))
    assert moved(book) == (16 * ROW, 16 * ROW)


def test_eager__stretched_dimensions_are_read_once():
    book = Book()
    row = book.value(8, 16, strides=(0, 1))
    book.call("aten::add", {"self": book.value(8, 16), "other": row}, book.value(8, 16))
    assert moved(book) == (9 * ROW, 8 * ROW)


def test_eager__each_tensor_counts_by_its_own_bits():
    book = Book()
    operands = {"self": book.value(8, 16, dtype="bfloat16"), "mat2": book.value(16, 16, dtype="int8", bits=4)}
    book.call("aten::mm", operands, book.value(8, 16))
    assert moved(book) == (8 * 16 * 2 + 16 * 16 // 2, 8 * ROW)


def test_eager__in_place_reads_and_writes():
    book = Book()
    x = book.value(8, 16)
    book.call("aten::relu_", {"self": x}, x, writes=[x])
    assert moved(book) == (8 * ROW, 8 * ROW)


@pytest.mark.parametrize("op", ["zero_", "fill_", "normal_", "uniform_", "bernoulli_", "_foreach_zero_"])
def test_eager__filling_only_writes(op):
    book = Book()
    x = book.value(8, 16)
    book.call(f"aten::{op}", {"self": x}, x, writes=[x])
    assert moved(book) == (0, 8 * ROW)


def test_eager__a_copy_reads_its_source_and_writes_its_target():
    book = Book()
    x, source = book.value(8, 16), book.value(8, 16, strides=(0, 1))
    book.call("aten::copy_", {"self": x, "src": source}, x, writes=[x])
    assert moved(book) == (ROW, 8 * ROW)


@pytest.mark.parametrize(("op", "name"), [("aten::mm", "out"), ("aten::topk", "values"), ("mylib::fused", "out"),
                                          ("aten::gelu_backward", "grad_input")])  # fmt: skip
def test_eager__an_output_that_is_given_is_only_written(op, name):
    book = Book()
    x, out = book.value(8, 16), book.value(8, 16)
    book.call(op, {"self": x, name: out}, out, writes=[out], overload="out")
    assert moved(book) == (8 * ROW, 8 * ROW)


def test_eager__what_a_custom_operator_changes_is_read_too():
    book = Book()
    x, cache = book.value(8, 16), book.value(8, 16)
    book.call("mylib::append", {"x": x, "cache": cache}, (), writes=[cache])
    assert moved(book) == (16 * ROW, 8 * ROW)


def test_eager__factories_only_write():
    book = Book()
    book.call("aten::zeros", {}, book.value(8, 16))
    assert moved(book) == (0, 8 * ROW)


@pytest.mark.parametrize("op", ["cat", "clone", "_to_copy", "constant_pad_nd"])
def test_eager__copies_read_and_write(op):
    book = Book()
    name = "tensors" if op == "cat" else "self"
    book.call(f"aten::{op}", {name: book.value(8, 16)}, book.value(8, 16))
    assert moved(book) == (8 * ROW, 8 * ROW)


@pytest.mark.parametrize(
    ("op", "operands", "attributes"),
    [
        ("embedding", ("weight", "indices"), {}),
        ("index_select", ("self", "index"), {"dim": 0}),
        ("index", ("self", "indices"), {}),
        ("gather", ("self", "index"), {"dim": 0}),
    ],
)
def test_eager__look_ups_read_rows_and_not_the_table(op, operands, attributes):
    book = Book()
    table, indices = book.value(1000, 16), book.value(5, dtype="int64")
    book.call(f"aten::{op}", dict(zip(operands, (table, indices), strict=True)), book.value(5, 16), **attributes)
    assert moved(book) == (5 * ROW + 5 * 8, 5 * ROW)


def test_eager__bags_read_a_row_for_each_index():
    book = Book()
    operands = {"weight": book.value(1000, 16), "indices": book.value(7, dtype="int64"),
                "offsets": book.value(2, dtype="int64")}  # fmt: skip
    book.call("aten::_embedding_bag", operands, book.value(2, 16))
    assert moved(book) == (7 * ROW + 9 * 8, 2 * ROW)


@pytest.mark.parametrize("op", ["embedding_byte", "embedding_4bit", "embedding_bag_byte", "embedding_bag_4bit"])
def test_eager__quantised_tables_are_read_by_rows(op):
    book = Book()
    bits = 4 if "4bit" in op else 8
    operands = {"weight": book.value(1000, 16, bits=bits), "indices": book.value(7, dtype="int64")}
    book.call(f"quantized::{op}", operands, book.value(7, 16))
    assert moved(book) == (7 * 16 * bits // 8 + 7 * 8, 7 * ROW)


@pytest.mark.parametrize(
    ("op", "reads_target"), [("index_add_", True), ("index_copy_", False), ("index_reduce_", True)]
)
def test_eager__rows_that_are_changed_and_not_the_whole_target(op, reads_target):
    book = Book()
    target, index, source = book.value(1000, 16), book.value(5, dtype="int64"), book.value(5, 16)
    operands = {"self": target, "index": index, "source": source}
    book.call(f"aten::{op}", operands, target, writes=[target], dim=0)
    assert moved(book) == ((5 + 5 * reads_target) * ROW + 5 * 8, 5 * ROW)


@pytest.mark.parametrize(("accumulate", "reads"), [(False, 5), (True, 10)])
def test_eager__index_put_touches_what_its_indices_name(accumulate, reads):
    book = Book()
    target, index, values = book.value(1000, 16), book.value(5, dtype="int64"), book.value(5, 16)
    operands = {"self": target, "indices": [index], "values": values}
    book.call("aten::index_put_", operands, target, writes=[target], accumulate=accumulate)
    assert moved(book) == (reads * ROW + 5 * 8, 5 * ROW)


def test_eager__index_put_with_indices_of_later_dimensions():
    book = Book()
    target, index, values = book.value(10, 20, 3), book.value(4, dtype="int64"), book.value()
    operands = {"self": target, "indices": [-1, index], "values": values}
    book.call("aten::index_put_", operands, target, writes=[target], accumulate=False)
    assert moved(book) == (4 + 4 * 8, 10 * 4 * 3 * 4)


@pytest.mark.parametrize(("op", "more", "target"), [("scatter_", {}, 0), ("scatter_add_", {}, 10),
                                                    ("scatter_", {"reduce": "add"}, 10)])  # fmt: skip
def test_eager__scatter_touches_one_element_an_index(op, more, target):
    book = Book()
    x, index, source = book.value(1000, 16), book.value(5, 2, dtype="int64"), book.value(9, 16)
    book.call(f"aten::{op}", {"self": x, "index": index, "src": source}, x, writes=[x], dim=0, **more)
    assert moved(book) == ((target + 10) * 4 + 10 * 8, 10 * 4)


def test_eager__out_of_place_scatter_writes_a_whole_tensor():
    book = Book()
    x, index, source = book.value(1000, 16), book.value(5, 2, dtype="int64"), book.value(9, 16)
    book.call("aten::scatter", {"self": x, "index": index, "src": source}, book.value(1000, 16), dim=0)
    assert moved(book) == (1000 * ROW + 10 * 4 + 10 * 8, 1000 * ROW)


def test_eager__the_gradient_of_an_embedding_is_written_whole():
    book = Book()
    operands = {"grad_output": book.value(5, 16), "indices": book.value(5, dtype="int64")}
    book.call("aten::embedding_dense_backward", operands, book.value(1000, 16))
    assert moved(book) == (5 * ROW + 5 * 8, 1000 * ROW)


def norm(*, training: bool) -> Book:
    book = Book()
    operands = {"input": book.value(2, 16, 8, 8)}
    operands |= {name: book.value(16) for name in ("weight", "bias", "running_mean", "running_var")}
    outputs = (book.value(2, 16, 8, 8), *((book.value(16), book.value(16)) if training else ()))
    book.call("aten::native_batch_norm", operands, outputs, training=training, momentum=0.1, eps=1e-5)
    return book


def test_eager__batch_norm_in_evaluation_reads_its_four_vectors():
    x = 2 * 16 * 8 * 8 * 4
    assert moved(norm(training=False)) == (x + 4 * ROW, x)


def test_eager__batch_norm_in_training_updates_what_it_keeps():
    x = 2 * 16 * 8 * 8 * 4
    assert moved(norm(training=True)) == (x + 4 * ROW, x + 4 * ROW)


def test_eager__the_backward_pass_of_batch_norm_reads_the_statistics_it_uses():
    book = Book()
    operands = {"grad_out": book.value(2, 16, 8, 8), "input": book.value(2, 16, 8, 8)}
    operands |= {name: book.value(16) for name in ("weight", "running_mean", "running_var", "save_mean", "save_invstd")}
    outputs = (book.value(2, 16, 8, 8), book.value(16), book.value(16))
    book.call("aten::native_batch_norm_backward", operands, outputs, train=True, output_mask=(True, True, True))
    assert moved(book) == (2 * 2 * 16 * 64 * 4 + 3 * ROW, 2 * 16 * 64 * 4 + 2 * ROW)


def test_eager__a_fused_optimiser_leaves_gradients_as_they_are():
    book = Book()
    weight, gradient, first, second = (book.value(8, 16, role=role) for role in (PARAMETER, BUFFER, BUFFER, BUFFER))
    operands = {"self": [weight], "grads": [gradient], "exp_avgs": [first], "exp_avg_sqs": [second]}
    book.call("aten::_fused_adam_", operands, (), writes=[weight, gradient, first, second], phase="optimizer")
    assert moved(book) == (4 * 8 * ROW, 3 * 8 * ROW)


@pytest.mark.parametrize("op", ["empty_like", "detach", "_unsafe_view", "set_", "squeeze_"])
def test_eager__allocation_and_views_move_nothing(op):
    book = Book()
    x = book.value(8, 16)
    book.call(f"aten::{op}", {"self": x}, book.value(8, 16))
    assert moved(book) == (0, 0)


def test_eager__what_is_handed_on_as_it_came_is_not_written():
    book = Book()
    x = book.value(8, 16)
    book.call("mylib::identity", {"x": x}, x)
    assert moved(book) == (8 * ROW, 0)


def test_min__reads_what_was_there_and_writes_what_stays():
    book = Book()
    x, w = book.value(8, 16, role=INPUT), book.value(16, 16, role=PARAMETER)
    unused = book.value(99, role=PARAMETER)
    y, z = book.value(8, 16), book.value(8, 16)
    book.call("aten::mm", {"self": x, "mat2": w}, y)
    book.call("aten::relu", {"self": y}, z)
    assert book.graph(results=(z,)).totals.traffic.min == (8 + 16 + 8) * ROW
    assert unused not in {index for call in book.calls for found in call.operands.values() for index in found}


def test_min__counts_tied_and_reused_weights_once():
    book = Book()
    x, w = book.value(16, 16, role=INPUT), book.value(16, 16, role=PARAMETER)
    turned = book.value(16, 16, role=PARAMETER, storage=w, strides=(1, 16))
    y, z = book.value(16, 16), book.value(16, 16)
    book.call("aten::mm", {"self": x, "mat2": w}, y)
    book.call("aten::mm", {"self": y, "mat2": turned}, z)
    assert book.graph(results=(z,)).totals.traffic.min == 3 * 16 * ROW


def test_min__reads_parts_of_one_weight_once():
    book = Book()
    x = book.value(16, 16, role=INPUT)
    parts = [book.value(16, 16, role=PARAMETER, storage=99, offset=offset * 16) for offset in (0, 16, 8)]
    for part in parts:
        book.call("aten::mm", {"self": x, "mat2": part}, book.value(16, 16))
    assert book.graph().totals.traffic.min == (16 + 32) * ROW


def test_min__of_a_table_is_what_was_looked_up():
    book = Book()
    table, indices, y = (
        book.value(1000, 16, role=PARAMETER),
        book.value(5, dtype="int64", role=INPUT),
        book.value(5, 16),
    )
    book.call("aten::embedding", {"weight": table, "indices": indices}, y)
    assert book.graph(results=(y,)).totals.traffic.min == 5 * ROW + 5 * 8 + 5 * ROW


@pytest.mark.parametrize(("role", "counted"), [(INPUT, True), (BUFFER, False), (CONSTANT, False), (PARAMETER, True)])
def test_min__takes_tables_of_positions_as_built_in(role, counted):
    book = Book()
    x, indices, y = book.value(1000, 16), book.value(5, dtype="int64", role=role), book.value(5, 16)
    book.call("aten::index_select", {"self": x, "index": indices}, y, dim=0)
    assert book.graph(results=(y,)).totals.traffic.min == 5 * ROW + 5 * 8 * counted


def test_min__writes_what_a_step_changes_once():
    book = Book()
    w, gradient = book.value(16, 16, role=PARAMETER), book.value(16, 16, role=INPUT)
    book.call("aten::add_", {"self": w, "other": gradient}, w, writes=[w], phase="optimizer")
    book.call("aten::mul_", {"self": w}, w, writes=[w], phase="optimizer")
    totals = book.graph().totals
    assert totals.traffic.min == 3 * 16 * ROW
    assert totals.traffic.eager == 5 * 16 * ROW


def test_min__gradients_that_stay_are_written():
    book = Book()
    x, gradient = book.value(16, 16, role=INPUT), book.value(16, 16)
    book.call("aten::mm", {"self": x, "mat2": x}, gradient)
    assert book.graph().totals.traffic.min == 16 * ROW
    assert book.graph(lasting=(gradient,)).totals.traffic.min == 32 * ROW


def test_min__a_model_that_returns_its_input_moves_nothing():
    book = Book()
    x = book.value(16, 16, role=INPUT)
    traffic = book.graph(results=(x,)).totals.traffic
    assert (traffic.eager, traffic.fused, traffic.min) == (0, 0, 0)


def test_traffic__of_a_loop_counts_every_turn():
    book = Book()
    x, w, y = book.value(8, 16, role=INPUT), book.value(16, 16, role=PARAMETER), book.value(8, 16)
    book.call("aten::mm", {"self": x, "mat2": w}, y, repeat=10, module="cell")
    graph = book.graph(results=(y,))
    assert graph.totals.traffic.eager == 10 * 32 * ROW
    assert graph.totals.traffic.min == 32 * ROW
    assert graph.totals.kernels == 10
    assert graph.totals.flop == 10 * 2 * 8 * 16 * 16
    assert named(graph, "cell").flop == 2 * 8 * 16 * 16


def test_traffic__a_movement_of_the_whole_call_goes_before_the_plain_rule():
    book = Book()
    table, indices, out = (
        book.value(1000, 16, role=PARAMETER),
        book.value(5, dtype="int64", role=INPUT),
        book.value(5, 16),
    )
    book.call("ai.onnx::Gather", {"data": table, "indices": indices}, out)
    graph = book.graph(results=(out,))
    assert moved(book) == (5 * ROW + 5 * 8, 5 * ROW)
    assert graph.totals.traffic.min == graph.totals.traffic.eager
