"""The door to git: what it finds, refuses and never starts."""

from __future__ import annotations

import os

import pytest

from perfgate.changes.git import Git, GitError, check_sha
from perfgate.errors import UsageError
from tests.changes.helpers import ENVIRON, Repo


def test_git__finds_the_top_folder(tmp_path):
    repo = Repo(tmp_path / "a b" / "repo")
    repo.commit({"x/y.py": ""})
    assert Git(repo.root / "x", ENVIRON).root == repo.root


def test_git__no_repository_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="is not in a git repository"):
        Git(tmp_path, ENVIRON)


def test_git__no_folder_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="is not a folder"):
        Git(tmp_path / "gone", ENVIRON)


def test_git__bare_repository_is_a_usage_error(tmp_path):
    with pytest.raises(UsageError, match="bare repository"):
        Git(Repo(tmp_path / "b.git", bare=True).root, ENVIRON)


def test_git__program_missing_is_a_usage_error(tmp_path):
    (tmp_path / "bin").mkdir()
    with pytest.raises(UsageError, match="git was not found on PATH"):
        Git(tmp_path, {"PATH": str(tmp_path / "bin")})


def test_git__variables_of_a_hook_do_not_mislead(tmp_path):
    repo, other = Repo(tmp_path / "repo"), Repo(tmp_path / "other")
    sha = repo.commit({"a": "1"})
    other.commit({"b": "2"})
    misled = {**ENVIRON, "GIT_DIR": str(other.root / ".git"), "GIT_INDEX_FILE": str(tmp_path / "index")}
    git = Git(repo.root, misled)
    assert git.root == repo.root
    assert git.rev_parse("HEAD") == sha


@pytest.mark.parametrize("name", ["", "--all", "-x", "a\nb", "a\0b"])
def test_rev_parse__options_are_no_revisions(tmp_path, name):
    repo = Repo(tmp_path / "repo")
    repo.commit()
    with pytest.raises(UsageError, match="is not a revision"):
        repo.git.rev_parse(name)


def test_rev_parse__names_and_what_is_none(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit({"main.py": ""})
    repo("tag", "--annotate", "--message", "t", "v1")
    git = repo.git
    assert {git.rev_parse(name) for name in ("main", "v1", sha, sha[:8], "HEAD")} == {sha}
    assert git.rev_parse("nothing") is None
    assert git.rev_parse("0" * 40) is None
    assert git.rev_parse("HEAD:main.py") is None


@pytest.mark.parametrize("text", ["HEAD", "a" * 39, "A" * 40, "a" * 41, "--" + "a" * 38])
def test_check_sha__only_forty_digits(text):
    with pytest.raises(UsageError, match="40 hexadecimal digits"):
        check_sha(text)


def test_show_file__content_or_none(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit({"dir/ä b.txt": b"\xff\x00"})
    git = repo.git
    assert git.show_file(sha, "dir/ä b.txt") == b"\xff\x00"
    assert git.show_file(sha, "dir") is None
    assert git.show_file(sha, "gone") is None
    assert git.show_file(sha, "../gone") is None
    assert git.show_file(sha, f"gone\n{sha}:dir/ä b.txt") is None


def test_show_file__links_are_followed_inside_of_the_commit_only(tmp_path):
    repo = Repo(tmp_path / "repo")
    (tmp_path / "outside").write_text("secret", encoding="utf-8")
    for link, target in {"in": "dir/file", "out": "../outside", "gone": "nowhere", "loop": "loop"}.items():
        os.symlink(target, repo.root / link)
    sha = repo.commit({"dir/file": "text\n"})
    assert repo.git.show_file(sha, "in") == b"text\n"
    assert [repo.git.show_file(sha, link) for link in ("out", "gone", "loop")] == [None, None, None]


def test_files__undecodable_names_are_kept(tmp_path):
    repo = Repo(tmp_path / "repo")
    name = os.fsdecode(b"caf\xe9.py")
    (repo.root / name).write_text("x", encoding="utf-8")
    os.symlink("nowhere", repo.root / "link")
    git = repo.git
    assert git.files(repo.commit()) == {name: "100644", "link": "120000"}


def test_run__error_has_the_last_words(tmp_path):
    repo = Repo(tmp_path / "repo")
    repo.commit()
    with pytest.raises(GitError, match=r"^git switch failed: invalid reference: gone$"):
        repo.git.run("switch", "gone")


def test_git_error__credentials_are_not_shown():
    error = GitError("fetch", "warning: x\nfatal: unable to access 'https://user:secret@host/x.git/'\nhint: y\n", 128)
    assert str(error) == "git fetch failed: unable to access 'https://***@host/x.git/'"
    assert "secret" not in error.stderr


def test_run__hooks_are_not_started(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit({"a": "1"})
    hook = repo.root / ".git" / "hooks" / "post-checkout"
    hook.parent.mkdir(exist_ok=True)
    hook.write_text(f"#!/bin/sh\ntouch '{tmp_path}/ran'\n", encoding="utf-8")
    hook.chmod(0o755)
    repo("checkout", "--quiet", sha)
    assert (tmp_path / "ran").exists()
    (tmp_path / "ran").unlink()
    repo.git.run("checkout", "--quiet", "main")
    assert not (tmp_path / "ran").exists()
