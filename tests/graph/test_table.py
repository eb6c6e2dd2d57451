from __future__ import annotations

import re

import pytest

from perfgate.graph.operators.definition import (
    ATTENTION,
    CAST,
    CONVOLUTION,
    COPY,
    GATHER,
    MATMUL,
    NORMALIZATION,
    POINTWISE,
    RNN,
    SYNC,
    TRANSFER,
)
from perfgate.graph.operators.table import known_namespace, lookup
from tests.graph.book import Book

torch = pytest.importorskip("torch")

HEAVY = {MATMUL, CONVOLUTION, ATTENTION, RNN}

# Operators that no model reaches: helpers of torch's own tests, answers about a tensor, and compositions of others.
NEVER_DISPATCHED = {
    "_foobar", "_nested_tensor_from_mask_left_aligned", "from_file", "_backward", "_version", "data", "set_data",
    "output_nr", "retains_grad", "is_leaf", "chain_matmul", "linalg_multi_dot", "linalg_matrix_power", "matrix_power",
    "unflatten_dense_tensors",
}  # fmt: skip


def tensor_operators(namespace: str) -> set[str]:
    """Names of a namespace's operators that take a tensor and are no views."""
    found = set()
    for schema in torch._C._jit_get_all_schemas():
        space, _, name = schema.name.partition("::")
        takes = any("Tensor" in str(argument.type) for argument in schema.arguments)
        packet = getattr(getattr(torch.ops, space), name, None) if space == namespace and takes else None
        overload = getattr(packet, schema.overload_name or "default", None) if packet is not None else None
        if overload is not None and not overload.is_view:
            found.add(name)
    return found


def is_composite(name: str) -> bool:
    packet = getattr(torch.ops.aten, name)
    names = [getattr(packet, overload).name() for overload in packet.overloads()]
    dispatched = [name for name in names if torch._C._dispatch_has_kernel(name)]
    return all(torch._C._dispatch_has_kernel_for_dispatch_key(name, "CompositeImplicitAutograd") for name in dispatched)


def test_lookup__knows_every_operator_of_torch():
    names = tensor_operators("aten")
    assert len(names) > 1000
    unknown = {name for name in names if lookup(f"aten::{name}") is None and not name.startswith("_test_")}
    # What torch always takes apart never arrives under its own name.
    assert {name for name in unknown if not is_composite(name)} <= NEVER_DISPATCHED


# Registered as soon as any test imports the compiler, in whose own code alone they appear.
COMPILERS = {
    "_low_memory_max_pool_offsets_to_indices", "_low_memory_max_pool_with_offsets", "fma", "prepare_softmax_online",
}  # fmt: skip


def test_lookup__knows_the_operators_that_are_not_atens():
    for namespace in ("torchvision", "quantized", "prims"):
        names = tensor_operators(namespace)
        unknown = {name for name in names if lookup(f"{namespace}::{name}") is None}
        unknown = {name for name in unknown - COMPILERS if not name.startswith("inductor_")}
        assert unknown <= {"_sink_tokens", "make_quantized_cell_params", "make_quantized_cell_params_dynamic"}


def test_lookup__takes_no_product_for_light_work():
    light = {
        "_fused_sdp_choice", "infinitely_differentiable_gelu_backward", "_cslt_sparse_mm_search", "hamming_window",
        "fbgemm_linear_quantize_weight", "fused_moving_avg_obs_fake_quant",
    }  # fmt: skip
    words = re.compile(
        r"(^|_)(b|ba|add|addb|baddb|sp|hsp|int_)?mm(_|$)|matmul|(^|_)linear(_|$)|(^|_)conv(olution)?(\d|_|$)|attention"
        r"|(^|_)(lstm|gru|rnn)(_|$)|einsum|(^|_)(v?dot|mv)(_|$)"
    )
    aside = re.compile(r"upsample|reorder|prepack|pack_gemm|flatten_weight|_thnn_|convert_")
    found = {name for name in tensor_operators("aten") if words.search(name) and not aside.search(name)} - light
    assert len(found) > 100
    for name in found:
        definition = lookup(f"aten::{name}")
        assert definition is None or definition.flop is not None, name


@pytest.mark.parametrize(
    ("op", "kind"),
    [
        ("aten::add_", POINTWISE),
        ("aten::_foreach_add_", POINTWISE),
        ("aten::_foreach_addcdiv", POINTWISE),
        ("aten::_fused_adamw_", POINTWISE),
        ("aten::special_erfcx", POINTWISE),
        ("aten::gelu_backward", POINTWISE),
        ("aten::silu_", POINTWISE),
        ("aten::native_group_norm_backward", NORMALIZATION),
        ("aten::view_copy", COPY),
        ("aten::addmm_", MATMUL),
        ("aten::_local_scalar_dense", SYNC),
        ("prims::mul", POINTWISE),
        ("prims::convert_element_type", CAST),
        ("quantized::add_relu", POINTWISE),
        ("quantized_decomposed::quantize_per_tensor", CAST),
        ("torchvision::roi_align", "pooling"),
        ("torchvision::nms", "sort"),
        ("_c10d_functional::all_reduce", TRANSFER),
        ("c10d::allreduce_", TRANSFER),
        ("symm_mem::one_shot_all_reduce", TRANSFER),
        ("ai.onnx::Conv", CONVOLUTION),
    ],
)
def test_lookup__finds_other_spellings(op, kind):
    definition = lookup(op)
    assert definition is not None
    assert definition.kind == kind
    assert known_namespace(op)


@pytest.mark.parametrize("op", ["mylib::add", "aten::no_such_operator", "aten::mm_functional", "aten::mm_backward",
                                "symm_mem::fused_new_matmul", "aten", "higher_order::cond"])  # fmt: skip
def test_lookup__does_not_guess_what_may_be_heavy(op):
    assert lookup(op) is None


@pytest.mark.parametrize(
    ("dtype", "device", "kind"),
    [
        ("float32", "meta", COPY),
        ("bfloat16", "meta", CAST),
        ("float32", "cuda:0", TRANSFER),
        ("int64", "cpu", TRANSFER),
    ],
)
@pytest.mark.parametrize("op", ["_to_copy", "copy_"])
def test_kind__of_a_copy_depends_on_where_it_goes(op, dtype, device, kind):
    book = Book()
    source, target = book.value(4, 4), book.value(4, 4, dtype=dtype, device=device)
    if op == "_to_copy":
        book.call("aten::_to_copy", {"self": source}, target)
    else:
        book.call("aten::copy_", {"self": target, "src": source}, target, writes=[target])
    assert book.graph().operators[0].kind == kind


def test_kind__of_look_ups():
    definition = lookup("aten::_unsafe_index")
    assert definition is not None
    assert definition.kind == GATHER
