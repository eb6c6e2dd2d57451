"""Floor 0. The wire format of protocol buffers, as far as an ONNX file needs it. Standard library only.

In: bytes, mapped and not read: tensors are stepped over. Out: fields of one message. The format:
https://protobuf.dev/programming-guides/encoding/
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_MAX_VARINT_BYTES = 10


class MalformedError(ValueError):
    """These bytes are no protocol buffer, or end too early."""


class Buffer(Protocol):
    """What ``bytes`` and ``mmap`` have in common."""

    def __len__(self) -> int: ...

    def __getitem__(self, place: slice, /) -> bytes: ...


@dataclass(frozen=True, slots=True)
class Message:
    """The bytes of ``buffer`` from ``start`` to ``end``."""

    buffer: Buffer
    start: int
    end: int

    @classmethod
    def whole(cls, buffer: Buffer) -> Message:
        """All of ``buffer``."""
        return cls(buffer, 0, len(buffer))

    def fields(self) -> Iterator[tuple[int, int | Message]]:
        """Number and value of each field in order: a whole number, or the bytes of a text, array or message.

        Raises MalformedError.
        """
        return ((field.number, field.value) for field in self.spans())

    def spans(self) -> Iterator[Field]:
        """The same with the place of each field. Raises MalformedError."""
        place = self.start
        while place < self.end:
            begin = place
            key, place = self._varint(place)
            kind = key & 7
            if kind == _VARINT:
                value, place = self._varint(place)
                yield Field(key >> 3, value, begin, place)
                continue
            if kind == _BYTES:
                size, place = self._varint(place)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise MalformedError(f"field of unknown kind {kind} at byte {place}")  # noqa: EM102
            if size > self.end - place:
                raise MalformedError(f"the file ends inside a field of {size} bytes at byte {place}")  # noqa: EM102
            after = place + size
            yield Field(key >> 3, Message(self.buffer, place, after), begin, after)
            place = after

    def text(self) -> str:
        """The bytes as text."""
        return self.buffer[self.start : self.end].decode("utf-8", errors="replace")

    def _varint(self, place: int) -> tuple[int, int]:
        value = 0
        data = self.buffer[place : min(place + _MAX_VARINT_BYTES, self.end)]
        for index, byte in enumerate(data):
            value |= (byte & 0x7F) << (7 * index)
            if byte < 0x80:
                return value, place + index + 1
        raise MalformedError(f"no whole number at byte {place}")  # noqa: EM102


@dataclass(frozen=True, slots=True)
class Field:
    """One field: its number and value, and the bytes from ``start`` to ``end`` that are all of it, key included."""

    number: int
    value: int | Message
    start: int
    end: int


def delimited(number: int, contents: bytes | bytearray) -> bytearray:
    """The bytes of a field that holds a text, an array or a message."""
    return _written(number << 3 | _BYTES) + _written(len(contents)) + contents


def _written(value: int) -> bytearray:
    made = bytearray()
    while value >= 0x80:
        made.append(value & 0x7F | 0x80)
        value >>= 7
    made.append(value)
    return made
