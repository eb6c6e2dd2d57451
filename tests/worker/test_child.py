"""Life and death of the processes that measure, over their real sockets."""

from __future__ import annotations

from typing import Any

import pytest

from perfgate.records.protocol import ChildReply, Failed, Finish, Finished, Opened, Prepared, Time, Timed
from perfgate.wire import loads
from tests.worker.helpers import make_open, must_open, must_prepare, opened, prepare, started, write_files
from tests.worker.processes import gone, high_water, resident

pytest.importorskip("torch")
pytestmark = pytest.mark.torch


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
