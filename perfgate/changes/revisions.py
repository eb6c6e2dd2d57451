"""Floor 3, changes. Names in, commits out: which two commits are compared.

Base is the merge base of the two. In a shallow clone the history is fetched in growing steps until the
merge base is certain; where it cannot be had, HistoryError says what to do. Another commit is never
taken in its place.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from perfgate.changes.git import SHA, Git, GitError, check_sha
from perfgate.errors import HistoryError, UsageError
from perfgate.records.evidence import Revision

# Commits fetched below the shallow boundary by the first step; each further step doubles it.
_FIRST_STEP = 64
_STEPS = 9
_REMEDY = "check out the whole history (actions/checkout with fetch-depth: 0)"
_BUSY = ("shallow.lock", "shallow file has changed")


@dataclass(frozen=True, slots=True, kw_only=True)
class Revisions:
    """``base`` and ``head`` are compared; ``base_tip`` is the commit that the user named as base."""

    base: Revision
    head: Revision
    base_tip: str


def single(git: Git, name: str) -> Revision:
    """The commit ``name``. Raises HistoryError if neither this clone nor ``origin`` has it."""
    return Revision(sha=_commit(git, name), name=name)


def resolve(git: Git, *, base: str, head: str, merge_base: bool = True) -> Revisions:
    """The two commits to compare. ``merge_base`` False: ``base`` itself, as for a merge queue or a push.

    Raises HistoryError where a commit or the merge base cannot be had, UsageError for what is no revision.
    """
    head_sha, tip = _commit(git, head), _commit(git, base)
    base_sha = _merge_base(git, tip, head_sha) if merge_base and tip != head_sha else tip
    return Revisions(base=Revision(sha=base_sha, name=base), head=Revision(sha=head_sha, name=head), base_tip=tip)


def _commit(git: Git, name: str) -> str:
    for candidate in (name, f"refs/remotes/origin/{name}"):
        if sha := git.rev_parse(candidate):
            return sha
    try:
        sha = name if SHA.fullmatch(name) else _remote_tip(git, name)
        _fetch(git, *(("--depth=1",) if _is_shallow(git) else ()), "origin", check_sha(sha))
    except (GitError, UsageError) as error:
        msg = f"no commit is called {name!r} here, and it could not be fetched ({error}); check the name, or {_REMEDY}"
        raise HistoryError(msg) from None
    return sha


def _remote_tip(git: Git, name: str) -> str:
    listing = git.run("ls-remote", "--quiet", "origin", f"refs/heads/{name}", f"refs/tags/{name}^{{}}",
                      f"refs/tags/{name}", timeout_s=60)  # fmt: skip
    return listing.split("\t", 1)[0] or name


def _merge_base(git: Git, tip: str, head: str) -> str:
    """The merge base, once no commit beyond the shallow boundary can be a better one."""
    step = _FIRST_STEP
    for _ in range(_STEPS):
        found = _best_common(git, tip, head)
        boundary = _boundary(git)
        if found and _certain(git, tip, head, found, boundary):
            return found
        if not boundary:
            break
        try:
            _fetch(git, f"--deepen={step}", "origin", tip, head)
        except GitError as error:
            msg = f"this clone is shallow and its history cannot be fetched ({error}); {_REMEDY}"
            raise HistoryError(msg) from None
        step *= 2
    else:
        msg = f"no certain merge base of {tip[:7]} and {head[:7]} within {step} commits of a shallow clone; {_REMEDY}"
        raise HistoryError(msg)
    msg = (
        f"{tip[:7]} and {head[:7]} have no common commit, so there is nothing to compare with; "
        "name a base that head was branched from"
    )
    raise HistoryError(msg)


def _best_common(git: Git, tip: str, head: str) -> str:
    try:
        return git.run("merge-base", tip, head).strip()
    except GitError as error:
        if error.code == 1:  # documented: no common ancestor
            return ""
        raise


def _certain(git: Git, tip: str, head: str, found: str, boundary: frozenset[str]) -> bool:
    """Whether everything between ``found`` and the two commits is here.

    A commit whose parents are cut off could hide a common ancestor that is newer than ``found``, as
    when the base branch was merged into head by a short path while ``found`` was reached by another.
    """
    if not boundary:
        return True
    between = git.run("rev-list", tip, head, f"^{found}").split()
    return boundary.isdisjoint(between)


def _is_shallow(git: Git) -> bool:
    return bool(_boundary(git))


def _boundary(git: Git) -> frozenset[str]:
    """Commits whose parents are missing from this clone."""
    path = git.path("--git-path", "shallow")
    try:
        return frozenset(path.read_text(encoding="ascii").split())
    except FileNotFoundError:
        return frozenset()


def _fetch(git: Git, *arguments: str) -> None:
    # No FETCH_HEAD and no tags: nothing of the user's is changed but the depth of a shallow clone.
    command = ("fetch", "--quiet", "--no-tags", "--no-write-fetch-head", "--no-recurse-submodules", "--no-auto-gc")
    for patience_s in (0.2, 1.0, 0.0):
        try:
            git.run(*command, *arguments)
            return
        except GitError as error:
            # Another run deepens the same clone at this moment.
            if not patience_s or not any(sign in error.stderr for sign in _BUSY):
                raise
            time.sleep(patience_s)
