"""What differs between two commits."""

from __future__ import annotations

import os

from perfgate.changes.changed import ChangedFile, changed_files
from tests.changes.helpers import Repo

LONG = "\n".join(f"line {number}" for number in range(40))


def test_changed_files__every_status(tmp_path):
    repo = Repo(tmp_path / "repo")
    base = repo.commit({"kept": "1", "modified": "1", "gone": "1", "old name.py": LONG, "typed": "1"})
    (repo.root / "old name.py").rename(repo.root / "new\nname.py")
    (repo.root / "typed").unlink()
    os.symlink("kept", repo.root / "typed")
    head = repo.commit({"modified": "2", "gone": None, "ä/added.py": ""})
    assert changed_files(repo.git, base, head) == (
        ChangedFile(path="gone", status="deleted"),
        ChangedFile(path="modified", status="modified"),
        ChangedFile(path="new\nname.py", status="renamed", old_path="old name.py"),
        ChangedFile(path="typed", status="retyped", kind="link"),
        ChangedFile(path="ä/added.py", status="added"),
    )


def test_changed_files__both_names_of_a_rename_count(tmp_path):
    assert ChangedFile(path="b", status="renamed", old_path="a").paths == ("a", "b")
    assert ChangedFile(path="b", status="added").paths == ("b",)


def test_changed_files__submodule(tmp_path):
    repo = Repo(tmp_path / "repo")
    inner = Repo(repo.root / "inner")
    inner.commit()
    base = repo.commit()
    inner.commit({"x": ""})
    head = repo.commit()
    repo("config", "diff.ignoreSubmodules", "all")
    assert changed_files(repo.git, base, head) == (ChangedFile(path="inner", status="modified", kind="submodule"),)


def test_changed_files__users_settings_do_not_matter(tmp_path):
    repo = Repo(tmp_path / "repo")
    base = repo.commit({"a.py": LONG})
    (repo.root / "a.py").rename(repo.root / "b.py")
    head = repo.commit()
    for key, value in (("diff.renames", "false"), ("diff.external", "false"), ("core.quotePath", "true")):
        repo("config", key, value)
    assert [file.status for file in changed_files(repo.git, base, head)] == ["renamed"]


def test_changed_files__equal_commits(tmp_path):
    repo = Repo(tmp_path / "repo")
    sha = repo.commit({"a": "1"})
    assert changed_files(repo.git, sha, sha) == ()
