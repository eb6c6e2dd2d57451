"""Floor 3, changes. LFS files of a checkout: there, or the run stops.

In: a fresh checkout. Out: nothing; CheckoutError names files that are still pointers. A model measured with a
pointer for its weights would be another model.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path

from perfgate.changes.git import Git, GitError
from perfgate.errors import CheckoutError

CONFIG = ".lfsconfig"
_HEADER = b"version https://git-lfs.github.com/spec/v1"
_POINTER_MAX_BYTES = 1024


def complete(tree: Git, sha: str, *, may_fetch: bool) -> None:
    """Fetch the LFS files of ``tree``, a checkout of ``sha``, that are pointers. Raises CheckoutError.

    ``may_fetch`` False: the commit brings another ``.lfsconfig`` than base, which could name any server, so
    nothing is fetched.
    """
    missing = list(_pointers(tree, sha))
    if not missing:
        return
    why = "git-lfs is not installed"
    if not may_fetch:
        why = f"the pull request changes {CONFIG}, and perfgate contacts only the server that base names"
    elif _has_lfs(tree):
        why = _pull(tree)
        missing = list(_pointers(tree, sha))
    if missing:
        names = ", ".join(missing[:3]) + (f" and {len(missing) - 3} more" if len(missing) > 3 else "")
        msg = f"{names}: LFS pointer instead of the file ({why}); fetch them beforehand (git lfs fetch origin {sha})"
        raise CheckoutError(msg)


def _has_lfs(tree: Git) -> bool:
    path = None if tree.environ is None else tree.environ.get("PATH")
    return shutil.which("git-lfs", path=path) is not None


def _pull(tree: Git) -> str:
    try:
        tree.run("lfs", "pull", timeout_s=1800)
    except GitError as error:
        return str(error)
    return "git lfs pull did not bring it"


def _pointers(tree: Git, sha: str) -> Iterator[str]:
    try:
        tree.run("grep", "--quiet", "--fixed-strings", "filter=lfs", sha, "--", ".gitattributes", "*/.gitattributes")
    except GitError:
        return
    files = [path for path, mode in tree.files(sha).items() if mode.startswith("100")]
    answers = tree.run("check-attr", "-z", "--stdin", "filter", text="\0".join(files)).split("\0")
    # Triples: path, attribute, value.
    for path, value in zip(answers[::3], answers[2::3], strict=False):
        if value == "lfs" and _is_pointer(tree.root / path):
            yield path


def _is_pointer(path: Path) -> bool:
    try:
        if path.is_symlink() or path.stat().st_size > _POINTER_MAX_BYTES:
            return False
        return path.read_bytes().startswith(_HEADER)
    except OSError:
        return False
