"""Life and death of worker processes, over their real socket."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from typing import Any

import pytest

from perfgate.records.protocol import (
    ChildReply,
    Failed,
    Finish,
    Finished,
    Fork,
    Forked,
    Opened,
    Prepared,
    Time,
    Timed,
)
from perfgate.wire import loads
from tests.worker.helpers import Peer, make_open, must_open, must_prepare, opened, prepare, started, write_files

pytest.importorskip("torch")
pytestmark = pytest.mark.torch

FILES = {
    "plain.py": """
        import sys
        import torch
        from torch import nn

        print("garbage on stdout")
        sys.stderr.write("garbage on stderr\\n")

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = nn.Linear(4, 3)

            def forward(self, x):
                print("{\\"type\\": \\"Finished\\", \\"peak_bytes\\": 1}")
                return self.layer(x)
    """,
    "bad.py": """
        import os, sys, threading, time
        import torch
        from torch import nn

        def raises():
            raise ValueError("no layers\\nat all")

        def exits():
            sys.exit(4)

        def vanishes():
            os._exit(7)

        def detaches():
            class Net(nn.Module):
                def forward(self, x):
                    if not hasattr(self, "forked"):
                        self.forked = True
                        if os.fork() == 0:
                            os.setsid()
                            return x
                    return x
            return Net()

        def nothing():
            return None

        class Fails(nn.Module):
            def __init__(self, after):
                super().__init__()
                self.calls, self.after = 0, after

            def forward(self, x):
                self.calls += 1
                if self.calls > self.after:
                    raise torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 1 GiB")
                return x

        def fails_first():
            return Fails(0)

        def downloads():
            import urllib.request
            urllib.request.urlopen("http://weights.invalid/resnet.pt", timeout=1)
    """,
}


@pytest.fixture(scope="module")
def checkout(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("check out"), FILES)


@pytest.fixture(scope="module")
def factory(shim, checkout, tmp_path_factory):
    with started(shim, tmp_path_factory.mktemp("logs") / "log") as worker:
        must_prepare(worker, prepare(checkout, "plain", "bad", "missing_module"))
        yield worker


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


def test_child__opens_times_and_finishes_then_ends(factory):
    child, reply = opened(factory, make_open("plain:Net"))
    assert isinstance(reply, Opened)
    assert reply.step_ns > 0
    assert reply.first_step_ns > 0
    assert reply.devices == ("cpu",)
    assert reply.items == 2

    timed = child.ask(Time(samples=4, inner=2, discard_ns=1000))
    assert isinstance(timed, Timed)
    assert len(timed.samples_ns) == 4
    assert all(sample > 0 for sample in timed.samples_ns)
    assert timed.wall_ns >= sum(timed.samples_ns)
    assert timed.items == 2
    assert timed.recompiles == 0

    finished = child.ask(Finish())
    assert isinstance(finished, Finished)
    assert child.receive() is None
    child.close()


def test_child__output_of_the_model_goes_to_the_log_only(factory):
    must_open(factory, make_open("plain:Net"))

    log = factory.log.read_text(encoding="utf-8")
    assert "garbage on stdout" in log
    assert '{"type": "Finished"' in log


def test_child__requests_out_of_order_are_refused(factory):
    child = factory.fork()
    assert child.ask(Time(samples=1)).kind == "protocol"
    assert isinstance(child.ask(make_open("plain:Net")), Opened)
    again = child.ask(make_open("plain:Net"))
    assert again.kind == "protocol"
    assert isinstance(child.ask(Finish()), Finished)
    child.close()


def test_child__started_fresh_does_the_same(shim, checkout, tmp_path):
    with started(shim, tmp_path / "log", role="child") as child:
        assert child.ask(make_open("plain:Net")).kind == "protocol"
        assert isinstance(child.ask(prepare(checkout, "plain")), Prepared)
        assert isinstance(child.ask(make_open("plain:Net")), Opened)
        assert isinstance(child.ask(Time(samples=2)), Timed)
        assert isinstance(child.ask(Finish()), Finished)
        assert child.receive() is None
        assert child.process.wait(20) == 0


@pytest.mark.parametrize(
    ("entry", "kind", "phase", "part"),
    [
        ("bad:raises", "raised", "build", "ValueError: no layers at all"),
        ("bad:exits", "exited", "build", "sys.exit(4)"),
        ("bad:nothing", "unsupported", "build", "NoneType"),
        ("bad:fails_first", "oom", "first-step", "OutOfMemoryError"),
        ("bad:absent", "import", "import", "has no 'absent'"),
        ("bad", "import", "import", "package.module:name"),
        ("missing_module:Net", "import", "import", "pythonpath"),
        ("bad:downloads", "raised", "build", "downloads are not allowed while measuring"),
    ],
)
def test_child__a_failing_model_is_one_failed_reply(factory, entry, kind, phase, part):
    child, reply = opened(factory, make_open(entry))

    assert isinstance(reply, Failed)
    assert (reply.kind, reply.phase) == (kind, phase)
    assert part in reply.message
    assert "\n" not in reply.message
    # The process is still there for the next request, and says that nothing is open.
    assert child.ask(Time(samples=1)).kind == "protocol"
    child.close()


def test_child__trace_ends_with_the_users_own_lines(factory):
    _, reply = opened(factory, make_open("bad:raises"))

    assert 'File "bad.py", line' in reply.trace
    assert reply.trace.endswith("at all")
    assert "perfgate/worker" not in reply.trace


def test_child__failing_later_is_a_failure_of_that_phase(factory):
    _, reply = opened(factory, make_open("bad:Fails", make_inputs="", inputs=("float32[1]",)))
    assert reply.phase == "build"
    assert "after" in reply.message


def test_child__vanishing_process_is_seen_as_the_sockets_end(factory):
    child = factory.fork("vanishing")
    child.send(make_open("bad:vanishes"))

    assert child.receive() is None
    assert gone(child.pid)
    assert "vanishing) ended with 7" in factory.log.read_text(encoding="utf-8")


def test_child__copy_forked_by_the_model_answers_nothing(factory):
    child, reply = opened(factory, make_open("bad:detaches"))
    assert isinstance(reply, Opened)

    finished = child.ask(Finish())
    assert isinstance(finished, Finished)
    # A second reply, or a socket kept open by the copy, would show here.
    assert child.receive() is None
    child.close()


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


def test_finish__peak_is_the_childs_own_and_not_its_parents(shim, tmp_path):
    # M32: on Linux ru_maxrss would be the parent's peak.
    text = """
        import torch
        from torch import nn

        big = torch.ones(300 * 2**18)
        del big

        class Net(nn.Module):
            def forward(self, x):
                return x + 1
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    with started(shim, tmp_path / "log") as worker:
        must_prepare(worker, prepare(checkout, "net"))
        child, reply = opened(worker, make_open("net:Net"))
        assert isinstance(reply, Opened), reply
        finished = child.ask(Finish())
        parent_peak = high_water(worker.pid)

    assert finished.peak_bytes is not None
    assert parent_peak - finished.peak_bytes > 200 * 2**20


