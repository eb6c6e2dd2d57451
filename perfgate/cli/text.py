"""Text of a pull request on its way to a terminal or a CI log."""

from __future__ import annotations

from perfgate.report import escape

_LINE_LIMIT = 2000


def plain(text: str) -> str:
    """``text`` without control characters, and with nothing that GitHub's runner would take for a command."""
    lines = [escape.clean(line, _LINE_LIMIT).replace("##[", "## [") for line in text.split("\n")]
    return "\n".join(f": {line[1:]}" if line.startswith("::") else line for line in lines)
