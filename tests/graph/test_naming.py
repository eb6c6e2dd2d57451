from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from perfgate.graph import naming
from perfgate.records.graph import BACKWARD, FORWARD, OPTIMIZER, Call
from tests.graph.book import Book


def call(op: str, module: str = "", phase: str = FORWARD, **more) -> Call:
    return Call(op=f"aten::{op}", module=module, phase=phase, **more)


def test_names__a_module_with_one_operator_is_named_by_its_path():
    assert naming.names([call("convolution", "layer3.0.conv2"), call("relu_", "layer3.0.relu")]) == (
        "layer3.0.conv2",
        "layer3.0.relu",
    )


def test_names__a_module_with_several_says_which():
    calls = [call("add_", "layer3.0"), call("relu", "layer3.0"), call("add_", "layer3.0")]
    assert naming.names(calls) == ("layer3.0/add_", "layer3.0/relu", "layer3.0/add_#2")


def test_names__a_container_with_one_operator_of_its_own_says_which():
    calls = [call("convolution", "layer3.0.conv2"), call("add_", "layer3.0"), call("relu_", "layer3.relu")]
    assert naming.names(calls) == ("layer3.0.conv2", "layer3.0/add_", "layer3.relu")


def test_names__the_model_itself_has_an_empty_path():
    assert naming.names([call("add")]) == ("/add",)


def test_names__backward_operators_stand_at_their_forward_module():
    calls = [
        call("convolution", "conv"),
        call("addmm", "fc"),
        call("mm", "fc", BACKWARD),
        call("mm", "fc", BACKWARD),
        call("convolution_backward", "conv", BACKWARD),
        call("_foreach_add_", "", OPTIMIZER),
        call("_foreach_add_", "", OPTIMIZER),
    ]
    assert naming.names(calls) == (
        "conv",
        "fc",
        "fc/mm@backward",
        "fc/mm@backward#2",
        "conv/convolution_backward",
        "optimizer/_foreach_add_",
        "optimizer/_foreach_add_#2",
    )


def test_names__do_not_depend_on_the_other_phases():
    forward = [call("mm", "fc"), call("add", "fc")]
    backward = [call("mm", "fc", BACKWARD)]
    assert naming.names([*forward, *backward])[:2] == naming.names(forward)


def test_names__of_other_domains_are_the_operators_own():
    assert naming.names([Call(op="ai.onnx::Conv", module="a"), Call(op="mylib::fused", module="a")]) == (
        "a/Conv",
        "a/fused",
    )


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.builds(
            call,
            st.sampled_from(("add_", "add_#2", "mm")),
            st.sampled_from(("", "a", "a/add_", "a/add_#2", "optimizer", "/add_")),
            st.sampled_from((FORWARD, BACKWARD, OPTIMIZER)),
        ),
        max_size=12,
    )
)
def test_names__are_unique_whatever_modules_are_called(calls):
    assert len(set(naming.names(calls))) == len(calls)


def signature(book: Book, number: int = 0) -> str:
    return book.graph().operators[number].signature


def product(name: str = "a", dtype: str = "float32", columns: int = 4, strides: tuple[int, ...] = (), **more) -> Book:
    book = Book()
    x, w = book.value(4, 4, dtype=dtype, name=name), book.value(4, columns, dtype=dtype, strides=strides)
    book.call("aten::addmm", {"mat1": x, "mat2": w}, book.value(4, columns, dtype=dtype), module=name, **more)
    return book


def test_signature__does_not_see_names():
    assert signature(product("a")) == signature(product("b"))


def test_signature__sees_shape_dtype_layout_and_attributes():
    others = [product(dtype="float16"), product(columns=5), product(strides=(1, 4)), product(beta=2), product(repeat=2)]
    found = {signature(book) for book in others}
    assert len(found) == len(others)
    assert signature(product()) not in found


def test_signature__is_the_same_in_every_process():
    assert signature(product()) == "8d8f297944cdfff2"


def test_attributes__are_short_texts_of_what_was_given():
    found = naming.attributes(
        call("convolution", attributes={"stride": (2, 2), "groups": 1, "bias": None, "mode": "x" * 200, "on": True})
    )
    assert found == {"stride": "[2, 2]", "groups": "1", "mode": "x" * 79 + "…", "on": "True"}
