"""What the terminal is told."""

from __future__ import annotations

import io

from rich.console import Console

from perfgate.cli.verdict import show
from perfgate.records.report import PASS
from tests.report.builders import report


def test_show__text_of_others_commands_neither_terminal_nor_runner() -> None:
    evil = "::add-mask::a\n \x1b]0;title\x07\x1b[31mred\ud800\n  ::error::x ##[error]y"
    stream = io.StringIO()
    show(report(verdict=PASS, title=evil, why=evil, banners=(evil,)), Console(file=stream, width=200))
    text = stream.getvalue()
    assert "\x1b" not in text
    assert "\\u001b[31mred\\ud800" in text
    assert "##[" not in text
    assert not any(line.lstrip().startswith("::") for line in text.splitlines())
