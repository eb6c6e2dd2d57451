"""Floor 3, graph. An ONNX file without its weights.

In: the file's bytes, mapped rather than read. Out: the bytes of the same model in which contents of large tensors are
left out. Only pages that hold the graph are touched: a file of 2 GiB takes as little memory as one without weights.

Messages shorter than the contents that are left out are copied as they are.
"""

from __future__ import annotations

from collections.abc import Mapping
from mmap import mmap

from perfgate.protobuf import MalformedError, Message, delimited

# Bytes of one tensor's contents from which on they are left out: more than what is computed with.
LIMIT = 64 * 1024
_MAX_NESTING = 100

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
    return bytes(_lean(Message.whole(contents), "model", 0))


def _lean(message: Message, kind: str, depth: int) -> bytearray:
    if depth > _MAX_NESTING:
        msg = "messages nested too deeply"
        raise MalformedError(msg)
    made = bytearray()
    inside = _INSIDE[kind]
    for field in message.spans():
        value = field.value
        if isinstance(value, int) or value.end - value.start <= LIMIT:
            made += message.buffer[field.start : field.end]
        elif field.number in inside:
            made += delimited(field.number, _lean(value, inside[field.number], depth + 1))
        elif not (kind == "tensor" and field.number in _CONTENTS):
            made += message.buffer[field.start : field.end]
    return made
