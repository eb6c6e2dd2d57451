from __future__ import annotations

import json
import os
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from perfgate import wire
from perfgate.bench.channel import Channel, ChannelError, ClosedError, GarbledError, SilentError
from perfgate.records.protocol import ChildReply, Finish, Finished, Fork


@pytest.fixture
def ends():
    ours, theirs = socket.socketpair()
    channel = Channel(ours, max_line=1000)
    yield channel, theirs
    channel.close()
    theirs.close()


def line(record: object) -> bytes:
    return json.dumps(wire.tagged(record)).encode() + b"\n"


def test_send__one_line_of_json(ends):
    channel, theirs = ends
    channel.send(Finish())
    assert theirs.recv(100) == b'{"type": "Finish"}\n'


def test_send__descriptor_travels_with_the_message(ends):
    channel, theirs = ends
    read, write = os.pipe()
    channel.send(Fork(child="m"), (write,))
    _, (received,), _, _ = socket.recv_fds(theirs, 100, 1)
    os.write(received, b"x")
    assert os.read(read, 1) == b"x"
    for descriptor in (read, write, received):
        os.close(descriptor)


def test_receive__reply_in_pieces(ends):
    channel, theirs = ends
    whole = line(Finished(peak_bytes=5))
    theirs.sendall(whole[:10])
    with pytest.raises(SilentError):
        channel.receive(ChildReply, 0.01)


def test_receive__reply_of_the_union(ends):
    channel, theirs = ends
    theirs.sendall(line(Finished(peak_bytes=5)))
    assert channel.receive(ChildReply, 5) == Finished(peak_bytes=5)


@pytest.mark.parametrize(
    ("data", "error", "words"),
    [
        (b"\n", GarbledError, "cannot be read"),
        (b"\xff\xfe\n", GarbledError, "cannot be read"),
        (b'{"type": "Finished", "peak_bytes": NaN}\n', GarbledError, "NaN"),
        (b'{"type": "Finished", "peak_bytes": 1, "peak_bytes": 2}\n', GarbledError, "twice"),
        (b'{"type": "Finished", "peak_bytes": 1, "more": 2}\n', GarbledError, "more"),
        (b"[" * 500 + b"\n", GarbledError, "cannot be read"),
        (b"x" * 2000, GarbledError, "longer than 1000"),
    ],
)
def test_receive__what_is_no_reply(ends, data, error, words):
    channel, theirs = ends
    theirs.sendall(data)
    with pytest.raises(error, match=words):
        channel.receive(ChildReply, 5)


def test_receive__end_of_the_connection(ends):
    channel, theirs = ends
    theirs.sendall(b'{"type"')
    theirs.close()
    with pytest.raises(ClosedError):
        channel.receive(ChildReply, 5)


def test_send__end_of_the_connection(ends):
    channel, theirs = ends
    theirs.close()
    with pytest.raises(ClosedError):
        channel.send(Finish())


@pytest.mark.parametrize("early", [b'{"type": "Finished", "peak_bytes": 1}\n', b"{"])
def test_send__refuses_a_worker_that_answers_before_it_is_asked(ends, early):
    channel, theirs = ends
    theirs.sendall(early)
    with pytest.raises(GarbledError, match="without being asked"):
        channel.send(Finish())


def test_send__refuses_a_second_reply_to_one_request(ends):
    channel, theirs = ends
    theirs.sendall(2 * line(Finished(peak_bytes=1)))
    channel.receive(ChildReply, 5)
    with pytest.raises(GarbledError, match="without being asked"):
        channel.send(Finish())


@given(st.binary(max_size=300))
def test_receive__any_bytes_are_a_channel_error(data):
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.sendall(data)
        theirs.shutdown(socket.SHUT_WR)
        channel = Channel(ours)
        # No hypothesis input is a whole reply: those need a known name.
        with pytest.raises(ChannelError):
            channel.receive(ChildReply, 5)
        channel.close()
