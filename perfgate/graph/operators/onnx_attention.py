"""Floor 3, graph. FLOP (2 x MAC) of ONNX attention operators: the standard's and ONNX Runtime's.

In: :class:`Operands` with the schemas' names. Out: formulas. Two products a head, ``Q x K'`` and ``P x V``, and the
input projections where the operator has them. Masks (causal, sliding, sparse) do not lower the count; keys are
those of the past and of the step. A cache of fixed size counts whole: how much of it is filled depends on data.
"""

from __future__ import annotations

import math

from perfgate.graph.operators.definition import ATTENTION, Definition, Formula, Operands, Shape
from perfgate.graph.operators.onnx_fit import agree
from perfgate.graph.operators.onnx_sizes import bounded_by, given, out, shape, unknown


def products(batch: int, heads: int, queries: int, keys: int, sizes: tuple[int, int]) -> int:
    """``Q x K'`` over the head size and ``P x V`` onto the value head size: ``sizes`` = (head, value head)."""
    return 2 * batch * heads * queries * keys * (sizes[0] + sizes[1])


def standard(operands: Operands) -> int:
    """``ai.onnx::Attention``: Q, K, V as ``[B, heads, S, size]`` or ``[B, S, heads * size]``; past keys in front."""
    query, key, value = (shape(operands, name) for name in "QKV")
    heads = query[1] if len(query) == 4 else int(operands.attribute("q_num_heads"))
    groups = key[1] if len(key) == 4 else int(operands.attribute("kv_num_heads"))
    size = query[-1] if len(query) == 4 else query[-1] // heads
    value_size = value[-1] if len(value) == 4 else value[-1] // groups
    agree(size, key[-1] if len(key) == 4 else key[-1] // groups, "the head size of Q, that of K")
    agree(key[-2], value[-2], "the length of K, that of V")
    keys = key[-2] + (shape(operands, "past_key")[2] if given(operands, "past_key") else 0)
    return products(query[0], heads, query[-2], keys, (size, value_size))


def projected(operands: Operands) -> int:
    """``com.microsoft::Attention``: ``input [B, S, D]`` times ``weights [D, Dq + Dk + Dv]``, then the two products."""
    batch, queries, width = shape(operands, "input")
    weight = shape(operands, "weights" if given(operands, "weights") else "weight")
    agree(width, weight[0], "the last size of its input, the rows of its weights")
    columns = _columns(operands, weight[-1])
    past = shape(operands, "past")[3] if given(operands, "past") else 0
    shared = bool(operands.attribute("past_present_share_buffer", 0))
    keys = past if shared and past else past + queries
    return 2 * batch * queries * width * sum(columns) + 2 * batch * queries * keys * (columns[0] + columns[2])


def projected_apart(operands: Operands) -> int:
    """``QOrderedAttention``: three weights ``[D, D*]`` apart."""
    batch, queries, width = shape(operands, "input")
    columns = [shape(operands, f"{letter}_weight")[-1] for letter in "QKV"]
    keys = queries + (shape(operands, "past")[3] if given(operands, "past") else 0)
    return 2 * batch * queries * width * sum(columns) + 2 * batch * queries * keys * (columns[0] + columns[2])


def packed(operands: Operands) -> int:
    """``PackedAttention``: ``input [tokens, D]``; every sequence counts at the longest one's length (upper bound)."""
    tokens, width = shape(operands, "input")
    columns = _columns(operands, shape(operands, "weights")[-1])
    batch, longest = shape(operands, "token_offset")
    return 2 * tokens * width * sum(columns) + 2 * batch * longest * longest * (columns[0] + columns[2])


def packed_multi_head(operands: Operands) -> int:
    """``PackedMultiHeadAttention``: ``query [tokens, D]`` or all of QKV in one; upper bound as :func:`packed`."""
    batch, longest = shape(operands, "token_offset")
    return 2 * batch * longest * longest * (_query_width(operands) + out(operands)[-1])


def multi_head(operands: Operands) -> int:
    """``MultiHeadAttention``: ``query [B, S, D]`` or QKV packed; keys in three, four or five dimensions, or cached."""
    query = shape(operands, "query")
    past = shape(operands, "past_key")[2] if given(operands, "past_key") else 0
    fixed = given(operands, "past_sequence_length") or bool(operands.attribute("past_present_share_buffer", 0))
    keys = past if fixed and past else past + _keys(operands, query[1])
    return 2 * query[0] * query[1] * keys * (_query_width(operands) + out(operands)[-1])


def grouped(operands: Operands) -> int:
    """``GroupQueryAttention``: ``query [B, S, ...]`` with keys and values packed in it or apart, rotary included.

    Keys: ``total_sequence_length`` where the file fixes it, else the past's length and the step's.
    """
    query = shape(operands, "query")
    heads, groups = int(operands.attribute("num_heads")), int(operands.attribute("kv_num_heads"))
    size = query[-1] // heads if given(operands, "key") else query[-1] // (heads + 2 * groups)
    keys = _scalar(operands.attribute("total_sequence_length"))
    if keys is None:
        keys = query[1] + (shape(operands, "past_key")[2] if given(operands, "past_key") else 0)
    return products(query[0], heads, query[1], keys, (size, size))


def decoder(operands: Operands) -> int:
    """``DecoderAttention``: ``query [S, B, D]``; keys and values projected unless cached ones stand for them.

    Whether the cache is used may depend on data: without a cache operand the step's own keys count.
    """
    queries, batch, width = shape(operands, "query")
    fresh, past = shape(operands, "key")[0], 0
    if given(operands, "key_cache"):
        past = shape(operands, "key_cache")[2]
    columns = shape(operands, "q_weight")[-1], shape(operands, "kv_weight")[-1]
    keys = past + fresh
    return 2 * batch * width * (queries * columns[0] + fresh * columns[1]) + 4 * batch * queries * keys * columns[0]


def linear(operands: Operands) -> int:
    """``LinearAttention``: each token reads the state once per query head and writes it once per key head.

    States are ``[d_k, d_v]``; the delta rules read it a second time per key head.
    """
    query, key, value = (shape(operands, name) for name in ("query", "key", "value"))
    heads, groups = int(operands.attribute("q_num_heads")), int(operands.attribute("kv_num_heads"))
    rule = str(operands.attribute("update_rule", "gated_delta"))
    passes = heads + groups * (2 if "delta" in rule else 1)
    return 2 * math.prod(query[:-1]) * (key[-1] // groups) * (value[-1] // groups) * passes


def _columns(operands: Operands, total: int) -> tuple[int, int, int]:
    sizes = operands.attribute("qkv_hidden_sizes")
    if isinstance(sizes, (list, tuple)) and len(sizes) == 3:
        return int(sizes[0]), int(sizes[1]), int(sizes[2])
    return total // 3, total // 3, total // 3


def _query_width(operands: Operands) -> int:
    """Heads times head size of the queries, also where ``[..., heads, 3, size]`` packs all three."""
    query = shape(operands, "query")
    return query[-3] * query[-1] if len(query) >= 4 else query[-1]


def _keys(operands: Operands, own: int) -> int:
    if not given(operands, "key"):
        return own
    key: Shape = shape(operands, "key")
    # Cached keys of a cross attention are [B, heads, L, size]; all others have L second.
    return key[2] if len(key) == 4 else key[1]


def _scalar(attribute: object) -> int | None:
    if isinstance(attribute, (list, tuple)) and len(attribute) == 1:
        attribute = attribute[0]
    return attribute if isinstance(attribute, int) and attribute > 0 else None


# Operands and attributes that say that sequences have lengths of their own, or that a cache is partly filled.
_LENGTHS = ("token_offset", "nonpad_kv_seqlen")
_CACHES = ("past_present_share_buffer", "past_sequence_length")
_LONGEST = "is counted as if every sequence were as long as the longest"
_FULL = "is counted as if its cache were full"


def _all(flop: Formula, *names: str) -> dict[str, Definition]:
    note = bounded_by(dict.fromkeys(_LENGTHS, _LONGEST) | dict.fromkeys(_CACHES, _FULL))
    return {name: Definition(kind=ATTENTION, flop=flop, note=note) for name in names}


_MS = "com.microsoft::"

DEFINITIONS: dict[str, Definition] = {
    **_all(standard, "ai.onnx::Attention", "ai.onnx.preview::FlexAttention"),
    **_all(linear, "ai.onnx::LinearAttention", f"{_MS}LinearAttention"),
    **_all(projected, f"{_MS}Attention", f"{_MS}DecoderMaskedSelfAttention", f"{_MS}QAttention"),
    **_all(projected_apart, f"{_MS}QOrderedAttention"),
    **_all(packed, f"{_MS}PackedAttention"),
    **_all(packed_multi_head, f"{_MS}PackedMultiHeadAttention"),
    **_all(multi_head, f"{_MS}MultiHeadAttention", f"{_MS}DecoderMaskedMultiHeadAttention"),
    **_all(grouped, f"{_MS}GroupQueryAttention", f"{_MS}SparseAttention"),
    **_all(decoder, f"{_MS}DecoderAttention"),
    **_all(
        unknown("which keys a query sees depends on data"),
        f"{_MS}DynamicSparseAttention",
        f"{_MS}LongformerAttention",
        f"{_MS}PagedAttention",
        f"{_MS}QOrderedLongformerAttention",
        f"{_MS}SparsePagedAttention",
    ),
    **_all(
        unknown("there is no formula for it; give one in [operators]"),
        f"{_MS}GatedDeltaNet",
        f"{_MS}GatedDeltaNetStateReplay",
        f"{_MS}Mamba2Verify",
        f"{_MS}PackedSparseAttentionIndexer",
        f"{_MS}SparseAttentionIndexer",
    ),
}
