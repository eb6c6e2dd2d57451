"""Floor 3, bench. One end of the socket pair to a worker: records out, records in, each within a deadline.

The worker runs a pull request's code, so nothing that it sends is trusted: a line has a largest length, must
be strict JSON of one of the expected records, and must answer a request that was made.
"""

from __future__ import annotations

import json
import socket
import time
from typing import Any

from perfgate import wire

# A trace takes about 0.5 KiB an operator, and a hundred thousand of them are possible; samples are far smaller.
MAX_LINE = 64 * 2**20
_CHUNK = 2**16
_SEND_LIMIT_S = 30.0


class ChannelError(Exception):
    """Base of what can go wrong on the socket; ``str()`` finishes the sentence "the worker ..."."""


class SilentError(ChannelError):
    """No complete reply before the deadline."""


class ClosedError(ChannelError):
    """The other end is gone."""


class GarbledError(ChannelError):
    """What came is no reply."""


class Channel:
    """Owns ``sock``; close it to tell a worker to end."""

    def __init__(self, sock: socket.socket, *, max_line: int = MAX_LINE) -> None:
        self._sock = sock
        self._max_line = max_line
        self._rest = b""

    def send(self, record: object, fds: tuple[int, ...] = ()) -> None:
        """Write ``record`` as one line; ``fds`` travel with its first byte. Raises :class:`ChannelError`."""
        self._refuse_unasked()
        line = json.dumps(wire.tagged(record), allow_nan=False).encode() + b"\n"
        self._sock.settimeout(_SEND_LIMIT_S)
        try:
            if fds:
                sent = socket.send_fds(self._sock, [line], list(fds))
                line = line[sent:]
            self._sock.sendall(line)
        except TimeoutError:
            msg = "does not read its requests"
            raise SilentError(msg) from None
        except OSError:
            msg = "closed its connection"
            raise ClosedError(msg) from None

    def receive(self, expected: Any, timeout_s: float) -> Any:
        """The next record, one of the union ``expected``; sleeps until it is there. Raises :class:`ChannelError`."""
        line = self._line(time.monotonic() + timeout_s)
        try:
            return wire.loads(expected, line)
        except wire.WireError as error:
            msg = f"sent a reply that cannot be read: {error}"
            raise GarbledError(msg[:500]) from None

    def close(self) -> None:
        """Close this end; twice is fine."""
        self._sock.close()

    def _refuse_unasked(self) -> None:
        try:
            self._sock.settimeout(0)
            early = self._rest or self._sock.recv(1, socket.MSG_PEEK)
        except OSError:
            return
        if early:
            msg = "spoke without being asked"
            raise GarbledError(msg)

    def _line(self, deadline: float) -> bytes:
        pieces, length = [self._rest], len(self._rest)
        while b"\n" not in pieces[-1]:
            if length > self._max_line:
                msg = f"sent a line longer than {self._max_line} bytes"
                raise GarbledError(msg)
            piece = self._chunk(deadline)
            pieces.append(piece)
            length += len(piece)
        line, _, self._rest = b"".join(pieces).partition(b"\n")
        return line

    def _chunk(self, deadline: float) -> bytes:
        left = deadline - time.monotonic()
        if left <= 0:
            msg = "did not answer in time"
            raise SilentError(msg)
        self._sock.settimeout(left)
        try:
            piece = self._sock.recv(_CHUNK)
        except TimeoutError:
            msg = "did not answer in time"
            raise SilentError(msg) from None
        except OSError:
            piece = b""
        if not piece:
            msg = "ended without an answer"
            raise ClosedError(msg)
        return piece


def pair() -> tuple[Channel, socket.socket]:
    """A channel for this process and the socket that a worker inherits or is sent."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    return Channel(ours), theirs
