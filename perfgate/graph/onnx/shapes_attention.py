"""Floor 3, graph. Shapes of ONNX Runtime's attention operators (``com.microsoft``).

In: a :class:`Site`. Out: types of the outputs: the attention's own, then the keys and values kept for the next step.
"""

from __future__ import annotations

from collections.abc import Sequence

from onnx import TypeProto

from perfgate.graph.onnx.known import Shape
from perfgate.graph.onnx.shapes import ShapeFunction
from perfgate.graph.onnx.shapes_old import first
from perfgate.graph.onnx.site import Site


def _attention(past: int, *, shared_length: bool = False) -> ShapeFunction:
    """``input [B, S, D]``, ``weights [D, Dq + Dk + Dv]``; the past is ``[2, B, heads, P, size]``."""

    def shapes(site: Site) -> Sequence[TypeProto]:
        batch, steps, _ = site.shape(0)
        sizes = site.integers("qkv_hidden_sizes")
        width = sizes[2] if sizes and len(sizes) == 3 else site.shape(1)[-1] // 3
        heads = site.integer("num_heads")
        present = (2, batch, heads, steps, width // max(heads, 1))
        if site.has(past):
            before = site.shape(past)
            fixed = shared_length or site.integer("past_present_share_buffer")
            present = (2, batch, before[2], before[3] if fixed else before[3] + steps, before[4])
        return [site.like(0, (batch, steps, width), element=_floating(site)), site.like(0, present, _floating(site))]

    return shapes


def _floating(site: Site) -> int:
    """Quantised inputs come out in the type of their scale."""
    return site.element(3) if site.op.endswith("::QAttention") else 0


def _multi_head(past: int) -> ShapeFunction:
    """``query [B, S, D]`` or QKV packed in five dimensions; ``past [B, heads, P, size]``."""

    def shapes(site: Site) -> Sequence[TypeProto]:
        query, heads = site.shape(0), site.integer("num_heads", 1)
        key = site.shape(1) if site.has(1) else ()
        value = site.shape(2) if site.has(2) else ()
        size = query[-1] if len(query) == 5 else query[2] // heads
        width = heads * size
        if value:
            width = value[2] if len(value) == 3 else heads * value[-1]
        length = query[1] if not key else key[2] if len(key) == 4 else key[1]
        present_keys: Shape = (query[0], heads, length, size)
        present_values: Shape = (query[0], heads, length, width // heads)
        if site.has(past):
            before = site.shape(past)
            fixed = site.has(past + 2) or site.integer("past_present_share_buffer")
            total = before[2] if fixed else before[2] + length
            present_keys, present_values = (*before[:2], total, before[3]), (*before[:2], total, width // heads)
        scores = (query[0], heads, query[1], present_keys[2])
        kept = [site.like(0, sizes) for sizes in (present_keys, present_values, scores)]
        return [site.like(0, (query[0], query[1], width)), *kept]

    return shapes


def _grouped(total: int) -> ShapeFunction:
    """Keys and values packed into ``query`` or apart; the cache is the larger of its buffer and the whole length."""

    def shapes(site: Site) -> Sequence[TypeProto]:
        query, heads, groups = site.shape(0), site.integer("num_heads", 1), site.integer("kv_num_heads", 1)
        size = query[2] // heads if site.has(1) else query[2] // (heads + 2 * groups)
        length, packed, cache = query[1], size, 0
        if site.has(3):
            before = site.shape(3)
            length, packed, cache = before[2] + query[1], before[3], site.element(3)
        known = site.scalar(total)
        if known is not None:
            length = max(known, site.shape(3)[2] if site.has(3) else 0)
        kept = site.like(0, (query[0], groups, length, packed), cache)
        scores = site.like(0, (query[0], heads, query[1], length))
        return [site.like(0, (query[0], query[1], heads * size)), kept, kept, scores]

    return shapes


def _packed(site: Site) -> Sequence[TypeProto]:
    sizes = site.integers("qkv_hidden_sizes")
    width = sizes[2] if sizes and len(sizes) == 3 else site.shape(1)[-1] // 3
    return [site.like(0, (site.dims(0)[0], width))]


def _packed_multi_head(site: Site) -> Sequence[TypeProto]:
    query = site.shape(0)
    if len(query) == 4:
        return [site.like(0, (query[0], query[1] * query[3]))]
    return [site.like(0, (query[0], site.shape(2)[-1] if site.has(2) else query[1]))]


def _decoder(site: Site) -> Sequence[TypeProto]:
    """``query [S, B, D]``, caches ``[B, heads, P, size]``."""
    steps, batch, width = site.shape(0)
    heads = site.integer("num_heads", 1)
    length = site.shape(1)[0] + (site.shape(6)[2] if site.has(6) else 0)
    kept = site.like(0, (batch, heads, length, width // heads))
    return [site.like(0, (steps, batch, width)), kept, kept]


def _linear(site: Site) -> Sequence[TypeProto]:
    query, key, value = (site.shape(position) for position in range(3))
    heads, groups = site.integer("q_num_heads", 1), site.integer("kv_num_heads", 1)
    state = (query[0], groups, key[-1] // groups, value[-1] // groups)
    return [site.like(0, (*query[:-1], heads * value[-1] // groups)), site.like(3 if site.has(3) else 0, state)]


def _ordered(site: Site) -> Sequence[TypeProto]:
    return [site.like(0, (*site.dims(0)[:2], site.dims(7)[-1]))]


ATTENTION: dict[str, ShapeFunction] = {
    "com.microsoft::Attention": _attention(4),
    "com.microsoft::DecoderAttention": _decoder,
    "com.microsoft::DecoderMaskedMultiHeadAttention": _multi_head(5),
    "com.microsoft::DecoderMaskedSelfAttention": _attention(4, shared_length=True),
    "com.microsoft::GroupQueryAttention": _grouped(6),
    "com.microsoft::LinearAttention": _linear,
    "com.microsoft::LongformerAttention": first,
    "com.microsoft::MultiHeadAttention": _multi_head(6),
    "com.microsoft::PackedAttention": _packed,
    "com.microsoft::PackedMultiHeadAttention": _packed_multi_head,
    "com.microsoft::QAttention": _attention(8),
    "com.microsoft::QOrderedAttention": _ordered,
    "com.microsoft::QOrderedLongformerAttention": first,
    "com.microsoft::SparseAttention": _grouped(7),
}
