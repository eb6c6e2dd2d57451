"""Floor 3, changes. Globs of the configuration: ``*`` and ``?`` stay in one folder, ``**`` crosses folders."""

from __future__ import annotations

import functools
import re


def matches(path: str, glob: str) -> bool:
    """Whether ``path`` (relative, with ``/``) fits; ``src/models`` and ``src/models/`` stand for all below them."""
    return _compiled(glob).fullmatch(path) is not None


@functools.cache
def _compiled(glob: str) -> re.Pattern[str]:
    parts = glob.removeprefix("./").rstrip("/").split("/")
    pattern = ""
    for index, part in enumerate(parts):
        last = index == len(parts) - 1
        if part == "**":
            # In the middle: any number of folders, none among them; at the end: everything below.
            pattern += ".*" if last else "(?:[^/]+/)*"
        else:
            pattern += _part(part) + ("" if last else "/")
    return re.compile(pattern + ("" if parts[-1] == "**" else "(?:/.*)?"), re.DOTALL)


def _part(part: str) -> str:
    wild = {"*": "[^/]*", "?": "[^/]"}
    return "".join(wild.get(char) or re.escape(char) for char in re.sub(r"\*+", "*", part))
