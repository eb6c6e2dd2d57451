"""LFS files: present, fetched, or the run stops."""

from __future__ import annotations

import os
import shutil

import pytest

from perfgate.changes.git import Git
from perfgate.changes.worktrees import checkouts
from perfgate.errors import CheckoutError
from tests.changes.helpers import ENVIRON, Repo

POINTER = "version https://git-lfs.github.com/spec/v1\noid sha256:{}\nsize 12345\n".format("0" * 64)

# Stands in for git-lfs, which few machines have: it "downloads" the one file there is.
FAKE_LFS = '#!/bin/sh\n[ "$1" = pull ] && printf "real weights" > weights.bin\n'


def with_pointer(tmp_path, **more: str) -> tuple[Repo, str]:
    repo = Repo(tmp_path / "repo")
    files = {".gitattributes": "*.bin filter=lfs diff=lfs merge=lfs -text\n", "weights.bin": POINTER, **more}
    return repo, repo.commit(files)


def git_with_lfs(tmp_path, repo: Repo, script: str = FAKE_LFS) -> Git:
    (tmp_path / "bin").mkdir()
    program = tmp_path / "bin" / "git-lfs"
    program.write_text(script, encoding="utf-8")
    program.chmod(0o755)
    return Git(repo.root, {**ENVIRON, "PATH": f"{tmp_path}/bin{os.pathsep}{ENVIRON['PATH']}"})


def git_without_lfs(tmp_path, repo: Repo) -> Git:
    """A PATH on which there is git, and nothing else."""
    (tmp_path / "only-git").mkdir()
    found = shutil.which("git", path=ENVIRON["PATH"])
    assert found
    (tmp_path / "only-git" / "git").symlink_to(found)
    return Git(repo.root, {**ENVIRON, "PATH": str(tmp_path / "only-git")})


def test_checkouts__pointer_without_git_lfs_stops_the_run(tmp_path):
    repo, sha = with_pointer(tmp_path, **{"sub/more.bin": POINTER, "text.txt": POINTER})
    git = git_without_lfs(tmp_path, repo)
    with pytest.raises(CheckoutError) as caught:
        with checkouts(git, sha, sha, tmp_path / "runs"):
            pytest.fail("a pointer is no weight")
    assert str(caught.value) == (
        "base: sub/more.bin, weights.bin: LFS pointer instead of the file (git-lfs is not installed); "
        f"fetch them beforehand (git lfs fetch origin {sha})"
    )
    assert list((tmp_path / "runs").iterdir()) == []


def test_checkouts__pointer_is_fetched_where_git_lfs_is(tmp_path):
    repo, sha = with_pointer(tmp_path)
    with checkouts(git_with_lfs(tmp_path, repo), sha, sha, tmp_path / "runs") as trees:
        assert (trees.base / "weights.bin").read_text(encoding="utf-8") == "real weights"
        assert (trees.head / "weights.bin").read_text(encoding="utf-8") == "real weights"


def test_checkouts__failing_git_lfs_stops_the_run(tmp_path):
    repo, sha = with_pointer(tmp_path)
    git = git_with_lfs(tmp_path, repo, "#!/bin/sh\necho 'error: no such server' >&2\nexit 2\n")
    with pytest.raises(CheckoutError, match=r"weights.bin: LFS pointer .*no such server"):
        with checkouts(git, sha, sha, tmp_path / "runs"):
            pytest.fail("a pointer is no weight")


def test_checkouts__server_that_only_head_names_is_not_contacted(tmp_path):
    repo, base = with_pointer(tmp_path)
    head = repo.commit({".lfsconfig": "[lfs]\nurl = https://trap.example/\n"})
    with pytest.raises(CheckoutError, match=r"^head: weights.bin: LFS pointer .*changes .lfsconfig"):
        with checkouts(git_with_lfs(tmp_path, repo), base, head, tmp_path / "runs"):
            pytest.fail("a foreign server was asked")


def test_checkouts__lfs_files_that_are_no_pointers(tmp_path):
    repo, sha = with_pointer(tmp_path, **{"weights.bin": "in the repository itself"})
    with checkouts(git_without_lfs(tmp_path, repo), sha, sha, tmp_path / "runs") as trees:
        assert (trees.head / "weights.bin").exists()


def test_checkouts__pointer_text_without_the_attribute_is_a_text(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit({"docs/pointer-example": POINTER})
    with checkouts(git_without_lfs(tmp_path, repo), sha, sha, tmp_path / "runs") as trees:
        assert (trees.head / "docs" / "pointer-example").exists()
