"""Floor 3, worker. The wire format of protocol buffers, as far as an ONNX file needs it. Standard library only.

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
        place = self.start
        while place < self.end:
            key, place = self._varint(place)
            kind = key & 7
            if kind == _VARINT:
                value, place = self._varint(place)
                yield key >> 3, value
                continue
            if kind == _BYTES:
                size, place = self._varint(place)
            elif kind in (_FIXED64, _FIXED32):
                size = 8 if kind == _FIXED64 else 4
            else:
                raise MalformedError(f"field of unknown kind {kind} at byte {place}")  # noqa: EM102
            if size > self.end - place:
                raise MalformedError(f"the file ends inside a field of {size} bytes at byte {place}")  # noqa: EM102
            yield key >> 3, Message(self.buffer, place, place + size)
            place += size

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
