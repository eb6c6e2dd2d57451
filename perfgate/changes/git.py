"""Floor 3, changes. The one place that starts git.

In: an argument vector. Out: bytes or text. No shell; no hook, fsmonitor or prompt is ever started; no
configuration file is written; text is UTF-8 whatever the locale says, with undecodable bytes kept as
surrogates, as in file names.
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from perfgate.errors import CheckoutError, UsageError

SHA = re.compile(r"[0-9a-f]{40}")
_BLOB = re.compile(rb"[0-9a-f]{40} blob ([0-9]+)")

_SETTINGS = (
    "core.hooksPath=/dev/null", "core.fsmonitor=false", "core.sparseCheckout=false", "submodule.recurse=false",
    "gc.auto=0", "maintenance.auto=false",
)  # fmt: skip
_SAFE = tuple(word for setting in _SETTINGS for word in ("-c", setting))
# Set where perfgate runs inside of a hook or an alias; they would point git at another repository.
_MISLEADING = (
    "GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX", "GIT_OBJECT_DIRECTORY",
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_NAMESPACE", "GIT_SHALLOW_FILE", "GIT_GRAFT_FILE", "GIT_EXTERNAL_DIFF",
    "GIT_LITERAL_PATHSPECS", "GIT_GLOB_PATHSPECS", "GIT_NOGLOB_PATHSPECS", "GIT_ICASE_PATHSPECS",
)  # fmt: skip
_FIXED = {
    "LC_ALL": "C",
    "LANGUAGE": "",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_REPLACE_OBJECTS": "1",
    "GCM_INTERACTIVE": "never",
    # LFS files are fetched on purpose in ``lfs``, never by the way while a tree is written.
    "GIT_LFS_SKIP_SMUDGE": "1",
}
_CREDENTIALS = re.compile(r"(?<=://)[^/@\s]+@")


class GitError(CheckoutError):
    """git ended with an error; the message holds its last words, without credentials."""

    def __init__(self, command: str, stderr: str, code: int) -> None:
        self.stderr = _CREDENTIALS.sub("***@", stderr).strip()
        self.code = code
        last = _last_words(self.stderr) or f"exit code {code}"
        super().__init__(f"git {command} failed: {last}")


@dataclass(frozen=True, slots=True)
class Git:
    """git in one working tree. ``root`` is its top folder, found from the folder given.

    ``environ`` is what git inherits; None: this process's own. Raises UsageError where there is no
    repository, or no git.
    """

    root: Path
    environ: Mapping[str, str] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        start = Path(self.root).absolute()
        if not start.is_dir():
            msg = f"{start} is not a folder; run perfgate inside of a git repository"
            raise UsageError(msg)
        object.__setattr__(self, "root", start)
        try:
            top = self.run("rev-parse", "--show-toplevel").rstrip("\n")
        except GitError as error:
            raise UsageError(_no_repository(start, error)) from None
        object.__setattr__(self, "root", Path(top))

    @property
    def common_dir(self) -> Path:
        """The repository's own folder (``.git``), shared by its worktrees."""
        return self.path("--git-common-dir")

    @property
    def objects(self) -> Path:
        """The folder of the repository's objects."""
        return self.path("--git-path", "objects")

    def path(self, *question: str) -> Path:
        """Absolute answer of ``git rev-parse`` to a question about a path."""
        return self.root / self.run("rev-parse", *question).rstrip("\n")

    def run(self, *arguments: str, timeout_s: float = 600.0, text: str | None = None) -> str:
        """Standard output of ``git ARGUMENTS``; ``text`` goes to its standard input. Raises GitError."""
        return self.run_bytes(*arguments, timeout_s=timeout_s, text=text).decode("utf-8", "surrogateescape")

    def run_bytes(self, *arguments: str, timeout_s: float = 600.0, text: str | None = None) -> bytes:
        """Like :meth:`run`, undecoded."""
        command = ["git", *_SAFE, *arguments]
        data = None if text is None else text.encode("utf-8", "surrogateescape")
        stdin = subprocess.DEVNULL if data is None else None
        try:
            done = subprocess.run(
                command, cwd=self.root, env=self._environment(), capture_output=True, timeout=timeout_s, check=False,
                input=data, stdin=stdin,
            )  # fmt: skip
        except FileNotFoundError:
            msg = "git was not found on PATH; install git 2.30 or later"
            raise UsageError(msg) from None
        except subprocess.TimeoutExpired:
            raise GitError(arguments[0], f"no answer within {timeout_s:g} s", 124) from None
        if done.returncode:
            raise GitError(arguments[0], done.stderr.decode("utf-8", "replace"), done.returncode)
        return done.stdout

    def rev_parse(self, name: str) -> str | None:
        """The commit that ``name`` stands for, as 40 hexadecimal digits; None if this clone has no such commit."""
        if not name or name.startswith("-") or not name.isprintable():
            msg = f"{name!r} is not a revision; name a branch, a tag or a commit"
            raise UsageError(msg)
        try:
            answer = self.run("rev-parse", "--verify", "--quiet", "--end-of-options", f"{name}^{{commit}}").strip()
        except GitError:
            return None
        if not SHA.fullmatch(answer):
            msg = f"{name} is commit {answer}; perfgate reads repositories with SHA-1 names only"
            raise UsageError(msg)
        return answer

    def show_file(self, sha: str, path: str) -> bytes | None:
        """Content of ``path`` (relative to the root) at a commit; None if there is no such file.

        A symbolic link is followed inside of the commit, never to a file outside of it.
        """
        name = f"{check_sha(sha)}:{path}"
        if "\n" in name:
            return None
        try:
            answer = self.run_bytes("cat-file", "--batch", "--follow-symlinks", text=f"{name}\n")
        except GitError:
            return None
        header, _, content = answer.partition(b"\n")
        blob = _BLOB.fullmatch(header)
        return content[: int(blob[1])] if blob else None

    def files(self, sha: str) -> dict[str, str]:
        """Every tracked path of a commit -> its mode (``100644``, ``120000`` link, ``160000`` submodule ...)."""
        listing = self.run("ls-tree", "-r", "-z", "--full-tree", check_sha(sha))
        entries = (entry.partition("\t") for entry in listing.split("\0") if entry)
        return {path: facts.split(" ", 1)[0] for facts, _, path in entries}

    def at(self, root: Path) -> Git:
        """The same git in another working tree."""
        return Git(root, self.environ)

    def _environment(self) -> dict[str, str]:
        inherited = os.environ if self.environ is None else self.environ
        kept = {name: value for name, value in inherited.items() if name not in _MISLEADING}
        return {**kept, **_FIXED}


def check_sha(sha: str) -> str:
    """``sha`` itself. Raises UsageError unless it is 40 hexadecimal digits, so that it can be no option."""
    if not SHA.fullmatch(sha):
        msg = f"{sha!r} is not a full commit name of 40 hexadecimal digits"
        raise UsageError(msg)
    return sha


def _last_words(stderr: str) -> str:
    lines = [line.strip() for line in stderr.splitlines() if line.strip() and not line.startswith("hint:")]
    fatal = [line for line in lines if line.startswith(("fatal:", "error:"))]
    return (fatal or lines or [""])[-1].removeprefix("fatal: ").removeprefix("error: ")


def _no_repository(start: Path, error: GitError) -> str:
    if "dubious ownership" in error.stderr:
        return (
            f"{start} belongs to another user, and git refuses it; "
            f"run: git config --global --add safe.directory {start}"
        )
    if "not a git repository" in error.stderr:
        return f"{start} is not in a git repository; run perfgate inside of one"
    if "must be run in a work tree" in error.stderr:
        return f"{start} is a bare repository; run perfgate in a checkout"
    return f"{start}: {error}"