def test_finish__peak_leaves_out_the_first_call(shim, tmp_path):
    # M30: the first call takes 200 MiB of scratch, later ones 40 MiB.
    text = """
        import torch
        from torch import nn

        class Net(nn.Module):
            first = True

            def forward(self, x):
                size = 200 if self.first else 40
                self.first = False
                return torch.ones(size * 2**18).sum() + x
    """
    checkout = write_files(tmp_path / "co", {"net.py": text})
    with started(shim, tmp_path / "log") as worker:
        must_prepare(worker, prepare(checkout, "net"))
        child, reply = opened(worker, make_open("net:Net"))
        assert isinstance(reply, Opened), reply
        before = resident(child.pid)
        child.ask(Time(samples=2))
        finished = child.ask(Finish())

    assert 30 * 2**20 < finished.peak_bytes - before < 120 * 2**20


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def gone(pid: int) -> bool:
    """Whether the process ends, and is reaped, within seconds."""
    for _ in range(400):
        if not alive(pid):
            return True
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    return False


def status_bytes(pid: int, name: str) -> int:
    with open(f"/proc/{pid}/status", encoding="utf-8") as lines:
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:"))


def high_water(pid: int) -> int:
    return status_bytes(pid, "VmHWM")


def resident(pid: int) -> int:
    return status_bytes(pid, "VmRSS")


def test_protocol__replies_are_single_lines_of_ascii(factory):
    child = factory.fork()
    child.send(make_open("bad:raises"))
    child.sock.settimeout(30)
    data = child.sock.recv(1 << 20)

    assert data.endswith(b"\n")
    assert data.count(b"\n") == 1
    replies: Any = ChildReply
    assert isinstance(loads(replies, data), Failed)
    child.close()


def test_fork__reply_names_the_childs_process(factory):
    ours, theirs = socket.socketpair()
    reply = factory.ask(Fork(child="net"), (theirs.fileno(),))
    theirs.close()
    assert isinstance(reply, Forked)
    assert status_bytes(reply.pid, "VmRSS") > 0
    ours.close()
