"""Floor 3, changes. Two commits in, the files that differ out."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from perfgate.changes.git import Git, check_sha

_LINK, _SUBMODULE, _NOTHING = "120000", "160000", "000000"


@dataclass(frozen=True, slots=True, kw_only=True)
class ChangedFile:
    """One difference. ``status``: ``added``, ``deleted``, ``modified``, ``renamed``, ``copied``, ``retyped``.

    ``old_path`` is the name on base where it is another one. ``kind`` is ``file``, ``link`` or
    ``submodule`` (of either side, the most special one).
    """

    path: str
    status: str
    old_path: str = ""
    kind: str = "file"

    @property
    def paths(self) -> tuple[str, ...]:
        """Every path that this difference concerns."""
        return (self.old_path, self.path) if self.old_path else (self.path,)


_STATUS = {"A": "added", "D": "deleted", "M": "modified", "R": "renamed", "C": "copied", "T": "retyped"}


def changed_files(git: Git, base_sha: str, head_sha: str) -> tuple[ChangedFile, ...]:
    """Every tracked path that differs between the two commits, sorted by path.

    Read by plumbing, so that no user's diff settings (renames, ignored submodules, filters) matter.
    """
    output = git.run(
        "diff-tree", "-r", "-z", "--raw", "--no-commit-id", "--find-renames", "--ignore-submodules=none",
        "--no-ext-diff", "--no-textconv", check_sha(base_sha), check_sha(head_sha),
    )  # fmt: skip
    return tuple(sorted(_parse(output), key=lambda file: file.path))


def _parse(output: str) -> Iterator[ChangedFile]:
    fields = iter(output.split("\0"))
    for entry in fields:
        if not entry:
            continue
        old_mode, new_mode, _, _, status = entry.removeprefix(":").split(" ")
        first = next(fields)
        second = next(fields) if status[0] in "RC" else ""
        # A copy leaves its source as it was.
        old = first if status[0] == "R" else ""
        yield ChangedFile(
            path=second or first,
            status=_STATUS.get(status[0], "modified"),
            old_path=old,
            kind=_kind({old_mode, new_mode} - {_NOTHING}),
        )


def _kind(modes: set[str]) -> str:
    if _SUBMODULE in modes:
        return "submodule"
    return "link" if _LINK in modes else "file"
