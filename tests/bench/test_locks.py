from __future__ import annotations

import os

import pytest

from perfgate.bench.locks import Locks
from perfgate.errors import MeasuringError


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
    one.release()
    two.take(("ab",), cpu=True)
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
    one, _ = locks(tmp_path)
    one.take((), cpu=True)
    one.release()


def test_take__folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(MeasuringError, match="PERFGATE_LOCK_DIR"):
        locks(tmp_path / "file" / "below")[0].take((), cpu=True)


def test_take__lock_dies_with_its_owner(tmp_path):
    read, write = os.pipe()
    child = os.fork()
    if child == 0:
        locks(tmp_path)[0].take((), cpu=True)
        os.write(write, b"x")
        os._exit(0)
    os.read(read, 1)
    os.waitpid(child, 0)
    one, _ = locks(tmp_path)
    one.take((), cpu=True)
    one.release()
    os.close(read)
    os.close(write)
