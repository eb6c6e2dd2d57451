"""A small builder of real git repositories."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping
from pathlib import Path

from perfgate.changes.git import Git

# Nothing of the user's configuration, the same names and dates everywhere, and submodules from folders allowed.
ENVIRON = {
    "PATH": os.environ["PATH"],
    "HOME": "/nonexistent",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_SYSTEM": "/dev/null",
    "GIT_AUTHOR_NAME": "a",
    "GIT_AUTHOR_EMAIL": "a@example.org",
    "GIT_COMMITTER_NAME": "a",
    "GIT_COMMITTER_EMAIL": "a@example.org",
    "GIT_CONFIG_COUNT": "1",
    "GIT_CONFIG_KEY_0": "protocol.file.allow",
    "GIT_CONFIG_VALUE_0": "always",
}


class Repo:
    """One repository below ``root``; ``commit`` returns the new commit's name."""

    def __init__(self, root: Path, *, bare: bool = False) -> None:
        self.root = root
        self._date = 1_700_000_000
        if not root.exists():
            root.mkdir(parents=True)
            self("init", "--quiet", "--initial-branch=main", *(["--bare"] if bare else []))

    def __call__(self, *arguments: str) -> str:
        date = f"{self._date} +0000"
        environ = {**ENVIRON, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=environ, capture_output=True, encoding="utf-8", check=False
        )
        assert done.returncode == 0, f"git {arguments}: {done.stderr}"
        return done.stdout.strip()

    def write(self, files: Mapping[str, str | bytes | None]) -> None:
        """Files by path; None removes one."""
        for name, content in files.items():
            path = self.root / name
            if content is None:
                path.unlink()
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(content.encode("utf-8") if isinstance(content, str) else content)

    def commit(self, files: Mapping[str, str | bytes | None] | None = None, message: str = "c") -> str:
        """Commit everything in the working tree, ``files`` written first."""
        self.write(files or {})
        self._date += 60
        self("add", "--all")
        self("commit", "--quiet", "--allow-empty", "--message", message)
        return self("rev-parse", "HEAD")

    def branch(self, name: str, start: str = "HEAD") -> None:
        """Switch to a new branch."""
        self("switch", "--quiet", "--create", name, start)

    def merge(self, other: str) -> str:
        """Merge ``other`` into the current branch with a merge commit."""
        self._date += 60
        self("merge", "--quiet", "--no-ff", "--message", "merge", other)
        return self("rev-parse", "HEAD")

    @property
    def git(self) -> Git:
        """The real thing, in this repository."""
        return Git(self.root, ENVIRON)
