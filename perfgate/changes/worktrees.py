"""Floor 3, changes. Both sides checked out side by side, and removed again whatever happens.

In: two commits. Out: ``RUN/base`` and ``RUN/head``, paths of equal length, with submodules and LFS files.
Each run has a folder of its own and holds a lock on it while it lives; the folders of runs that were
killed are removed by the next one. Where the repository cannot be written, its objects are borrowed
by a separate repository instead of a worktree.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from perfgate.changes import lfs, submodules
from perfgate.changes.git import Git, GitError, check_sha
from perfgate.changes.modules import tracked_modules
from perfgate.errors import CheckoutError

__all__ = ["Checkouts", "checkouts", "erase", "remove_leftovers", "tracked_modules"]

SIDES = ("base", "head")
_RUN = "run-"
_LOCK = ".lock"


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkouts:
    """Absolute paths of both sides, and the run's own folder for whatever else it writes.

    ``notes`` are sentences on leftovers of earlier runs that could not be removed.
    """

    base: Path
    head: Path
    run_dir: Path
    base_sha: str
    head_sha: str
    notes: tuple[str, ...] = ()


@contextlib.contextmanager
def checkouts(git: Git, base_sha: str, head_sha: str, parent: Path | None = None) -> Iterator[Checkouts]:
    """Both commits checked out below ``parent`` (None: a private folder among the temporary files).

    Raises CheckoutError where a side would be incomplete: submodules or LFS files that cannot be had,
    no space left. On exit everything is removed, read-only files too.
    """
    check_sha(base_sha), check_sha(head_sha)
    place = _private(parent or _default_parent(git))
    with contextlib.ExitStack() as stack:
        if parent is None:
            stack.callback(_remove_if_empty, place)
        notes = remove_leftovers(git, place)
        run_dir = stack.enter_context(_claimed(place))
        trees = Checkouts(
            base=run_dir / "base", head=run_dir / "head", run_dir=run_dir, base_sha=base_sha, head_sha=head_sha,
            notes=notes,
        )  # fmt: skip
        try:
            _fill(git, trees)
            yield trees
        finally:
            _remove_run(git, run_dir)


def remove_leftovers(git: Git, parent: Path) -> tuple[str, ...]:
    """Remove what killed runs left below ``parent`` and in the repository; notes on what could not be removed."""
    notes = []
    for run_dir in sorted({path.with_suffix("") for path in parent.glob(f"{_RUN}*")}):
        with _lock_if_dead(parent / f"{run_dir.name}{_LOCK}") as dead:
            if dead and not _remove_run(git, run_dir):
                notes.append(f"{run_dir} of an earlier run could not be removed: delete it by hand")
    for path in _registered(git):
        if path.parent.parent == parent and not path.exists():
            _unregister(git, path)
    return tuple(notes)


@contextlib.contextmanager
def _alone(git: Git) -> Iterator[None]:
    """No other run adds or removes worktrees meanwhile: git itself stumbles over half-made ones.

    The lock is on the repository's folder, so that it works without writing there; where the file system
    has no locks there is none.
    """
    descriptor = os.open(git.common_dir, os.O_RDONLY | os.O_CLOEXEC)
    try:
        with contextlib.suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)


def _remove_if_empty(folder: Path) -> None:
    with contextlib.suppress(OSError):
        folder.rmdir()


def _fill(git: Git, trees: Checkouts) -> None:
    known: dict[str, str] | None = None
    lfs_config = git.show_file(trees.base_sha, lfs.CONFIG)
    for side, sha in ((trees.base, trees.base_sha), (trees.head, trees.head_sha)):
        try:
            tree = _add(git, sha, side)
            urls = submodules.fill(git, tree, sha, known)
            # Base's URLs are the only ones that head may name.
            known = urls if known is None else known
            may_fetch = git.show_file(sha, lfs.CONFIG) == lfs_config
            lfs.complete(tree, sha, may_fetch=may_fetch)
        except CheckoutError as error:
            msg = f"{side.name}: {error}"
            raise CheckoutError(msg) from None


def _add(git: Git, sha: str, path: Path) -> Git:
    try:
        with _alone(git):
            git.run("worktree", "add", "--quiet", "--detach", "--force", str(path), sha)
    except GitError:
        # The repository is read-only, or belongs to somebody else: borrow its objects.
        erase(path)
        return submodules.borrow(git, sha, path, tags=True)
    return git.at(path)


def _remove_run(git: Git, run_dir: Path) -> bool:
    gone = erase(run_dir)
    for side in SIDES:
        _unregister(git, run_dir / side)
    return gone


def _unregister(git: Git, path: Path) -> None:
    # Fails where it is no worktree (any more), which is as well.
    with contextlib.suppress(GitError), _alone(git):
        git.run("worktree", "remove", "--force", "--force", str(path))


def _registered(git: Git) -> Iterator[Path]:
    with _alone(git):
        listing = git.run("worktree", "list", "--porcelain")
    for line in listing.splitlines():
        key, _, value = line.partition(" ")
        if key == "worktree":
            yield Path(value)


def erase(path: Path) -> bool:
    """Remove a file or a whole folder, read-only ones too; whether nothing is left."""
    _make_writable(path)
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            path.unlink()
    return not os.path.lexists(path)


def _make_writable(path: Path) -> None:
    # Removing a name needs a writable folder, not a writable file. Top down: a folder is opened before it is listed.
    for folder, _, _ in os.walk(path):
        with contextlib.suppress(OSError):
            os.chmod(folder, stat.S_IRWXU)  # noqa: PTH101 - os.walk gives texts


def _default_parent(git: Git) -> Path:
    environ = os.environ if git.environ is None else git.environ
    place = environ.get("RUNNER_TEMP") or tempfile.gettempdir()
    repository = hashlib.sha256(os.fsencode(git.common_dir)).hexdigest()[:8]
    return Path(place) / f"perfgate-{os.getuid()}-{repository}"


def _private(parent: Path) -> Path:
    try:
        parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        parent = parent.resolve()
        owner = parent.stat().st_uid
    except OSError as error:
        msg = f"{parent} cannot be used for checkouts ({error.strerror}); free its place, or set RUNNER_TEMP or TMPDIR"
        raise CheckoutError(msg) from None
    if owner != os.getuid():
        msg = f"{parent} belongs to another user; remove it, or set RUNNER_TEMP or TMPDIR to a folder of your own"
        raise CheckoutError(msg)
    return parent


@contextlib.contextmanager
def _claimed(parent: Path) -> Iterator[Path]:
    """A new folder that is this run's as long as the lock beside it is held, which a killed process does not."""
    while True:
        _private(parent)
        run_dir = parent / f"{_RUN}{secrets.token_hex(4)}"
        with _lock_if_dead(parent / f"{run_dir.name}{_LOCK}", create=True) as mine:
            # Not ours: another run was tidying up at this moment and took the new lock for a dead one,
            # or removed the whole folder since it was empty.
            if mine:
                _private(run_dir)
                yield run_dir
                return


@contextlib.contextmanager
def _lock_if_dead(path: Path, *, create: bool = False) -> Iterator[bool]:
    """Whether nobody else holds the lock ``path``; if so it is held until the exit, and then removed.

    A lock stays as long as its folder does, so that the folder is found again.
    """
    folder = path.with_suffix("")
    if not create and not path.exists() and not folder.exists():
        yield False
        return
    descriptor = _lock(path)
    try:
        yield descriptor is not None
    finally:
        if descriptor is not None:
            if not folder.exists():
                path.unlink(missing_ok=True)
            os.close(descriptor)


def _lock(path: Path) -> int | None:
    """A descriptor that holds the lock; None where somebody else does, or removed its folder just now."""
    descriptor = None
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # Between the opening and the locking, another run may have removed the file: then this is no lock.
        if os.path.samestat(os.fstat(descriptor), path.stat()):
            return descriptor
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError as error:
        if descriptor is not None:
            os.close(descriptor)
        msg = f"{path} cannot be locked ({error.strerror}); or set RUNNER_TEMP or TMPDIR to a local file system"
        raise CheckoutError(msg) from None
    if descriptor is not None:
        os.close(descriptor)
    return None
