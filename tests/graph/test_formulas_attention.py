from __future__ import annotations

import pytest

from tests.graph.book import Book, flop, worked

B, H, Q, K, D, V = 2, 4, 6, 10, 8, 5
FORWARD = 2 * B * H * Q * K * (D + V)
# Scores once more, then the gradients of weights and V (over V's width) and of Q and K (over theirs).
BACKWARD = 2 * B * H * Q * K * (3 * D + 2 * V)
HEADS_FIRST = {"query": (B, H, Q, D), "key": (B, H, K, D), "value": (B, H, K, V)}
POSITIONS_FIRST = {"query": (B, Q, H, D), "key": (B, K, H, D), "value": (B, K, H, V)}


@pytest.mark.parametrize(
    "op",
    [
        "aten::scaled_dot_product_attention",
        "aten::_scaled_dot_product_attention_math",
        "aten::_scaled_dot_product_flash_attention",
        "aten::_scaled_dot_product_flash_attention_for_cpu",
        "aten::_scaled_dot_product_efficient_attention",
        "aten::_scaled_dot_product_cudnn_attention",
        "aten::_scaled_dot_product_fused_attention_overrideable",
        "aten::_cudnn_attention_forward",
        "higher_order::flex_attention",
    ],
)
def test_flop__is_the_same_on_every_backend(op):
    assert flop(op, HEADS_FIRST, (B, H, Q, V), is_causal=True) == FORWARD


@pytest.mark.parametrize(
    "op",
    [
        "aten::_scaled_dot_product_flash_attention_backward",
        "aten::_scaled_dot_product_flash_attention_for_cpu_backward",
        "aten::_scaled_dot_product_efficient_attention_backward",
        "aten::_scaled_dot_product_cudnn_attention_backward",
        "aten::_scaled_dot_product_fused_attention_overrideable_backward",
        "higher_order::flex_attention_backward",
    ],
)
def test_flop__backward_computes_the_scores_again(op):
    gradient = "grad_out_" if "efficient" in op else "grad_out"
    shapes = {**HEADS_FIRST} if op.startswith("higher_order") else {**HEADS_FIRST, gradient: (B, H, Q, V)}
    assert flop(op, shapes, (B, H, Q, D), (B, H, K, D), (B, H, K, V)) == BACKWARD


@pytest.mark.parametrize(
    ("op", "expected"),
    [
        ("aten::_flash_attention_forward", FORWARD),
        ("aten::_efficient_attention_forward", FORWARD),
        ("aten::_flash_attention_backward", BACKWARD),
        ("aten::_efficient_attention_backward", BACKWARD),
    ],
)
def test_flop__positions_before_heads(op, expected):
    assert flop(op, POSITIONS_FIRST, (B, Q, H, V), max_q=Q, max_k=K) == expected


def test_flop__grouped_queries_count_query_heads():
    shapes = {"query": (B, H, Q, D), "key": (B, 2, K, D), "value": (B, 2, K, V)}
    assert flop("aten::_scaled_dot_product_flash_attention", shapes, (B, H, Q, V)) == FORWARD


def test_flop__keys_shared_by_all_items():
    shapes = {"query": (B, H, Q, D), "key": (1, H, K, D), "value": (1, H, K, V)}
    assert flop("aten::scaled_dot_product_attention", shapes, (B, H, Q, V)) == FORWARD
    assert flop("aten::scaled_dot_product_attention", {"query": (Q, D), "key": (K, D), "value": (K, V)}, (Q, V)) == (
        FORWARD // (B * H)
    )


@pytest.mark.parametrize("op", ["aten::_flash_attention_forward", "aten::_cudnn_attention_forward"])
def test_flop__ragged_sequences_are_bounded_by_the_longest_and_noted(op):
    # 9 query positions of all items with at most 5 keys, or 7 keys with at most 6 queries each.
    shapes = {"query": (9, H, D), "key": (7, H, D), "value": (7, H, D), "cum_seq_q": (3,), "cum_seq_k": (3,)}
    found = worked(op, shapes, (9, H, D), max_q=6, max_k=5)
    assert found.flop == 2 * H * min(9 * 5, 7 * 6) * 2 * D
    assert "upper bound" in found.note


def test_flop__ragged_sequences_of_the_efficient_kernel():
    shapes = {"query": (1, 9, H, D), "key": (1, 7, H, D), "value": (1, 7, H, D), "cu_seqlens_q": (3,)}
    found = worked("aten::_efficient_attention_forward", shapes, (1, 9, H, D), max_seqlen_q=6, max_seqlen_k=5)
    assert found.flop == 2 * H * 42 * 2 * D


def test_flop__paged_keys_count_by_the_longest_sequence():
    shapes = {"query": (B, 1, H, D), "key": (50, 16, H, D), "value": (50, 16, H, D), "block_table": (B, 25)}
    assert flop("aten::_flash_attention_forward", shapes, (B, 1, H, D), max_q=1, max_k=300) == 2 * B * H * 300 * 2 * D


def test_note__is_not_there_for_equal_lengths():
    assert worked("aten::_flash_attention_forward", POSITIONS_FIRST, (B, Q, H, V), max_q=Q, max_k=K).note == ""


def test_flop__multi_head_attention_as_one_operator():
    # The figure of counting.md: 4 heads, width 64, 16 positions: 294 912 MAC.
    shapes = {"query": (1, 16, 64), "key": (1, 16, 64), "value": (1, 16, 64), "qkv_weight": (192, 64)}
    assert flop("aten::_native_multi_head_attention", shapes, (1, 16, 64), embed_dim=64, num_head=4) == 2 * 294_912
    cross = {**shapes, "key": (1, 8, 64), "value": (1, 8, 64)}
    expected = 2 * (2 * 16 * 64 * 64 + 2 * 8 * 64 * 64 + 2 * 16 * 8 * 64)
    assert flop("aten::_native_multi_head_attention", cross, (1, 16, 64), embed_dim=64, num_head=4) == expected


def test_flop__encoder_layer_as_one_operator():
    shapes = {"src": (2, 16, 64), "ffn_weight_1": (128, 64), "ffn_weight_2": (64, 128)}
    assert flop("aten::_transformer_encoder_layer_fwd", shapes, (2, 16, 64), embed_dim=64, num_heads=4) == 2 * 1_114_112


def test_flop__choosing_a_backend_is_free():
    book = Book()
    query, key, value = (book.value(*shape) for shape in HEADS_FIRST.values())
    book.call("aten::_fused_sdp_choice", {"query": query, "key": key, "value": value})
    totals = book.graph().totals
    assert (totals.flop, totals.traffic.eager, totals.not_counted) == (0, 0, ())


def test_flop__ragged_shapes_without_lengths_are_not_counted():
    shapes = {"query": (B, H, -1, D), "key": (B, H, -1, D), "value": (B, H, -1, D)}
    found = worked("aten::scaled_dot_product_attention", shapes, (B, H, -1, D))
    assert found.flop is None
    assert "depend on data" in found.reason
