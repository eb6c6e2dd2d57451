"""Text of a pull request on its way to a terminal or a CI log."""

from __future__ import annotations

from rich.console import Console
from rich.text import Text

from perfgate.report import escape

_LINE_LIMIT = 2000


def plain(text: str) -> str:
    """``text`` without control characters, and with nothing that GitHub's runner would take for a command."""
    lines = [escape.clean(line, _LINE_LIMIT).replace("##[", "## [") for line in text.split("\n")]
    return "\n".join(f": {line[1:]}" if line.startswith("::") else line for line in lines)


def say(console: Console, text: str, style: str = "") -> None:
    """One line: names come from models and configurations, and brackets in them are no markup."""
    console.print(Text(plain(text)), highlight=False, style=style)
