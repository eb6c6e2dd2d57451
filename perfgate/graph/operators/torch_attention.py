"""Floor 3, graph. FLOP of torch's attention operators on every backend, forward and backward.

In: :class:`Operands` by the names of aten's schemas. Out: ``DEFINITIONS``.

Forward: Q K^T and P V, 2 H Sq Sk (D + Dv) an item. Backward of a fused kernel: Q K^T once more, then the gradients of
P and V (over Dv) and of Q and K (over D): 2 H Sq Sk (3 D + 2 Dv). Masks, causal or sliding, lower nothing. Keys and
values with fewer heads (grouped queries) are used by several query heads, so query heads count.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import ATTENTION, OTHER, Definition, Formula, Operands, Parts, Shape

_BOUND = "counts ragged sequences as if each met the longest one (upper bound)"


def _cost(rows: int, keys: int, width: int, value_width: int, *, backward: bool) -> int:
    """``rows``: query positions of all items and heads; ``keys``: positions that each of them meets."""
    per_pair = 3 * width + 2 * value_width if backward else width + value_width
    return 2 * rows * keys * per_pair


def _standard(*, backward: bool, query: str = "query", key: str = "key", value: str = "value") -> Formula:
    """... x heads x positions x width."""

    def formula(operands: Operands) -> int:
        queries, keys, values = operands.shape(query), operands.shape(key), operands.shape(value)
        # Items that only one of the two has are shared by the other.
        items = _broadcast(queries[:-3], keys[:-3])
        heads = queries[-3] if len(queries) > 2 else 1
        return _cost(items * heads * queries[-2], keys[-2], queries[-1], values[-1], backward=backward)

    return formula


def _broadcast(one: Shape, other: Shape) -> int:
    if len(one) != len(other):
        return max(math.prod(one), math.prod(other))
    return math.prod(max(pair) if min(pair) else 0 for pair in zip(one, other, strict=True))


def _length(operands: Operands, *names: str) -> int | None:
    for name in names:
        found = operands.attribute(name)
        if isinstance(found, int) and found > 0:
            return found
    return None


def _packed(operands: Operands) -> bool:
    """Whether sequences of several lengths lie one after another."""
    return any(operands.value(name) is not None for name in ("cum_seq_q", "cu_seqlens_q"))


def _positions_first(*, backward: bool) -> Formula:
    """items x positions x heads x width, or packed: (1 x) positions of all items x heads x width.

    Packed: nobody knows the single lengths, so every query meets as many keys as the longest sequence has, or
    every key as many queries; the smaller of the two is the bound.
    """

    def formula(operands: Operands) -> int:
        queries, keys, values = (operands.shape(name) for name in ("query", "key", "value"))
        heads, width, value_width = queries[-2], queries[-1], values[-1]
        total_q, total_k = math.prod(queries[:-2]), math.prod(keys[:-2])
        longest_q = _length(operands, "max_q", "max_seqlen_q")
        longest_k = _length(operands, "max_k", "max_seqlen_k")
        if operands.value("block_table") is not None:
            # Keys lie in pages: their own shape says nothing of one sequence.
            pairs = total_q * (longest_k or total_k)
        elif _packed(operands):
            pairs = min(total_q * (longest_k or total_k), (longest_q or total_q) * total_k)
        else:
            pairs = total_q * keys[-3]
        return _cost(heads * pairs, 1, width, value_width, backward=backward)

    return formula


def _cudnn(*, backward: bool) -> Formula:
    """Dense: heads before positions; packed: positions of all items x heads x width."""
    dense, ragged = _standard(backward=backward), _positions_first(backward=backward)
    return lambda operands: (ragged if len(operands.shape("query")) == 3 else dense)(operands)


def _bound(operands: Operands) -> str:
    return f"{operands.call.op} {_BOUND}" if _packed(operands) else ""


def _projected(operands: Operands) -> int:
    """``nn.MultiheadAttention`` as one operator: three projections in, attention, one projection out."""
    width = int(operands.attribute("embed_dim"))
    items, rows, _ = operands.shape("query")
    keys = operands.shape("key")[1] if operands.value("key") is not None else rows
    projections = 2 * items * width * width * (2 * rows + 2 * keys)
    return projections + _cost(items * rows, keys, width, width, backward=False)


def _encoder_layer(operands: Operands) -> int:
    """One transformer encoder layer as one operator: attention and the two layers after it."""
    width = int(operands.attribute("embed_dim"))
    items, rows, _ = operands.shape("src")
    attention = 8 * items * rows * width * width + _cost(items * rows, rows, width, width, backward=False)
    feed_forward = 2 * items * rows * (operands.numel("ffn_weight_1") + operands.numel("ffn_weight_2"))
    return attention + feed_forward


def _unread(*names: str) -> Parts:
    return lambda _: dict.fromkeys(names, 0)


def _attention(flop: Formula) -> Definition:
    return Definition(kind=ATTENTION, flop=flop, note=_bound)


_SDPA = ("flash_attention", "flash_attention_for_cpu", "efficient_attention", "cudnn_attention")
_FORWARD, _BACKWARD = _standard(backward=False), _standard(backward=True)

DEFINITIONS: dict[str, Definition] = {
    "aten::scaled_dot_product_attention": _attention(_FORWARD),
    "aten::_scaled_dot_product_attention_math": _attention(_FORWARD),
    "aten::_scaled_dot_product_attention_math_for_mps": _attention(_FORWARD),
    "aten::_triton_scaled_dot_attention": _attention(_standard(backward=False, query="q", key="k", value="v")),
    **{f"aten::_scaled_dot_product_{name}": _attention(_FORWARD) for name in _SDPA},
    **{f"aten::_scaled_dot_product_{name}_backward": _attention(_BACKWARD) for name in _SDPA},
    "aten::_scaled_dot_product_fused_attention_overrideable": _attention(_FORWARD),
    "aten::_scaled_dot_product_fused_attention_overrideable_backward": _attention(_BACKWARD),
    "higher_order::flex_attention": _attention(_FORWARD),
    "higher_order::flex_attention_backward": _attention(_BACKWARD),
    "aten::_flash_attention_forward": _attention(_positions_first(backward=False)),
    "aten::_flash_attention_forward_no_dropout_inplace": _attention(_positions_first(backward=False)),
    "aten::_flash_attention_backward": _attention(_positions_first(backward=True)),
    "aten::_efficient_attention_forward": _attention(_positions_first(backward=False)),
    "aten::_efficient_attention_backward": _attention(_positions_first(backward=True)),
    "aten::_cudnn_attention_forward": _attention(_cudnn(backward=False)),
    "aten::_cudnn_attention_backward": _attention(_cudnn(backward=True)),
    "aten::_native_multi_head_attention": _attention(_projected),
    "aten::_triton_multi_head_attention": _attention(_projected),
    "aten::_transformer_encoder_layer_fwd": _attention(_encoder_layer),
    # Only decides which of them runs.
    "aten::_fused_sdp_choice": Definition(kind=OTHER, reads=_unread("query", "key", "value", "attn_mask")),
}
