from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from perfgate.bench.process import MARKER, Started, Trees, cpu_time_ns, wait_gone

BUSY = "while True: pass"
# A process that leaves its parent, its session and its group, and then works.
DETACH = """
import os, sys
def busy():
    open(sys.argv[1], "w").write(str(os.getpid()))
    while True: pass
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        busy()
    os._exit(0)
os.wait()
{after}
"""

BARE = "import os, sys; open(sys.argv[1], 'w').write(str(os.getpid()))\nwhile True: pass"


@pytest.fixture
def trees():
    made = Trees("abcd")
    yield made
    made.close()


def start(trees: Trees, tmp_path: Path, code: str, *arguments: str, side: str = "base") -> Started:
    return trees.start(
        [sys.executable, "-c", code, *arguments],
        side=side, cwd=tmp_path, env=dict(os.environ), fds=(), log=tmp_path / f"{side}.log",
    )  # fmt: skip


def until(condition, seconds: float = 20.0):
    deadline = time.monotonic() + seconds
    while not (value := condition()):
        assert time.monotonic() < deadline
        time.sleep(0.01)
    return value


def detached(tmp_path: Path) -> int:
    return int(until(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text(encoding="utf-8")))


def runs(pid: int) -> bool:
    return psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE


def test_cpu_time_ns__grows_with_work_and_is_none_afterwards(trees, tmp_path):
    started = start(trees, tmp_path, BUSY)
    until(lambda: (cpu_time_ns(started.popen.pid) or 0) > 20_000_000)
    trees.end_side()
    assert cpu_time_ns(started.popen.pid) is None


def test_pause__stops_the_whole_tree_even_what_has_left_it(trees, tmp_path):
    start(trees, tmp_path, DETACH.format(after=BUSY), str(tmp_path / "pid"))
    pid = detached(tmp_path)
    trees.pause("base")
    assert {process.status() for process in trees.members("base")} == {psutil.STATUS_STOPPED}
    assert pid in {process.pid for process in trees.members("base")}
    assert trees.resume("base") < 5_000_000
    until(lambda: psutil.Process(pid).status() != psutil.STATUS_STOPPED)


def test_pause__leaves_the_other_side_alone(trees, tmp_path):
    start(trees, tmp_path, BUSY, side="base")
    other = start(trees, tmp_path, BUSY, side="head")
    trees.pause("base")
    assert psutil.Process(other.popen.pid).status() != psutil.STATUS_STOPPED


def test_resume__tells_that_a_stopped_side_ran(trees, tmp_path):
    started = start(trees, tmp_path, BUSY)
    trees.pause("base")
    before = cpu_time_ns(started.popen.pid)
    assert before is not None
    os.kill(started.popen.pid, signal.SIGCONT)  # someone else wakes it
    until(lambda: (cpu_time_ns(started.popen.pid) or 0) > before + 10_000_000)
    assert trees.resume("base") > 10_000_000


def test_end_side__orphan_in_a_session_of_its_own(trees, tmp_path):
    started = start(trees, tmp_path, DETACH.format(after=""), str(tmp_path / "pid"))
    pid = detached(tmp_path)
    started.popen.wait(20)
    assert trees.end_side("base") == ()
    assert not runs(pid)


def test_end_side__orphan_that_has_cleared_its_environment(trees, tmp_path):
    after = "import time; time.sleep(600)"
    program = f'[sys.executable, "-c", {BARE!r}, sys.argv[1]]'
    code = DETACH.format(after=after).replace("        busy()", f"        os.execve(sys.executable, {program}, {{}})")
    start(trees, tmp_path, code, str(tmp_path / "pid"))
    pid = detached(tmp_path)
    assert MARKER not in psutil.Process(pid).environ()
    trees.end_side()
    assert not runs(pid)


def test_end_side__process_that_ignores_sigterm(trees, tmp_path):
    code = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('ready', flush=True)\n" + BUSY
    started = start(trees, tmp_path, code)
    until(lambda: b"ready" in started.log.read_bytes())
    begun = time.monotonic()
    assert trees.end_side("base", grace_s=0.2) == ()
    assert time.monotonic() - begun < 5
    assert started.popen.returncode == -signal.SIGKILL


def test_end_side__stopped_process(trees, tmp_path):
    start(trees, tmp_path, BUSY)
    trees.pause("base")
    assert trees.end_side() == ()
    assert trees.members() == []


def test_end_side__leaves_no_zombie(trees, tmp_path):
    start(trees, tmp_path, DETACH.format(after=""), str(tmp_path / "pid"))
    pid = detached(tmp_path)
    trees.end_side()
    assert not psutil.pid_exists(pid)


def test_end__other_children_of_this_process_keep_their_status(trees, tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", "raise SystemExit(9)"])
    start(trees, tmp_path, BUSY)
    until(lambda: psutil.Process(stranger.pid).status() == psutil.STATUS_ZOMBIE)
    trees.end_side()
    assert stranger.wait() == 9


def test_members__nothing_of_others(trees, tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", BUSY])
    try:
        ours = start(trees, tmp_path, BUSY)
        assert [process.pid for process in trees.members()] == [ours.popen.pid]
        trees.end_side()
        assert runs(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


def test_members__nothing_that_was_there_before(tmp_path):
    stranger = subprocess.Popen([sys.executable, "-c", BUSY], start_new_session=True)
    trees = Trees("abcd")
    try:
        assert trees.members() == []
        trees.close()
        assert runs(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


def test_close__two_sessions_at_once_end_only_their_own(tmp_path):
    one, two = Trees("one1"), Trees("two2")
    try:
        start(one, tmp_path, BUSY)
        other = start(two, tmp_path, BUSY, side="head")
        one.close()
        assert one.members() == []
        assert runs(other.popen.pid)
    finally:
        two.close()
    assert not runs(other.popen.pid)


def test_start__marks_the_environment_and_the_oom_killer_s_choice(trees, tmp_path):
    code = f"import os; print(os.environ['{MARKER}'], os.getsid(0) == os.getpid(), flush=True)\n" + BUSY
    started = start(trees, tmp_path, code)
    assert until(started.log.read_bytes) == b"abcd.base True\n"
    score = Path(f"/proc/{started.popen.pid}/oom_score_adj").read_text(encoding="utf-8")
    assert int(score) > 0


def test_start__priority_that_all_forks_inherit(tmp_path):
    trees = Trees("abcd", niceness=5)
    try:
        started = start(trees, tmp_path, "import os; os.fork(); import time; time.sleep(600)")
        members = until(lambda: len(trees.members()) == 2 and trees.members())
        until(lambda: os.getpriority(os.PRIO_PROCESS, started.popen.pid) == 5)
        assert {os.getpriority(os.PRIO_PROCESS, process.pid) for process in members} == {5}
    finally:
        trees.close()


@pytest.mark.parametrize(("code", "status"), [("raise SystemExit(4)", 4), ("import os; os.kill(os.getpid(), 9)", -9)])
def test_status__how_a_process_ended(trees, tmp_path, code, status):
    started = start(trees, tmp_path, code)
    assert wait_gone([started.popen.pid], 20) == ()
    assert trees.status(started.popen.pid) == status


def test_wait_gone__names_what_still_runs(trees, tmp_path):
    started = start(trees, tmp_path, BUSY)
    assert wait_gone([started.popen.pid, 2**22 + 1], 0.05) == (started.popen.pid,)
