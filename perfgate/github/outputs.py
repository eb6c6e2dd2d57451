"""Floor 3, github. Texts and values in; the runner's files (job summary, step outputs) and workflow commands out.

The files are those that the runner names in ``GITHUB_STEP_SUMMARY`` and ``GITHUB_OUTPUT``; outside of GitHub Actions
the variables are unset and nothing is written. Workflow commands are returned as text: only ``cli`` prints.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Mapping
from pathlib import Path

from perfgate.errors import GitHubError

MAX_SUMMARY_BYTES = 2**20
_CUT = "\n\n_The summary was cut here at GitHub's limit of 1 MiB; the whole report is in the run's artifact._\n"
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")


def delimiter() -> str:
    """A delimiter for a multi-line output that no text written before could know."""
    return f"perfgate-{secrets.token_hex(16)}"


def write_outputs(
    environ: Mapping[str, str], values: Mapping[str, str], *, delimiter: Callable[[], str] = delimiter
) -> bool:
    """Append ``values`` to the file in ``GITHUB_OUTPUT``; False where there is none.

    Every value is written between random delimiters and may hold any text, line breaks included.
    Raises GitHubError for a name that cannot be an output, a value that holds its own delimiter, or a failed write.
    """
    path = environ.get("GITHUB_OUTPUT", "")
    if not path:
        return False
    parts = []
    for name, value in values.items():
        if not _NAME.fullmatch(name):
            msg = f"GITHUB_OUTPUT: {name!r} cannot be the name of an output; use letters, digits, - and _"
            raise GitHubError(msg)
        mark = delimiter()
        if mark in value or mark in name:
            msg = f"GITHUB_OUTPUT: the value of {name} holds the delimiter; nothing was written, run again"
            raise GitHubError(msg)
        parts.append(f"{name}<<{mark}\n{value}\n{mark}\n")
    _append(path, "GITHUB_OUTPUT", "".join(parts).encode("utf-8"))
    return True


def write_summary(environ: Mapping[str, str], text: str) -> bool:
    """Append ``text`` (Markdown) to the job summary; False where there is none.

    The step's whole summary stays within 1 MiB, which is where GitHub drops it: what is longer is cut at the end
    of a line and says so. Raises GitHubError if the file cannot be written.
    """
    path = environ.get("GITHUB_STEP_SUMMARY", "")
    if not path:
        return False
    try:
        written = Path(path).stat().st_size
    except OSError:
        written = 0
    _append(path, "GITHUB_STEP_SUMMARY", _cut(text + "\n", MAX_SUMMARY_BYTES - written))
    return True


def command(level: str, message: str, *, title: str = "", file: str = "", line: int | None = None) -> str:
    """A workflow command such as ``::error title=...::message``, on one line whatever the texts hold.

    ``level`` is ``error``, ``warning``, ``notice`` or ``debug``.
    """
    properties = {"title": title, "file": file, "line": "" if line is None else str(line)}
    listed = ",".join(f"{key}={_property(value)}" for key, value in properties.items() if value)
    return f"::{level} {listed}::{_data(message)}" if listed else f"::{level}::{_data(message)}"


def _data(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


def _cut(text: str, room: int) -> bytes:
    content = text.encode("utf-8", errors="replace")
    if len(content) <= room:
        return content
    note = _CUT.encode()
    if room <= len(note):
        return b""
    kept = content[: room - len(note)]
    return kept[: kept.rfind(b"\n") + 1] + note


def _append(path: str, variable: str, content: bytes) -> None:
    try:
        with Path(path).open("ab") as file:
            file.write(content)
    except OSError as error:
        msg = f"{variable}: {path} cannot be written ({error.strerror}); check the runner's temporary folder"
        raise GitHubError(msg) from None
