"""Floor 3, worker. The line protocol over one Unix stream socket.

In: bytes and, beside them, file descriptors. Out: records of ``perfgate.records.protocol``.
"""

from __future__ import annotations

import contextlib
import json
import os
import socket
from typing import Any, cast

from perfgate import wire

_CHUNK = 65_536
_MAX_FDS = 8


class Channel:
    """One end of the socket; belongs to the process that made it.

    User code may fork and let the copy return into our loop. Such a copy must neither read nor answer
    requests, so it ends here.
    """

    def __init__(self, sock: socket.socket) -> None:
        self._sock = sock
        self._owner = os.getpid()
        self._buffer = b""
        self._fds: list[int] = []
        sock.setblocking(True)
        sock.set_inheritable(False)

    @classmethod
    def inherited(cls, fd: int) -> Channel:
        """The channel on a descriptor given by the parent. Raises OSError where it is not a socket."""
        return cls(socket.socket(fileno=fd))

    def receive(self, requests: Any) -> Any:
        """The next request, one of the union ``requests``; None at the end. Raises :class:`wire.WireError`."""
        self._end_strangers()
        while b"\n" not in self._buffer:
            try:
                data, fds, _flags, _address = socket.recv_fds(self._sock, _CHUNK, _MAX_FDS, socket.MSG_CMSG_CLOEXEC)
            except ConnectionError:
                return None
            self._fds.extend(fds)
            if not data:
                return None
            self._buffer += data
        line, self._buffer = self._buffer.split(b"\n", 1)
        return wire.loads(cast("type[object]", requests), line)

    def take_fd(self) -> int | None:
        """The oldest file descriptor that came with a request, or None."""
        return self._fds.pop(0) if self._fds else None

    def send(self, reply: object) -> None:
        """Write one reply; a parent that is gone is not an error, since the next read sees the end."""
        self._end_strangers()
        text = json.dumps(wire.tagged(reply, lean=True), ensure_ascii=True, allow_nan=False)
        with contextlib.suppress(ConnectionError):
            self._sock.sendall(text.encode() + b"\n")

    def close(self) -> None:
        """Close this process's end, and descriptors that nobody took."""
        for fd in self._fds:
            os.close(fd)
        self._fds.clear()
        self._sock.close()

    def _end_strangers(self) -> None:
        if os.getpid() != self._owner:
            os._exit(0)
