from __future__ import annotations

import select
import subprocess
import sys

import pytest

from perfgate.bench.locks import Locks
from perfgate.errors import MeasuringError

LIMIT_S = 60.0


def locks(folder, wait_s=0.0):
    said: list[str] = []
    return Locks(folder, wait_s=wait_s, waiting=said.append), said


def test_take__machine_for_one_at_a_time(tmp_path):
    (one, _), (two, said) = locks(tmp_path), locks(tmp_path, wait_s=0.6)
    one.take((), cpu=True)
    with pytest.raises(MeasuringError, match=r"perfgate-machine.lock: another perfgate"):
        two.take((), cpu=True)
    assert said
    one.release()
    two.release()


def test_take__free_again_after_release(tmp_path):
    (one, _), (two, _) = locks(tmp_path), locks(tmp_path)
    one.take(("ab",), cpu=True)
    with pytest.raises(MeasuringError, match="another perfgate"):
        two.take(("ab",), cpu=True)
    one.release()
    two.take(("ab",), cpu=True)
    # It holds them now, rather than only being let through.
    with pytest.raises(MeasuringError, match="another perfgate"):
        one.take(("ab",), cpu=True)
    two.release()


def test_take__gates_on_different_gpus_share_the_machine(tmp_path):
    (one, _), (two, _), (three, _) = locks(tmp_path), locks(tmp_path), locks(tmp_path)
    one.take(("aa",), cpu=False)
    two.take(("bb",), cpu=False)
    with pytest.raises(MeasuringError, match="perfgate-gpu-aa"):
        three.take(("aa",), cpu=False)
    with pytest.raises(MeasuringError, match="machine"):
        locks(tmp_path)[0].take((), cpu=True)
    for each in (one, two, three):
        each.release()


def test_take__what_is_held_already_stays_and_may_become_exclusive(tmp_path):
    (one, _), (two, _) = locks(tmp_path), locks(tmp_path)
    one.take(("aa",), cpu=False)
    one.take(("aa",), cpu=True)
    with pytest.raises(MeasuringError):
        two.take(("bb",), cpu=False)
    one.release()
    two.release()


def test_take__refuses_a_link_in_place_of_the_file(tmp_path):
    (tmp_path / "perfgate-machine.lock").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(MeasuringError, match="PERFGATE_LOCK_DIR"):
        locks(tmp_path)[0].take((), cpu=True)


def test_take__file_of_another_user_can_be_locked(tmp_path):
    path = tmp_path / "perfgate-machine.lock"
    path.touch()
    path.chmod(0o444)
    (one, _), (two, _) = locks(tmp_path), locks(tmp_path)
    one.take((), cpu=True)
    with pytest.raises(MeasuringError, match=r"perfgate-machine.lock: another perfgate"):
        two.take((), cpu=True)
    one.release()


def test_take__folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MeasuringError, match="PERFGATE_LOCK_DIR"):
        locks(tmp_path / "file" / "below")[0].take((), cpu=True)


# Takes the machine's lock in the folder that it is given, says so, and waits to be ended.
OWNER = """
import sys, time
from pathlib import Path
from perfgate.bench.locks import Locks
Locks(Path(sys.argv[1]), wait_s=0.0, waiting=print).take((), cpu=True)
print("held", flush=True)
time.sleep(600)
"""


def test_take__lock_dies_with_its_owner(tmp_path):
    # A process of its own: a forked copy of this one may inherit locks that threads of other tests hold, and wait
    # for them for ever.
    owner = subprocess.Popen([sys.executable, "-c", OWNER, str(tmp_path)], stdout=subprocess.PIPE)
    with owner:
        try:
            assert owner.stdout is not None
            assert select.select([owner.stdout], [], [], LIMIT_S)[0], "the owner did not start"
            assert owner.stdout.readline() == b"held\n"
            one, _ = locks(tmp_path)
            with pytest.raises(MeasuringError, match="another perfgate"):
                one.take((), cpu=True)
        finally:
            owner.kill()
            owner.wait(LIMIT_S)
    one.take((), cpu=True)
    one.release()
