"""Checkouts: complete, side by side, and gone afterwards, whatever happens."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest

from perfgate.changes.worktrees import checkouts, erase, remove_leftovers
from perfgate.errors import CheckoutError, UsageError
from tests.changes.helpers import ENVIRON, Repo

ROOT = Path(__file__).parents[2]


def two_commits(path: Path) -> tuple[Repo, str, str]:
    repo = Repo(path)
    base = repo.commit({"model.py": "base", "sub/data.txt": "1"})
    return repo, base, repo.commit({"model.py": "head", "ünïcode name.py": "x"})


def worktrees_of(repo: Repo) -> int:
    return repo("worktree", "list", "--porcelain").count("worktree ")


def test_checkouts__both_sides_at_paths_of_equal_length(tmp_path):
    repo, base, head = two_commits(tmp_path / "re po")
    with checkouts(repo.git, base, head, tmp_path / "runs here") as trees:
        assert (trees.base / "model.py").read_text(encoding="utf-8") == "base"
        assert (trees.head / "model.py").read_text(encoding="utf-8") == "head"
        assert (trees.head / "ünïcode name.py").exists()
        assert len(str(trees.base)) == len(str(trees.head))
        assert trees.base.parent == trees.head.parent == trees.run_dir
        assert (trees.base_sha, trees.head_sha, trees.notes) == (base, head, ())
        assert worktrees_of(repo) == 3
    assert list((tmp_path / "runs here").iterdir()) == []
    assert worktrees_of(repo) == 1
    assert repo("status", "--porcelain") == ""


def test_checkouts__uncommitted_changes_stay_out(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    repo.write({"model.py": "uncommitted", "untracked.py": ""})
    with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
        assert (trees.head / "model.py").read_text(encoding="utf-8") == "head"
        assert not (trees.head / "untracked.py").exists()
    assert (repo.root / "model.py").read_text(encoding="utf-8") == "uncommitted"


def test_checkouts__equal_commits(tmp_path):
    repo, _, head = two_commits(tmp_path / "repo")
    with checkouts(repo.git, head, head, tmp_path / "runs") as trees:
        assert (trees.base / "model.py").read_bytes() == (trees.head / "model.py").read_bytes()


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt])
def test_checkouts__removed_after_an_error(tmp_path, error):
    repo, base, head = two_commits(tmp_path / "repo")
    with pytest.raises(error):
        with checkouts(repo.git, base, head, tmp_path / "runs"):
            raise error
    assert list((tmp_path / "runs").iterdir()) == []
    assert worktrees_of(repo) == 1


def test_checkouts__removed_with_read_only_and_foreign_content(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    outside = tmp_path / "outside"
    outside.mkdir()
    with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
        deep = trees.head / "cache" / "deep"
        deep.mkdir(parents=True)
        (deep / "file").write_text("x", encoding="utf-8")
        (trees.base / "link").symlink_to(outside)
        (deep / "file").chmod(0o400)
        deep.chmod(0o500)
        deep.parent.chmod(0o000)
        (trees.head / ".git").unlink()
    assert list((tmp_path / "runs").iterdir()) == []
    assert outside.is_dir()
    assert worktrees_of(repo) == 1


def test_checkouts__two_runs_at_once(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    with ExitStack() as stack:
        first, second = (stack.enter_context(checkouts(repo.git, base, head, tmp_path / "runs")) for _ in range(2))
        assert first.run_dir != second.run_dir
        assert (first.head / "model.py").exists()
        assert (second.head / "model.py").exists()
    assert worktrees_of(repo) == 1


def test_checkouts__many_runs_at_once_do_not_stumble_over_one_another(tmp_path):
    """git reads half-made worktrees of others and gives up: the runs must take turns."""
    repo, base, head = two_commits(tmp_path / "repo")

    def run(_: int) -> tuple[str, bool]:
        with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
            return (trees.head / "model.py").read_text(encoding="utf-8"), (trees.head / ".git").is_file()

    with ThreadPoolExecutor(4) as pool:
        assert set(pool.map(run, range(8))) == {("head", True)}
    assert list((tmp_path / "runs").iterdir()) == []
    assert worktrees_of(repo) == 1


_VICTIM = """
import os, sys
from pathlib import Path
from perfgate.changes.git import Git
from perfgate.changes.worktrees import checkouts
root, base, head, parent = sys.argv[1:]
with checkouts(Git(Path(root)), base, head, Path(parent)) as trees:
    print(trees.run_dir, flush=True)
    sys.stdin.read()
