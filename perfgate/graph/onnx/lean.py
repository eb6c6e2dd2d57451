"""Floor 3, graph. An ONNX file without its weights.

In: the file's bytes, mapped rather than read. Out: the bytes of the same model in which contents of large tensors are
left out. Only pages that hold the graph are touched: a file of 2 GiB takes as little memory as one without weights.

The file is a protocol buffer: fields of (number, wire type), messages prefixed by their length. Messages shorter than
the contents that are left out are copied as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap

# Bytes of one tensor's contents from which on they are left out: more than what is computed with.
LIMIT = 64 * 1024
_MAX_NESTING = 100

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5

# Message -> its fields that are messages which may hold tensors. Numbers of the ONNX format.
_INSIDE: Mapping[str, Mapping[int, str]] = {
    "model": {7: "graph", 20: "training", 25: "function"},
    "training": {1: "graph", 2: "graph"},
    "graph": {1: "node", 5: "tensor", 15: "sparse"},
    "function": {7: "node", 11: "attribute"},
    "node": {5: "attribute"},
    "attribute": {5: "tensor", 6: "graph", 10: "tensor", 11: "graph", 22: "sparse", 23: "sparse"},
    "sparse": {1: "tensor", 2: "tensor"},
    "tensor": {},
}
# float_data, int32_data, string_data, int64_data, raw_data, double_data, uint64_data
_CONTENTS = frozenset({4, 5, 6, 7, 9, 10, 11})


def without_weights(contents: mmap | bytes) -> bytes:
    """The model without large contents. Raises ValueError where the bytes are no protocol buffer."""
    return bytes(_message(contents, 0, len(contents), "model", 0))


def _message(data: mmap | bytes, start: int, end: int, kind: str, depth: int) -> bytearray:
    if depth > _MAX_NESTING:
        msg = "messages nested too deeply"
        raise ValueError(msg)
    made = bytearray()
    inside = _INSIDE[kind]
    at = start
    while at < end:
        key, body = _varint(data, at, end)
        number, wire = key >> 3, key & 7
        if wire != _BYTES:
            after = _skip(data, body, end, wire)
            made += data[at:after]
            at = after
            continue
        length, body = _varint(data, body, end)
        after = body + length
        if after > end:
            msg = "a field ends behind its message"
            raise ValueError(msg)
        if length <= LIMIT:
            made += data[at:after]
        elif number in inside:
            inner = _message(data, body, after, inside[number], depth + 1)
            made += _written(key) + _written(len(inner)) + inner
        elif not (kind == "tensor" and number in _CONTENTS):
            made += data[at:after]
        at = after
    return made


def _varint(data: mmap | bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    msg = "a number is cut off"
    raise ValueError(msg)


def _skip(data: mmap | bytes, at: int, end: int, wire: int) -> int:
    if wire == _VARINT:
        return _varint(data, at, end)[1]
    if wire not in (_FIXED32, _FIXED64):
        msg = f"wire type {wire}"
        raise ValueError(msg)
    after = at + (4 if wire == _FIXED32 else 8)
    if after > end:
        msg = "a number is cut off"
        raise ValueError(msg)
    return after


def _written(value: int) -> bytes:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return bytes(made)
