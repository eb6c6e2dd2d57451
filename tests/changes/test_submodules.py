"""Submodules: filled in at their commits, from places that base knows."""

from __future__ import annotations

import pytest

from perfgate.changes.submodules import resolve_url
from perfgate.changes.worktrees import checkouts
from perfgate.errors import CheckoutError
from tests.changes.helpers import Repo


def with_submodule(tmp_path, *, nested: bool = False):
    """A repository whose base and head hold different commits of a library."""
    library = Repo(tmp_path / "library")
    library.commit({"lib.py": "1"})
    if nested:
        Repo(tmp_path / "deep").commit({"deep.py": "d"})
        library("submodule", "--quiet", "add", str(tmp_path / "deep"), "deep")
    library.commit()
    repo = Repo(tmp_path / "repo")
    repo("submodule", "--quiet", "add", str(library.root), "ext/lib")
    base = repo.commit({"model.py": ""})
    newer = library.commit({"lib.py": "2"})
    inside = Repo(repo.root / "ext" / "lib")
    inside("fetch", "--quiet")
    inside("checkout", "--quiet", newer)
    return repo, library, base, repo.commit()


def content(tree, name="lib.py"):
    return (tree / "ext" / "lib" / name).read_text(encoding="utf-8")


def test_checkouts__submodules_from_the_main_checkout(tmp_path):
    repo, library, base, head = with_submodule(tmp_path)
    library.root.rename(tmp_path / "gone")
    with checkouts(repo.git, base, head, tmp_path / "runs") as trees:
        assert (content(trees.base), content(trees.head)) == ("1", "2")
    assert list((tmp_path / "runs").iterdir()) == []


def test_checkouts__submodules_that_the_main_checkout_has_not(tmp_path):
    repo, _, base, head = with_submodule(tmp_path, nested=True)
    clone = Repo(tmp_path / "clone")
    clone("fetch", "--quiet", str(repo.root), "main")
    configuration = (clone.root / ".git" / "config").read_text(encoding="utf-8")
    with checkouts(clone.git, base, head, tmp_path / "runs") as trees:
        assert (content(trees.base), content(trees.head)) == ("1", "2")
        assert content(trees.head, "deep/deep.py") == "d"
    assert (clone.root / ".git" / "config").read_text(encoding="utf-8") == configuration


def test_checkouts__submodule_that_cannot_be_had(tmp_path):
    repo, library, base, head = with_submodule(tmp_path)
    clone = Repo(tmp_path / "clone")
    clone("fetch", "--quiet", str(repo.root), "main")
    library.root.rename(tmp_path / "gone")
    with pytest.raises(CheckoutError, match=r"^base: submodule ext/lib could not be fetched .*submodules: recursive"):
        with checkouts(clone.git, base, head, tmp_path / "runs"):
            pytest.fail("incomplete")
    assert list((tmp_path / "runs").iterdir()) == []


def test_checkouts__url_that_only_head_names_is_refused(tmp_path):
    repo, _, base, _ = with_submodule(tmp_path)
    text = (repo.root / ".gitmodules").read_text(encoding="utf-8")
    head = repo.commit({".gitmodules": text.replace("library", "trap")})
    with pytest.raises(CheckoutError, match=r"^head: the pull request takes submodule ext/lib from another URL"):
        with checkouts(repo.git, base, head, tmp_path / "runs"):
            pytest.fail("a foreign URL was used")


def test_checkouts__submodule_that_only_head_has_is_refused(tmp_path):
    repo = Repo(tmp_path / "repo")
    base = repo.commit({"a": ""})
    Repo(tmp_path / "library").commit({"lib.py": ""})
    repo("submodule", "--quiet", "add", str(tmp_path / "library"), "new")
    with pytest.raises(CheckoutError, match=r"merge the change of .gitmodules first"):
        with checkouts(repo.git, base, repo.commit(), tmp_path / "runs"):
            pytest.fail("a foreign URL was used")


def test_checkouts__link_without_a_url_is_left_empty(tmp_path):
    repo = Repo(tmp_path / "repo")
    inner = Repo(repo.root / "inner")
    inner.commit({"x": ""})
    sha = repo.commit()
    with checkouts(repo.git, sha, sha, tmp_path / "runs") as trees:
        assert list((trees.head / "inner").iterdir()) == []


@pytest.mark.parametrize(
    ("origin", "url", "expected"),
    [
        ("https://host/org/repo.git", "../lib.git", "https://host/org/lib.git"),
        ("https://host/org/repo.git/", "./lib", "https://host/org/repo.git/lib"),
        ("git@host:org/repo.git", "../../other/lib", "git@host:other/lib"),
        ("ssh://git@host:22/org/repo", "../lib", "ssh://git@host:22/org/lib"),
        ("/srv/git/repo", "../lib", "/srv/git/lib"),
        ("https://host/org/repo", "https://else/lib", "https://else/lib"),
    ],
)
def test_resolve_url__relative_to_origin(origin, url, expected):
    assert resolve_url(origin, url) == expected