"""


def test_checkouts__leftovers_of_a_killed_run_are_removed_by_the_next(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    runs = tmp_path / "runs"
    with subprocess.Popen(
        [sys.executable, "-c", _VICTIM, str(repo.root), base, head, str(runs)],
        cwd=ROOT, env={**os.environ, **ENVIRON}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, encoding="utf-8",
    ) as victim:  # fmt: skip
        assert victim.stdout is not None
        left = Path(victim.stdout.readline().strip())
        assert (left / "head" / "model.py").exists()
        assert remove_leftovers(repo.git, runs) == ()
        assert (left / "head" / "model.py").exists(), "a living run's folder must stay"
        victim.send_signal(signal.SIGKILL)
        victim.wait(60)
    assert left.exists()
    with checkouts(repo.git, base, head, runs) as trees:
        assert not left.exists()
        assert trees.notes == ()
        assert worktrees_of(repo) == 3
    assert list(runs.iterdir()) == []


def test_remove_leftovers__worktree_whose_folder_is_gone(tmp_path):
    repo, base, _ = two_commits(tmp_path / "repo")
    runs = tmp_path / "runs"
    (runs / "run-1").mkdir(parents=True)
    repo("worktree", "add", "--quiet", "--detach", str(runs / "run-1" / "base"), base)
    erase(runs / "run-1")
    elsewhere = tmp_path / "mine"
    repo("worktree", "add", "--quiet", "--detach", str(elsewhere), base)
    erase(elsewhere)
    assert worktrees_of(repo) == 3
    remove_leftovers(repo.git, runs)
    assert worktrees_of(repo) == 2, "the user's own worktree is none of our business"


def test_checkouts__repository_that_takes_no_worktree(tmp_path):
    """As on a read-only file system: the objects are borrowed, and nothing is written into the repository."""
    repo, base, head = two_commits(tmp_path / "repo")
    repo("tag", "v1", base)
    (repo.root / ".git" / "worktrees").write_text("in the way", encoding="utf-8")
    before = sorted((repo.root / ".git").rglob("*"))
    with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
        assert (trees.base / "model.py").read_text(encoding="utf-8") == "base"
        assert (trees.head / "model.py").read_text(encoding="utf-8") == "head"
        assert Repo(trees.head)("describe", "--tags") == f"v1-1-g{head[:7]}"
        assert len(str(trees.base)) == len(str(trees.head))
    assert list((tmp_path / "runs").iterdir()) == []
    assert sorted((repo.root / ".git").rglob("*")) == before


def test_checkouts__borrowing_from_a_shallow_clone(tmp_path):
    repo, _, head = two_commits(tmp_path / "repo")
    clone = Repo(tmp_path / "clone")
    clone("fetch", "--quiet", "--depth=1", f"file://{repo.root}", "main")
    (clone.root / ".git" / "worktrees").write_text("in the way", encoding="utf-8")
    with checkouts(clone.git, head, head, tmp_path / "runs") as trees:
        assert Repo(trees.head)("log", "--format=%H") == head


def test_checkouts__commit_that_is_not_here(tmp_path):
    repo, base, _ = two_commits(tmp_path / "repo")
    with pytest.raises(CheckoutError, match=r"^head: git"):
        with checkouts(repo.git, base, "0" * 40, tmp_path / "runs"):
            pytest.fail("a side is missing")
    assert list((tmp_path / "runs").iterdir()) == []
    assert worktrees_of(repo) == 1


def test_checkouts__names_are_not_taken_for_commits(tmp_path):
    repo, base, _ = two_commits(tmp_path / "repo")
    with pytest.raises(UsageError, match="40 hexadecimal digits"):
        with checkouts(repo.git, base, "main", tmp_path / "runs"):
            pytest.fail("a name is no commit")


def test_checkouts__place_that_is_a_file(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    (tmp_path / "runs").write_text("", encoding="utf-8")
    with pytest.raises(CheckoutError, match="cannot be used for checkouts"):
        with checkouts(repo.git, base, head, tmp_path / "runs"):
            pytest.fail("no place")


def test_checkouts__default_place_is_private_and_of_the_runner(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    git = repo.git.__class__(repo.root, {**ENVIRON, "RUNNER_TEMP": str(tmp_path / "temp")})
    (tmp_path / "temp").mkdir()
    with checkouts(git, base, head) as trees:
        assert trees.run_dir.is_relative_to(tmp_path / "temp")
        assert trees.run_dir.parent.stat().st_mode & 0o077 == 0
    assert list((tmp_path / "temp").iterdir()) == []


def test_checkouts__hooks_of_the_repository_are_not_run(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    hook = repo.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n", encoding="utf-8")
    hook.chmod(0o755)
    with checkouts(repo.git, base, head, tmp_path / "runs"):
        assert not (tmp_path / "ran").exists()


def test_checkouts__sparse_main_checkout_does_not_thin_out_the_sides(tmp_path):
    repo, base, head = two_commits(tmp_path / "repo")
    repo("sparse-checkout", "set", "sub")
    with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
        assert (trees.base / "sub" / "data.txt").exists()
        assert (trees.head / "ünïcode name.py").exists()
