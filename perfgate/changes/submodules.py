"""Floor 3, changes. Submodules of a checkout, and repositories that borrow another one's objects.

In: a commit and its fresh checkout. Out: its submodules filled in at the recorded commits, nested ones too.
Their commits are taken from the main checkout where it has them, else cloned from the URL that *base*
names; a URL that only head names is never contacted. ``git submodule`` is not used: it would write into the
user's configuration.
"""

from __future__ import annotations

import posixpath
import re
import shutil
from pathlib import Path

from perfgate.changes.git import Git, GitError
from perfgate.errors import CheckoutError, UsageError

_GITLINK = "160000"


def fill(git: Git, tree: Git, sha: str, known: dict[str, str] | None) -> dict[str, str]:
    """Fill in the submodules of ``tree``, a checkout of ``sha``; path -> URL of all of them.

    ``git`` is the main checkout. ``known`` holds the URLs that may be used; None: this is base, which may
    name any. Raises CheckoutError.
    """
    return _fill(tree, sha, git.root, _origin(git), "", known)


def _fill(tree: Git, sha: str, local: Path, origin: str, prefix: str, known: dict[str, str] | None) -> dict[str, str]:
    links = [path for path, mode in tree.files(sha).items() if mode == _GITLINK]
    declared = _declared(tree, sha) if links else {}
    found: dict[str, str] = {}
    for path in links:
        # A link without a URL is an empty folder in every clone: nothing can depend on it.
        if path not in declared:
            continue
        place, url = prefix + path, resolve_url(origin, declared[path])
        if known is not None and known.get(place) != url:
            msg = (
                f"the pull request takes submodule {place} from another URL than base does, and perfgate contacts "
                "only URLs that base knows; merge the change of .gitmodules first"
            )
            raise CheckoutError(msg)
        found[place] = url
        commit = tree.run("rev-parse", "--verify", f"{sha}:{path}").strip()
        inner = _take(tree, commit, local / path, url, tree.root / path, place)
        found |= _fill(inner, commit, local / path, url, f"{place}/", known)
    return found


def _take(tree: Git, commit: str, local: Path, url: str, destination: Path, place: str) -> Git:
    source = _repository_at(tree, local)
    if source and source.rev_parse(commit):
        return borrow(source, commit, destination)
    try:
        tree.run("clone", "--quiet", "--no-checkout", "--template=", "--", url, str(destination))
        clone = tree.at(destination)
        if not clone.rev_parse(commit):
            clone.run("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "origin", commit)
        clone.run("checkout", "--quiet", "--detach", commit)
    except GitError as error:
        msg = (
            f"submodule {place} could not be fetched ({error}); "
            "check it out beforehand (actions/checkout with submodules: recursive)"
        )
        raise CheckoutError(msg) from None
    return clone


def _repository_at(git: Git, folder: Path) -> Git | None:
    """The repository whose top is ``folder``: an empty submodule folder would be taken for the one around it."""
    try:
        found = git.at(folder)
    except UsageError:
        return None
    return found if found.root.resolve() == folder.resolve() else None


def borrow(source: Git, sha: str, destination: Path, *, tags: bool = False) -> Git:
    """A checkout of ``sha`` in a repository of its own that reads the objects of ``source``; no hooks, no remotes.

    ``tags`` True copies the tags too, for tools that make a version number of them. Raises CheckoutError.
    """
    source.run("init", "--quiet", "--template=", str(destination))
    copy = source.at(destination)
    information = copy.objects / "info"
    information.mkdir(parents=True, exist_ok=True)
    (information / "alternates").write_text(f"{source.objects}\n", encoding="utf-8", errors="surrogateescape")
    shallow = source.path("--git-path", "shallow")
    if shallow.exists():
        shutil.copy(shallow, copy.path("--git-path", "shallow"))
    if tags:
        listing = source.run("for-each-ref", "--format=create %(refname) %(objectname)", "refs/tags")
        copy.run("update-ref", "--stdin", text=listing)
    copy.run("checkout", "--quiet", "--detach", sha)
    return copy


def _declared(git: Git, sha: str) -> dict[str, str]:
    """Path -> URL as ``.gitmodules`` of the commit says."""
    if git.show_file(sha, ".gitmodules") is None:
        return {}
    listing = git.run("config", "--blob", f"{sha}:.gitmodules", "-z", "--get-regexp", r"^submodule\..*\.(path|url)$")
    sections: dict[str, dict[str, str]] = {}
    for entry in listing.split("\0"):
        key, _, value = entry.partition("\n")
        name, _, variable = key.removeprefix("submodule.").rpartition(".")
        sections.setdefault(name, {})[variable] = value
    return {item["path"]: item["url"] for item in sections.values() if {"path", "url"} <= item.keys()}


def _origin(git: Git) -> str:
    try:
        return git.run("config", "--get", "remote.origin.url").strip()
    except GitError:
        return str(git.root)


def resolve_url(origin: str, url: str) -> str:
    """``url`` itself, or what ``./x`` and ``../x`` mean from ``origin``, as ``https://h/o/r`` or ``git@h:o/r``."""
    if not url.startswith(("./", "../")):
        return url
    match = re.match(r"([a-z][a-z0-9+.-]*://[^/]*|[^/:]+:(?!/))?(.*)", origin.rstrip("/"), re.DOTALL)
    host, path = (match[1] or "", match[2]) if match else ("", origin)
    return host + posixpath.normpath(posixpath.join(path, url))
