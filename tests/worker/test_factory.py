"""Life and death of the process that forks, over its real socket."""

from __future__ import annotations

import os
import socket
import subprocess
import sys

import pytest

from perfgate.records.protocol import (
    ChildReply,
    Failed,
    Fork,
    Forked,
    Prepared,
)
from tests.worker.helpers import Peer, make_open, must_open, must_prepare, prepare, started, write_files
from tests.worker.processes import alive, gone, status_bytes

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


def test_factory__prepares_and_can_fork(shim, checkout, tmp_path):
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, prepare(checkout, "plain"))

    assert reply.can_fork, reply.reason
    assert reply.pid == worker.pid
    assert reply.import_ns > 0
    assert reply.software.threads == 1
    assert reply.software.interop_threads == 1
    assert {"python", "torch"} <= reply.software.versions.keys()


def test_factory__ends_when_its_socket_does_and_takes_its_children_along(shim, checkout, tmp_path):
    with started(shim, tmp_path / "log") as worker:
        must_prepare(worker, prepare(checkout, "plain"))
        child = worker.fork()
        worker.close()
        assert child.receive() is None
        assert worker.process.wait(20) == 0
    assert not alive(child.pid)


def test_factory__killed_parent_kills_the_whole_family(shim, checkout, tmp_path):
    # A stand-in for the parent, since this test cannot be killed itself: it starts the worker and waits.
    ours, theirs = socket.socketpair()
    fd = theirs.fileno()
    command = [sys.executable, str(shim), "--socket", str(fd), "factory"]
    program = (
        "import subprocess, time\n"
        f"p = subprocess.Popen({command!r}, pass_fds=({fd},), start_new_session=True)\n"
        "time.sleep(600)"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], pass_fds=(fd,))
    theirs.close()
    from perfgate.records.protocol import FactoryReply

    worker = Peer(ours, FactoryReply, 0)
    reply = worker.ask(prepare(checkout, "plain"))
    assert isinstance(reply, Prepared)
    child_end, far_end = socket.socketpair()
    forked = worker.ask(Fork(child="net"), (far_end.fileno(),))
    far_end.close()
    parent.kill()
    parent.wait()

    assert worker.receive() is None
    assert Peer(child_end, ChildReply, forked.pid).receive() is None
    assert gone(reply.pid)
    assert gone(forked.pid)
    worker.close()
    child_end.close()


def test_factory__leaves_no_zombies(factory):
    pids = []
    for _ in range(3):
        child = factory.fork()
        pids.append(child.pid)
        child.close()
    assert all(gone(pid) for pid in pids)


def test_factory__fork_before_prepare_is_refused(shim, tmp_path):
    ours, theirs = socket.socketpair()
    with started(shim, tmp_path / "log") as worker:
        reply = worker.ask(Fork(child="net"), (theirs.fileno(),))
    ours.close()
    theirs.close()
    assert isinstance(reply, Failed)
    assert reply.kind == "protocol"


def test_factory__fork_without_a_socket_is_refused(factory):
    reply = factory.ask(Fork(child="net"))
    assert isinstance(reply, Failed)
    assert "without a socket" in reply.message


def test_factory__unreadable_request_is_answered(factory):
    factory.sock.sendall(b'{"type": "Prepare", "nonsense": 1}\n')
    reply = factory.receive()
    assert isinstance(reply, Failed)
    assert reply.kind == "protocol"
    factory.sock.sendall(b"not json\n")
    assert isinstance(factory.receive(), Failed)


def test_factory__import_error_of_all_modules_is_the_reply(shim, tmp_path):
    checkout = write_files(tmp_path / "co", {"net.py": "import does_not_exist_anywhere\n"})
    with started(shim, tmp_path / "log") as worker:
        reply = worker.ask(prepare(checkout, "net"))

    assert isinstance(reply, Failed)
    assert (reply.kind, reply.phase) == ("import", "import")
    assert "does_not_exist_anywhere" in reply.message
    assert 'File "net.py", line 1' in reply.trace


def test_factory__exit_at_import_is_no_end_of_the_factory(shim, tmp_path):
    checkout = write_files(tmp_path / "co", {"net.py": "import sys\nsys.exit('goodbye')\n"})
    with started(shim, tmp_path / "log") as worker:
        reply = worker.ask(prepare(checkout, "net"))

    assert isinstance(reply, Failed)
    assert reply.kind == "exited"


def test_factory__threads_after_import_forbid_forking(shim, tmp_path):
    text = """
        import threading
        stop = threading.Event()
        threading.Thread(target=stop.wait, daemon=True).start()
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, prepare(checkout, "net"))

    assert not reply.can_fork
    assert "2 threads" in reply.reason


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="needs two processors")
def test_factory__several_threads_and_numpys_pool_do_not_forbid_forking(shim, tmp_path):
    pytest.importorskip("numpy")
    text = """
        import numpy
        from torch import nn

        numpy.ones((300, 300)) @ numpy.ones((300, 300))

        def net():
            return nn.Sequential(nn.Conv2d(8, 8, 3), nn.Conv2d(8, 8, 3))
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, prepare(checkout, "net", threads=2))
        assert reply.can_fork, reply.reason
        assert reply.software.threads == 2
        must_open(worker, make_open("net:net", ("float32[batch,8,32,32]",)))


def test_factory__initialises_no_cuda_and_says_so_if_the_modules_did(shim, tmp_path):
    # M58: torch's own flag is what a real initialisation leaves behind; there may be no GPU here.
    text = """
        import torch

        torch.cuda.is_available()
        assert not torch.cuda.is_initialized()
        torch.cuda.is_initialized = lambda: True
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, prepare(checkout, "net"))

    assert not reply.can_fork
    assert "CUDA" in reply.reason


def test_factory__threads_are_cut_to_the_mask_and_set_before_import(shim, tmp_path):
    # M59: more threads than processors in the mask is many times slower.
    text = """
        import os, torch
        first = (os.environ["OMP_NUM_THREADS"], torch.get_num_threads(), sorted(os.sched_getaffinity(0)))
        print("seen", first)
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    cpu = min(os.sched_getaffinity(0))
    with started(shim, tmp_path / "log") as worker:
        reply = must_prepare(worker, prepare(checkout, "net", threads=16, cpus=(cpu,)))

    assert reply.software.threads == 1
    assert reply.software.flags["threads_asked"] == "16"
    assert f"seen ('1', 1, [{cpu}])" in worker.log.read_text(encoding="utf-8")


def test_factory__processors_that_do_not_exist_are_refused(shim, tmp_path):
    checkout = write_files(tmp_path / "co", {"net.py": ""})
    with started(shim, tmp_path / "log") as worker:
        reply = worker.ask(prepare(checkout, "net", cpus=(4095,)))

    assert isinstance(reply, Failed)
    assert "4095" in reply.message


def test_fork__reply_names_the_childs_process(factory):
    ours, theirs = socket.socketpair()
    reply = factory.ask(Fork(child="net"), (theirs.fileno(),))
    theirs.close()
    assert isinstance(reply, Forked)
    assert status_bytes(reply.pid, "VmRSS") > 0
    ours.close()
